"""A picture of attention maps over time or columns."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from forecast.report.figures import blank_figure, draw_weights

MOST_TICKS, MOST_COLUMNS = 6, 3
COLUMN_TICKS = 30  # where queries and keys are columns


class Panel(NamedTuple):
    """A map (Q, K) and where each query and key begins, in words, or its column; None: they are counted from 0.

    ticks: how many of them are written at an axis, at most.
    """

    name: str
    weights: Float[np.ndarray, "Q K"]
    queries: Sequence[str] | None
    keys: Sequence[str] | None
    ticks: int = MOST_TICKS


def maps_figure(panels: Sequence[Panel], *, title: str) -> Figure:
    """A grid of heat maps, in each a row a query and a column a key."""
    rows = math.ceil(len(panels) / MOST_COLUMNS)
    columns = math.ceil(len(panels) / rows)  # four are two rows of two
    figure = blank_figure(6.4 * columns, 5.6 * rows, title)
    for place, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, place)
        draw_weights(figure, axes, panel.weights)
        axes.set_title(panel.name, fontsize="medium", parse_math=False)
        axes.set_xlabel("key")
        axes.set_ylabel("query")
        for axis, names in ((axes.xaxis, panel.keys), (axes.yaxis, panel.queries)):
            if names is None:
                axis.set_major_locator(MaxNLocator(integer=True))
                continue
            places = np.unique(np.linspace(0, len(names) - 1, panel.ticks).round().astype(int)).tolist()
            axis.set_major_locator(FixedLocator(places))
            axis.set_ticklabels([names[place] for place in places])
        for text in axes.get_xticklabels():
            text.set(rotation=30, ha="right")
    return figure
