"""The forecast that was asked for, beside the end of its history, for a page."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from typing_extensions import TypedDict

from forecast.commands.forecaster import Forecaster
from forecast.commands.future import future_source
from forecast.commands.inputs import history
from forecast.commands.intervals import forecast_intervals
from forecast.commands.panel_ends import history_source, panel_forecaster
from forecast.data.frequency import future_timestamps
from forecast.evaluation.evaluate import evenly_spaced
from forecast.evaluation.interval_columns import split_ends

SHOWN = 25  # series of a panel
Ahead = tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]


class AheadOf(TypedDict):
    """What is to be forecast for a page: the arguments of `ahead`."""

    checkpoint: Path
    future: str | None
    level: Sequence[float] | None


def ahead(checkpoint: Path, *, future: str | None, level: Sequence[float] | None) -> dict[str, np.ndarray]:
    """The forecast after the data that a checkpoint was trained on, of a panel of some series, in original units.

    As `results.example_windows`, without truth and baselines: past (W, L, T), forecast (W, P, T), levels (A,), lower,
    upper (W, P, T, A), timestamps (W, L + P), columns (T,), of a panel series (W,). future, level: of the forecast.
    """
    forecaster = Forecaster.load(checkpoint)
    made = of_panel if forecaster.checkpoint.has_ids else of_series
    past, values, times, more = made(forecaster, future, level)
    targets = list(forecaster.checkpoint.data["targets"])
    intervals = forecast_intervals(forecaster.checkpoint, level)
    levels = () if intervals is None else intervals.asked
    found = {"past": past, "forecast": values[..., : len(targets)], "timestamps": times, "columns": np.array(targets)}
    if ends := split_ends(values, len(targets), levels)[::-1]:
        found["levels"] = np.array([level for level, _, _ in ends])
        found |= {name: np.stack([end[i] for end in ends], axis=-1) for i, name in ((1, "lower"), (2, "upper"))}
    return {**found, **more}


def of_series(forecaster: Forecaster, future: str | None, level: Sequence[float] | None) -> Ahead:
    """Past (1, L, T), the columns of the forecast (1, P, N), and times (1, L + P)."""
    checkpoint, source = forecaster.checkpoint, forecaster.source()
    frame = history(checkpoint, source, None, {})
    known = forecaster.known_after(source, frame, future, {})
    table = forecaster.continued(frame, future=known, level=level)
    past = frame.tail(checkpoint.config.seq_len)
    targets = [frame.columns.index(name) for name in checkpoint.data["targets"]]
    after = future_timestamps(past.timestamps[-1], past.freq, len(table))
    times = pd.DatetimeIndex(past.timestamps.append(after))
    return past.values[None][:, :, targets], table.iloc[:, 1:].to_numpy(np.float64)[None], stamps([times]), {}


def of_panel(forecaster: Forecaster, future: str | None, level: Sequence[float] | None) -> Ahead:
    """As `of_series`, of W series, each with as much past as the shortest has."""
    checkpoint, source = forecaster.checkpoint, forecaster.source()
    panel, later = history_source(checkpoint, source, None, {}), future_source(checkpoint, source, future, {})
    ends = panel_forecaster(checkpoint, panel, device=forecaster.torch_device, future=later, level=level)
    lengths = ends.frame.lengths[ends.series]
    whole = np.flatnonzero(lengths >= min(ends.seq_len, int(lengths.max())))
    shown = [int(whole[i]) for i in evenly_spaced(len(whole), SHOWN)]
    made = ends.some(shown)
    length = min(ends.seq_len, int(lengths[shown].min()))
    past = np.stack([ends.past(number)[-length:] for number in made.series])
    times = [ends.frame.timestamps(number, ends.pred_len)[-length - ends.pred_len :] for number in made.series]
    return past, made.values, stamps(times), {"series": np.array([str(ends.frame.ids[one]) for one in made.series])}


def stamps(times: Sequence[pd.DatetimeIndex]) -> np.ndarray:
    """(W, L + P) without a time zone."""
    return np.stack([one.tz_localize(None).to_numpy("datetime64[ns]") for one in times])
