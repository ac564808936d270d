"""The leakage guard of a panel: neither later rows of a series nor those of other series have a part in its forecast.

As `leakage`, whose checks of one series these are; each raises UserError that says what leaks and where.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from forecast.data.cells import IntArray
from forecast.data.panel.borders import private
from forecast.data.panel.prepare import PanelData
from forecast.data.panel.windows import PanelWindows
from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.evaluation.evaluate import forecast_of, longest_look_back
from forecast.evaluation.leakage_scale import check_scale
from forecast.evaluation.leakage_windows import (
    CHECKED_WINDOWS,
    NOISE,
    NOISY_CELLS,
    NOISY_ROWS,
    SKIP,
    affordable_windows,
    check_training_outputs,
    checked_windows,
    filled_again,
    origin_name,
    refuse_not_finite,
    windows_in_gaps,
)
from forecast.evaluation.panel_borders import check_panel_borders
from forecast.evaluation.restoring import first_change, repeatable, restored
from forecast.models.base import ForecastModel


def check_panel_leakage(model: ForecastModel, data: PanelData, *, device: torch.device, split: str = "train") -> None:
    """All checks, on windows of a split, as `leakage.check_leakage`; the model and the data are left as they were."""
    check_panel_scaler(data)
    check_panel_splits(data)
    check_panel_borders(data)
    few = affordable_windows(model, data)
    check_panel_forecasts(model, data, device=device, split=split, windows=few)
    check_training_outputs(model, data, device=device, split=split, windows=few)


def check_panel_scaler(data: PanelData) -> None:
    """As `leakage.check_scaler`."""
    train, scaler = data.splits["train"], data.scaler
    check_scale(
        data.frame,
        scaler.mean,
        scaler.std,
        how=scaler.how,
        period=scaler.period or 1,
        first=train.first,
        stop=train.stop,
        context=data.seq_len,
        observed=data.n_columns,
        names=[f" of series '{name}'" for name in data.frame.ids],
    )


def check_panel_splits(data: PanelData) -> None:
    """No target row belongs to two splits."""
    for (one, rows), (other, others) in itertools.combinations(data.splits.items(), 2):
        shared = np.minimum(rows.stop, others.stop) - np.maximum(rows.first, others.first)
        if (shared > 0).any():
            s = int(shared.argmax())
            raise UserError(
                f"leakage check, splits: {shared[s]} rows of series '{data.frame.ids[s]}' are forecast in {one} and in "
                f"{other}. Cut data.split so that each row belongs to one; {SKIP}."
            )


@torch.no_grad()
def check_panel_forecasts(
    model: ForecastModel,
    data: PanelData,
    *,
    device: torch.device,
    split: str = "train",
    windows: int = CHECKED_WINDOWS,
) -> None:
    """What lies after a window's origin, in its own series and in all others, is no part of its inputs and forecast.

    Noise is written over those rows in the panel's own memory, to which a model may hold a reference, the gaps that
    reach into them are filled again, and over the other windows of a batch, which may be of later times; inputs and
    forecast must stay the same, bit by bit. Windows whose origin lies in a gap are looked at beside the others.
    """
    dataset = data.windows(split, look_back=longest_look_back([model], data))
    chosen = checked_windows(len(dataset), windows)
    looked_at = sorted({*chosen, *windows_in_gaps(data, dataset, windows)})
    generator = np.random.default_rng(0)
    frame_data, served = writable(data, dataset)
    with restored(model):
        model.eval()
        for window in looked_at:
            before = served[window].to(device)
            forecast = _forecast(model, before, device)
            where = origin_name(data, dataset, window)
            what = f"forecasts: the forecast of a {split} window with its origin at {where}"
            refuse_not_finite(forecast, model, what)
            with noise_after(frame_data, served, window, generator):
                after = served[window].to(device)
                again = _forecast(model, before, device)
            for name, old, new in zip(before._fields[:3], before[:3], after[:3], strict=True):
                if first_change(old, new):
                    raise UserError(
                        f"leakage check, inputs: for the forecast with its origin at {where}, {name} changes when the "
                        f"rows of all series after it become noise. Make the windows with forecast.data.panel; {SKIP}."
                    )
            if change := first_change(forecast, again):
                _, step, column = change
                raise UserError(
                    f"leakage check, {what} changes when the rows of all series after it become noise, first in step "
                    f"{step + 1}, column '{data.target_names[column]}': {forecast[change]:.6g}, then "
                    f"{again[change]:.6g} (scaled). {type(model).__name__} reads the future, of this series or of "
                    "another one: let it use nothing but past, past_known and future_known, no memory behind them and "
                    f"no series of its own; {SKIP}."
                )
        check_batch(model, data, served, chosen, device=device, split=split)


def check_batch(
    model: ForecastModel, data: PanelData, dataset: PanelWindows, chosen: list[int], *, device: torch.device, split: str
) -> None:
    """A forecast owes nothing to the other windows of its batch, which may lie later."""
    generator = torch.Generator().manual_seed(0)
    numbers = chosen if len(chosen) > 1 else chosen * 2
    whole = dataset.__getitems__(numbers).to(device)
    before = _forecast(model, whole, device)
    for place, window in enumerate(numbers):
        batch = dataset.__getitems__(numbers).to(device)
        others = [number for number in range(len(numbers)) if number != place]
        batch.past[others] = NOISE * torch.randn(batch.past[others].shape, generator=generator).to(device)
        after = _forecast(model, batch, device)
        if first_change(before[place], after[place]):
            raise UserError(
                f"leakage check, batch: the forecast of a {split} window with its origin at "
                f"{origin_name(data, dataset, window)} changes with the other windows of its batch, some of which lie "
                f"later. Let {type(model).__name__} forecast each window from itself alone; {SKIP}."
            )


def _forecast(model: ForecastModel, batch: Batch, device: torch.device) -> Tensor:
    return repeatable(lambda: forecast_of(model, batch, model.look_back), device)


def writable(data: PanelData, dataset: PanelWindows) -> tuple[PanelData, PanelWindows]:
    """The data and the windows themselves where their memory can be written to.

    Of a file that is mapped for reading the same file, mapped so that what is written stays in this process; of another
    array that is read-only a copy. A model that holds a reference to the array itself is not caught by these.
    """
    values = data.frame.values
    if values.flags.writeable:
        return data, dataset
    again = replace(data, frame=replace(data.frame, values=private(values)))
    return again, again.windows_of(dataset.origins, look_back=dataset.look_back)


@contextmanager
def noise_after(data: PanelData, dataset: PanelWindows, window: int, generator: np.random.Generator) -> Iterator[None]:
    """Noise in place of what lies after the origin of a window, in its own series and, to NOISY_CELLS, in others.

    What is known of its own forecast steps in advance stays; after them it becomes noise, too. What its series has made
    up of the rows that became noise is made of these.
    """
    rows = later_rows(data, dataset, window)
    frame, values = data.frame, data.frame.values
    s, origin = int(dataset.series_of([window])), int(dataset.origins_of([window]))
    begin, stop = int(frame.offsets[s]), min(int(frame.offsets[s + 1]), origin + NOISY_ROWS)
    series, in_advance = np.searchsorted(frame.offsets, rows, side="right") - 1, slice(0, 0)
    before, own = values[rows], values[begin:stop].copy()
    noise = NOISE * generator.normal(size=before.shape)
    try:
        values[rows] = data.scaler.mean[series] + data.scaler.std[series] * noise
        if data.covariates:
            horizon = (rows >= origin) & (rows < origin + data.pred_len)
            in_advance = slice(data.n_columns, values.shape[1] - len(data.hidden))
            values[rows[horizon], in_advance] = before[horizon, in_advance]
        if frame.measured is not None and frame.repair.policy != "refuse":
            first = np.full(values.shape[1], origin - begin)
            first[in_advance] += data.pred_len
            times = frame.timestamps(s)[: stop - begin]
            missing = ~frame.measured[begin:stop]
            values[begin:stop] = filled_again(
                values[begin:stop], missing, first, timestamps=times, policy=frame.repair.policy
            )
        yield
    finally:
        values[begin:stop] = own
        values[rows] = before


def later_rows(data: PanelData, dataset: PanelWindows, window: int) -> IntArray:
    """The rows of the panel after the origin of a window in time; of many or long series some."""
    frame = data.frame
    s, origin = int(dataset.series_of([window])), int(dataset.origins_of([window]))
    step = origin - frame.offsets[s] + frame.steps[s]
    first = frame.offsets[:-1] + np.clip(step - frame.steps, 0, frame.lengths)
    stop = np.minimum(frame.offsets[1:], first + NOISY_ROWS)
    most = max(1, NOISY_CELLS // len(frame.columns))
    series = np.flatnonzero(first < stop)
    if (stop - first).sum() > most:  # its own, and as many others as are not too many
        others = series[:: max(1, -(-int((stop - first).sum()) // most))]
        stop = np.where(np.isin(np.arange(len(frame)), [*others, s]), stop, first)
    counts = stop - first
    rows: IntArray = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return rows
