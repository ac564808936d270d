"""Facts of the series of a panel: columns that do not change within a series, ids, or columns of another file.

Such a file has a row for each series, or for each shop.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.assembling.csv_rows import rows_of
from forecast.data.assembling.rows import PanelRows
from forecast.data.panel import Facts
from forecast.data.reading.content import CsvText
from forecast.data.reading.layout import STEPS
from forecast.data.reading.table import Codebook
from forecast.data.sources import CsvSource
from forecast.data.values.cells import Findings, FloatArray, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import listed

_OF_ROWS = "time_column", "time_format", "time_zone", "start", "where", "since", "until", "resample", "aggregate"
# What a file of facts has none of, whatever the panel's has.
UNTIMED = {**dict.fromkeys(_OF_ROWS), "freq": STEPS, "drop": ()}


def facts_of(source: CsvSource, rows: PanelRows, book: Codebook) -> tuple[Facts, PanelRows]:
    """The facts of all series of a panel, and its rows without the columns that they come from.

    rows: of all files, sorted. UserError for a column that changes within a series, for a series without a fact, and
    for a name that is in neither file.
    """
    keys, names, where = source.static_on or {}, list(source.static), rows.name
    own = [name for name in dict.fromkeys([*names, *keys]) if name in rows.columns]
    facts = {name: _constant(rows, name) for name in own}
    for name in {*names, *keys} & rows.id_cells.keys():
        numbers = pd.to_numeric(pd.Series(rows.id_cells[name]), errors="coerce").to_numpy(dtype=np.float64)
        are_words = name in book.named or np.isnan(numbers).any()
        facts[name] = book.codes(name, rows.id_cells[name]) if are_words else numbers
    if source.static_path is not None:
        where = source.static_path
        _check_names(keys, [*rows.columns, *rows.id_cells], "data.static_on", rows.name)
        texts = [_texts(name, facts[name], book) for name in keys]
        facts = _file_facts(source, texts, rows.ids, book) | facts
        names = names or [name for name in facts if name not in keys]
    _check_names(names, [*facts, *rows.columns], "data.static", where)
    for name in names:
        if (missing := np.isnan(facts[name])).any():
            raise UserError(
                f"{rows.name if name in own else where}: the series {quoted(rows.ids[int(missing.argmax())])} "
                f"has no value of the fact '{name}' (data.static), as have {int(missing.sum()) - 1} more. Fill it in, "
                "or leave the fact out."
            )
    values = np.array([facts[name] for name in names]).reshape(len(names), len(rows.ids)).T
    if own:
        kept = [place for place, name in enumerate(rows.columns) if name not in own]
        columns = tuple(rows.columns[place] for place in kept)
        rows = replace(rows, values=np.ascontiguousarray(rows.values[:, kept]), columns=columns)
    return Facts(tuple(names), values, book.words(names), tuple(own)), rows


def _check_names(names: Collection[str], others: Sequence[str], key: str, path: str) -> None:
    """UserError for the first of the names, of a key of the config, that is none of the others."""
    for name in names:
        if name not in others:
            raise UserError(
                f"{path}: there is no column '{name}' ({key}) among {listed(others)}.{closest(name, others)} Name "
                "columns as line 1 does; in data.static_on that of the panel first: 'data.static_on={store: STORE}'"
            )


def _constant(rows: PanelRows, name: str) -> FloatArray:
    """The value (S,) of a column in each series, NaN where it has none; UserError where it changes."""
    column = pd.Series(rows.values[:, rows.columns.index(name)])
    owners = np.repeat(np.arange(len(rows.ids)), rows.lengths)
    values = column.groupby(owners).first().reindex(range(len(rows.ids))).to_numpy()
    changed = column.notna().to_numpy() & (column.to_numpy() != values[owners])
    if changed.any():
        row = int(changed.argmax())
        raise UserError(
            f"{rows.where(row)}: the fact '{name}' (data.static) of the series {quoted(rows.ids[owners[row]])} is not "
            "what it was before. Mend the row, or name the column in data.known or data.past."
        )
    return values


def _texts(name: str, values: FloatArray, book: Codebook) -> list[str]:
    """What a column says of each series, whose value or number of a word (S,) is known."""
    words: dict[float, str] = dict(enumerate(book.words([name]).get(name, ()), start=1))
    return [words.get(value, str(value)) for value in values.tolist()]


def _file_facts(
    source: CsvSource, texts: Sequence[Sequence[str]], ids: Sequence[str], book: Codebook
) -> dict[str, FloatArray]:
    """The facts (S,) that the file of facts has of each series, by its columns, NaN for what is missing or no number.

    texts: what the panel has in the columns to join by, of each series. UserError for a column that the file lacks, a
    series without a row, and two rows of one key.
    """
    path, keys = Path(str(source.static_path)), list((source.static_on or {}).values())
    findings = Findings(str(path))
    text = CsvText(path, source.separator).verified(findings)
    header = text.header((), findings)
    _check_names(keys, header, "data.static_on", str(path))
    named = [name for name in header if name not in keys and (name in source.static or not source.static)]
    book.perhaps |= frozenset(named)
    rows = rows_of(
        text,
        header,
        replace(source, panel="long", id_column=keys, columns=named),
        book,
        findings,
        form=UNTIMED,
    )
    numbers = Codebook()  # to which 2, 2.0 and 02 are the same
    index = pd.MultiIndex.from_arrays([numbers.codes(name, rows.id_cells[name])[rows.series] for name in keys])
    if (again := index.duplicated()).any():
        row = int(again.argmax())
        raise UserError(
            f"{rows.where(row)}: {quoted(rows.ids[rows.series[row]])}, of {listed(keys)}, stands in a line before. "
            "Write one row for each, or name all columns that tell the rows apart in data.static_on."
        )
    wanted = [numbers.codes(name, cells) for name, cells in zip(keys, texts, strict=True)]
    places = index.get_indexer(pd.MultiIndex.from_arrays(wanted))
    if (lacking := places < 0).any():
        series = int(lacking.argmax())
        raise UserError(
            f"{path} has no row for {int(lacking.sum())} of {len(ids)} series, the first is {quoted(ids[series])}: "
            f"none has its {listed(source.static_on or ())} in the column {listed(keys)}. Add a row for each."
        )
    return dict(zip(rows.columns, rows.values[places].T, strict=True))
