"""What the page's script draws, as plain values: charts of lines and bands, and of bars.

Of a large run a part is embedded, evenly spread, so that the page stays small; a note says which part.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.report.figures import step_numbers
from forecast.report.forecasters import BOUND, Forecaster, baseline_name
from forecast.text.terminal import label

# Numbers of forecasts in a page, points of one line, rows of bars, windows or columns to choose from.
MOST_NUMBERS, MOST_POINTS, MOST_BARS, MOST_CHOICES = 140_000, 1500, 20, 60
LEAST_PAST, FEW_WINDOWS, LONGEST_CHOICE = 48, 5, 60
RESOLUTION = 2e4  # steps that a picture's height is divided into
Chart = dict[str, Any]
Floats = npt.NDArray[np.floating[Any]]


def forecasts_chart(
    windows: Mapping[str, npt.NDArray[Any]], best: Forecaster | None, first: str | None
) -> tuple[Chart, str]:
    """The forecasts of forecasts.npz beside the truth and the best baseline, and what of them is left out.

    windows: see `results.example_windows`. first: the column that is chosen at first.
    """
    (count, pred_len, n_columns), levels = windows["forecast"].shape, list(windows.get("levels", ()))
    names = [str(name) for name in windows["columns"]]
    order = sorted(range(n_columns), key=lambda i: names[i] != first)
    lines = {"past": "past", "truth": "truth", "forecast": "forecast"}
    if best is not None and best.key in windows:
        lines = {"past": "past", "truth": "truth", best.key: "baseline", "forecast": "forecast"}
    known = min(windows["past"].shape[1], max(pred_len, LEAST_PAST))
    stride = math.ceil((known + pred_len) / MOST_POINTS)
    cost = math.ceil((known + pred_len * (len(lines) - 1 + 2 * len(levels))) / stride)
    pictures = max(1, MOST_NUMBERS // cost)
    columns = order[: min(MOST_CHOICES, max(1, pictures // min(count, FEW_WINDOWS)))]
    shown = _evenly(count, max(1, min(MOST_CHOICES, pictures // len(columns))))
    steps = is_counted(windows)
    found = {
        "kind": "lines",
        "title": "Forecasts beside the truth",
        "x": {"kind": "number" if steps else "time", "label": "step" if steps else ""},
        "y": {"label": ""},
        "lines": [{"name": label(baseline_name(key)), "style": style} for key, style in lines.items()],
        "bands": [{"name": f"{level:g} %", "style": f"band{min(i, 3)}"} for i, level in enumerate(levels[::-1])],
        "picks": [_window_names(windows, shown, steps), _column_names([names[i] for i in columns])],
        "panels": [
            _window_panel(windows, i, k, list(lines), known=known, stride=stride) for i in shown for k in columns
        ],
    }
    left = [f"{len(columns)} of {n_columns} target columns"] * (len(columns) < n_columns)
    left += [f"one of {stride} steps"] * (stride > 1)
    return found, f"To keep the page small: {' and '.join(left)}." if left else ""


def is_counted(windows: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Whether rows have numbers in place of times, see `step_numbers`."""
    return step_numbers(pd.DatetimeIndex(windows["timestamps"][0])) is not None


def _window_panel(
    windows: Mapping[str, npt.NDArray[Any]], window: int, column: int, keys: Sequence[str], *, known: int, stride: int
) -> Chart:
    """One target of a window: the last `known` steps of its past, then what the other keys hold, and the intervals."""
    past = windows["past"][window, -known:, column]
    ends = [windows[key][window, :, column] for key in ("lower", "upper") if key in windows]  # (P, A) each
    levels = range(ends[0].shape[1] if ends else 0)
    after = [windows[key][window, :, column] for key in keys[1:]]
    after += [end[:, level] for level in reversed(levels) for end in ends]
    first, *rest = _rounded([past[::-1][::stride][::-1], *(one[::stride] for one in after)])
    later = [{"from": len(first), "values": one} for one in rest]
    bands = later[len(keys) - 1 :]
    x, mark = _places(pd.DatetimeIndex(windows["timestamps"][window])[-known - len(after[0]) :], stride, known)
    return {
        "x": x,
        "mark": mark,
        "label": f"{label(str(windows['columns'][column]), 30)}, original units",
        "lines": [first, *later[: len(keys) - 1]],
        "bands": [list(pair) for pair in zip(bands[::2], bands[1::2], strict=True)],
    }


def steps_chart(by_step: Mapping[str, Sequence[float]], best: str) -> Chart:
    """The error of each forecaster by step, as MSE and as MAE; best: the key of the best baseline."""
    keys = [name.removesuffix("mse_scaled").strip("_") for name in by_step if name.endswith("mse_scaled")]
    styles = {"": "forecast", best: "baseline", BOUND: "past"}
    others = [key for key in keys if key not in styles]
    styles |= {key: f"other{min(i, 4) + 1}" for i, key in enumerate(others)}
    keys.sort(key=lambda key: list(styles).index(key))
    x = _evenly(max(map(len, by_step.values())), MOST_POINTS)
    panels = []
    for metric in ("mse", "mae"):
        found = [by_step.get(f"{key}_{metric}_scaled" if key else f"{metric}_scaled") for key in keys]
        drawn = [None if one is None else _rounded([np.asarray(one)[x]])[0] for one in found]
        panels.append({"x": [i + 1 for i in x], "lines": drawn, "label": f"{metric.upper()}, scaled"})
    return {
        "kind": "lines",
        "title": "Error by step of the forecast",
        "x": {"kind": "number", "label": "step of the forecast"},
        "y": {"label": "", "zero": True},
        "lines": [{"name": label(baseline_name(key)) or "the model", "style": styles[key]} for key in keys],
        "picks": [{"label": "Error", "names": ["MSE, scaled", "MAE, scaled"]}],
        "panels": panels,
    }


def coverage_chart(by_step: Mapping[str, Sequence[float]]) -> Chart | None:
    """The coverage of each interval by step, beside its level; None without intervals."""
    levels = [name.removeprefix("coverage_") for name in by_step if name.startswith("coverage_")]
    if not levels:
        return None
    x = _evenly(len(by_step[f"coverage_{levels[0]}"]), MOST_POINTS)
    lines, drawn = [], []
    for i, level in enumerate(levels):
        lines.append({"name": f"{level} %", "style": ("forecast", "other3", "other1", "other2")[min(i, 3)]})
        drawn.append(_rounded([100.0 * np.asarray(by_step[f"coverage_{level}"])[x]])[0])
        lines.append({"name": f"{level} % as it says", "style": "past"})
        drawn.append([float(level)] * len(x))
    return {
        "kind": "lines",
        "title": "Coverage of the intervals by step",
        "x": {"kind": "number", "label": "step of the forecast"},
        "y": {"label": "share of truths inside", "percent": True},
        "lines": lines,
        "panels": [{"x": [i + 1 for i in x], "lines": drawn}],
    }


def reliability_chart(shares: Mapping[str, float | None], split: str) -> Chart | None:
    """At each level the share of truths that its intervals held; None where none is known."""
    known = {float(level): 100.0 * share for level, share in shares.items() if share is not None}
    if not known:
        return None
    x = [0.0, *known, 100.0]
    return {
        "kind": "lines",
        "title": "Reliability of the intervals",
        "square": True,
        "x": {"kind": "number", "label": "level of the interval, %"},
        "y": {"label": f"share of the truths of {split} inside", "percent": True, "range": [0, 100]},
        "lines": [{"name": "as they say", "style": "past"}, {"name": split, "style": "mean"}],
        "panels": [{"x": x, "lines": [x, [None, *_rounded([np.array(list(known.values()))])[0], None]]}],
    }


def residuals_chart(table: pd.DataFrame, *, counted: bool) -> Chart | None:
    """The mean error of windows over time, with the quantiles of residuals.csv; None without rows.

    counted: whether rows have numbers in place of times.
    """
    groups = [(str(name), rows) for name, rows in table.groupby("column", sort=False)]
    if not groups:
        return None
    panels = []
    for _, rows in groups:
        mean, low, high = _rounded([rows[key].to_numpy() for key in ("mean", "low", "high")])
        x = _milliseconds(pd.DatetimeIndex(rows["begins"]))
        panels.append({"x": [at + 1 for at in x] if counted else x, "lines": [mean], "bands": [[low, high]]})
    return {
        "kind": "lines",
        "title": "Error over time",
        "x": {
            "kind": "number" if counted else "time",
            "label": "step at which forecasts begin" if counted else "when forecasts begin",
        },
        "y": {"label": "forecast less truth, scaled", "zero": True},
        "lines": [{"name": "mean error", "style": "mean"}],
        "bands": [{"name": "80 % of windows", "style": "band1"}],
        "picks": [_column_names([name for name, _ in groups])],
        "panels": panels,
    }


def bars_chart(title: str, rows: Sequence[tuple[str, float, float | None]], *, span: float = 0.0) -> Chart:
    """A bar for each name, with its error where it has one. span: the longest bar is at least this value."""
    bars = [
        {"name": label(name), "value": value, **({} if error is None else {"error": error})}
        for name, value, error in rows
    ]
    return {"kind": "bars", "title": title, "rows": bars[:MOST_BARS], "span": span}


def ranks_chart(values: Floats) -> Chart:
    """The MASE of all series, from the least to the largest."""
    ranked = np.sort(values[np.isfinite(values)])
    at = _evenly(len(ranked), 400)
    return {
        "kind": "lines",
        "title": "MASE of all series in order",
        "x": {"kind": "number", "label": "series, from the best to the worst"},
        "y": {"label": "MASE", "zero": True},
        "lines": [{"name": "MASE", "style": "mean"}],
        "panels": [{"x": [i + 1 for i in at], "lines": [_rounded([ranked[at]])[0]]}],
    }


def _evenly(count: int, most: int) -> list[int]:
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


def _column_names(names: Sequence[str]) -> Chart:
    """A choice among columns; none has no name but the mean over them."""
    return {"label": "Column", "names": [label(name, LONGEST_CHOICE) or "mean over columns" for name in names]}


def _window_names(windows: Mapping[str, npt.NDArray[Any]], shown: Sequence[int], steps: bool) -> Chart:
    """A choice among windows: of each its series, or its origin."""
    if "series" in windows:
        return {"label": "Series", "names": [label(str(windows["series"][i]), LONGEST_CHOICE) for i in shown]}
    last = windows["past"].shape[1] - 1
    stamps = [pd.DatetimeIndex(windows["timestamps"][i]) for i in shown]
    if steps:
        numbers = [step_numbers(one) for one in stamps]
        return {"label": "Known until step", "names": [str(one[last]) for one in numbers if one is not None]}
    return {"label": "Known until", "names": [str(one[last]).removesuffix(":00") for one in stamps]}


def _places(times: pd.DatetimeIndex, stride: int, known: int) -> tuple[Any, int]:
    """Where a window's points lie, every `stride`-th of its past and of its future; and where its origin lies."""
    numbers = step_numbers(times)
    places = _milliseconds(times) if numbers is None else numbers.tolist()
    mark = places[known - 1]
    places = [*places[:known][::-1][::stride][::-1], *places[known:][::stride]]
    apart = np.diff(places)
    if len(places) > 2 and (apart == apart[0]).all():
        return {"start": places[0], "step": int(apart[0]), "count": len(places)}, mark
    return places, mark


def _milliseconds(times: pd.DatetimeIndex) -> list[int]:
    numbers: list[int] = times.tz_localize(None).to_numpy().astype("datetime64[ms]").astype(np.int64).tolist()
    return numbers


def _rounded(parts: Sequence[Floats]) -> list[list[float | None]]:
    """The values with the digits that one picture of them all needs; None for what is not known."""
    whole = np.concatenate([np.asarray(one, dtype=np.float64) for one in parts])
    finite = whole[np.isfinite(whole)]
    span = float(np.ptp(finite)) if len(finite) else 0.0
    size = span if span > 0 else float(np.abs(finite).max(initial=0.0))
    digits = min(300, math.ceil(math.log10(RESOLUTION / size))) if size > 0 else 0
    values = np.round(whole, max(digits, 0))
    listed: list[float | None] = values.tolist()
    if len(finite) < len(whole):
        listed = [value if value is not None and math.isfinite(value) else None for value in listed]
    if digits <= 0:
        listed = [None if value is None else int(value) for value in listed]
    ends = np.cumsum([len(one) for one in parts])
    return [listed[end - len(one) : end] for one, end in zip(parts, ends, strict=True)]
