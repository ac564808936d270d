"""Pictures of forecasts, intervals and attention, drawn with matplotlib's objects: no pyplot, no global state.

Shape letters: W windows, L past steps, P future steps, T target columns, Q queries, K keys, U active rows.
"""

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from forecast.report.drawn import LEAST_PAST, STYLES, step_numbers
from forecast.text.terminal import harmless, label

DPI = 120
LONGEST_NAME, LONGEST_BESIDE = 40, 24  # characters of a name that a picture has room for; beside a panel
MARKERS = {"truth": "o", "baseline": "s", "forecast": "D"}


class Band(NamedTuple):
    """Intervals at a level in per cent: their ends (W, P, T), original units."""

    level: float
    lower: Float[np.ndarray, "W P T"]
    upper: Float[np.ndarray, "W P T"]


def bands_in(windows: Mapping[str, np.ndarray], drawn: Sequence[int]) -> list[Band]:
    """The intervals of some windows of forecasts.npz, the widest first; none where there are none."""
    if "levels" not in windows:
        return []
    lower, upper = windows["lower"][drawn], windows["upper"][drawn]
    return [Band(float(level), lower[..., i], upper[..., i]) for i, level in enumerate(windows["levels"])][::-1]


def forecast_figure(
    *,
    past: Float[np.ndarray, "W L T"],
    truth: Float[np.ndarray, "W P T"] | None,
    forecast: Float[np.ndarray, "W P T"],
    timestamps: Sequence[pd.DatetimeIndex],
    columns: Sequence[str],
    title: str = "",
    baseline: Float[np.ndarray, "W P T"] | None = None,
    baseline_name: str = "",
    first: str | None = None,
    max_columns: int = 4,
    names: Sequence[str] = (),
    bands: Sequence[Band] = (),
) -> Figure:
    """Forecasts beside the past and the truth: a row of panels a target column, one panel a window.

    past (W, L, T), truth, forecast, baseline (W, P, T) in original units; timestamps: for each window L + P,
    ascending. first: the column that is drawn above the others. names: of the series of each window, where they have
    any. bands: intervals about the forecast, the widest first. Only the end of the past is drawn, and `max_columns`
    columns: the title says how many are left out.
    """
    windows, drawn = len(past), min(len(columns), max_columns)
    order = sorted(range(len(columns)), key=lambda column: columns[column] != first)
    if drawn < len(columns):
        title = f"{title} ({len(columns) - drawn} of {len(columns)} target columns are not shown)".strip()
    figure = blank_figure(9.0 if windows == 1 else 4.8 * windows, 1.2 + (3.2 if drawn == 1 else 2.2 * drawn), title)
    axes = figure.subplots(drawn, windows, squeeze=False, sharex="col")
    series = {"truth": truth, "baseline": baseline, "forecast": forecast}
    for window, times in enumerate(timestamps):
        for line, column in enumerate(order[:drawn]):
            panel = {name: array[window, :, column] for name, array in series.items() if array is not None}
            shaded = [
                (f"{band.level:g} %", band.lower[window, :, column], band.upper[window, :, column]) for band in bands
            ]
            _draw_panel(axes[line, window], past[window, :, column], panel, times, shaded)
            name_beside(axes[line, 0], columns[column])
        steps = step_numbers(times)
        origin = str(times[past.shape[1] - 1].tz_localize(None)).removesuffix(":00")  # no seconds
        known = origin if steps is None else f"step {steps[past.shape[1] - 1]}"
        of = f"{drawn_name(names[window])}\n" if names else ""
        axes[0, window].set_title(f"{of}known until {known}", fontsize="medium", parse_math=False)
        axes[-1, window].set_xlabel("" if steps is None else "step")
    figure.align_ylabels(axes[:, 0])  # the others have none, and each is measured by all that it is aligned with
    handles, labels = axes[0, 0].get_legend_handles_labels()  # one legend below all panels
    labels = [baseline_name if label == "baseline" and baseline_name else label for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def map_figure(weights: Float[np.ndarray, "Q K"], title: str) -> Figure:
    """A heat map, a row a query and a column a key, both counted from 0."""
    figure = blank_figure(6.4, 5.6, title)
    axes = figure.add_subplot()
    # Root scale: one weight near 1, as in the first rows of a causal layer, would pale all others.
    image = axes.imshow(weights, aspect="auto", cmap="Blues", norm=PowerNorm(0.5, vmin=0.0))
    figure.colorbar(image, ax=axes, label="weight (root scale)", pad=0.06)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return figure


def active_rows_figure(shares: Float[np.ndarray, " Q"], title: str) -> Figure:
    """Bars over the query steps, counted from 0: how often ProbSparse chose the row.

    shares (Q,): of windows and heads, from 0 to 1.
    """
    figure = blank_figure(9.0, 3.6, title)
    axes = figure.add_subplot()
    axes.bar(np.arange(len(shares)), shares, width=0.9, color=STYLES["forecast"]["color"])
    axes.set_xlim(-0.5, len(shares) - 0.5)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("query step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("active\n(share of windows and heads)")
    lighten(axes)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure as PNG, straight to a path from `forecast.files.together`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+")  # of a script that the font lacks: an empty box is drawn
        figure.savefig(path, format="png", dpi=DPI)


def name_beside(axes: Axes, column: str) -> None:
    """The name of a column at the left of its panel."""
    axes.set_ylabel(f"{drawn_name(column, LONGEST_BESIDE)}\noriginal units", parse_math=False)


def drawn_name(name: str, longest: int = LONGEST_NAME) -> str:
    """A name of somebody else's as a picture shows it: one line, not too long.

    With a blank before a "_": matplotlib keeps what begins so out of legends.
    """
    shown = label(name if len(name) <= longest else f"{name[:longest]}…")
    return f" {shown}" if shown.startswith("_") else shown


def blank_figure(width: float, height: float, title: str) -> Figure:
    """An empty figure of that size in inches, with its own canvas and the title broken to fit."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    FigureCanvasAgg(figure)
    if title:
        # parse_math: names of columns may hold a "$", which would start a formula
        figure.suptitle(textwrap.fill(harmless(title), int(width * 10)), parse_math=False)
    return figure


def _draw_panel(
    axes: Axes,
    past: Float[np.ndarray, " L"],
    series: dict[str, Float[np.ndarray, " P"]],
    timestamps: pd.DatetimeIndex,
    shaded: Sequence[tuple[str, Float[np.ndarray, " P"], Float[np.ndarray, " P"]]] = (),
) -> None:
    """The end of the past and each future series, labelled by its key in STYLES; below them shaded intervals."""
    steps = step_numbers(timestamps)
    times = timestamps.tz_localize(None).to_numpy() if steps is None else steps  # of a zone matplotlib would show UTC
    length, pred_len = len(past), len(times) - len(past)
    start = max(0, length - max(pred_len, LEAST_PAST))
    axes.plot(times[start:length], past[start:], label="past", **STYLES["past"])
    for number, (name, low, high) in enumerate(shaded):
        colour, alpha = STYLES["forecast"]["color"], 0.12 + 0.08 * min(number, 4)
        if pred_len == 1:  # an area at one point is invisible
            axes.vlines(times[length:], low, high, label=name, color=colour, alpha=alpha, linewidth=6)
        else:
            axes.fill_between(times[length:], low, high, label=name, color=colour, alpha=alpha, linewidth=0)
    for name, values in series.items():
        marker = MARKERS[name] if pred_len == 1 else ""  # a line through one point is invisible
        axes.plot(times[length:], values, label=name, marker=marker, **STYLES[name])
    axes.axvline(times[length - 1], color="#595959", linewidth=0.8)
    if steps is None:
        show_dates(axes)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.margins(x=0.01)
    lighten(axes)


def show_dates(axes: Axes) -> None:
    """Dates on the x axis, as short as they can be."""
    # two ticks are enough: with three as the least some spans have no fitting interval, and matplotlib warns
    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def lighten(axes: Axes) -> None:
    """A pale grid behind the lines, no frame above and at the right."""
    axes.grid(True, color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
