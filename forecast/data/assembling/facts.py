"""Facts of the series of a panel: columns that do not change within a series, and ids."""

from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.data.assembling.rows import PanelRows
from forecast.data.panel import Facts
from forecast.data.reading.table import Codebook
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import listed


def facts_of(source: CsvSource, rows: PanelRows, book: Codebook) -> tuple[Facts, PanelRows]:
    """The facts of all series of a panel, and its rows without the columns that they come from.

    rows: of all files, sorted. UserError for a column that changes within a series, for a series without a fact, and
    for a name that is in neither file.
    """
    own = [name for name in source.static if name in rows.columns]
    facts = {name: _constant(rows, name) for name in own}
    for name in {*source.static} & rows.id_cells.keys():
        numbers = pd.to_numeric(pd.Series(rows.id_cells[name]), errors="coerce").to_numpy(dtype=np.float64)
        are_words = name in book.named or np.isnan(numbers).any()
        facts[name] = book.codes(name, rows.id_cells[name]) if are_words else numbers
    for name in source.static:
        if name not in facts:
            raise UserError(
                f"{rows.name}: there is no column '{name}' (data.static) among {listed([*facts, *rows.columns])}."
                f"{closest(name, [*facts, *rows.columns])} Name columns as line 1 does."
            )
        if (missing := np.isnan(facts[name])).any():
            raise UserError(
                f"{rows.name}: the series {quoted(rows.ids[int(missing.argmax())])} has no value of the fact '{name}' "
                f"(data.static), as have {int(missing.sum()) - 1} more. Fill it in, or leave the fact out."
            )
    values = np.array([facts[name] for name in source.static]).T
    if own:
        kept = [place for place, name in enumerate(rows.columns) if name not in own]
        columns = tuple(rows.columns[place] for place in kept)
        rows = replace(rows, values=np.ascontiguousarray(rows.values[:, kept]), columns=columns)
    return Facts(tuple(source.static), values, book.words(source.static), tuple(own)), rows


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
