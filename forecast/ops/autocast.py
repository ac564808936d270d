"""Autocast by device, on a device without one too; how products of float32 are rounded."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """What products on the device are rounded to here; None where autocast is off."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):  # torch raises when asked about meta
        return None
    return torch.get_autocast_dtype(device.type)


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[object]:
    """Inside, `autocast_dtype` of the device is dtype; None turns autocast off."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


@contextmanager
def float32_products(precision: str) -> Iterator[None]:
    """Inside, a GPU rounds the inputs of float32 products to TF32's 10 bits ("high"), or not ("highest")."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
