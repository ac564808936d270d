"""A picture of attention maps over time or columns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from forecast.report.figures import blank_figure, draw_weights

MOST_TICKS = 6
MOST_COLUMNS = 30  # that have their names


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
    """A heat map beside the other: a row a query, a column a key."""
    figure = blank_figure(6.4 * len(panels), 5.6, title)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
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
