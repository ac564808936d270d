"""What pages of several kinds declare: the verdict, printed tables, coverage, errors by series, how it came about."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import rich.table
from rich.text import Text as RichText

from forecast.report.page.charts import MOST_BARS, bars_chart, ranks_chart
from forecast.report.page.document import Card, Drawn, PageTable, Piece, Section, Verdict, facts
from forecast.report.page.origin import config_rows
from forecast.report.tables import short_number
from forecast.report.verdict import TRAIN
from forecast.run_folder.shapes import Origin

ZOOM = "Drag across a picture to zoom, double-click to see all of it."


def verdict(sentences: Sequence[str]) -> Verdict:
    """The sentences of a verdict, of which a command that trains stands apart."""
    parted = [sentence.partition(TRAIN) for sentence in sentences]
    return Verdict([(before, command + rest) for before, command, rest in parted])


def table(printed: rich.table.Table | None, *, titled: bool = True) -> PageTable | None:
    """A table that is printed, with the same words; None for None."""
    if printed is None:
        return None
    columns = printed.columns
    return PageTable(
        list(zip(*([_plain(cell) for cell in column.cells] for column in columns), strict=True)),
        [_plain(column.header).strip() for column in columns],
        [place for place, column in enumerate(columns) if column.justify != "right"],
        _plain(printed.caption),
        title=_plain(printed.title) if titled else "",
    )


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, RichText) else "" if cell is None else str(cell)


def figure(value: float) -> str:
    """A number as tables show it; a dash where none is known."""
    return short_number(float(value)) if np.isfinite(value) else "-"


def held(coverage: Mapping[str, float | None]) -> list[Card]:
    """A card for each interval: how many of the truths it held."""
    return [
        Card(f"{level} % intervals held", f"{100 * share:.1f} %", f"of the truths; {level} % would be right")
        for level, share in coverage.items()
        if share is not None
    ]


def ranked_series(names: Sequence[str], metrics: Mapping[str, npt.NDArray[Any]]) -> list[Piece | None]:
    """The series with the largest MASE, and all in order. metrics: by heading, `MASE` the first; none without MASE."""
    mase = metrics["MASE"]
    known = np.flatnonzero(np.isfinite(mase))
    worst = known[np.argsort(-mase[known], kind="stable")][:MOST_BARS]
    if not len(known):
        return []
    rows = [[names[i], *(figure(values[i]) for values in metrics.values())] for i in worst]
    bars = bars_chart("The worst series", [(names[i], float(mase[i]), None) for i in worst])
    return [
        Drawn(ranks_chart(mase)) if len(known) > 2 else None,
        Drawn(bars, title=f"The {len(worst)} largest MASE of {len(known):,}"),
        PageTable(rows, ["", *metrics], folded="as a table"),
    ]


def origin_section(origin: Origin, *before: Piece | None) -> Section:
    """How a checkpoint came about. record: its `config`, `choices` and `versions`."""
    versions = [(str(key), str(value)) for key, value in origin["versions"].items()]
    chosen = [(str(key), str(value)) for key, value in sorted(origin["choices"].items()) if value is not None]
    every = facts(config_rows(origin["config"]), folded="every key")
    parts = [*before, facts(versions, title="Versions"), facts(chosen, title="Config"), every]
    return Section("run", "How it came about", parts)
