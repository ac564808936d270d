"""The leakage guard: what lies after the origin of a forecast has no part in it, nor in what it is scaled by.

Each check raises UserError that says what leaks and where. The laws in tests hold for the models of this project; the
guard looks at the model and the data of this very training.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.data.frame import SeriesFrame
from forecast.data.gaps import filled_cells
from forecast.data.panel.prepare import PanelData
from forecast.data.prepare import Prepared, PreparedData, prepare
from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_nlinear, season
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
    refuse_not_finite,
    windows_in_gaps,
)
from forecast.evaluation.panel_leakage import check_panel_leakage
from forecast.evaluation.restoring import first_change, overwritten, repeatable, restored
from forecast.models.base import ForecastModel

FITTED_WINDOWS = 64  # the last train windows, on which the closed-form NLinear is fitted anew: all would take seconds
NLINEAR = "the closed-form NLinear"


def check_leakage(model: ForecastModel, data: Prepared, *, device: torch.device, split: str = "train") -> None:
    """All checks, on windows of a split. The model is on the device; it and the data are left as they were.

    Of a large model with long windows fewer than CHECKED_WINDOWS are looked at; a leak in others alone is left to
    `forecast check-leakage`. Raises UserError for the first thing that leaks.
    """
    if isinstance(data, PanelData):
        check_panel_leakage(model, data, device=device, split=split)
        return
    check_scaler(data)
    check_splits(data)
    check_borders(data)
    few = affordable_windows(model, data)
    check_forecasts(model, data, device=device, split=split, windows=few)
    check_training_outputs(model, data, device=device, split=split, windows=few)


def check_scaler(data: PreparedData) -> None:
    """The scaler is what its rule makes of the train rows alone."""
    train = data.splits["train"]
    check_scale(
        data.frame,
        data.scaler.mean[None],
        data.scaler.std[None],
        how=data.scaler.how,
        period=season(data) or 1,
        first=np.array([train.start]),
        stop=np.array([train.stop]),
        context=data.seq_len,
        observed=data.n_columns,
        names=[""],
    )


def check_splits(data: PreparedData) -> None:
    """No target row belongs to two splits."""
    for (one, rows), (other, others) in itertools.combinations(data.splits.items(), 2):
        shared = range(max(rows.start, others.start), min(rows.stop, others.stop))
        if shared:
            raise UserError(
                f"leakage check, splits: {len(shared)} rows, {data.frame.timestamps[shared[0]]} to "
                f"{data.frame.timestamps[shared[-1]]}, are forecast in {one} and in {other}. Cut data.split so that "
                f"each row belongs to one; {SKIP}."
            )


def check_borders(data: PreparedData) -> None:
    """Whatever noise takes the place of all values after a split, what is made of the rows up to there is the same.

    Gaps are filled, the train rows fitted and everything scaled anew with two kinds of it, and compared bit by bit.
    """
    generator = np.random.default_rng(0)
    for name, split in data.splits.items():
        if not 0 < split.stop < len(data.frame):
            continue
        before, after = (made_anew(data, name, generator) for _ in range(2))
        for what, values in before.items():
            if change := first_change(values, after[what]):
                column = f" of column '{data.frame.columns[change[-1]]}'" if what != NLINEAR else ""
                raise UserError(
                    f"leakage check, borders: {what}{column} changes when the rows after "
                    f"{data.frame.timestamps[split.stop - 1]}, where {name} ends, become other noise: "
                    f"{values[change]:.9g}, then {after[what][change]:.9g}. Fill, fit and scale with "
                    f"forecast.data.prepare; data.gaps=forward_fill or mask fills no gap from later rows; {SKIP}."
                )


def made_anew(data: PreparedData, split: str, noise: np.random.Generator) -> dict[str, Tensor]:
    """What is made of the rows up to the end of a split, from the cells as they were read, with noise after it.

    Rows far from that end are left out. Of each split the scaled values (rows, C); for train also mean and std (C,) of
    the scaler and, of the last windows, the weight (P, L) of the closed-form NLinear.
    """
    end = data.splits[split].stop
    reach = max(data.seq_len + data.pred_len, min(NOISY_ROWS, NOISY_CELLS // data.n_columns))
    first = max(0, end - reach)
    frame, border = data.frame.cut(slice(first, end + reach)), end - first
    early = frame.values[:border]
    if split == "train":  # the scaler of these rows, which may be less than train
        centre, spread = early.mean(axis=0), early.std(axis=0)
    else:
        centre, spread = data.scaler.mean, data.scaler.std
    late = centre + NOISE * np.where(spread > 0, spread, 1.0) * noise.normal(size=frame.values[border:].shape)
    frame = as_read(frame, np.concatenate([early, late]))
    splits = {
        name: range(max(rows.start, first) - first, min(max(rows.stop, first) - first, len(frame)))
        for name, rows in data.splits.items()
    }
    sizes: dict[str, Any] = {"seq_len": data.seq_len, "pred_len": data.pred_len, "targets": data.targets}
    scaler = None if split == "train" else data.scaler
    sizes |= {"encoding": data.encoding, "covariates": data.covariates, "hidden": data.hidden}
    sizes |= {"scaling": data.scaler.how, "season": season(data) or 1}
    anew = prepare(frame, splits=splits, scaler=scaler, **sizes)
    values = {"the scaled value": anew.series[:border, : data.n_columns]}
    if split != "train":
        return values
    fitted = {f"the scaler's {what}": torch.from_numpy(getattr(anew.scaler, what)) for what in ("mean", "std")}
    made, windows = fitted | values, anew.windows_at("train", 0)
    if len(windows):
        last = range(int(windows.starts[-FITTED_WINDOWS:][0]), border)
        made[NLINEAR] = fit_nlinear(replace(anew, splits=splits | {"train": last}))
    return made


def as_read(frame: SeriesFrame, values: np.ndarray) -> SeriesFrame:
    """A frame with other values (N, C), its gaps filled by a reader that knows no splits."""
    if frame.missing is None:
        return replace(frame, values=values)
    missing = frame.missing.copy()
    missing[0] = False  # of a frame that was cut: a gap there has nothing before it
    cells = np.where(missing, np.nan, values)
    filled = filled_cells(cells, frame.timestamps, frame.repair.policy, [range(len(frame))])
    return replace(frame, values=filled, missing=missing)


@torch.no_grad()
def check_forecasts(
    model: ForecastModel,
    data: PreparedData,
    *,
    device: torch.device,
    split: str = "train",
    windows: int = CHECKED_WINDOWS,
) -> None:
    """Noise in place of all values after a window's origin leaves its inputs and its forecast the same, bit by bit.

    The noise is put into the frame and the series made again from it, and it is written into the memory of the series
    itself: a model may hold a reference to it.
    """
    dataset = data.windows(split, look_back=longest_look_back([model], data))
    generator = np.random.default_rng(0)

    def forecast(batch: Batch) -> Tensor:
        return repeatable(lambda: forecast_of(model, batch, model.look_back), device)

    with restored(model):
        model.eval()
        chosen = {*checked_windows(len(dataset), windows), *windows_in_gaps(data, dataset, windows)}
        for window in sorted(chosen):
            first = int(dataset.starts[window])
            origin = first + data.seq_len
            inputs = dataset[window].to(device)
            before = forecast(inputs)
            what = f"forecasts: the forecast of a {split} window with its origin at {data.frame.timestamps[origin - 1]}"
            refuse_not_finite(before, model, what)
            with overwritten(data.series, first, with_noise(data, first, generator)):
                changed = dataset[window].to(device)
                after = forecast(changed)
            check_inputs(data, first, inputs, changed)
            if change := first_change(before, after):
                _, step, column = change
                raise UserError(
                    f"leakage check, {what} changes when the rows after it become noise, first in step {step + 1}, "
                    f"column '{data.target_names[column]}': {before[change]:.6g}, then {after[change]:.6g} "
                    f"(scaled). {type(model).__name__} reads the future: let it use nothing but past, past_known and "
                    f"future_known, no memory behind them (past._base) and no series of its own; {SKIP}."
                )


def check_inputs(data: PreparedData, first: int, before: Batch, after: Batch) -> None:
    """The inputs of a window from row `first` on are the same when the rows after its origin have become noise."""
    for name, old, new in zip(before._fields[:3], before[:3], after[:3], strict=True):
        if change := first_change(old, new):
            _, row, column = change
            row += data.seq_len if name == "future_known" else data.seq_len - old.shape[1]
            known = name != "past"
            raise wrong_input(data, first, row, column + known * data.n_columns, "changes with the rows after it")


def wrong_input(data: PreparedData, first: int, row: int, column: int, why: str) -> UserError:
    """What to say of a column of the series, so many rows after row `first`, a window's first."""
    known, times = column - data.n_columns, data.frame.timestamps
    what = f"known feature {known + 1}" if known >= 0 else f"column '{data.frame.columns[column]}'"
    return UserError(
        f"leakage check, inputs: for the forecast with its origin at {times[first + data.seq_len - 1]}, {what} at "
        f"{times[max(0, first + row)]} {why}. Make the series with forecast.data.prepare, and known features of "
        f"timestamps alone; {SKIP}."
    )


def with_noise(data: PreparedData, first: int, generator: np.random.Generator) -> Tensor:
    """The series from row `first` on, a window's first, prepared again with noise after its past: (rows, C + F).

    What was made up of the rows that became noise is made of these. Raises UserError when without noise it is not the
    data's series.
    """
    frame, rows = data.frame, slice(first, min(first + data.seq_len + NOISY_ROWS, len(data.frame)))
    stale = first_change(data.series[rows], prepared_again(data, rows, frame.values[rows]))
    if stale:
        row, column = stale
        raise wrong_input(data, first, row, column, "is not made of the frame's timestamps and values")
    values = frame.values[rows].copy()
    late = values[data.seq_len :]
    noise = data.scaler.mean + NOISE * data.scaler.std * generator.normal(size=late.shape)
    in_advance = slice(data.n_columns, len(frame.columns) - len(data.hidden))
    noise[: data.pred_len, in_advance] = late[: data.pred_len, in_advance]
    late[:] = noise
    if frame.missing is not None and frame.repair.policy != "refuse":
        noisy_from = np.full(values.shape[1], data.seq_len)
        noisy_from[in_advance] += data.pred_len
        values = filled_again(
            values, frame.missing[rows], noisy_from, timestamps=frame.timestamps[rows], policy=frame.repair.policy
        )
    return prepared_again(data, rows, values)


def prepared_again(data: PreparedData, rows: slice, values: np.ndarray) -> Tensor:
    """The series (rows, C + F) that `prepare` makes of some rows with these values, scaled as the data are."""
    timestamps = pd.DatetimeIndex(data.frame.timestamps[rows])
    frame = replace(data.frame, values=values, timestamps=timestamps, missing=None)
    sizes: dict[str, Any] = {"seq_len": data.seq_len, "pred_len": data.pred_len, "targets": data.targets}
    sizes |= {"encoding": data.encoding, "covariates": data.covariates, "hidden": data.hidden}
    return prepare(frame, splits={}, scaler=data.scaler, **sizes).series
