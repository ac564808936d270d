"""Autocast by device, on a device without one too."""

from contextlib import AbstractContextManager, nullcontext

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
