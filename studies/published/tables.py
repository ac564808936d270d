"""The published tables that can be run: which rows, by which of our models, beside which printed column."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forecast.config.compose import published_tables, recipe
from forecast.config.run_config import composed
from forecast.errors import UserError, closest
from studies.published.published import Published, find


class TableModel(NamedTuple):
    """A model of ours in a table. published: the printed column it stands beside. overrides: of the row's experiment.

    drops: keys of the experiment that it has none of.
    """

    name: str
    published: str
    overrides: Sequence[str] = ()
    drops: Sequence[str] = ()


class PublishedTable(NamedTuple):
    """A published table. Its rows are the experiments NAME/ROW. source: as in results/published.csv."""

    name: str
    title: str
    source: str
    models: tuple[TableModel, ...]
    rows: tuple[str, ...]


TABLES = {
    name: PublishedTable(
        *(name, content["title"], content["source"]),
        models=tuple(TableModel(model, **column) for model, column in content["models"].items()),
        rows=tuple(content["rows"]),
    )
    for name, content in published_tables().items()
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training of a table. overrides: of the command train. identity: as in a sweep."""

    table: str
    row: str
    model: str
    seed: int
    overrides: tuple[str, ...]
    identity: str


Cell = tuple[PublishedTable, str, TableModel]  # a row of a table by one of its models


def cells(
    tables: Sequence[PublishedTable],
    printed: Sequence[Published],
    *,
    rows: Sequence[str] = (),
    models: Sequence[str] = (),
) -> list[Cell]:
    """The rows and models of the tables that stand beside a printed figure.

    rows, models: which ones, empty for all; a row may be named by any part of its name between underscores: 24, or
    etth1. Raises UserError for a row or model that no table has.
    """
    names = [row for table in tables for row in table.rows]
    for part in rows:
        if not any(has_part(row, part) for row in names):
            where = ", ".join(table.name for table in tables)
            raise UserError(f"--rows {part}: {where} has no such row. Rows: {', '.join(dict.fromkeys(names))}")
    known = list(dict.fromkeys(model.name for table in tables for model in table.models))
    for name in models:
        if name not in known:
            raise UserError(f"--models {name}: choose of {'; '.join(known)}.{closest(name, known)}")
    return [
        (table, row, model)
        for table in tables
        for row, model in printed_rows(table, printed)
        if (not rows or any(has_part(row, part) for part in rows)) and model.name in (models or known)
    ]


def has_part(row: str, part: str) -> bool:
    """Whether a row's name is `part`, or holds it between underscores."""
    return f"_{part}_" in f"_{row}_"


def jobs(chosen: Sequence[Cell], *, seeds: Sequence[int], extra: Sequence[str] = ()) -> Iterator[Job]:
    """The trainings of the cells, a seed of all before the next seed. extra: overrides for all.

    Raises UserError at once when train would refuse one of them.
    """

    def job(cell: Cell, seed: int) -> Job:
        table, row, model = cell
        dropped = [f"~{key}" for key in model.drops if key in recipe(table.name, row)]
        overrides = (f"experiment={table.name}/{row}", *model.overrides, *dropped, f"seed={seed}", *extra)
        names = {"table": table.name, "row": row, "model": model.name}
        return Job(**names, seed=seed, overrides=overrides, identity=composed(overrides).identity)

    first = [job(cell, seed) for seed in seeds[:1] for cell in chosen]
    return itertools.chain(first, (job(cell, seed) for seed in seeds[1:] for cell in chosen))


def printed_rows(table: PublishedTable, printed: Sequence[Published]) -> list[tuple[str, TableModel]]:
    """The rows of a table, and for each the models that stand beside a printed figure."""
    pairs = []
    for row in table.rows:
        keys = recipe(table.name, row)
        for model in table.models:
            own = dict(override.split("=", 1) for override in model.overrides)
            values = {**keys, "features": keys["data.features"], "seq_len": int(own.get("seq_len", keys["seq_len"]))}
            if find(printed, source=table.source, model=model.published, values=values):
                pairs.append((row, model))
    return pairs
