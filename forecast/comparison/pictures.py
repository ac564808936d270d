"""Pictures of a comparison: errors with their spread, error against cost, error by step, forecasts side by side."""

import csv
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecast.comparison.rows import Comparison, Row, SeedSpread
from forecast.comparison.tables import baselines, heading
from forecast.report.drawn import Dash, Style
from forecast.report.figures import blank_figure, drawn_name, lighten, name_beside, show_dates
from forecast.report.forecasters import baseline_name, best_baseline
from forecast.run_folder import FORECASTS, STEP_ERRORS, Run, read_windows

# Okabe and Ito's palette; a second and third round of it has other dashes and markers.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000")
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.2)), (0, (1, 1.2)))
MARKERS = "osD"


BASELINE: Style = {"color": "#8c8c8c", "linewidth": 2.5}
TRUTH: Style = {"color": "#000000", "linewidth": 1.6}
MAX_COLUMNS = 2
# A baseline further off than this many times the worst row would squeeze the rows together.
FAR = 1.5


def comparison_figures(comparison: Comparison) -> dict[str, Figure]:
    """The pictures of one table by file name, without those that its runs give nothing for."""
    rows, title = comparison.rows, heading(comparison)
    pictures = {
        "errors.png": errors_figure(rows, f"{title}: test error, a dot a seed"),
        "cost.png": cost_figure(rows, f"{title}: error against cost"),
        "steps.png": steps_figure(rows, f"{title}: error by forecast step"),
        "forecasts.png": forecasts_figure(rows, f"{title}: the same windows"),
    }
    return {name: figure for name, figure in pictures.items() if figure is not None}


def errors_figure(rows: Sequence[Row], title: str) -> Figure:
    """A line a row, best above: a dot a seed, a bar from mean - sd to mean + sd; baselines as upright lines."""
    rows = sorted(rows, key=lambda row: _mse(row).mean, reverse=True)
    figure = blank_figure(8.0, 1.8 + 0.34 * len(rows), title)
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        mse = _mse(row)
        axes.errorbar(mse.mean, place, xerr=mse.sd, fmt="|", color="#000000", capsize=3, markersize=9)
        seeds = np.array([run.metrics["test"]["scaled"]["mse"] for run in row.finished], dtype=float)
        axes.plot(seeds, [place] * len(seeds), "o", color=COLOURS[0], markersize=4, alpha=0.7)
    for number, key in enumerate(baselines(rows), start=1):
        baseline = rows[0].figure("baselines", key, "scaled", "mse")
        if baseline is not None and baseline <= FAR * _mse(rows[0]).mean:
            style: Style = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[1]}
            axes.axvline(baseline, label=f"{drawn_name(baseline_name(key))} {baseline:.3f}", **style)
    axes.set_yticks(range(len(rows)), [drawn_name(row.name) for row in rows], parse_math=False)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("MSE, scaled units")
    lighten(axes)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def cost_figure(rows: Sequence[Row], title: str) -> Figure | None:
    """Mean error against seconds of training and against peak memory; the line joins what nothing beats in both."""
    figure = blank_figure(11.0, 4.6, title)
    panels = figure.subplots(1, 2, sharey=True)
    costs = {"train_seconds": "seconds of training", "peak_memory_mb": "peak memory, MB"}
    for axes, (key, label) in zip(panels, costs.items(), strict=True):
        points = [(row, cost.mean, _mse(row).mean) for row in rows if (cost := row.spread("cost", key)) is not None]
        if not points:
            return None  # a system that does not say how much memory is used
        for number, (row, mean, mse) in enumerate(points):
            axes.plot(
                mean, mse, label=drawn_name(row.name), markersize=7, linestyle="none", **_style(number, marker=True)
            )
        front = pareto([(mean, mse) for _, mean, mse in points])
        axes.step(*zip(*front, strict=True), where="post", color="#8c8c8c", linewidth=1.0, zorder=0)
        axes.set_xlabel(label)
        axes.set_xlim(0, 1.08 * max(mean for _, mean, _ in points))
        lighten(axes)
    panels[0].set_ylabel("MSE, scaled units")
    _legend(figure, panels[0])
    return figure


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those points that no other one beats in cost and in error, by cost."""
    front: list[tuple[float, float]] = []
    for cost, error in sorted(points):
        if not front or error < front[-1][1]:
            front.append((cost, error))
    return front


def steps_figure(rows: Sequence[Row], title: str) -> Figure | None:
    """The mean MSE over seeds at each step, a line a row, and the best baseline."""
    figure = blank_figure(8.5, 5.0, title)
    axes = figure.add_subplot()
    for number, row in enumerate(rows):
        curves = [steps for run in row.finished if (steps := step_errors(run, "mse_scaled"))]
        if not curves:
            continue
        mean = np.mean(curves, axis=0)
        axes.plot(
            np.arange(1, len(mean) + 1), mean, label=drawn_name(row.name), **_style(number, marker=len(mean) == 1)
        )
    if not axes.lines:
        return None
    best = best_baseline(rows[0].finished[0].metrics)
    if best is not None and (baseline := step_errors(rows[0].finished[0], f"{best.key}_mse_scaled")):
        axes.plot(np.arange(1, len(baseline) + 1), baseline, label=drawn_name(best.name), **BASELINE)
    axes.set_xlabel("forecast step")
    axes.set_ylabel("MSE, scaled units")
    lighten(axes)
    _legend(figure, axes)
    return figure


def forecasts_figure(rows: Sequence[Row], title: str) -> Figure | None:
    """The forecasts of each row's first seed on the windows that all have saved, original units."""
    saved = [(row.name, windows) for row in rows if (windows := _forecasts(row.finished[0]))]
    shared = sorted(set.intersection(*(set(windows) for _, windows in saved))) if saved else []
    if not shared:
        return None
    origins = [shared[i] for i in sorted({0, len(shared) // 2, len(shared) - 1})]
    target = rows[0].first("target")  # of older runs not known: then it is the last column, as in published files
    names = list(reversed(saved[0][1][origins[0]].columns))
    columns = sorted(names, key=lambda name: name != target)[:MAX_COLUMNS]
    figure = blank_figure(max(4.8 * len(origins), 9.0), 1.6 + 2.6 * len(columns), title)
    panels = figure.subplots(len(columns), len(origins), squeeze=False, sharex="col")
    for line, column in enumerate(columns):
        for place, origin in enumerate(origins):
            axes, first = panels[line, place], saved[0][1][origin]
            axes.plot(first.times, first.truth[:, first.columns.index(column)], label="truth", **TRUTH)
            for number, (name, windows) in enumerate(saved):
                window = windows[origin]
                values = window.forecast[:, window.columns.index(column)]
                axes.plot(window.times, values, label=drawn_name(name), **_style(number, marker=False))
            show_dates(axes)
            lighten(axes)
            if not line:
                axes.set_title(f"from {str(origin)[:16]}", fontsize="medium")
        name_beside(panels[line, 0], column)
    _legend(figure, panels[0, 0])
    return figure


class SavedWindow(NamedTuple):
    """The forecast part of a window that an evaluation has saved: times (P,), truth and forecast (P, T)."""

    times: npt.NDArray[np.datetime64]
    truth: npt.NDArray[np.float64]
    forecast: npt.NDArray[np.float64]
    columns: list[str]


def _forecasts(run: Run) -> dict[pd.Timestamp, SavedWindow]:
    """The saved windows by their first forecast time."""
    if not (run.path / FORECASTS).is_file():
        return {}
    content = read_windows(run.path / FORECASTS)
    past, columns = content["past"].shape[1], [str(name) for name in content["columns"]]
    windows = zip(content["timestamps"], content["truth"], content["forecast"], strict=True)
    return {
        pd.Timestamp(times[past]): SavedWindow(times[past:], truth, forecast, columns)
        for times, truth, forecast in windows
    }


def step_errors(run: Run, column: str) -> list[float]:
    """A column of metrics_by_step.csv; empty when it is not there."""
    path = run.path / STEP_ERRORS
    lines = csv.DictReader(path.read_text().splitlines()) if path.is_file() else []
    return [float(line[column]) for line in lines if column in line]


def _style(number: int, *, marker: bool) -> Style:
    turn, colour = divmod(number, len(COLOURS))
    if marker:
        return {"color": COLOURS[colour], "marker": MARKERS[turn % len(MARKERS)]}
    return {"color": COLOURS[colour], "linestyle": DASHES[turn % len(DASHES)], "linewidth": 1.3}


def _legend(figure: Figure, axes: Axes) -> None:
    legend = figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _mse(row: Row) -> SeedSpread:
    mse = row.spread("test", "scaled", "mse")
    assert mse is not None, "a finished run has an error"
    return mse
