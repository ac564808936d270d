"""The published tables that can be run: which rows, by which of our models, beside which printed column."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from forecast.config.compose import composed, experiment_file
from forecast.config.values import CONF, natural
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
    """A published table. Its rows are the experiments in conf/experiment/NAME. source: as in results/published.csv."""

    name: str
    title: str
    source: str
    contenders: tuple[Contender, ...]

    def rows(self) -> list[str]:
        """The names of its experiments, shorter horizons first."""
        return sorted((path.stem for path in (CONF / "experiment" / self.name).glob("*.yaml")), key=natural)


FULL = ("model=informer", "attention=full")
INFORMERS = (
    Contender(name="informer2020", published="Informer"),
    Contender(name="informer", published="Informer", overrides=("model=informer",)),
    Contender(
        name="informer, full attention", published="Informer†", overrides=FULL, drops=("attention.mechanism.factor",)
    ),
)
TABLES = {
    table.name: table
    for table in (
        *(
            Table(
                name=f"{data.lower()}_{features.lower()}",
                title=f"Informer, {data}, {'multivariate' if features == 'M' else 'univariate'} (Zhou et al. 2021)",
                source="informer-aaai2021",
                contenders=INFORMERS,
            )
            for data in ("ETTh1", "ETTh2", "ETTm1")
            for features in ("M", "S")
        ),
        Table(
            name="probsparse",
            title="ProbSparse against full attention, ETTh1, univariate (Zhou et al. 2021, table 3)",
            source="informer-aaai2021-table3-probsparse",
            contenders=INFORMERS,
        ),
        Table(
            name="distilling",
            title="Distilling, ETTh1, univariate (Zhou et al. 2021, table 5)",
            source="informer-aaai2021-table5-distilling",
            contenders=(
                Contender(name="informer2020", published="Informer†"),
                Contender(
                    name="informer2020, no distilling",
                    published="Informer‡ (no distil)",
                    overrides=("model.distil=false",),
                ),
            ),
        ),
        Table(
            name="decoder",
            title="Generative and dynamic decoding, ETTh1, univariate (Zhou et al. 2021, table 6)",
            source="informer-aaai2021-table6-decoder",
            contenders=(
                Contender(name="informer2020", published="Informer‡ generative"),
                Contender(name="informer, full attention", published="Informer‡ generative", overrides=FULL),
                Contender(
                    name="informer, full attention, dynamic",
                    published="Informer§ dynamic",
                    overrides=(*FULL, "model.decode=dynamic"),
                ),
            ),
        ),
        Table(
            name="dlinear",
            title="DLinear and NLinear (Zeng et al. 2023)",
            source="dlinear-aaai2023",
            contenders=(
                Contender(name="dlinear", published="DLinear"),
                Contender(name="nlinear", published="NLinear", overrides=("model=nlinear",)),
            ),
        ),
        Table(
            name="patchtst",
            title="PatchTST (Nie et al. 2023, table 3)",
            source="patchtst-iclr2023",
            contenders=(
                Contender(name="patchtst_42", published="PatchTST/42"),
                Contender(name="patchtst_64", published="PatchTST/64", overrides=("seq_len=512",)),
            ),
        ),
    )
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
    names = [row for table in tables for row in table.rows()]
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
    for row in table.rows():
        said = experiment_file(f"{table.name}/{row}")
        for contender in table.contenders:
            lengths = dict(override.split("=") for override in contender.overrides if override.startswith("seq_len="))
            values = {**said, **{key: int(value) for key, value in lengths.items()}}
            if printed_beside(printed, table, contender, values):
                found.append((row, contender))
    return found


def job(cell: Cell, *, seed: int, extra: Sequence[str]) -> Job:
    """One training of a table."""
    table, row, contender = cell
    experiment = f"{table.name}/{row}"
    dropped = [f"~{key}" for key in contender.drops if has(experiment_file(experiment), key)]
    overrides = (f"experiment={experiment}", *contender.overrides, *dropped, f"seed={seed}", *extra)
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


def has(values: Mapping[str, Any], key: str) -> bool:
    """Whether a config has a dotted key."""
    node: Any = values
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return True


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
