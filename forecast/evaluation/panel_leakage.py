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

from forecast.data.panel.borders import private
from forecast.data.panel.differences import CELLS, pieces
from forecast.data.panel.frame import IntArray
from forecast.data.panel.prepare import PanelData
from forecast.data.panel.windows import PanelWindows
from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.evaluation.evaluate import forecast_of, longest_look_back
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

CHECKED_SERIES = 2000  # whose scale is computed again, one after the other: of all of a million it would take minutes
CLOSE = 1e-6  # of a deviation: what another order of additions may do


def check_panel_leakage(model: ForecastModel, data: PanelData, *, device: torch.device, split: str = "train") -> None:
    """All checks, on windows of a split, as `leakage.check_leakage`; the model and the data are left as they were."""
    check_panel_scaler(data)
    check_panel_splits(data)
    check_panel_borders(data)
    few = affordable_windows(model, data)
    check_panel_forecasts(model, data, device=device, split=split, windows=few)
    check_training_outputs(model, data, device=device, split=split, windows=few)


def check_panel_scaler(data: PanelData) -> None:
    """Each series is scaled by the mean and the standard deviation of its own train rows, or all by those of all.

    A series with fewer than two of them by the rows before its first forecast; what is known in advance by the train
    rows of all. Of many series CHECKED_SERIES are
    looked at.
    """
    frame, scaler = data.frame, data.scaler
    series = range(0, len(frame), max(1, len(frame) // CHECKED_SERIES))
    means, stds = np.zeros(len(frame.columns)), np.ones(len(frame.columns))
    if scaler.how == "global" or data.covariates:
        means, stds = all_train_rows(data)
    if scaler.how == "none":
        means[:], stds[:] = 0.0, 1.0
    for s in series:
        for column, name in enumerate(frame.columns):
            if frame.size_of(name):  # categories have no scale
                continue
            if scaler.how in ("series", "season") and column < data.n_columns:
                means[column], stds[column] = own_scale(data, s, column)
            mean, std = float(means[column]), float(stds[column])
            std = std if std > CLOSE * abs(mean) else 1.0
            for what, expected, actual in (("mean", mean, scaler.mean[s, column]), ("std", std, scaler.std[s, column])):
                if not abs(actual - expected) <= CLOSE * (std + abs(mean)):
                    together = scaler.how == "global" or column >= data.n_columns
                    whose = "all series" if together else f"series '{frame.ids[s]}'"
                    raise UserError(
                        f"leakage check, scaler: the {what} of column '{name}' of series '{frame.ids[s]}' is "
                        f"{actual:.9g}, but that of the train rows of {whose} is {expected:.9g}: it was computed from "
                        "other rows, perhaps of val or test. Fit it on the train rows (forecast.data.panel.prepare) "
                        f"and train anew; {SKIP}."
                    )


def own_scale(data: PanelData, series: int, column: int) -> tuple[float, float]:
    """What one series is scaled by: its measured train rows, or those before its first forecast."""
    frame, train = data.frame, data.splits["train"]
    begin, end = int(frame.offsets[series]), int(frame.offsets[series + 1])
    rows = slice(int(train.first[series]), int(train.stop[series]))
    known = np.ones((end - begin, len(frame.columns)), dtype=np.bool_)
    if frame.measured is not None:
        known = frame.measured[begin:end]
    if (known[rows.start - begin : rows.stop - begin].sum(0) < 2).any():
        rows = slice(begin, min(begin + data.seq_len, end))
    values = frame.values[rows, column].astype(np.float64)
    values[~known[rows.start - begin : rows.stop - begin, column]] = np.nan
    if np.isnan(values).all():
        return 0.0, 1.0
    mean, std, period = float(np.nanmean(values)), float(np.nanstd(values)), data.scaler.period
    if data.scaler.how == "season" and period is not None:
        differences = np.abs(values[period:] - values[:-period])
        usual = float(np.nanmean(differences)) if np.isfinite(differences).any() else 0.0
        return mean, usual if usual > 0 else std
    return mean, std


def all_train_rows(data: PanelData) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (C,) of the measured cells in the train rows of all series."""
    frame, train = data.frame, data.splits["train"]
    total, square, cells = (np.zeros(len(frame.columns)) for _ in range(3))
    shift = frame.values[0].astype(np.float64)  # squares of what is far from 0 would lose their digits
    for some in pieces(frame, CELLS):
        low, high = int(frame.offsets[some.start]), int(frame.offsets[some.stop])
        edges = np.zeros(high - low + 1, dtype=np.int64)
        np.add.at(edges, train.first[some] - low, 1)
        np.add.at(edges, train.stop[some] - low, -1)
        known = np.repeat(edges.cumsum()[:-1, None] > 0, len(shift), axis=1)
        if frame.measured is not None:
            known &= frame.measured[low:high]
        values = np.where(known, frame.values[low:high] - shift, 0.0)
        total, square, cells = total + values.sum(0), square + (values**2).sum(0), cells + known.sum(0)
    mean = total / np.maximum(1, cells)
    return mean + shift, np.sqrt(np.maximum(0.0, square / np.maximum(1, cells) - mean**2))


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
