"""Forecasts beside the truth, as the page's script draws them: a panel for each window and column, one of them seen.

Of a large run a part is embedded, evenly spread, so that the page stays small; a note says which part.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.report.drawn import LEAST_PAST, step_numbers
from forecast.report.forecasters import Forecaster, baseline_name
from forecast.report.page.charts import (
    LONGEST_CHOICE,
    MOST_CHOICES,
    MOST_POINTS,
    Chart,
    Floats,
    column_names,
    evenly,
    milliseconds,
    rounded,
    time_axis,
)
from forecast.text.terminal import label

MOST_NUMBERS, FEW_WINDOWS = 140_000, 5  # of all panels; windows that come before further columns


def forecasts_chart(
    windows: Mapping[str, npt.NDArray[Any]],
    best: Forecaster | None,
    first: str | None,
    *,
    title: str = "Forecasts beside the truth",
) -> tuple[Chart, str]:
    """The forecasts of forecasts.npz beside the truth and the best baseline, and what of them is left out.

    windows: see `results.example_windows`. there is no truth after the end of the data. first: the column that is
    chosen at first.
    """
    (count, pred_len, n_columns), levels = windows["forecast"].shape, list(windows.get("levels", ()))
    names = [str(name) for name in windows["columns"]]
    order = sorted(range(n_columns), key=lambda i: names[i] != first)
    lines = forecast_lines(best.key if best is not None and best.key in windows else None)
    lines = {key: style for key, style in lines.items() if key in windows}
    known = min(windows["past"].shape[1], max(pred_len, LEAST_PAST))
    stride, pictures = room(known, pred_len, len(lines) - 1 + 2 * len(levels))
    columns = order[: min(MOST_CHOICES, max(1, pictures // min(count, FEW_WINDOWS)))]
    shown = evenly(count, max(1, min(MOST_CHOICES, pictures // len(columns))))
    counted = is_counted(windows)

    def panel(window: int, column: int) -> Chart:
        ends = [windows[key][window, :, column] for key in ("lower", "upper") if key in windows]  # (P, A) each
        after = [windows[key][window, :, column] for key in list(lines)[1:]]
        after += [end[:, level] for level in reversed(range(len(levels))) for end in ends]
        times = pd.DatetimeIndex(windows["timestamps"][window])[-known - pred_len :]
        past = windows["past"][window, -known:, column]
        return forecast_panel(times, past, after, bands=len(levels), stride=stride, name=names[column], counted=counted)

    found = forecast_spec(
        lines,
        levels,
        picks=[_window_names(windows, shown, counted), column_names([names[i] for i in columns])],
        panels=[panel(i, k) for i in shown for k in columns],
        counted=counted,
        title=title,
    )
    left = [f"{len(columns)} of {n_columns} target columns"] * (len(columns) < n_columns)
    left += [f"one of {stride} steps"] * (stride > 1)
    return found, f"To keep the page small: {' and '.join(left)}." if left else ""


def forecast_lines(best: str | None) -> dict[str, str]:
    """What a picture of forecasts shows and in which style, with the best baseline where there is one."""
    baseline = {} if best is None else {best: "baseline"}
    return {"past": "past", "truth": "truth", **baseline, "forecast": "forecast"}


def room(known: int, pred_len: int, lines: int) -> tuple[int, int]:
    """Every how many steps are drawn, and how many pictures of so many lines a page has room for."""
    stride = math.ceil((known + pred_len) / MOST_POINTS)
    return stride, max(1, MOST_NUMBERS // math.ceil((known + pred_len * lines) / stride))


def forecast_spec(
    lines: Mapping[str, str],
    levels: Sequence[float],
    *,
    picks: list[Chart],
    panels: list[Chart],
    counted: bool,
    title: str = "Forecasts beside the truth",
) -> Chart:
    """A chart of forecasts, of which one panel is seen at a time. lines: see `forecast_lines`."""
    return {
        "kind": "lines",
        "title": title,
        "x": time_axis(counted, "step" if counted else ""),
        "y": {"label": ""},
        "lines": [{"name": label(baseline_name(key)), "style": style} for key, style in lines.items()],
        "bands": [{"name": f"{level:g} %", "style": f"band{min(i, 3)}"} for i, level in enumerate(levels[::-1])],
        "picks": picks,
        "panels": panels,
    }


def forecast_panel(
    times: pd.DatetimeIndex,
    past: Floats,
    after: Sequence[Floats],
    *,
    bands: int,
    stride: int,
    name: str,
    counted: bool,
) -> Chart:
    """One target of a window, every `stride`-th step.

    times (L + P,) of past (L,) and of `after`, (P,) each: lines, and at last both ends of each of the bands.
    """
    known = len(past)
    first, *rest = rounded([past[::-1][::stride][::-1], *(one[::stride] for one in after)])
    later = [{"from": len(first), "values": one} for one in rest]
    lines, ends = later[: len(later) - 2 * bands], later[len(later) - 2 * bands :]
    x, mark = _places(times, stride, known, counted)
    return {
        "x": x,
        "mark": mark,
        "label": f"{label(name, 30)}, original units",
        "lines": [first, *lines],
        "bands": [list(pair) for pair in zip(ends[::2], ends[1::2], strict=True)],
    }


def is_counted(windows: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Whether rows have numbers in place of times, see `step_numbers`."""
    return step_numbers(pd.DatetimeIndex(windows["timestamps"][0])) is not None


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


def _places(times: pd.DatetimeIndex, stride: int, known: int, counted: bool) -> tuple[object, int]:
    """Where a window's points lie, every `stride`-th of its past and of its future; and where its origin lies."""
    places = milliseconds(times, counted)
    mark = places[known - 1]
    places = [*places[:known][::-1][::stride][::-1], *places[known:][::stride]]
    apart = np.diff(places)
    if len(places) > 2 and (apart == apart[0]).all():
        return {"start": places[0], "step": int(apart[0]), "count": len(places)}, mark
    return places, mark
