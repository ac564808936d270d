"""The published tables that can be run: which rows, by which of our models, beside which printed column."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from forecast.config.compose import composed
from forecast.config.recipes import published_tables, recipe
from forecast.errors import UserError, closest
from forecast.reproduction.published import Published, find


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A model of ours in a table. published: the printed column it stands beside. overrides: of the row's experiment.

    drops: keys of the experiment that it has none of.
    """

    name: str
    published: str
    overrides: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A published table. Its rows are the experiments NAME/ROW. source: as in results/published.csv."""

    name: str
    title: str
    source: str
    contenders: tuple[Contender, ...]
    rows: tuple[str, ...]


TABLES = {
    name: Table(
        name=name,
        title=content["title"],
        source=content["source"],
        contenders=tuple(
            Contender(
                name=model,
                published=column["published"],
                overrides=tuple(column.get("overrides", ())),
                drops=tuple(column.get("drops", ())),
            )
            for model, column in content["models"].items()
        ),
        rows=tuple(content["rows"]),
    )
    for name, content in published_tables().items()
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training of a table. overrides: train.py's. values: the config they give, identity: as in a sweep."""

    table: str
    row: str
    contender: str
    seed: int
    overrides: tuple[str, ...]
    identity: str
    values: dict[str, Any]


class Cell(NamedTuple):
    """A row of a table by one of its contenders."""

    table: Table
    row: str
    contender: Contender


def cells(
    tables: Sequence[Table], printed: Sequence[Published], *, rows: Sequence[str] = (), contenders: Sequence[str] = ()
) -> list[Cell]:
    """What the tables hold beside a printed figure.

    rows, contenders: which ones, empty for all; a row may be said by any part of its name between underscores: 24, or
    etth1. Raises UserError for a row or contender that no table has.
    """
    where = ", ".join(table.name for table in tables)
    names = [row for table in tables for row in table.rows]
    for asked in rows:
        if not any(fits(row, asked) for row in names):
            raise UserError(f"--rows {asked}: {where} has no such row. Rows: {', '.join(dict.fromkeys(names))}")
    models = list(dict.fromkeys(contender.name for table in tables for contender in table.contenders))
    for asked in contenders:
        if asked not in models:
            raise UserError(f"--models {asked}: choose of {'; '.join(models)}.{closest(asked, models)}")
    return [
        Cell(table, row, contender)
        for table in tables
        for row, contender in printed_rows(table, printed)
        if (not rows or any(fits(row, asked) for asked in rows)) and contender.name in (contenders or models)
    ]


def jobs(wanted: Sequence[Cell], *, seeds: Sequence[int], extra: Sequence[str] = ()) -> Iterator[Job]:
    """The trainings of the cells, a seed of all before the next seed. extra: overrides for all.

    Raises UserError at once when train.py would refuse one of them.
    """
    first = [job(cell, seed=seed, extra=extra) for seed in seeds[:1] for cell in wanted]
    return itertools.chain(first, (job(cell, seed=seed, extra=extra) for seed in seeds[1:] for cell in wanted))


def printed_rows(table: Table, printed: Sequence[Published]) -> list[tuple[str, Contender]]:
    """The rows of a table, and for each the contenders that stand beside a printed figure."""
    found = []
    for row in table.rows:
        keys = recipe(table.name, row)
        for contender in table.contenders:
            lengths = [int(o.removeprefix("seq_len=")) for o in contender.overrides if o.startswith("seq_len=")]
            values = {**keys, "features": keys["data.features"], "seq_len": (*lengths, keys["seq_len"])[0]}
            if printed_beside(printed, table, contender, values):
                found.append((row, contender))
    return found


def job(cell: Cell, *, seed: int, extra: Sequence[str]) -> Job:
    """One training of a table."""
    table, row, contender = cell
    dropped = [f"~{key}" for key in contender.drops if key in recipe(table.name, row)]
    overrides = (f"experiment={table.name}/{row}", *contender.overrides, *dropped, f"seed={seed}", *extra)
    identity, values = composed(overrides)
    return Job(
        table=table.name,
        row=row,
        contender=contender.name,
        seed=seed,
        overrides=overrides,
        identity=identity,
        values=values,
    )


def fits(row: str, asked: str) -> bool:
    """Whether a row's name is `asked`, or holds it between underscores."""
    return f"_{asked}_" in f"_{row}_"


def printed_beside(
    printed: Sequence[Published], table: Table, contender: Contender, values: Mapping[str, Any], *, offset: int = 0
) -> Published | None:
    """The printed figure of a training. values: its config or its metrics.json, the same keys serve."""
    data = values["data"] if isinstance(values["data"], str) else values["data"]["name"]
    features = values["features"] if "features" in values else values["data"]["features"]
    return find(
        printed,
        source=table.source,
        model=contender.published,
        data=data,
        features=features,
        seq_len=values["seq_len"],
        pred_len=values["pred_len"],
        offset=offset,
    )
