"""The rows of published tables, forecast/config/published.yaml, as experiments: experiment=TABLE/ROW."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

import yaml
from hydra.core.config_store import ConfigStore
from typing_extensions import NotRequired, TypedDict

from forecast.config.values import CONF


class ModelEntry(TypedDict):
    """Of a model in a table: the printed column, the overrides that it adds, the keys of a row that it has none of."""

    published: str
    overrides: NotRequired[list[str]]
    drops: NotRequired[list[str]]


class TableEntry(TypedDict):
    """A table in the file."""

    title: str
    source: str
    models: dict[str, ModelEntry]
    every: dict[str, str | int | float]
    columns: list[str]
    rows: dict[str, list[str | int | float]]


@cache
def published_tables() -> dict[str, TableEntry]:
    """What the file says of each table, by its name; its rows by theirs, in their order."""
    tables = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
    for table in tables.values():
        table["rows"] = {str(row): values for row, values in table["rows"].items()}
    return dict(tables)


def recipe(table: str, row: str) -> dict[str, str | int | float]:
    """A row's choices of groups and its dotted keys: {"model": "informer2020", "data.features": "M", "seq_len": 48}."""
    content = published_tables()[table]
    return {**content["every"], **dict(zip(content["columns"], content["rows"][row], strict=False))}


def register(arguments: Sequence[str]) -> None:
    """Lays rows into Hydra's store, beside the files of conf/experiment: the tables that a command's words name.

    Of all tables where a folder of a user's own may name them. Hydra copies its store for each config that it
    composes: with all rows in it that takes longer than the rest.
    """
    anywhere = any(word.startswith(("--config-", "-cd", "-cp")) for word in arguments)
    for table in published_tables():
        if anywhere or any(f"{table}/" in word for word in arguments):
            _store(table)


@cache
def _store(table: str) -> None:
    """Each row as the YAML of an experiment would say it: `defaults` that override groups, then nested keys."""
    for row in published_tables()[table]["rows"]:
        choices: list[dict[str, object]] = []
        node: dict[str, object] = {"defaults": choices}
        for key, value in recipe(table, row).items():
            if (CONF / key).is_dir():
                choices.append({f"override /{key}": value})
                continue
            *parents, last = key.split(".")
            inner = node
            for parent in parents:
                inner = cast(dict[str, object], inner.setdefault(parent, {}))
            inner[last] = value
        ConfigStore.instance().store(name=row, node=node, group=f"experiment/{table}", package="_global_")
