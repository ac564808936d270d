"""Which windows the leakage guard looks at, the check of training, and how a model is tried without a trace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.data.grid import fill_cells
from forecast.data.panel import rows_since_measured
from forecast.data.prepare import Prepared
from forecast.data.values.cells import Gaps
from forecast.data.windows import Batch, Windows
from forecast.errors import UserError
from forecast.evaluation.evaluate import evenly_spaced, exact_float32, longest_look_back
from forecast.models.base import ForecastModel

# One at a time: the future of one window is the past of another.
CHECKED_WINDOWS = 4
# Weights times steps of the windows that are checked before a training: five passes of them take about 1.5 s.
MOST_WORK = 20_000_000_000
# So many rows after an origin become noise. Rows farther away stay: ten million rows would take seconds a window.
NOISY_ROWS = 100_000
NOISY_CELLS = 1_000_000  # after and before the end of a split, less than NOISY_ROWS where there are many columns
NOISE = 100.0  # standard deviations: no leak is lost in rounding
SKIP = "checks.leakage=false trains without this check"


class NothingShown(UserError):
    """A check can say neither that something leaks nor that nothing does."""


def affordable_windows(model: ForecastModel, data: Prepared) -> int:
    """How many windows a training can wait for, 1 to CHECKED_WINDOWS: each weight is used about once a step."""
    work = sum(weight.numel() for weight in model.parameters()) * (data.seq_len + data.pred_len)
    return min(CHECKED_WINDOWS, max(1, MOST_WORK // max(1, work)))


def checked_windows(count: int, most: int) -> list[int]:
    """At most `most` of `count` windows: the last, whose future is the next split's, the first, and some between."""
    return sorted(count - 1 - window for window in evenly_spaced(count, most))


def windows_in_gaps(data: Prepared, dataset: Windows, most: int) -> list[int]:
    """At most `most` of the windows whose past, or whose last known step, ends in a cell that was made up."""
    frame, every = data.frame, dataset.origins
    if frame.measured is None:
        return []
    past = np.flatnonzero(~frame.measured.all(1)) + 1
    known = np.flatnonzero(~frame.measured[:, data.n_columns :].all(1)) + 1 - data.pred_len
    origins = np.union1d(past, known)
    series = np.searchsorted(frame.offsets, origins - 1, side="right") - 1
    place = origins - every.first[series]
    inside = (place >= 0) & (place < every.counts[series])
    numbers = ((every.ends - every.counts)[series] + place)[inside]
    if dataset.chosen is not None:
        numbers = np.flatnonzero(np.isin(dataset.chosen, numbers))
    return [int(numbers[place]) for place in checked_windows(len(numbers), most)]


def filled_again(
    values: npt.NDArray[np.floating[Any]],
    missing: npt.NDArray[np.bool_],
    first: npt.NDArray[np.int64],
    *,
    timestamps: pd.DatetimeIndex,
    policy: Gaps,
) -> npt.NDArray[np.float64]:
    """What a reader makes of rows (n, C) in succession of which those of column c from row first[c] on are other ones.

    Only what was made up of these is: the missing cells from the gap on that is open at that row. A reader knows no
    splits.
    """
    first = np.clip(first, 1, len(values))
    gap = first - np.take_along_axis(rows_since_measured(missing), first[None] - 1, 0)[0]
    made_up = missing & (np.arange(len(values))[:, None] >= gap)
    made_up[0] = False  # of rows that were cut: a gap there has nothing before it
    cells = np.where(made_up, np.nan, values).astype(np.float64)
    fill_cells(cells, timestamps.as_unit("ns").asi8, policy)
    return cells


@torch.no_grad()
def check_training_outputs(
    model: ForecastModel,
    data: Prepared,
    *,
    device: torch.device,
    split: str = "train",
    windows: int = CHECKED_WINDOWS,
) -> None:
    """In training, noise in the future from a step on leaves what is predicted of that step and of those before it."""
    reads, last = model.look_back, data.pred_len - 1
    dataset = data.windows(split, look_back=longest_look_back([model], data))
    chosen = checked_windows(len(dataset), windows)
    generator = torch.Generator().manual_seed(0)

    def predicted(batch: Batch) -> Tensor:
        inputs = (batch.past[:, -reads:], batch.past_known[:, -reads:], batch.future_known, batch.future)
        return repeatable(lambda: model.training_outputs(*inputs)[0], device)

    with restored(model):
        model.train()
        before = predicted(dataset.__getitems__(chosen).to(device))
        refuse_not_finite(before, model, f"training: what the training predicts on {split} windows")
        for step in sorted({0, last}):
            batch = dataset.__getitems__(chosen).to(device)
            late = batch.future[:, step:]
            late.copy_(NOISE * torch.randn(late.shape, generator=generator))  # in place: in the memory behind it too
            after = predicted(batch)
            rows = before.shape[1] - last + step  # the last pred_len rows are the forecast steps
            if change := first_change(before[:, :rows], after[:, :rows]):
                window, row, column = change
                # a model predicts all columns, its targets, or others
                known = {data.n_columns: list(data.frame.columns), len(data.targets): data.target_names}
                names = known.get(before.shape[2])
                where = origin_name(data, dataset, chosen[window])
                raise UserError(
                    f"leakage check, training: with its origin at {where}, the training's "
                    f"prediction of step {row - (before.shape[1] - data.pred_len) + 1}, column "
                    f"'{names[column] if names else column + 1}', changes when the true steps from {step + 1} on "
                    f"become noise: {type(model).__name__}.training_outputs lets a step see itself or later ones. "
                    f"Shift the true steps by one and mask what is later; {SKIP}."
                )


def origin_name(data: Prepared, dataset: Windows, window: int) -> str:
    """The last known timestamp of a window, and its series."""
    series, row = dataset.places([window])
    return f"{data.times_of(row - 1, series)[0]}{data.frame.of_series(int(series[0]))}"


def refuse_not_finite(output: Tensor, model: ForecastModel, subject: str) -> None:
    """NothingShown when an output, `subject` in words, holds NaN or inf: it may be so whatever it is made of."""
    if not output.isfinite().all():
        raise NothingShown(
            f"leakage check, {subject} is not finite, so nothing can be said of it: {type(model).__name__} has "
            f"diverged, or is wrong. Take an earlier checkpoint, or train with a lower optim.lr; {SKIP}."
        )


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
