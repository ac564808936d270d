"""Trying a model without a trace: the series, the model and the random generators are afterwards what they were."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from forecast.evaluation.evaluate import exact_float32
from forecast.models.base import ForecastModel


@contextmanager
def restored(model: ForecastModel) -> Iterator[None]:
    """Afterwards each part of the model has the mode that it had, and its buffers the values."""
    modes = {part: part.training for part in model.modules()}
    buffers = {buffer: buffer.clone() for buffer in model.buffers()}
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
        for buffer, before in buffers.items():
            buffer.copy_(before)


def repeatable(run: Callable[[], Tensor], device: torch.device) -> Tensor:
    """What `run` gives; torch's generators are left as they were, so that the next call draws the same numbers."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []), exact_float32():
        return run()


def first_change(before: Tensor, after: Tensor) -> tuple[int, ...] | None:
    """Where two tensors differ first, None where no bit does; NaN and NaN are the same."""
    changed = ((before != after) & ~(before.isnan() & after.isnan())).nonzero()
    return tuple(changed[0].tolist()) if len(changed) else None
