"""The leakage guard: what lies after the origin of a forecast has no part in it, nor in what it is scaled by.

Each check raises UserError that says what leaks and where. The laws in tests hold for the models of this project; the
guard looks at the model and the data of this very training.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from forecast.data.grid import fill_cells
from forecast.data.panel import PanelFrame
from forecast.data.prepare import Prepared, prepare, private, scaled_rows
from forecast.data.scaling import EPSILON, Scales
from forecast.data.split import TargetRows
from forecast.data.values.cells import IntArray
from forecast.data.windows import Batch, Windows
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_nlinear, season
from forecast.evaluation.evaluate import forecast_of, longest_look_back
from forecast.evaluation.fitting import train_season
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
    first_change,
    origin_name,
    refuse_not_finite,
    repeatable,
    restored,
    windows_in_gaps,
)
from forecast.models.base import ForecastModel

VALUE, SCALE = "a value", ("the scale's mean", "the scale's std")
BORDER_SERIES = 30  # of which everything is made anew
BORDER_CELLS = NOISY_CELLS // 10
FITTED_WINDOWS = 64  # train windows of a series, on which the closed-form NLinear is fitted anew


def check_leakage(model: ForecastModel, data: Prepared, *, device: torch.device, split: str = "train") -> None:
    """All checks, on windows of a split. The model is on the device; it and the data are left as they were.

    Of a large model with long windows fewer than CHECKED_WINDOWS are looked at. Raises UserError for the first thing
    that leaks.
    """
    check_scaler(data)
    check_splits(data)
    check_borders(data)
    few = affordable_windows(model, data)
    check_forecasts(model, data, device=device, split=split, windows=few)
    check_training_outputs(model, data, device=device, split=split, windows=few)


def check_scaler(data: Prepared) -> None:
    """The scale of each series is what its rule makes of the train rows alone; `check_borders` looks at the rule."""
    train, scaler, frame = data.splits["train"], data.scaler, data.frame
    known_together = len(data.covariates)
    again = Scales.fit(
        frame,
        scaler.how,
        train.first,
        train.stop,
        context=data.seq_len,
        period=scaler.period or season(data) or 1,
        together=known_together,
    )
    for kind in ("mean", "std"):
        actual, expected = getattr(scaler, kind), getattr(again, kind)
        rounding = 1e-9 * again.std + 1e4 * EPSILON * np.abs(again.mean)
        wrong = ~(np.abs(actual - expected) <= rounding)  # NaN too
        if not wrong.any():
            continue
        s, column = np.argwhere(wrong)[0].tolist()
        alone = scaler.how in ("series", "season") and column < len(frame.columns) - known_together
        rows = f"the {train.stop[s] - train.first[s]} train rows" if alone else "the train rows of all series"
        raise UserError(
            f"leakage check, scaler: the {kind} of column '{frame.columns[column]}'{frame.of_series(s)} is "
            f"{actual[s, column]:.9g}, but that of {rows} is {expected[s, column]:.9g}: it was computed from other "
            f"rows, perhaps of val or test. Fit it on the train rows (forecast.data.scaling) and train anew; {SKIP}."
        )


def check_splits(data: Prepared) -> None:
    """No target row belongs to two splits, unless the test is validation's as a whole."""
    for (name, rows), (other, others) in itertools.combinations(data.splits.items(), 2):
        first = np.maximum(rows.first, others.first)
        shared = np.minimum(rows.stop, others.stop) - first
        if (shared > 0).any() and not ((name, other) == ("val", "test") and data.validation_judges):
            s = int(shared.argmax())
            times = data.times_of(np.array([first[s], first[s] + shared[s] - 1]), np.array([s, s]))
            raise UserError(
                f"leakage check, splits: {shared[s]} rows{data.frame.of_series(s)}, {times[0]} to {times[1]}, are "
                f"forecast in {name} and in {other}. Cut data.split so that each row belongs to one; {SKIP}."
            )


@torch.no_grad()
def check_forecasts(
    model: ForecastModel,
    data: Prepared,
    *,
    device: torch.device,
    split: str = "train",
    windows: int = CHECKED_WINDOWS,
) -> None:
    """What lies after a window's origin, in its own series and in all others, is no part of its inputs and forecast.

    Noise is written over those rows in the memory of the frame itself and of what was made of it, to which a model may
    hold a reference, the gaps that reach into them are filled again, and over the other windows of a batch, which may
    be of later times; inputs and forecast must stay the same, bit by bit. Windows whose origin lies in a gap are looked
    at beside the others.
    """
    dataset = data.windows(split, look_back=longest_look_back([model], data))
    chosen = checked_windows(len(dataset), windows)
    looked_at = sorted({*chosen, *windows_in_gaps(data, dataset, windows)})
    generator = np.random.default_rng(0)
    frame_data, served = writable(data, dataset)
    with restored(model):
        model.eval()
        for window in looked_at:
            check_rows(data, served, window)
            before = served[window].to(device)
            forecast = _forecast(model, before, device)
            where = origin_name(data, dataset, window)
            subject = f"forecasts: the forecast of a {split} window with its origin at {where}"
            refuse_not_finite(forecast, model, subject)
            with noise_after(frame_data, served, window, generator):
                after = served[window].to(device)
                again = _forecast(model, after, device)
            check_inputs(data, served, window, before, after)
            if change := first_change(forecast, again):
                _, step, column = change
                raise UserError(
                    f"leakage check, {subject} changes when the rows of all series after it become noise, first in "
                    f"step {step + 1}, column '{data.target_names[column]}': {forecast[change]:.6g}, then "
                    f"{again[change]:.6g} (scaled). {type(model).__name__} reads the future, of this series or of "
                    "another one: let it use nothing but past, past_known and future_known, no memory behind them "
                    f"(past._base) and no series of its own; {SKIP}."
                )
        check_batch(model, data, served, chosen, device=device, split=split)


def check_rows(data: Prepared, dataset: Windows, window: int) -> None:
    """The rows that a window is gathered from are made of the frame's timestamps and values."""
    if data.kept is None:
        return
    (s,), (origin,) = dataset.places([window])
    rows = np.arange(max(int(data.frame.offsets[s]), origin - dataset.look_back), origin + data.pred_len)
    again = scaled_rows(data.frame, data.scaler, data.calendar, data.n_columns, rows)
    if change := first_change(data.kept[torch.from_numpy(rows)].cpu(), again):
        row, column = change
        cell = int(rows[row]), column
        raise wrong_input(data, dataset, window, cell, "is not made of the frame's timestamps and values")


def check_inputs(data: Prepared, dataset: Windows, window: int, before: Batch, after: Batch) -> None:
    """The inputs of a window are the same when the rows after its origin have become noise."""
    _, (origin,) = dataset.places([window])
    for name, old, new in zip(before._fields[:3], before[:3], after[:3], strict=True):
        if change := first_change(old, new):
            _, row, column = change
            row += origin if name == "future_known" else origin - old.shape[1]
            known = name != "past"
            why = "changes with the rows after it"
            raise wrong_input(data, dataset, window, (row, column + known * data.n_columns), why)


def wrong_input(data: Prepared, dataset: Windows, window: int, cell: tuple[int, int], why: str) -> UserError:
    """What to say of a cell of the rows from which a window is gathered: the row of the frame, and the column."""
    row, column = cell
    known, ((s,), _) = column - data.n_columns, dataset.places([window])
    name = f"known feature {known + 1}" if known >= 0 else f"column '{data.frame.columns[column]}'"
    time = data.times_of(np.array([max(row, int(data.frame.offsets[s]))]), np.array([s]))[0]
    return UserError(
        f"leakage check, inputs: for the forecast with its origin at {origin_name(data, dataset, window)}, {name} at "
        f"{time} {why}. Make the windows with forecast.data.prepare, and known features of timestamps alone; {SKIP}."
    )


def check_batch(
    model: ForecastModel, data: Prepared, dataset: Windows, chosen: list[int], *, device: torch.device, split: str
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
    free = batch._replace(floor=None)  # which would hide what it cuts
    return repeatable(lambda: forecast_of(model, free, model.look_back), device)


def writable(data: Prepared, dataset: Windows) -> tuple[Prepared, Windows]:
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
def noise_after(data: Prepared, dataset: Windows, window: int, generator: np.random.Generator) -> Iterator[None]:
    """Noise in place of what lies after the origin of a window, in its own series and, to NOISY_CELLS, in others.

    What is known of its own forecast steps in advance stays; after them it becomes noise, too. What its series has made
    up of the rows that became noise is made of these.
    """
    rows = later_rows(data, dataset, window)
    frame, values = data.frame, data.frame.values
    (s,), (origin,) = dataset.places([window])
    start, stop = int(frame.offsets[s]), min(int(frame.offsets[s + 1]), origin + NOISY_ROWS)
    begin = max(start, origin - dataset.look_back)
    series, in_advance = np.searchsorted(frame.offsets, rows, side="right") - 1, slice(0, 0)
    before, own = values[rows], values[begin:stop].copy()
    noise = NOISE * generator.normal(size=before.shape)
    whole = rows if frame.measured is None else np.union1d(rows, np.arange(begin, stop))
    places = torch.from_numpy(whole)
    kept = None if data.kept is None else data.kept[places]
    try:
        values[rows] = data.scaler.mean[series] + data.scaler.std[series] * noise
        if data.covariates:
            horizon = (rows >= origin) & (rows < origin + data.pred_len)
            in_advance = slice(data.n_columns, values.shape[1] - len(data.hidden))
            values[rows[horizon], in_advance] = before[horizon, in_advance]
        if frame.measured is not None and frame.repair.policy != "refuse":
            first = np.full(values.shape[1], origin - begin)
            first[in_advance] += data.pred_len
            step = int(frame.steps[s]) - start
            times = frame.calendar()[step + begin : step + stop]
            missing = ~frame.measured[begin:stop]
            values[begin:stop] = filled_again(
                values[begin:stop], missing, first, timestamps=times, policy=frame.repair.policy
            )
        if data.kept is not None:
            again = scaled_rows(frame, data.scaler, data.calendar, data.n_columns, whole)
            data.kept[places] = again.to(data.kept.device)
        yield
    finally:
        values[begin:stop] = own
        values[rows] = before
        if data.kept is not None and kept is not None:
            data.kept[places] = kept


def later_rows(data: Prepared, dataset: Windows, window: int) -> IntArray:
    """The rows of the frame after the origin of a window in time; of many or long series some."""
    frame = data.frame
    (s,), (origin,) = dataset.places([window])
    step = origin - frame.offsets[s] + frame.steps[s]
    first = frame.offsets[:-1] + np.clip(step - frame.steps, 0, frame.lengths)
    stop = np.minimum(frame.offsets[1:], first + NOISY_ROWS)
    most = max(1, NOISY_CELLS // len(frame.columns))
    series = np.flatnonzero(first < stop)
    if (stop - first).sum() > most:  # its own, and as many others as are not too many
        others = series[:: max(1, -(-int((stop - first).sum()) // most))]
        stop = np.where(np.isin(np.arange(len(frame)), [*others, s]), stop, first)
    counts = stop - first
    return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def check_borders(data: Prepared) -> None:
    """Whatever noise takes the place of the values after a split, what is made of the rows up to there is the same.

    Of some series the gaps are filled, the scale, the season and the closed-form NLinear fitted anew with two kinds of
    it, and compared bit by bit.
    """
    generator = np.random.default_rng(0)
    for name, rows in data.splits.items():
        if not (rows.stop < data.frame.offsets[1:]).any():
            continue
        some = some_rows(data, name)
        first, second = (made_anew(some, name, generator) for _ in range(2))
        for subject, before in first.items():
            if change := first_change(before, second[subject]):
                column = f" of column '{data.frame.columns[change[-1]]}'" if subject in (VALUE, *SCALE) else ""
                raise UserError(
                    f"leakage check, borders: {subject}{column} changes when the rows after {name} become other noise: "
                    f"{float(before[change]):.9g}, then {float(second[subject][change]):.9g}. Fill, fit and scale with "
                    "forecast.data.prepare, on rows up to there alone; data.gaps=forward_fill or mask fills no gap "
                    f"from later rows; {SKIP}."
                )


def some_rows(data: Prepared, split: str) -> Prepared:
    """The rows about the end of a split of BORDER_SERIES series that have train rows, one with a whole window among
    them; of long series fewer rows, and fewer series.
    """
    frame, train, border = data.frame, data.splits["train"], data.splits[split].stop
    held = np.flatnonzero(train.stop > train.first)
    chosen = held[:: max(1, len(held) // BORDER_SERIES)][:BORDER_SERIES]
    window = data.seq_len + data.pred_len
    reach = max(window + FITTED_WINDOWS, min(NOISY_ROWS, NOISY_CELLS // len(frame.columns)))
    begin, end = np.maximum(frame.offsets[:-1], border - reach), np.minimum(frame.offsets[1:], border + reach)
    cells = np.cumsum((end - begin)[chosen]) * len(frame.columns)
    whole = held[(train.stop - train.first)[held] >= window]
    shortest = whole[np.argsort(frame.lengths[whole], kind="stable")[:1]]  # of which NLinear can be fitted
    chosen = np.unique([*chosen[:1], *shortest, *chosen[cells <= BORDER_CELLS]])
    begin, end = begin[chosen], end[chosen]
    own = np.concatenate([[0], np.cumsum(end - begin)]).astype(np.int64)
    rows: IntArray = np.repeat(begin - own[:-1], end - begin) + np.arange(own[-1])
    measured = None
    if frame.measured is not None:
        measured = frame.measured[rows]
        measured[own[:-1]] = True  # of a series that was cut: a gap there has nothing before it
    less = replace(
        frame,
        values=frame.values[rows],
        measured=measured,
        offsets=own,
        steps=frame.steps[chosen] + begin - frame.offsets[:-1][chosen],
        ids=frame.ids[chosen],
        facts=None if frame.facts is None else frame.facts.of(chosen),
    )
    shift = own[:-1] - begin

    def moved(edge: IntArray) -> IntArray:
        return np.clip(edge[chosen], begin, end) + shift

    splits = {
        name: TargetRows(moved(target_rows.first), moved(target_rows.stop)) for name, target_rows in data.splits.items()
    }
    return replace(data, frame=less, splits=splits, kept=None)


def made_anew(data: Prepared, split: str, noise: np.random.Generator) -> dict[str, Tensor]:
    """What is made of the rows up to the end of a split, by its name in words, with noise after it."""
    frame, stop = data.frame, data.splits[split].stop
    late = np.arange(len(frame.values)) >= np.repeat(stop, frame.lengths)
    values = frame.values.copy()
    spread = np.abs(values[~late]).max(axis=0) + 1.0
    values[late] = NOISE * spread * noise.normal(size=values[late].shape)
    anew = prepare(
        refilled(replace(frame, values=values)),
        splits=data.splits,
        targets=data.targets,
        seq_len=data.seq_len,
        pred_len=data.pred_len,
        encoding=data.encoding,
        scaling=data.scaler.how,
        season=data.scaler.period or season(data) or 1,
        covariates=data.covariates,
        hidden=data.hidden,
        pad=data.pad,
        fact_scale=data.fact_scale,
    )
    tensors = {VALUE: torch.from_numpy(anew.frame.values[~late])}
    if split != "train":
        return tensors
    trained = np.flatnonzero(~anew.scaler.own)  # by their train rows
    period = train_season(anew.frame, anew.splits["train"], anew.targets, pred_len=anew.pred_len)
    tensors["the season"] = torch.tensor([period or 0])
    tensors |= {subject: torch.from_numpy(getattr(anew.scaler, subject.split()[-1])[trained]) for subject in SCALE}
    if len(anew.origins("train", context=data.seq_len)):
        train = anew.splits["train"]
        last = TargetRows(
            np.maximum(train.first, train.stop - FITTED_WINDOWS - data.seq_len - data.pred_len + 1), train.stop
        )
        tensors["the closed-form NLinear"] = fit_nlinear(replace(anew, splits=anew.splits | {"train": last}))
    return tensors


def refilled(frame: PanelFrame) -> PanelFrame:
    """A frame whose made-up cells are filled from its values, by a reader that knows no splits."""
    if frame.measured is None:
        return frame
    values = np.where(frame.measured, frame.values, np.nan)
    for begin, end in itertools.pairwise(frame.offsets.tolist()):
        fill_cells(values[begin:end], np.arange(begin, end), frame.repair.policy)
    return replace(frame, values=values)
