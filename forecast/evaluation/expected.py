"""What a model and the naive forecasts have shown on the validation windows, for `watch`."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from forecast.data.prepare import Prepared
from forecast.errors import UserError
from forecast.evaluation.baselines import make_baselines, season
from forecast.evaluation.evaluate import MODEL, exact_float32, in_chunks, longest_look_back, look_back_of
from forecast.evaluation.interval_errors import name_of
from forecast.evaluation.rolling import FORECAST, forecasts_of
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals
from forecast.evaluation.watch import Expected
from forecast.models.base import ForecastModel

# More times at which windows begin are thinned evenly, and so are those of many series with more windows together.
MOST_TIMES, MOST_WINDOWS, LEAST_TIMES = 1000, 200_000, 30
BATCH = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Beside what a model is watched. baseline: its name in metrics.json; period: how far back it looks, in rows."""

    baseline: str
    period: int
    expected: Expected


@torch.inference_mode()
def reference(
    model: ForecastModel, data: Prepared, *, split: str, device: torch.device, intervals: Intervals | None
) -> Reference:
    """What a split has shown of a model and of the better of two naive forecasts, the last value and the last season.

    Of these alone: they learn nothing, so they do not grow old. The model must be in evaluation mode and on the device.
    """
    data = data.on(device)
    naive = make_baselines(data)
    forecasters: dict[str, ForecastModel] = {MODEL: model, **naive}
    windows = data.windows(split, look_back=longest_look_back(forecasters.values(), data))
    if not len(windows):
        raise UserError(
            f"{data.frame.name}: no series has a window of the validation rows, beside which it is to be watched. Give "
            "the first update the series that the model was trained on, with those rows."
        )
    look_backs = {name: look_back_of(forecaster, data) for name, forecaster in forecasters.items()}
    scored = None
    if intervals is not None:
        unit_scale = np.ones((1, len(data.targets)))
        scored = ScoredIntervals(intervals, pred_len=data.pred_len, mean=0 * unit_scale, std=unit_scale)
    series, rows = windows.series_of(range(len(windows))).numpy(), windows.rows
    begins, times = np.unique(rows + (data.frame.steps - data.frame.offsets[:-1])[series], return_inverse=True)
    together = len(windows) / max(1, len(begins))
    every = -(-len(begins) // min(MOST_TIMES, max(LEAST_TIMES, int(MOST_WINDOWS / together))))
    chosen = np.flatnonzero(times % every == 0)
    errors: dict[str, list[torch.Tensor]] = {name: [] for name in forecasters}
    inside: list[torch.Tensor] = []
    with exact_float32():
        for batch in in_chunks(windows, chosen, BATCH, BATCH):
            forecasts = forecasts_of(forecasters, look_backs, batch, scored)
            for name in forecasters:
                column = FORECAST if name == MODEL else name
                errors[name].append((forecasts[column] - batch.target).abs().mean(2).cpu())
            if scored is not None:
                inside.append(shares_inside(forecasts, batch.target, scored.levels))
    of = {name: torch.cat(parts).double().numpy() for name, parts in errors.items()}
    best = min(naive, key=lambda name: float(of[name].mean()))
    n_windows, pred_len = of[MODEL].shape
    shares = torch.cat(inside, dim=1).double().numpy() if inside else np.zeros((0, n_windows, pred_len))
    levels = np.array([] if scored is None else scored.levels, dtype=np.float64)
    series, times = series[chosen], times[chosen] // every
    expected = Expected.of(of[MODEL], of[best], levels, shares, every=every, series=series, times=times)
    return Reference(
        baseline=best,
        period=(season(data) or 1) if best != "last_value" else 1,
        expected=expected.with_series(len(data.frame)),
    )


def shares_inside(
    forecasts: Mapping[str, torch.Tensor], target: torch.Tensor, levels: tuple[float, ...]
) -> torch.Tensor:
    """Which share of the targets (B, P, T) the intervals of each level hold -> (K, B, P)."""
    shares = []
    for level in map(name_of, levels):
        held = (forecasts[f"lo-{level}"] <= target) & (target <= forecasts[f"hi-{level}"])
        shares.append(held.float().mean(2).cpu())
    return torch.stack(shares)
