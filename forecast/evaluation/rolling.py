"""What a model and its baselines forecast at the origins of a backtest, in one batched pass, as a long table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.data.prepare import Prepared
from forecast.data.scaling import SeasonalDifferences
from forecast.data.values.cells import IntArray
from forecast.data.windows import Batch, Windows
from forecast.errors import UserError
from forecast.evaluation.baselines import make_baselines
from forecast.evaluation.conformal import calibrated_interval
from forecast.evaluation.evaluate import (
    MODEL,
    check_finite,
    chunk_of,
    exact_float32,
    forecast_of,
    in_chunks,
    longest_look_back,
    look_back_of,
)
from forecast.evaluation.scored_intervals import Intervals, name_of
from forecast.models.base import ForecastModel

ID, TARGET, FORECAST = "id", "target", "forecast"  # columns of the table


@dataclass(frozen=True, eq=False)
class BacktestOrigins:
    """Windows (W,) of a split by their numbers, fold after fold; the fold, the series and the first row of each.

    rows: of the frame.
    """

    numbers: IntArray
    fold: IntArray
    series: IntArray
    rows: IntArray


def fold_origins(data: Prepared, windows: Windows, *, split: str, folds: int, step: int) -> BacktestOrigins:
    """The last `folds` origins of a split, `step` rows apart, of each series those at its own end.

    One that lies in a gap, or before its series has seq_len rows, is left out.
    """
    every = np.arange(len(windows))
    series, rows = windows.places(every)
    behind = data.splits[split].stop[series] - data.pred_len - rows
    fold = folds - 1 - behind // step
    chosen = np.flatnonzero((behind % step == 0) & (fold >= 0))
    chosen = chosen[np.argsort(fold[chosen], kind="stable")]
    return BacktestOrigins(every[chosen], fold[chosen], series[chosen], rows[chosen])


@torch.inference_mode()
def rolled(
    model: ForecastModel,
    data: Prepared,
    *,
    split: str,
    folds: int,
    step: int,
    fitted: Mapping[str, Tensor],
    batch_size: int,
    device: torch.device,
    intervals: Intervals | None = None,
) -> pd.DataFrame:
    """The forecasts at the last `folds` origins of a split, `step` rows apart, original units.

    A row for each window, target and step: fold, cutoff, id of a panel, time, target, y, and a column a forecaster.

    The model must be in evaluation mode and on the device. fitted: as `evaluate` takes it. Raises UserError
    where there is no origin, or a forecast is not finite.
    """
    data = data.on(device)
    on_device = {name: weight.to(device) for name, weight in fitted.items()}
    forecasters: dict[str, ForecastModel] = {MODEL: model, **make_baselines(data, fitted=on_device)}
    windows = data.windows(split, look_back=longest_look_back(forecasters.values(), data))
    origins = fold_origins(data, windows, split=split, folds=folds, step=step)
    if not len(origins.numbers):
        raise UserError(
            f"{data.frame.name}: the gaps leave no origin of a backtest with a whole window. Choose another "
            "backtest.step, or data.gaps=forward_fill."
        )
    look_backs = {name: look_back_of(forecaster, data) for name, forecaster in forecasters.items()}
    by_column: dict[str, list[Tensor]] = {}
    with exact_float32():
        for batch in in_chunks(windows, origins.numbers, batch_size, chunk_of(model, data, windows.device)):
            for name, part in forecasts_of(forecasters, look_backs, batch, intervals).items():
                by_column.setdefault(name, []).append(part.cpu())
    arrays = {name: torch.cat(parts).double().numpy() for name, parts in by_column.items()}
    levels = () if intervals is None else intervals.wanted_levels
    ends = [f"{end}-{name_of(level)}" for level in levels for end in ("lo", "hi")]
    columns = [FORECAST, *ends, *(name for name in forecasters if name != MODEL)]
    return long_table(data, origins, arrays, columns=columns)


def forecasts_of(
    forecasters: Mapping[str, ForecastModel],
    look_backs: Mapping[str, int],
    batch: Batch,
    intervals: Intervals | None,
) -> dict[str, Tensor]:
    """What each forecasts of a batch (B, P, T), scaled, by column of the table; of the model the ends of intervals too.

    UserError for a forecast that is not finite.
    """
    forecasts: dict[str, Tensor] = {}
    for name, forecaster in forecasters.items():
        if name == MODEL and intervals is not None:
            forecast, lower, upper = calibrated_interval(intervals.calibration, forecaster, batch, look_backs[name])
            for k, level in enumerate(map(name_of, intervals.calibration.levels)):
                forecasts |= {f"lo-{level}": lower[..., k], f"hi-{level}": upper[..., k]}
        else:
            forecast = forecast_of(forecaster, batch, look_backs[name])
        check_finite(forecast, batch.past)
        forecasts[FORECAST if name == MODEL else name] = forecast
    return forecasts


def long_table(
    data: Prepared, origins: BacktestOrigins, scaled: Mapping[str, np.ndarray], *, columns: Sequence[str]
) -> pd.DataFrame:
    """A row for each window, target and step: fold, cutoff (the last known time), id of a panel, time, target, y.

    scaled: forecasts (W, P, T) by column, of which some become `columns` in original units. y is NaN where no file held
    a value.
    """
    rows = origins.rows[:, None] + np.arange(-1, data.pred_len)  # (W, 1 + P): with the last known
    truth = data.frame.values[rows[:, 1:]][..., list(data.targets)]
    frame, series = data.frame, origins.series
    if frame.measured is not None:
        truth[~np.asarray(frame.measured[rows[:, 1:]])[..., list(data.targets)]] = np.nan
    times = frame.calendar().to_numpy()[rows + (frame.steps - frame.offsets[:-1])[series][:, None]]

    def column(values: np.ndarray) -> np.ndarray:
        """(W, P, T) -> a value a row, window after window, target after target."""
        return values.transpose(0, 2, 1).reshape(-1)

    shape = truth.shape
    table: dict[str, object] = {
        "fold": column(np.broadcast_to(origins.fold[:, None, None], shape)),
        "cutoff": column(np.broadcast_to(times[:, :1, None], shape)),
    }
    if frame.id_column is not None:
        table[ID] = column(np.broadcast_to(frame.ids[series].astype(object)[:, None, None], shape))
    table["time"] = column(np.broadcast_to(times[:, 1:, None], shape))
    table[TARGET] = column(np.broadcast_to(np.array(data.target_names, dtype=object), shape))
    table["y"] = column(truth)
    for name in columns:
        table[name] = column(data.original(scaled[name], series))
    return pd.DataFrame(table)


def error_scales(data: Prepared, naive: SeasonalDifferences) -> dict[str, np.ndarray]:
    """By what the errors of a backtest are scaled, for each series and target (S T,), original units.

    id of a panel, target, std: the deviation in the train rows; naive: the mean absolute seasonal difference, 0 where
    there is none.
    """
    std, ids = data.target_scale[1], np.repeat(np.array(data.frame.ids).astype(str), len(data.targets))
    return {
        **({} if data.frame.id_column is None else {ID: ids}),
        TARGET: np.tile(np.array(data.target_names), len(data.frame)),
        "std": std.reshape(-1),
        "naive": (naive.absolute * std).reshape(-1),
    }
