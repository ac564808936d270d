"""Coverage on made-up series of which the noise is known, with forecasts that are right: only the intervals err."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from forecast.data.panel import PanelFrame
from forecast.data.prepare import Prepared, prepare
from forecast.evaluation.calibrate import ValPart, calibrate
from forecast.evaluation.conformal import Calibration, outside_of
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals
from forecast.files import rounded, write_text
from studies.documents.run import made_by

SERIES, LEVELS = 400, (80.0, 95.0)
SEQ_LEN, PRED_LEN, TRAIN, DAY = 24, 4, 120, 24
# Ten days but an hour: (n + 1) level / 100 is a whole number, so that the rank promises the level itself and no more.
WINDOWS = 239
ROWS = WINDOWS + PRED_LEN - 1  # of val, and of test
AUTOREGRESSION = 0.7
SWING = 0.8  # of the noise's deviation over a day, about 1
CPU = torch.device("cpu")


class KnownMean(nn.Module):
    """Forecasts the mean of the noise, given its past: 0, or its last value times `memory` to the power of the step."""

    def __init__(self, memory: float, mean: float, std: float) -> None:
        super().__init__()
        self.memory, self.mean, self.std = memory, mean, std  # of the scaler: the model is given scaled values

    def forward(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        """(B, L, 1) -> (B, P, 1), scaled."""
        last = past[:, -1:] * self.std + self.mean
        steps = torch.arange(1, PRED_LEN + 1, dtype=past.dtype).view(1, -1, 1)
        return (last * self.memory**steps - self.mean) / self.std


@dataclass(frozen=True)
class Noise:
    """A kind of noise. memory: as of `KnownMean`; swing: see SWING; heavy: whether it is Student's t(3)."""

    title: str
    memory: float = 0.0
    swing: float = 0.0
    heavy: bool = False

    def draw(self, draws: np.random.Generator, rows: int) -> npt.NDArray[np.float64]:
        """A series (N,) of mean 0."""
        shocks = draws.standard_t(3, rows) if self.heavy else draws.normal(size=rows)
        shocks *= 1.0 + self.swing * np.sin(2 * math.pi * np.arange(rows) / DAY)
        if self.memory:
            for row in range(1, rows):
                shocks[row] += self.memory * shocks[row - 1]
        return shocks


KINDS = {
    "iid": Noise("i.i.d., normal"),
    "heavy": Noise("i.i.d., Student's t with 3 degrees of freedom", heavy=True),
    "ar": Noise(f"AR(1), {AUTOREGRESSION}", memory=AUTOREGRESSION),
    "seasonal": Noise(f"independent, deviation 1 ± {SWING} within a day", swing=SWING),
}


def record(path: Path) -> None:
    """Keeps the coverage of all kinds at a path."""
    kinds = {name: {"title": kind.title, "forms": simulated(kind)} for name, kind in KINDS.items()}
    found = {"made_by": made_by(), "series": SERIES, "windows": WINDOWS, "steps": PRED_LEN, "kinds": kinds}
    write_text(path, json.dumps(rounded(found), indent=1) + "\n")


def simulated(kind: Noise, series: int = SERIES) -> dict[str, Any]:
    """The coverage of each level over `series` single series, each calibrated and judged by itself.

    coverage: the mean over series; error: its standard error, from how the series differ; by_hour: that of the calmest
    and of the wildest hours of a day, a quarter each, of noise that has such; static and adaptive.
    """
    found: dict[str, list[npt.NDArray[np.float64]]] = {"static": [], "adaptive": []}
    for number in range(series):
        held = coverage_of(kind, np.random.default_rng([7, number]))
        for how, one in held.items():
            found[how].append(one)
    return {how: of_levels(kind, np.stack(ones)) for how, ones in found.items()}


def of_levels(kind: Noise, held: npt.NDArray[np.float64]) -> dict[str, Any]:
    """By level. held (S, W, P, K): 1 where an interval holds the truth."""
    rows = TRAIN + ROWS + np.arange(WINDOWS)[:, None] + np.arange(PRED_LEN)  # that are forecast (W, P)
    wave = np.sin(2 * math.pi * rows / DAY)
    blocks = {}
    for k, level in enumerate(LEVELS):
        each = held[..., k].mean((1, 2))
        block = {"coverage": float(each.mean()), "error": float(each.std(ddof=1) / math.sqrt(len(each)))}
        if kind.swing:
            quarters = {"calm": wave <= -math.sqrt(0.5) + 1e-9, "wild": wave >= math.sqrt(0.5) - 1e-9}
            block |= {name: float(held[:, where, k].mean()) for name, where in quarters.items()}
        blocks[f"{level:g}"] = block
    return blocks


def coverage_of(kind: Noise, draws: np.random.Generator) -> Mapping[str, npt.NDArray[np.float64]]:
    """Of one series whether its intervals hold the truth (W, P, K), by the way of following a drift."""
    data = series_data(kind.draw(draws, TRAIN + 2 * ROWS))
    model = KnownMean(kind.memory, *(float(part[0, 0]) for part in data.target_scale))
    calibration = calibrate(
        [ValPart(model=model, windows=range(WINDOWS))], data, levels=LEVELS, batch_size=WINDOWS, device=CPU
    )
    assert calibration is not None
    return {how: held_by(model, data, calibration, adaptive=how == "adaptive") for how in ("static", "adaptive")}


def series_data(values: npt.NDArray[np.float64]) -> Prepared:
    """An hourly series, its first rows for training, then as many for validation as for the test."""
    times = pd.date_range("2020-01-01", periods=len(values), freq="h")
    splits = {
        "train": range(TRAIN),
        "val": range(TRAIN, TRAIN + ROWS),
        "test": range(TRAIN + ROWS, TRAIN + 2 * ROWS),
    }
    frame = PanelFrame.single(values[:, None], times, ("y",), "h", "simulated")
    return prepare(frame, splits=splits, targets=(0,), seq_len=SEQ_LEN, pred_len=PRED_LEN, encoding="timeF")


@torch.inference_mode()
def held_by(model: nn.Module, data: Prepared, calibration: Calibration, *, adaptive: bool) -> npt.NDArray[np.float64]:
    """Whether the intervals of each test window hold the truth (W, P, K), 1 or 0."""
    intervals, (mean, std) = (
        Intervals(calibration=calibration, wanted_levels=LEVELS, adaptive=adaptive),
        data.target_scale,
    )
    scored = ScoredIntervals(intervals, pred_len=PRED_LEN, mean=mean, std=std)
    batch = data.windows("test").in_batches(torch.arange(WINDOWS), WINDOWS)[0]
    scored.add(model, batch, SEQ_LEN)
    places = [calibration.levels.index(level) for level in LEVELS]
    held = ~outside_of(*scored.last, batch.target)
    inside: npt.NDArray[np.float64] = held[..., 0, :][..., places].double().numpy()
    return inside
