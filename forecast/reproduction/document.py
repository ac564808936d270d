"""docs/results.md: published beside ours, row by row, made from results/runs.jsonl and nothing else."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from forecast.comparison.rows import Spread
from forecast.comparison.tables import BASELINES, markdown, plus_minus
from forecast.config.values import natural
from forecast.errors import UserError
from forecast.reproduction import SEEDS
from forecast.reproduction.published import Published, offset_of
from forecast.reproduction.records import of_table
from forecast.reproduction.tables import TABLES, Contender, Table, printed_beside, printed_rows

# A row is reproduced when it is at most so far off, or this many standard deviations over seeds.
TOLERANCE, DEVIATIONS = 0.02, 2.0
REPRODUCED = "reproduced"
HEADING = (
    "row",
    "look-back",
    "windows",
    "model",
    "published MSE",
    "ours",
    "difference",
    "published MAE",
    "ours",
    "verdict",
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of a published table by a model of ours, with all its seeds. offset: steps between window and forecast."""

    row: str
    name: str
    lines: Sequence[Mapping[str, Any]]
    published: Published | None
    baseline: str | None = None
    offset: int = 0

    def spread(self, error: str) -> Spread | None:
        """Of "mse" or "mae" over seeds, scaled units; a baseline has none."""
        found = [block["scaled"][error] for line in self.lines if (block := self._block(line)) is not None]
        if not found:
            return None
        once = self.baseline is not None or len(found) == 1
        return Spread(statistics.fmean(found), None if once else statistics.stdev(found), 1 if once else len(found))

    def windows(self) -> int:
        """How many windows the errors are means over."""
        blocks = (line["offsets"][str(self.offset)] if self.offset else line["test"] for line in self.lines)
        return next(int(block["windows"]) for block in blocks if block is not None)

    def _block(self, line: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if self.offset:
            found = line["offsets"][str(self.offset)]
        else:
            found = line["baselines"][self.baseline] if self.baseline else line["test"]
        block: Mapping[str, Any] | None = found
        return block


def verdict(published: float, ours: Spread) -> str:
    """Whether a printed error was met: by at most TOLERANCE, or DEVIATIONS standard deviations over our seeds."""
    allowed = max(TOLERANCE, DEVIATIONS * (ours.sd or 0.0))
    difference = ours.mean - published
    if abs(difference) <= allowed:
        return REPRODUCED
    return f"missed: ours is {'higher' if difference > 0 else 'lower, so better'}"


def entries(table: Table, lines: Iterable[Mapping[str, Any]], printed: Sequence[Published]) -> list[Entry]:
    """What has been run of a table, as its rows and contenders are ordered; trainings with other settings apart."""
    lines = list(lines)
    found: list[Entry] = []
    for contender in table.contenders:
        groups: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
        for line in lines:
            if line["contender"] == contender.name:
                # a seed that was run again, by a newer version, counts once
                groups.setdefault((str(line["row"]), variant(line)), {})[line["seed"]] = line
        for _, seeds in sorted(groups.items(), key=lambda group: group[0][1]):  # the recipe itself first
            found += _entries(table, contender, list(seeds.values()), printed)
    order = table.rows
    return sorted(found, key=lambda entry: (order.index(entry.row) if entry.row in order else len(order), entry.offset))


def _entries(
    table: Table, contender: Contender, members: Sequence[Mapping[str, Any]], printed: Sequence[Published]
) -> list[Entry]:
    """A contender's row, at each offset that it was asked for, and beside NLinear its closed form."""
    first = members[0]
    row, name = str(first["row"]), f"{contender.name}{variant(first)}"
    offsets = [0, *(int(offset) for offset, block in (first.get("offsets") or {}).items() if block is not None)]
    made = [
        Entry(
            row=row,
            name=f"{name}, offset {offset}" if offset else name,
            lines=members,
            published=printed_beside(printed, table, contender, first, offset=offset),
            offset=offset,
        )
        for offset in offsets
    ]
    if contender.published == "NLinear":
        baseline = "closed_form_nlinear"
        name = BASELINES[baseline]
        made.append(Entry(row=row, name=name, lines=members, published=made[0].published, baseline=baseline))
    return made


def variant(line: Mapping[str, Any]) -> str:
    """What a line's command has beside the recipe: the overrides after its seed, ` (trainer.precision=bf16-mixed)`."""
    overrides = list(line["overrides"])
    said = [str(override) for override in overrides[overrides.index(f"seed={line['seed']}") + 1 :]]
    return f" ({', '.join(said)})" if said else ""


def table_lines(
    table: Table, lines: Iterable[Mapping[str, Any]], printed: Sequence[Published], notes: Mapping[str, str]
) -> list[str]:
    """The section of a table: rows and verdicts, baselines, what was tried for those missed, what was not run."""
    mine = of_table(lines, table.name)
    found = entries(table, mine, printed)
    text = [f"## {table.name}: {table.title}", ""]
    if found:
        text += [*row_lines(table, mine, printed), "", *_baselines(mine), ""]
        text += [*_sources(found), *_remarks(table, found, notes), ""]
    queue = waiting(table, mine, printed)
    if queue:
        text += [f"Not run yet: {queue}. `python scripts/reproduce.py --table {table.name}` goes on with them.", ""]
    return text


def row_lines(table: Table, lines: Iterable[Mapping[str, Any]], printed: Sequence[Published]) -> list[str]:
    """The rows of a table with their verdicts, as Markdown."""
    return markdown([HEADING, *map(_cells, entries(table, of_table(lines, table.name), printed))], left=4)


def _sources(found: Sequence[Entry]) -> list[str]:
    """What the sources say of their own figures."""
    notes = dict.fromkeys(p.note for entry in found if (p := entry.published) and p.note and not offset_of(p))
    return [f"Of the published figures: {'; '.join(notes)}.", ""] if notes else []


def _remarks(table: Table, found: Sequence[Entry], notes: Mapping[str, str]) -> list[str]:
    """What was tried and noticed, by table and by row; a row that misses is never without a word."""
    remarks = [f"- {notes[table.name].strip()}"] if table.name in notes else []
    silent = []
    for row in dict.fromkeys(entry.row for entry in found):
        remark = notes.get(f"{table.name}/{row}")
        if remark is not None:
            remarks.append(f"- {row}: {remark.strip()}")
        elif any(entry.row == row and _missed(entry) for entry in found):
            silent.append(row)
    if silent and table.name not in notes:
        remarks.append(f"- Missed, and nothing tried yet: {', '.join(silent)}.")
    return remarks


def _missed(entry: Entry) -> bool:
    mse = entry.spread("mse")
    return mse is not None and entry.published is not None and verdict(entry.published.mse, mse) != REPRODUCED


def _cells(entry: Entry) -> list[str]:
    mse, mae = entry.spread("mse"), entry.spread("mae")
    assert mse is not None and mae is not None, "an entry has lines"
    ours = [entry.row, str(entry.lines[0]["seq_len"]), f"{entry.windows():,}", entry.name]
    if entry.published is None:
        return [*ours, "-", plus_minus(mse), "-", "-", plus_minus(mae), "nothing is printed"]
    difference = f"{mse.mean - entry.published.mse:+.3f}"
    said = verdict(entry.published.mse, mse)
    return [
        *ours,
        f"{entry.published.mse:.3f}",
        plus_minus(mse),
        difference,
        f"{entry.published.mae:.3f}",
        plus_minus(mae),
        said,
    ]


def _baselines(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The baselines on the windows of each row; a row with several look-backs or protocols has several lines."""
    places = {(str(line["row"]), line["seq_len"], line["test"]["windows"]): line["baselines"] for line in lines}
    heading = ["baselines, MSE / MAE", "look-back", "windows", *BASELINES.values()]
    rows = [
        [row, str(seq_len), f"{windows:,}", *(_pair(baselines.get(key)) for key in BASELINES)]
        for (row, seq_len, windows), baselines in sorted(
            places.items(), key=lambda item: (natural(item[0][0]), item[0][1:])
        )
    ]
    return markdown([heading, *rows], left=3)


def _pair(block: Mapping[str, Any] | None) -> str:
    return f"{block['scaled']['mse']:.3f} / {block['scaled']['mae']:.3f}" if block else "-"


def waiting(table: Table, lines: Sequence[Mapping[str, Any]], printed: Sequence[Published]) -> str:
    """The rows with fewer than SEEDS seeds of the recipe itself: `informer (24: 1 of 3 seeds; 48, 168)`."""
    parts = []
    rows: dict[str, list[str]] = {}
    for row, contender in printed_rows(table, printed):
        rows.setdefault(contender.name, []).append(row)
    for name, expected in rows.items():
        done = {
            row: len(
                {
                    line["seed"]
                    for line in lines
                    if (line["contender"], line["row"]) == (name, row) and not variant(line)
                }
            )
            for row in expected
        }
        groups: dict[int, list[str]] = {}
        for row in expected:
            if done[row] < SEEDS:
                groups.setdefault(done[row], []).append(row)
        said = []
        for count in sorted(groups, reverse=True):
            listed = "all rows" if groups[count] == expected == list(table.rows) else ", ".join(groups[count])
            said.append(f"{listed}: {count} of {SEEDS} seeds" if count else listed)
        if said:
            parts.append(f"{name} ({'; '.join(said)})")
    return ", ".join(parts)


def read_notes(path: Path) -> dict[str, str]:
    """TABLE or TABLE/ROW -> what was tried and noticed. Raises UserError for a table that is not there."""
    if not path.is_file():
        return {}
    notes = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    for key in notes:
        if str(key).split("/")[0] not in TABLES:
            raise UserError(f"{path}: '{key}' is no table. Tables: {', '.join(TABLES)}")
    return {str(key): str(value) for key, value in notes.items()}
