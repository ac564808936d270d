"""What a page shows of attention.npz: the maps of one window as heat maps, few enough cells to stand in the page."""

import base64
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Shaped

from forecast.report.drawn import time_names
from forecast.report.page.charts import LONGEST_CHOICE, Chart
from forecast.report.page.document import Drawn
from forecast.text.terminal import label

# Cells of all maps of a page, a byte each; the most of a side, of which the first that leaves room is taken.
MOST_CELLS, SIDES = 360_000, (128, 96, 64, 48, 32, 24, 16, 8)
LEVELS = 255  # of a weight, on a root scale
READING = (
    "A row is a query, a column a key: the stronger the colour, the larger the share of the key's value in what the "
    "query gets, on a root scale. Point at a cell for its figures."
)
MARKS = (
    "The marks at the right are the queries that ProbSparse chose by their measure M; every other query weighs "
    "all that it sees alike."
)


def attention_piece(arrays: Mapping[str, npt.NDArray[np.generic]]) -> Drawn:
    """The maps of `read_attention`, of which a reader chooses the layer and the head, and how to read them."""
    places = [str(place) for place in arrays["places"]]
    maps = {place: arrays[place].astype(np.float64) for place in places}
    most = max(weights.shape[1] for weights in maps.values())
    heads = ["mean of the heads", *(f"head {i}" for i in range(most))][: 1 + most * (most > 1)]
    side = fitting_side(list(maps.values()))
    axes: list[Chart] = []
    layers: list[dict[str, int]] = []
    panels: list[Chart | None] = []
    for place, weights in maps.items():
        rows, columns = (blocks_of(count, side) for count in weights.shape[2:])
        layer = {}
        sides = (("queries", "query_names", rows), ("keys", "key_names", columns))
        for (part, names, starts), count in zip(sides, weights.shape[2:], strict=True):
            axis = axis_of(arrays.get(f"{place}/{part}"), arrays.get(f"{place}/{names}"), starts, count)
            axes += [axis] * (axis not in axes)
            layer[part] = axes.index(axis)
        layers.append(layer)
        for head in range(len(heads)):  # after the mean each by itself; None where a layer has fewer
            some = slice(None) if head == 0 else slice(head - 1, head)
            panel = None if head > weights.shape[1] else heat(weights[:, some].mean((0, 1)), rows, columns)
            panels.append(panel)
            if panel is not None and f"{place}/active" in arrays:
                for part in ("active", "measures"):
                    panel[part] = means(arrays[f"{place}/{part}"][:, some].astype(np.float64).mean((0, 1)), rows)
    # the forecast steps are the queries of cross-attention
    crossing = [i for i, place in enumerate(places) if "cross/" in place]
    drawn = {
        "kind": "map",
        "title": "Attention weights",
        "picks": [
            {"label": "Layer", "names": list(map(label, places)), "first": [len(places) - 1, *crossing][-1]},
            {"label": "Head", "names": heads},
        ],
        "axes": axes,
        "layers": layers,
        "panels": panels,
    }
    return Drawn(drawn, in_words(arrays, maps, side))


def in_words(
    arrays: Mapping[str, npt.NDArray[np.generic]], maps: Mapping[str, npt.NDArray[np.float64]], side: int
) -> str:
    """Of which window the maps are, and how to read them."""
    series = [f"and of series '{label(str(arrays['series'][0]), LONGEST_CHOICE)}'"] if "series" in arrays else []
    split, checkpoint = (label(str(arrays[key][0])) for key in ("split", "checkpoint"))
    window = " ".join([f"Window {arrays['window'][0]} of {split}", *series])
    lines = [f"{window}, known until {time_names(arrays['known_until'])[0]}, by {checkpoint}.", READING]
    if any(len(weights) > 1 for weights in maps.values()):
        lines.append("Columns that are sequences of their own: the mean of them.")
    if any(f"{place}/active" in arrays for place in maps):
        lines.append(MARKS)
    joined = max(math.ceil(max(weights.shape[2:]) / side) for weights in maps.values())
    if joined > 1:
        lines.append(
            f"To keep the page small, up to {joined} steps are one cell: the mean of queries, the sum of keys."
        )
    return " ".join(lines)


def fitting_side(maps: Sequence[npt.NDArray[np.float64]]) -> int:
    """How many cells a side of a map may have, so that all of them, and the means of their heads, are few enough."""

    def cells(side: int) -> int:
        return sum(
            (1 + weights.shape[1]) * math.prod(min(side, count) for count in weights.shape[2:]) for weights in maps
        )

    return next((side for side in SIDES if cells(side) <= MOST_CELLS), SIDES[-1])


def blocks_of(count: int, side: int) -> list[int]:
    """Where the runs of steps begin that are a cell each, equally long but for the last."""
    return list(range(0, count, math.ceil(count / side)))


def axis_of(
    spans: Shaped[np.ndarray, "N 2"] | None, columns: Shaped[np.ndarray, " N"] | None, starts: Sequence[int], count: int
) -> Chart:
    """Where each cell begins, and where it ends unless it is a single step; columns by their names, else numbers."""
    if columns is not None:
        first = last = [str(name) for name in columns]
    elif spans is None:
        spans = np.arange(count).repeat(2).reshape(-1, 2)
        first, last = ([str(number) for number in ends] for ends in (spans[:, 0], spans[:, 1]))
    else:
        first, last = time_names(spans[:, 0]), time_names(spans[:, 1])
        if all(name.endswith(" 00:00") for name in [*first, *last]):  # days
            first, last = ([name.removesuffix(" 00:00") for name in names] for names in (first, last))
    ends = [stop - 1 for stop in [*starts[1:], count]]
    names, until = [first[i] for i in starts], [last[i] for i in ends]
    return {"names": [label(name, LONGEST_CHOICE) for name in names], "until": None if names == until else until}


def heat(weights: Float[np.ndarray, "Q K"], rows: Sequence[int], columns: Sequence[int]) -> Chart:
    """The cells of a map, row by row, a byte each, of which the largest weight `most` is the largest byte."""
    cells = np.add.reduceat(np.add.reduceat(weights, columns, axis=1), rows, axis=0)
    cells /= np.diff([*rows, len(weights)])[:, None]
    most = float(cells.max())
    levels = np.round(LEVELS * np.sqrt(np.clip(cells / (most or 1.0), 0.0, 1.0))).astype(np.uint8)
    return {"most": float(f"{most:.4g}"), "cells": base64.b64encode(levels.tobytes()).decode()}


def means(values: Float[np.ndarray, " Q"], rows: Sequence[int]) -> list[float | None]:
    """The mean over each run of queries, to three decimals; None where one is not finite."""
    means = np.add.reduceat(values, rows) / np.diff([*rows, len(values)])
    return [round(float(mean), 3) if np.isfinite(mean) else None for mean in means]
