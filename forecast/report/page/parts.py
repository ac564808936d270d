"""What pages of several kinds declare: verdict, tables, coverage, series, data, how a checkpoint came about."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import rich.table
from rich.text import Text as RichText

from forecast.report.page.charts import MOST_BARS, bars_chart
from forecast.report.page.document import Card, Drawn, PageTable, Piece, Section, Verdict, facts
from forecast.report.tables import UNITS, short_number
from forecast.report.verdict import TRAIN
from forecast.run_folder.shapes import Block, DataRecord, Metrics, Origin, Scale
from forecast.text.terminal import label, listed

ZOOM = "Drag across a picture to zoom, double-click to see all of it."
NAMED = 8  # columns or series that are named
MOST_SCALED, MOST_KEYS = 50, 400  # rows of the table of scalers, of that of the config
# Of these the last name alone: a page is shown to others.
PATHS = ("path", "root", "ckpt_path", "initial_weights", "default_root_dir")
GAPS = {
    "interpolate": "interpolated",
    "forward_fill": "filled with the value before",
    "zero": "taken for a 0 that was measured",
    "mask": "masked: windows beside them are left out",
}


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
    """The series with the largest MASE. metrics: by heading, `MASE` the first; none without MASE."""
    mase = metrics["MASE"]
    known = np.flatnonzero(np.isfinite(mase))
    worst = known[np.argsort(-mase[known], kind="stable")][:MOST_BARS]
    if not len(known):
        return []
    rows = [[names[i], *(figure(values[i]) for values in metrics.values())] for i in worst]
    bars = bars_chart("The worst series", [(names[i], float(mase[i]), None) for i in worst])
    return [
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


def data_section(data: DataRecord, scale: Scale, metrics: Metrics, split: str) -> Section:
    """What was read, filled in, left out, and how it was split.

    data: the entry `data` of a checkpoint's record; scale: of its columns, means over the series. metrics: that becomes
    metrics.json.
    """
    rows = [("file", f"{label(str(metrics['data']))}, checksum {label(str(data['checksum']))}")]
    if metrics.get("evaluated_file"):
        rows.append(("evaluated on", label(str(metrics["evaluated_file"]))))
    rows += [("columns", _named(data["columns"])), ("targets", _named(data["targets"])), ("every", str(data["freq"]))]
    if data.get("known"):
        rows.append(("known in advance", _named(data["known"])))
    if data.get("hidden"):
        rows.append(("observed only", _named(data["hidden"])))
    if data.get("season"):
        rows.append(("season", f"{data['season']} steps"))
    if many := data["series"]["count"] > 1:
        rows += _panel_rows(data, data["series"])
    else:
        splits = data["splits"].items()
        rows += [(f"{name} rows", f"{stop - start:,}: {start} to {stop - 1}") for name, (start, stop) in splits]
    rows.append(("trained until", str(data["trained_until"]).removesuffix(" 00:00:00")))
    if gaps := data.get("gaps"):
        rows.append(("gaps", _gaps(gaps)))
    for name, floor in (data.get("floor") or {}).items():
        rows.append((f"floor of {label(name)}", f"no forecast, and no interval, is below {floor:g}"))
    rows += _left_out(data)
    if flat := metrics[split].get("flat"):
        rows.append(("nearly flat forecasts", _named(flat)))
    return Section("data", "Data", [facts(rows), scaler_table(scale, many=many)])


def _panel_rows(data: DataRecord, series: Block) -> list[tuple[str, str]]:
    lengths = f"{series['count']:,} with {series['rows']:,} rows, {series['shortest']:,} to {series['longest']:,} each"
    windows = ", ".join(f"{count:,} of {name}" for name, count in data["windows"].items())
    units = UNITS.get(data.get("scaling", ""), "")
    return [("series", lengths), ("windows", windows), *([("errors are measured", units)] if units else [])]


def _gaps(gaps: Block) -> str:
    """What was done to what the file lacked."""
    rows, cells = gaps["rows_added"], gaps["cells_filled"]
    if not rows and not cells:
        return "none: nothing was filled in"
    counts = f"{rows:,} rows added, {cells:,} cells without a value, at most {gaps['longest_run']:,} rows in succession"
    return f"{counts}; {GAPS.get(gaps['policy'], gaps['policy'])}"


def _left_out(data: DataRecord) -> Iterator[tuple[str, str]]:
    windows = (data.get("gaps") or {}).get("windows_left_out") or {}
    if any(windows.values()):
        yield "windows left out", ", ".join(f"{count:,} of {name}" for name, count in windows.items())
    series = data["series"]
    if series.get("cells_made_up") and series["count"] > 1:
        yield "cells filled in", f"{series['cells_made_up']:,}, which count in no loss, scale or error"
    for reason, group in (series.get("left_out") or {}).items():
        more = f" and {group['count'] - len(group['first'])} more" * (group["count"] > len(group["first"]))
        yield "series left out", f"{group['count']:,}, {label(reason)}: {listed(group['first'])}{more}"


def scaler_table(scale: Scale, *, many: bool) -> PageTable | None:
    """By what the values of a checkpoint's data are scaled; None where no column is. many: whether by the series."""
    every = list(zip(scale["columns"], scale["mean"], scale["std"], strict=True))
    rows = [(label(name), f"{mean:.5g}", f"{std:.5g}") for name, mean, std in every[:MOST_SCALED]]
    if not rows:
        return None
    rest = f"and {len(every) - MOST_SCALED} more columns\n" * (len(every) > MOST_SCALED)
    of = "means over the series of the panel" if many else "of the train rows"
    headings = ["column", "mean", "standard deviation"]
    return PageTable(rows, headings, caption=f"{rest}{of}", title="Scale of the columns")


def config_rows(config: Mapping[str, object]) -> list[tuple[str, str]]:
    """Each key of the config by its path, in the order of these: a run that went on has others; of files the name."""
    rows = [(label(path), label(value, 300)) for path, value in sorted(_leaves(config, ()))]
    rest = [("...", f"{len(rows) - MOST_KEYS} more keys")] if len(rows) > MOST_KEYS else []
    return rows[:MOST_KEYS] + rest


def _leaves(node: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            yield from _leaves(value, (*path, str(key)))
    elif path and path[-1] in PATHS and isinstance(node, str):
        yield ".".join(path), PurePath(node).name
    else:
        yield ".".join(path), "null" if node is None else str(node)


def _named(names: Sequence[str]) -> str:
    """How many, and the first of them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)}: {listed(names[:NAMED])}{more}" if names else "none"
