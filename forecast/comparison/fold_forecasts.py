"""The forecasts of a backtest beside the truth, as a chart to choose a fold and a series of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.comparison.backtests import scale_places
from forecast.report.drawn import LEAST_PAST, step_numbers
from forecast.report.page.charts import LONGEST_CHOICE, MOST_CHOICES, Chart, column_names, evenly
from forecast.report.page.forecasts import (
    FEW_WINDOWS,
    forecast_lines,
    forecast_panel,
    forecast_spec,
    room,
)
from forecast.text.terminal import label

Floats = npt.NDArray[np.float64]


def is_counted(table: pd.DataFrame) -> bool:
    """Whether rows have numbers in place of times, by the first window of a table; see `step_numbers`."""
    first = table[(table["fold"] == table["fold"].iloc[0]) & (table["cutoff"] == table["cutoff"].iloc[0])]
    return step_numbers(pd.DatetimeIndex([first["cutoff"].iloc[0], *first["time"].unique()])) is not None


def fold_forecasts_chart(
    tables: Iterable[pd.DataFrame],
    scales: pd.DataFrame,
    *,
    made_from: Mapping[int, str],
    pred_len: int,
    ranked: Sequence[int],
    best: str | None,
    levels: Sequence[str],
    counted: bool,
) -> tuple[Chart, int]:
    """The chart, and how many series or columns can be chosen.

    tables: the parts of the table. made_from: names of the folds by their numbers. ranked: rows of `scales`, of which
    as many as there is room for are shown: the first ones, of a panel evenly spread. best: the best baseline's column.
    """
    lines, known, folds = forecast_lines(best), max(pred_len, LEAST_PAST), len(made_from)
    stride, pictures = room(known, pred_len, len(lines) - 1 + 2 * len(levels))
    most = min(len(ranked), MOST_CHOICES, max(1, pictures // min(folds, FEW_WINDOWS * 4)))
    chosen = [ranked[i] for i in (evenly(len(ranked), most) if "id" in scales else range(most))]
    numbers = list(made_from)
    shown = [numbers[i] for i in evenly(folds, max(1, min(MOST_CHOICES, pictures // len(chosen))))]
    ends = [f"{end}-{level}" for level in reversed(levels) for end in ("lo", "hi")]
    columns = ["y", *list(lines)[2:-1], "forecast", *ends]
    windows = _Windows(tables, scales, chosen, columns, pred_len)
    names = _names(scales, chosen)

    def panel(fold: int, place: int, name: str) -> Chart:
        found = windows.at(fold, place, known)
        if found is None:
            at = windows.cutoff(fold)
            blank = {"x": [at, at + 1], "lines": [None] * len(lines), "bands": []}
            return blank | {"label": "no forecast of it from here"}
        times, past, after = found
        return forecast_panel(times, past, after, bands=len(levels), stride=stride, name=name, counted=counted)

    picks = [
        {"label": "Made from", "names": [made_from[fold] for fold in shown], "first": len(shown) - 1},
        column_names(names) | ({"label": "Series"} if "id" in scales else {}),
    ]
    panels = [panel(fold, place, name) for fold in shown for place, name in zip(chosen, names, strict=True)]
    parts = [float(level) for level in levels]
    return forecast_spec(lines, parts, picks=picks, panels=panels, counted=counted), len(chosen)


def _names(scales: pd.DataFrame, chosen: Sequence[int]) -> list[str]:
    """Of each its target, of a panel its id, and the target too where there are several."""
    rows = scales.iloc[list(chosen)]
    if "id" not in scales:
        return [str(name) for name in rows["target"]]
    several = scales["target"].nunique() > 1
    return [
        label(f"{series}, {target}" if several else str(series), LONGEST_CHOICE)
        for series, target in zip(rows["id"], rows["target"], strict=True)
    ]


class _Windows:
    """What the table holds of some series: the forecasts of each fold, and the truth before it from earlier folds."""

    def __init__(
        self,
        tables: Iterable[pd.DataFrame],
        scales: pd.DataFrame,
        chosen: Sequence[int],
        columns: Sequence[str],
        pred_len: int,
    ) -> None:
        self._found: dict[tuple[int, int], tuple[Any, pd.DatetimeIndex, Floats]] = {}
        for table in tables:
            place = scale_places(table, scales)
            kept = np.flatnonzero(np.isin(place, chosen))
            some = table.iloc[kept]
            values = some[list(columns)].to_numpy(dtype=np.float64)
            times = pd.DatetimeIndex(some["time"])
            cutoffs = pd.DatetimeIndex(some["cutoff"])
            folds = some["fold"].to_numpy()
            for start in range(0, len(some), pred_len):  # one window below another
                rows = slice(start, start + pred_len)
                key = int(folds[start]), int(place[kept[start]])
                self._found[key] = cutoffs[start], times[rows], values[rows]
        self._truth = {one: self._truth_of(one) for one in chosen}

    def _truth_of(self, place: int) -> "pd.Series[float]":
        """The truth of all folds by time; at a cutoff that no fold has forecast NaN, so that no line spans a gap."""
        of = [window for (_, one), window in self._found.items() if one == place]
        parts = [pd.Series(values[:, 0], times) for _, times, values in of]
        parts.append(pd.Series(np.nan, pd.DatetimeIndex([cutoff for cutoff, _, _ in of])))
        whole: pd.Series[float] = pd.concat(parts)
        return whole[~whole.index.duplicated()].sort_index()

    def at(self, fold: int, place: int, most: int) -> tuple[pd.DatetimeIndex, Floats, list[Floats]] | None:
        """Times, the last truths up to the cutoff, and the columns of the forecast; None where there is none."""
        if (fold, place) not in self._found:
            return None
        cutoff, times, values = self._found[fold, place]
        past = self._truth[place].loc[:cutoff].iloc[-most:]
        return pd.DatetimeIndex(past.index.append(times)), past.to_numpy(), list(values.T)

    def cutoff(self, fold: int) -> int:
        """When some series of a fold, or of any, was forecast, in milliseconds."""
        of = [cutoff for (one, _), (cutoff, _, _) in self._found.items() if one == fold]
        first: pd.Timestamp = min(of or [cutoff for cutoff, _, _ in self._found.values()])
        return int(first.tz_localize(None).timestamp() * 1000)


def ranked_places(scales: pd.DataFrame, errors: Mapping[str, Floats], first: str | None) -> list[int]:
    """The rows of `scales` by how soon a reader wants to see them.

    Of one series the target `first`; of a panel the largest MASE first, and those without one last.
    """
    if "id" not in scales:
        return sorted(range(len(scales)), key=lambda i: scales["target"].iloc[i] != first)
    known = np.flatnonzero(np.isfinite(errors["mse"]))
    mase = np.where(np.isfinite(errors["mase"][known]), errors["mase"][known], -1.0)
    order: list[int] = known[np.argsort(-mase, kind="stable")].tolist()
    return order
