"""What the page's script draws, as plain values: charts of lines and bands, and of bars."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.report.drawn import LEAST_PAST, step_numbers
from forecast.report.forecasters import BOUND, ScoredForecaster, baseline_name
from forecast.text.terminal import label

# A line so many times above the first two is far; points of one line, rows of bars, windows or columns
# to choose from, characters of a choice.
FAR, MOST_POINTS, MOST_BARS, MOST_CHOICES, LONGEST_CHOICE = 3.0, 1500, 20, 60, 60
MOST_NUMBERS, FEW_WINDOWS = 140_000, 5  # of all panels of forecasts; windows that come before further columns
RESOLUTION = 2e4  # steps that a picture's height is divided into
COVERAGE_STYLES = ("forecast", "other3", "other1", "other2")
Chart = dict[str, Any]  # as the page's script reads it
Floats = npt.NDArray[np.floating[Any]]


def time_axis(counted: bool, name: str) -> Chart:
    """An x axis of times, or of the numbers of rows."""
    return {"kind": "number" if counted else "time", "label": name}


def lines_chart(
    title: str,
    x: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[float | None]]],
    styles: Mapping[str, str],
    *,
    axis: Chart,
    per_cent: bool = False,
) -> Chart:
    """Lines over x, those hidden at first that would squeeze the first two.

    panels: what can be chosen, which stands at the y axis -> line -> its values, of which the last may be missing.
    styles: of the lines, in their order. axis: of x.
    """
    at, drawn = evenly(len(x), MOST_POINTS), []
    for name, lines in panels.items():
        known = [lines.get(key) for key in styles]
        values = [None if line is None else np.array(line, dtype=np.float64) for line in known]  # None in a line is NaN
        shown = [None if line is None else rounded([line[[i for i in at if i < len(line)]]])[0] for line in values]
        drawn.append({"x": [x[i] for i in at], "lines": shown, "label": name})
    chart = {
        "kind": "lines",
        "title": title,
        "x": axis,
        "y": {"label": "", **({"percent": True} if per_cent else {"zero": True})},
        "lines": [{"name": label(name), "style": style} for name, style in styles.items()],
        "picks": [{"label": "Error", "names": list(panels)}],
        "panels": drawn,
    }
    return chart if per_cent else with_far(chart)


def by_step_chart(
    panels: Mapping[str, Mapping[str, Sequence[float | None]]],
    styles: Mapping[str, str],
    *,
    title: str = "Error by step of the forecast",
    per_cent: bool = False,
) -> Chart:
    """`lines_chart` over the steps of the forecast."""
    count = max(len(line) for lines in panels.values() for line in lines.values())
    axis = {"kind": "number", "label": "step of the forecast"}
    return lines_chart(title, range(1, count + 1), panels, styles, axis=axis, per_cent=per_cent)


def steps_chart(by_step: Mapping[str, Sequence[float]], best: str) -> Chart:
    """The error of each forecaster by step, as MSE and as MAE; best: the key of the best baseline."""
    keys = [name.removesuffix("mse_scaled").strip("_") for name in by_step if name.endswith("mse_scaled")]
    styles = {"": "forecast", best: "baseline", BOUND: "past"}
    others = [key for key in keys if key not in styles]
    styles |= {key: f"other{min(i, 4) + 1}" for i, key in enumerate(others)}
    names = {key: baseline_name(key) or "the model" for key in styles if key in keys}
    panels = {
        f"{metric.upper()}, scaled": {
            name: by_step[column]
            for key, name in names.items()
            if (column := f"{key}_{metric}_scaled".strip("_")) in by_step
        }
        for metric in ("mse", "mae")
    }
    return by_step_chart(panels, {name: styles[key] for key, name in names.items()})


def coverage_lines(
    shares: Mapping[str, Sequence[float | None]],
) -> tuple[Mapping[str, Mapping[str, Sequence[float | None]]], dict[str, str]]:
    """The panel and the styles of a chart of coverage, by level, each beside the level."""
    lines: dict[str, Sequence[float | None]] = {}
    styles: dict[str, str] = {}
    for number, (level, values) in enumerate(shares.items()):
        lines[f"{level} %"] = [None if share is None else 100.0 * share for share in values]
        lines[f"{level} % as it says"] = [float(level)] * len(values)
        styles |= {f"{level} %": COVERAGE_STYLES[min(number, 3)], f"{level} % as it says": "past"}
    return {"share of truths inside": lines}, styles


def coverage_chart(by_step: Mapping[str, Sequence[float]]) -> Chart | None:
    """The coverage of each interval by step, beside its level; None without intervals."""
    shares = {
        name.removeprefix("coverage_"): values for name, values in by_step.items() if name.startswith("coverage_")
    }
    if not shares:
        return None
    return by_step_chart(*coverage_lines(shares), title="Coverage of the intervals by step", per_cent=True)


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
        "panels": [{"x": x, "lines": [x, [None, *rounded([np.array(list(known.values()))])[0], None]]}],
    }


def bars_chart(title: str, rows: Sequence[tuple[str, float, float | None]], *, span: float = 0.0) -> Chart:
    """A bar for each name, with its error where it has one. span: the longest bar is at least this value."""
    bars = [
        {"name": label(name), "value": value, **({} if error is None else {"error": error})}
        for name, value, error in rows
    ]
    return {"kind": "bars", "title": title, "rows": bars[:MOST_BARS], "span": span}


def points_chart(title: str, rows: Sequence[tuple[str, float, float, float]]) -> Chart:
    """A difference in per cent for each name, between the ends of its interval, beside a line at 0.

    The point is filled where the interval leaves 0 out.
    """
    points = [
        {"name": label(name), "value": value, "low": low, "high": high, "sure": not low <= 0.0 <= high}
        for name, value, low, high in rows
    ]
    return {"kind": "bars", "title": title, "rows": points, "points": True, "span": 0.0}


def with_far(chart: Chart) -> Chart:
    """The chart, whose lines that would squeeze the first two are hidden until their names are pressed."""
    for i, line in enumerate(chart["lines"][2:], start=2):
        if any(_most(panel, [i]) > FAR * _most(panel, [0, 1]) for panel in chart["panels"]):
            line["far"] = True
    return chart


def _most(panel: Chart, lines: Sequence[int]) -> float:
    """The largest value of these lines of a panel; 0 without one."""
    drawn = (panel["lines"][i] for i in lines if i < len(panel["lines"]))
    return max((value for line in drawn if line for value in line if value is not None), default=0.0)


def evenly(count: int, most: int) -> list[int]:
    """At most so many of the numbers below `count`, with the first and the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


def column_names(names: Sequence[str]) -> Chart:
    """A choice among columns; none has no name but the mean over them."""
    return {"label": "Column", "names": [label(name, LONGEST_CHOICE) or "mean over columns" for name in names]}


def milliseconds(times: pd.DatetimeIndex, counted: bool) -> list[int]:
    """Times as a browser counts them, from 1970 on; of rows without a clock (`counted`) their numbers, from 1."""
    since = times.tz_localize(None).to_numpy().astype("datetime64[ms]").astype(np.int64)
    return (since + counted).tolist()


def rounded(parts: Sequence[Floats]) -> list[list[float | None]]:
    """The values with the digits that one picture of them all needs; None for what is not known."""
    whole = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
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
    ends = np.cumsum([len(part) for part in parts])
    return [listed[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]


def forecasts_chart(
    windows: Mapping[str, npt.NDArray[Any]],
    best: ScoredForecaster | None,
    first: str | None,
    *,
    title: str = "Forecasts beside the truth",
) -> tuple[Chart, str]:
    """The forecasts of forecasts.npz beside the truth and the best baseline, and what of them is left out.

    windows: the arrays of forecasts.npz; there is no truth after the end of the data. first: the column that is chosen
    at first.
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

    chart = forecast_spec(
        lines,
        levels,
        picks=[_window_names(windows, shown, counted), column_names([names[i] for i in columns])],
        panels=[panel(i, k) for i in shown for k in columns],
        counted=counted,
        title=title,
    )
    left = [f"{len(columns)} of {n_columns} target columns"] * (len(columns) < n_columns)
    left += [f"one of {stride} steps"] * (stride > 1)
    return chart, f"To keep the page small: {' and '.join(left)}." if left else ""


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
    """A chart of forecasts, of which one panel is seen at a time. lines: key of each -> its style."""
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
    first, *rest = rounded([past[::-1][::stride][::-1], *(line[::stride] for line in after)])
    later = [{"from": len(first), "values": values} for values in rest]
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
    """Whether rows have numbers in place of times, by the first window."""
    return step_numbers(pd.DatetimeIndex(windows["timestamps"][0])) is not None


def _window_names(windows: Mapping[str, npt.NDArray[Any]], shown: Sequence[int], steps: bool) -> Chart:
    """A choice among windows: of each its series, or its origin."""
    if "series" in windows:
        return {"label": "Series", "names": [label(str(windows["series"][i]), LONGEST_CHOICE) for i in shown]}
    last = windows["past"].shape[1] - 1
    stamps = [pd.DatetimeIndex(windows["timestamps"][i]) for i in shown]
    if steps:
        numbers = [step_numbers(times) for times in stamps]
        return {"label": "Known until step", "names": [str(rows[last]) for rows in numbers if rows is not None]}
    return {"label": "Known until", "names": [str(times[last]).removesuffix(":00") for times in stamps]}


def _places(times: pd.DatetimeIndex, stride: int, known: int, counted: bool) -> tuple[list[int] | dict[str, int], int]:
    """Where a window's points lie, every `stride`-th of its past and of its future; and where its origin lies."""
    places = milliseconds(times, counted)
    mark = places[known - 1]
    places = [*places[:known][::-1][::stride][::-1], *places[known:][::stride]]
    apart = np.diff(places)
    if len(places) > 2 and (apart == apart[0]).all():
        return {"start": places[0], "step": int(apart[0]), "count": len(places)}, mark
    return places, mark
