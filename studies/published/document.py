"""docs/results.md: published beside ours, row by row, made from results/runs.jsonl and nothing else."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from forecast.comparison.rows import SeedSpread
from forecast.comparison.tables import markdown, plus_minus
from forecast.config.compose import natural
from forecast.errors import UserError
from forecast.report.forecasters import BASELINES
from studies.published import SEEDS
from studies.published.outcome import difference, outcome
from studies.published.published import Published, find
from studies.published.tables import TABLES, PublishedTable, TableModel, printed_rows

HEADING = (
    *("row", "look-back", "windows", "model", "published MSE", "ours", "difference"),
    *("published MAE", "ours", "difference", "verdict", "code"),
)
CODE = """*Code* is the commit that a row was made at, with `-dirty` where its code had been changed, and whether a GPU
made it. A later commit may give another figure."""
Line = Mapping[str, Any]  # of results/runs.jsonl


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """A row of a published table by a model of ours.

    lines, blocks: of each seed, and its errors as in metrics.json. offset: steps between window and forecast. exact:
    computed without randomness, so that there are no seeds.
    """

    name: str
    lines: Sequence[Line]
    blocks: Sequence[Mapping[str, Any]]
    offset: int = 0
    exact: bool = False
    published: Published | None

    @property
    def row(self) -> str:
        """Its name in the table."""
        return str(self.lines[0]["row"])

    def spread(self, error: str) -> SeedSpread:
        """Of "mse" or "mae" over seeds, scaled units."""
        spread = SeedSpread.over([block["scaled"][error] for block in self.blocks])
        assert spread is not None, "a row has lines"
        return spread

    def outcome(self) -> str:
        """The cell under "verdict"."""
        if self.published is None:
            return "nothing is printed"
        return outcome(self.published.mse, self.spread("mse"), exact=self.exact)

    def code(self) -> str:
        """The cell under "code"."""
        return codes_of(self.lines)

    def cells(self) -> list[str]:
        """Its row in Markdown, under HEADING."""
        cells = [self.row, str(self.lines[0]["seq_len"]), f"{self.blocks[0]['windows']:,}", self.name]
        for error in ("mse", "mae"):
            ours = self.spread(error)
            text = f"{ours.mean:.4f}" if self.exact else plus_minus(ours)
            if self.published is None:
                cells += ["-", text, "-"]
            else:
                printed: float = getattr(self.published, error)
                cells += [f"{printed:.3f}", text, difference(printed, ours)]
        return [*cells, self.outcome(), self.code()]


def table_results(table: PublishedTable, lines: Iterable[Line], printed: Sequence[Published]) -> list[ResultRow]:
    """What has been run of a table, in the order of its rows and models; trainings with other settings apart."""
    lines = [line for line in lines if line["table"] == table.name]
    results: list[ResultRow] = []
    for model in table.models:
        groups: dict[tuple[str, str], dict[int, Line]] = {}
        for line in lines:
            if line["contender"] == model.name:
                # a seed that was run again, by a newer version, counts once
                groups.setdefault((added_overrides(line), str(line["row"])), {})[line["seed"]] = line
        for (added, _), seeds in sorted(groups.items(), key=lambda group: group[0][0]):  # the recipe itself first
            results += _row_results(table, model, f"{model.name}{added}", [*seeds.values()], printed)
    places = {row: place for place, row in enumerate(table.rows)}
    return sorted(results, key=lambda result: (places.get(result.row, len(places)), result.offset))


def _row_results(
    table: PublishedTable, model: TableModel, name: str, lines: Sequence[Line], printed: Sequence[Published]
) -> Iterator[ResultRow]:
    """A model's row at each offset between window and forecast, and beside NLinear its closed form."""
    first = lines[0]

    def published(offset: int = 0) -> Published | None:
        return find(printed, source=table.source, model=model.published, values=first, offset=offset)

    yield ResultRow(name=name, lines=lines, blocks=[line["test"] for line in lines], published=published())
    for key in [key for key, block in (first.get("offsets") or {}).items() if block is not None]:
        able = [line for line in lines if line["offsets"][key] is not None]
        blocks, offset = [line["offsets"][key] for line in able], int(key)
        label = f"{name}, offset {offset}"
        yield ResultRow(name=label, lines=able, blocks=blocks, offset=offset, published=published(offset))
    if model.published == "NLinear":  # its closed form is the same for all seeds
        label, block = BASELINES["closed_form_nlinear"], first["baselines"]["closed_form_nlinear"]
        block = {**block, "windows": first["test"]["windows"]}
        yield ResultRow(name=label, lines=[first], blocks=[block], exact=True, published=published())


def codes_of(lines: Iterable[Line]) -> str:
    """The commits that made the lines, as CODE has it."""
    devices = {"cpu": "", None: "", "cuda": " on a GPU"}
    codes = [(line.get("commit") or "not recorded") + devices[line.get("device")] for line in lines]
    return ", ".join(dict.fromkeys(codes))


def added_overrides(line: Line) -> str:
    """What a line's command has beside the recipe: the overrides after its seed, ` (trainer.precision=bf16-mixed)`."""
    overrides = list(map(str, line["overrides"]))
    added = overrides[overrides.index(f"seed={line['seed']}") + 1 :]
    return f" ({', '.join(added)})" if added else ""


def table_lines(
    table: PublishedTable, lines: Iterable[Line], printed: Sequence[Published], notes: Mapping[str, str]
) -> list[str]:
    """The section of a table: rows and verdicts, baselines, what was tried for those outside, what was not run."""
    lines = [line for line in lines if line["table"] == table.name]
    results = table_results(table, lines, printed)
    text = [f"## {table.name}: {table.title}", ""]
    if results:
        text += [*row_lines(results), "", *count_lines(results), *_baselines(lines), ""]
        sources = dict.fromkeys(p.note for result in results if (p := result.published) and p.note and not p.offset)
        text += [f"Of the published figures: {'; '.join(sources)}.", ""] if sources else []
    if remarks := _remarks(table, results, notes):
        text += [*remarks, ""]
    if queue := waiting(table, lines, printed):
        command = f"`forecast reproduce --table {table.name}` goes on with them."
        text += [f"Not run yet with the recipe itself: {queue}. {command}", ""]
    return text


def row_lines(results: Sequence[ResultRow]) -> list[str]:
    """The rows of a table with their verdicts, as Markdown."""
    return markdown([HEADING, *(result.cells() for result in results)], left=4)


def count_lines(results: Sequence[ResultRow]) -> list[str]:
    """How many rows have which verdict: `With the recipe itself: 2 *missed*. With other settings: 1 *reproduced*.`"""
    sentences = []
    for own, words in ((True, "With the recipe itself"), (False, "With other settings")):
        trained = [result for result in results if result.published and not result.exact]
        counts = Counter(result.outcome() for result in trained if own is not bool(added_overrides(result.lines[0])))
        if counts:
            verdicts = "; ".join(f"{count} *{verdict}*" for verdict, count in sorted(counts.items()))
            sentences.append(f"{words}: {verdicts}.")
    return [" ".join(sentences), ""] if sentences else []


def _remarks(table: PublishedTable, results: Sequence[ResultRow], notes: Mapping[str, str]) -> list[str]:
    """What was tried and noticed, by table and by row; a row outside never goes without a remark."""
    of_rows = {row: notes.get(f"{table.name}/{row}") for row in dict.fromkeys(result.row for result in results)}
    remarks = [f"- {notes[table.name].strip()}"] if table.name in notes else []
    remarks += [f"- {row}: {remark.strip()}" for row, remark in of_rows.items() if remark is not None]
    unexplained: dict[str, list[str]] = {}
    for result in results:
        if of_rows[result.row] is None and result.outcome().endswith(("missed", "outside")):
            unexplained.setdefault(result.row, []).append(result.name)
    if unexplained and table.name not in notes:
        rows = (f"{row} ({', '.join(names)})" for row, names in unexplained.items())
        remarks.append(f"- Not explained: {'; '.join(rows)}.")
    return remarks


def _baselines(lines: Sequence[Line]) -> list[str]:
    """The baselines on the windows of each row; a row with several look-backs or protocols has several lines."""
    places = {(str(line["row"]), line["seq_len"], line["test"]["windows"]): line["baselines"] for line in lines}
    rows = []
    for row, seq_len, windows in sorted(places, key=lambda place: (natural(place[0]), place[1:])):
        blocks = [places[row, seq_len, windows].get(key) for key in BASELINES]
        pairs = [f"{b['scaled']['mse']:.3f} / {b['scaled']['mae']:.3f}" if b else "-" for b in blocks]
        rows.append([row, str(seq_len), f"{windows:,}", *pairs])
    return markdown([["baselines, MSE / MAE", "look-back", "windows", *BASELINES.values()], *rows], left=3)


def waiting(table: PublishedTable, lines: Sequence[Line], printed: Sequence[Published]) -> str:
    """The rows with fewer than SEEDS seeds of the recipe itself: `informer (24: 1 of 3 seeds; 48, 168)`."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for line in lines:
        if not added_overrides(line):
            seeds.setdefault((line["contender"], line["row"]), set()).add(line["seed"])
    rows: dict[str, list[str]] = {}
    for row, model in printed_rows(table, printed):
        rows.setdefault(model.name, []).append(row)
    parts = []
    for name, expected in rows.items():
        texts = []
        for count in reversed(range(SEEDS)):
            missing = [row for row in expected if len(seeds.get((name, row), ())) == count]
            listed = "all rows" if missing == expected == list(table.rows) else ", ".join(missing)
            texts += [f"{listed}: {count} of {SEEDS} seeds" if count else listed] if missing else []
        parts += [f"{name} ({'; '.join(texts)})"] if texts else []
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
