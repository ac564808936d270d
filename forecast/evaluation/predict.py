"""The steps after the end of a history."""

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from forecast.bounds import CalendarEncoding
from forecast.data.frame import SeriesFrame
from forecast.data.frequency import future_timestamps
from forecast.data.prepare import scaled_values
from forecast.data.scaling import Scaler, Scales
from forecast.data.time_features import time_features
from forecast.errors import UserError
from forecast.evaluation.evaluate import check_finite, exact_float32
from forecast.evaluation.history import report_far, report_filled
from forecast.evaluation.interval_columns import of_each, with_ends
from forecast.evaluation.scored_intervals import Intervals


@torch.inference_mode()
def predict(
    model: nn.Module,
    frame: SeriesFrame,
    *,
    scaler: Scaler,
    targets: list[int],
    look_back: int,
    pred_len: int,
    encoding: CalendarEncoding,
    device: torch.device,
    future: npt.NDArray[np.float64] | None = None,
    intervals: Intervals | None = None,
) -> tuple[pd.DatetimeIndex, npt.NDArray[np.float64]]:
    """Timestamps (P,) and values (P, N), original units, of the `pred_len` steps after the frame's last row.

    N: the targets, and the ends of the intervals that are wanted, in the order of `interval_columns.column_names`.
    future (P, K): what is known of these steps, the last K columns of the frame, original units.
    Reads the last `look_back` rows alone, and warns of values that were filled in there and of a size unknown to the
    training. Raises UserError when there are fewer rows, when most of a column is missing in them, or when the forecast
    is not finite.
    """
    if len(frame.values) < look_back:
        raise UserError(
            f"{frame.name} has {len(frame.values)} rows; the model reads the last {look_back}. Give it a "
            "longer history, or train with a shorter seq_len (model=ridge: model.look_back)."
        )
    report_filled(frame, seq_len=look_back)
    report_far(frame.values[-look_back:], scaler, where=f"{frame.name}, the last {look_back} rows")
    steps = future_timestamps(frame.timestamps[-1], frame.freq, pred_len)
    panel = frame.tail(look_back).as_panel()
    past = scaled_values(panel, Scales.of(scaler), np.arange(look_back))
    known = time_features(panel.calendar(pred_len), frame.freq, encoding=encoding)
    if future is not None and future.shape[1]:
        columns = len(frame.columns) - future.shape[1]
        told = scaler.transform(np.concatenate([np.zeros((pred_len, columns)), future], axis=1))
        known = np.concatenate([known, np.concatenate([past, told])[:, columns:]], axis=1)
        past = past[:, :columns]
    inputs = (past, known[:look_back], known[look_back:])
    batch = [torch.from_numpy(part.astype(np.float32)).unsqueeze(0).to(device) for part in inputs]
    with exact_float32():
        forecast = with_ends(model, batch[0], batch[1], batch[2], intervals)
    check_finite(forecast, batch[0])
    of_columns = of_each(targets, () if intervals is None else intervals.asked)
    return steps, scaler.inverse(forecast[0].double().cpu().numpy(), of_columns)
