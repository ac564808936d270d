"""Tables of every kind in the one form that the reader of files takes, and forecasts in the kind of their table."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from forecast.data.describe.columns import Names, find_times
from forecast.data.describe.guess import Given
from forecast.data.reading.layout import USUAL
from forecast.data.rows import KNOWN_IDS, KNOWN_TIMES
from forecast.data.writing import SAMPLE as WRITTEN
from forecast.data.writing import TimeWriter
from forecast.errors import UserError
from forecast.run_folder import TRAINING_TABLE
from forecast.text.terminal import listed

Table = Any  # of whatever library its caller has
Cells = Any  # of a column, or of a level of an index, of whatever type
Label = Any  # whatever pandas takes for a name, or for a type
NAME = "the DataFrame"
SAMPLE = 1_000  # rows whose cells show which column holds times
KIND = b"forecast.kind"  # of the table in data.parquet, beside its schema


@dataclass(frozen=True)
class Kind:
    """What a table was, for a forecast to be the same; by default a DataFrame with a column of time, as in training.

    time, ids: what these columns are called; None: as in training. index: (column, name) of the levels of its index.
    names: of its columns, by their text. types: of the ids and of columns of decimals. time_type: of its times;
    written: cells of times that are text or numbers. freq: of its index. is_series: whether it was a Series.
    midnights: whether all its times are. native: of another library than pandas, the table without rows.
    """

    time: str | None = None
    ids: Names = ()
    index: Sequence[tuple[str, Label]] = ()
    names: Mapping[str, Label] = field(default_factory=dict)
    types: Mapping[str, Label] = field(default_factory=dict)
    time_type: Label = None
    written: Sequence[str] = ()
    freq: Label = None
    is_series: bool = False
    midnights: bool = False
    native: Table = None

    @classmethod
    def kept(cls, path: Path) -> "Kind":
        """That of the table in a data.parquet; the default for another file."""
        text = None if path.name != TRAINING_TABLE else (pq.read_schema(path).metadata or {}).get(KIND)
        if text is None:
            return cls()
        fields = json.loads(text)
        types = {name: _type(kind) for name, kind in {**fields["types"], "": fields["time_type"]}.items()}
        names = {name: tuple(label) if isinstance(label, list) else label for name, label in fields["names"].items()}
        fields |= {"time_type": types.pop(""), "types": types, "names": names}
        if fields["native"]:
            import narwhals as nw

            library, schema = fields["native"]
            empty = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))).empty_table()
            fields["native"] = nw.from_arrow(empty, backend=library)
        return cls(**fields)

    def text(self) -> str:
        """What `kept` reads."""
        native = self.native
        if native is not None:
            schema = native.to_arrow().schema.serialize().to_pybytes()
            native = [native.implementation.value, base64.b64encode(schema).decode()]
        return json.dumps({**vars(self), "native": native}, default=_type_text)

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of its times."""
        zone: tzinfo | None = getattr(self.time_type, "tz", None)
        return zone

    def in_library(self, rows: pd.DataFrame, *, cast: Sequence[str] = ()) -> Table:
        """Rows as a table of its library. cast: columns that get the types which they have in it."""
        if self.native is None:
            return rows
        import narwhals as nw

        types = {name: self.native.schema[name] for name in cast if name in self.native.schema}
        table = nw.from_arrow(arrow_table(rows), backend=self.native.implementation)
        columns = [nw.col(name).cast(kind) for name, kind in types.items() if kind != nw.String]
        return table.with_columns(columns).to_native()

    def of_forecast(
        self,
        rows: pd.DataFrame,
        *,
        time: str,
        clock: str | None = None,
        time_zone: str | None = None,
        time_format: str | None = None,
    ) -> Table:
        """A forecast, columns of ids, of time and of targets, as such a table.

        clock, time_zone: as in `PanelFrame`. time_format: in which times were read that are text.
        """
        trained = list(rows.columns[: rows.columns.get_loc(time)])
        if self.time is None:
            return self.in_library(rows)
        rows = rows.assign(**{time: self._times(rows[time], clock, time_zone, time_format)})
        ids = self.ids if len(self.ids) == len(trained) else trained
        rows = rows.rename(columns={**dict(zip(trained, ids, strict=True)), time: self.time})
        if self.native is not None:
            return self.in_library(rows, cast=[self.time, *self.types])
        for name in self.types.keys() & set(rows):
            rows[name] = _in_type(rows[name], self.types[name])
        if self.index:
            index = [level for level in self.index if level[0] in rows]  # one series has no id
            rows = rows.set_index([name for name, _ in index])
            rows = rows.rename_axis(index=[name for _, name in index])
            with suppress(ValueError):  # the times do not keep to it
                if isinstance(rows.index, pd.DatetimeIndex):
                    rows.index = pd.DatetimeIndex(rows.index, freq=self.freq)
        if self.is_series and rows.shape[1] == 1:
            return rows.iloc[:, 0].rename(self.names[rows.columns[0]])
        return rows.rename(columns={name: label for name, label in self.names.items() if label is not None})

    def _times(self, stamps: Cells, clock: str | None, time_zone: str | None, time_format: str | None) -> Cells:
        """Times by a clock as its own are, in its zone or written as text."""
        if not pd.api.types.is_datetime64_any_dtype(stamps):  # they are counted
            return _in_type(stamps, self.time_type)
        if self.written:
            writer = TimeWriter.of({"": self.written}, time_format, time_zone)
            texts = [text for (text,) in writer.cells(pd.DatetimeIndex(stamps), clock)]
            return _in_type(pd.Series(texts, dtype=object), self.time_type)
        stamps = in_zone(stamps, clock, self.zone)
        if isinstance(self.time_type, pd.PeriodDtype):
            return stamps.dt.to_period(self.time_type.freq)
        is_date = self.midnights and pd.api.types.is_object_dtype(self.time_type)
        return stamps.dt.date if is_date else _in_type(stamps, self.time_type)


class Frame(NamedTuple):
    """A table with ids, time and values as columns alone; what it was; the columns of its time and of its ids."""

    rows: pd.DataFrame
    kind: Kind
    time: Names
    ids: Names

    @property
    def layout(self) -> dict[str, object]:
        """The keys of data=csv that say where its time and its ids stand."""
        names = {"time_column": self.time, "id_column": self.ids}
        return {key: some[0] if len(some) == 1 else list(some) for key, some in names.items() if some}

    def called(self, time: object, ids: Names) -> "Frame":
        """The same with other names of the time and of the ids."""
        new = dict(zip(self.ids, ids, strict=True)) if len(ids) == len(self.ids) else {}
        if isinstance(time, str) and len(self.time) == 1:
            new[self.time[0]] = time
        names = [tuple(new.get(name, name) for name in some) for some in (self.time, self.ids)]
        return Frame(self.rows.rename(columns=new), self.kind, *names)


def frame_of(
    table: Table, given: Given, *, panel: bool = True, alone: str = "value", say: str | None = "Forecaster"
) -> Frame:
    """A DataFrame, a Series or a table of polars or pyarrow in the form that the reader takes.

    given: keys of data=csv: the time_column and id_column that are taken where the table has them, and where,
    duplicates or a panel of another form, with which no ids are looked for; neither are they without `panel`. alone:
    what the values of a Series without a name are called. say: who takes a name of the time as a keyword; None: it is
    known. UserError for what is no such table, for one without rows or time, and where several columns may be the time
    or the ids.
    """
    rows, kind = _columns_of(table, alone, [*KNOWN_IDS, *names_of(given.get("id_column"))])
    time = _time(rows, kind, given, say)
    time_type = rows[time[0]].dtype if len(time) == 1 else None
    for name in rows.columns:
        if isinstance(rows[name].dtype, pd.PeriodDtype):
            rows[name] = rows[name].dt.to_timestamp()
        elif name in time and pd.api.types.infer_dtype(rows[name]) in ("mixed", "mixed-integer"):
            rows[name] = _texts(rows[name])  # pyarrow takes a number among timestamps for nanoseconds
    ids = _ids(rows, time, kind, given, say) if panel else ()
    if len(time) == 1:
        cells, midnights = rows[time[0]], False
        written: list[str] = []
        if _is_typed(cells):
            midnights = bool((cells.dt.normalize() == cells).all())
        elif (cell_type := pd.api.types.infer_dtype(cells)) in ("date", "datetime", "datetime64"):
            midnights = cell_type == "date"
        else:
            written = _texts(cells[:WRITTEN])
        kind = replace(kind, time=time[0], time_type=time_type, midnights=midnights, written=written)
    levels = tuple(name for name, _ in kind.index if name not in time)
    own = ids if panel else levels  # which the reader of a file will find
    index = tuple(level for level in kind.index if level[0] in (*time, *own))
    rows = rows[[*time, *(name for name in rows.columns if name not in time)]]
    types = {name: rows[name].dtype for name in rows if name in own or pd.api.types.is_float_dtype(rows[name].dtype)}
    return Frame(rows, replace(kind, ids=own, index=index, types=types), time, ids)


def names_of(names: object) -> Names:
    """One name or several, or none."""
    return (names,) if isinstance(names, str) else tuple(map(str, names)) if isinstance(names, Iterable) else ()


def arrow_table(table: pd.DataFrame) -> pa.Table:
    """The columns of a table without its index. One of cells of several types becomes text."""
    columns = []
    for place in range(table.shape[1]):
        cells = table.iloc[:, place]
        kind = None
        if isinstance(cells.dtype, pd.DatetimeTZDtype):
            kind = pa.timestamp(cells.dtype.unit, pa.lib.tzinfo_to_string(cells.dtype.tz))
            cells = cells.dt.tz_convert(None)  # to UTC, as Arrow holds them
        try:
            columns.append(pa.array(cells, kind, from_pandas=True))
        except (ValueError, TypeError, NotImplementedError):  # so are pyarrow's own errors
            columns.append(pa.array([None if pd.api.types.is_scalar(c) and pd.isna(c) else str(c) for c in cells]))
    return pa.table(columns, names=list(map(str, table.columns)))


def in_zone(times: "pd.Series[pd.Timestamp]", known: str | None, zone: tzinfo | None) -> "pd.Series[pd.Timestamp]":
    """Times without a zone, by the clock of the zone `known`, or of `zone` where that is None, in `zone`.

    The same where `zone` is None. Of an hour that a clock repeats it is the first.
    """
    if zone is None or not pd.api.types.is_datetime64_any_dtype(times):
        return times
    first = np.ones(len(times), dtype=bool)
    local = times.dt.tz_localize(known or zone, ambiguous=first, nonexistent="shift_forward")
    return local.dt.tz_convert(zone)


def _in_type(cells: Cells, kind: Label) -> Cells:
    """Cells in a type; as they are where it cannot hold them. Text of truth values stays text."""
    if kind is None or pd.api.types.is_bool_dtype(kind):
        return cells
    with suppress(ValueError, TypeError):
        if isinstance(kind, pd.CategoricalDtype):
            cells = cells.astype(kind.categories.dtype)
            kind = kind if cells.isin(kind.categories).all() else "category"
        return cells.astype(kind)
    return cells


def _type_text(kind: Label) -> object:
    """A type, or a name of another kind than text, for JSON."""
    if isinstance(kind, pd.CategoricalDtype):
        return {"categories": kind.categories.tolist(), "ordered": kind.ordered}
    return str(kind)


def _type(text: Label) -> Label:
    """The type of which `_type_text` made a text."""
    return pd.CategoricalDtype(**text) if isinstance(text, dict) else text and pd.api.types.pandas_dtype(text)


def _columns_of(table: Table, alone: str, id_names: Sequence[str]) -> tuple[pd.DataFrame, Kind]:
    """A table whose index is columns, and what is known of its kind before its time is.

    id_names: what an index of numbers is called that is no numbering of the rows.
    """
    native, rows = None, table
    if isinstance(table, pd.Series):
        rows = table.to_frame(alone if table.name is None else str(table.name))
    elif not isinstance(table, pd.DataFrame):
        native = _native(table)
        rows, native = native.to_pandas(), native.head(0)
    if isinstance(rows.columns, pd.MultiIndex):
        first = rows.columns[0] if len(rows.columns) else ()
        raise UserError(
            f"{NAME} has columns of {rows.columns.nlevels} levels, the first is {first}. Give each one name: "
            "df.columns = ['_'.join(map(str, names)) for names in df.columns]"
        )
    names = list(map(str, rows.columns))
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{NAME} has '{twice}' twice. Give each column a name of its own")
    if not len(rows):
        raise UserError(f"{NAME} has no rows. Give it the rows of the history")
    labels = [table.name] if isinstance(table, pd.Series) else rows.columns
    columns, index = rows.set_axis(names, axis=1).reset_index(drop=True), []
    label, cells = rows.index.names[0], rows.index.get_level_values(0)
    unnamed, numbered = label is None, pd.api.types.is_numeric_dtype(cells)
    timed = str(label) in id_names or (not (unnamed and numbered) and _looks_like_time(cells))
    counted = rows.index.nlevels == 1 and not timed and (numbered or (unnamed and cells.is_unique))  # names of rows
    for place in range(0 if counted else rows.index.nlevels):
        cells, label = rows.index.get_level_values(place), rows.index.names[place]
        usual = USUAL.time_columns[0] if _looks_like_time(cells) else KNOWN_IDS[0]
        name = str(label) if label is not None else usual if usual not in columns else f"{usual}_{place}"
        if name in columns:
            raise UserError(f"'{name}' is a column and a level of the index of {NAME}. Rename one of them")
        columns.insert(place, name, cells)
        index.append((name, label))
    kind = Kind(
        index=tuple(index),
        names=dict(zip(names, labels, strict=True)),
        freq=getattr(rows.index, "freqstr", None),
        is_series=isinstance(table, pd.Series),
        native=native,
    )
    return columns, kind


def _native(table: Table) -> Table:
    """A table of another library as one of narwhals. UserError for what is none."""
    import narwhals as nw

    if nw.dependencies.is_into_dataframe(table):
        return nw.from_native(table, eager_only=True)
    kind = type(table).__name__
    fix = "df.collect()" if kind == "LazyFrame" else "pd.DataFrame(...)"
    raise UserError(f"a {kind} was given in place of a DataFrame or the path of a CSV file. Give {fix}")


def _texts(cells: Cells) -> list[str]:
    """Cells as a file has them."""
    column = pd.Series(cells).astype(object)
    texts: list[str] = column.where(column.notna(), "").astype(str).tolist()
    return texts


def _is_typed(cells: Cells) -> bool:
    """Whether cells are times by their type."""
    return isinstance(cells.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(cells)


def _looks_like_time(cells: Cells) -> bool:
    """Whether cells are times by their type, or are written so."""
    return _is_typed(cells) or bool(find_times({str(cells.name or ""): _texts(cells[:SAMPLE])}))


def _time(rows: pd.DataFrame, kind: Kind, given: Given, say: str | None) -> Names:
    """The columns of the time: those given, a level of the index, of a usual name, of times by type, or by values."""
    named = names_of(given.get("time_column"))
    if named and set(named) <= set(rows):
        return named
    candidates: list[Names] = [(name,) for name, _ in kind.index if _looks_like_time(rows[name])]
    if not candidates and not named and "time_column" in given:  # there is none
        return ()
    typed = [name for name in map(str, rows) if _is_typed(rows[name])]
    usual = [name for name in USUAL.time_columns if name in rows]
    usual += [name for name in KNOWN_TIMES if name in (typed or rows)]
    candidates = candidates or [(name,) for name in usual[:1] or typed]
    candidates = candidates or find_times({name: _texts(rows[name][:SAMPLE]) for name in map(str, rows)})
    if not candidates:
        raise UserError(
            f"{NAME} has no time: neither its index nor one of the columns {listed([*rows][:12])} holds timestamps. "
            "Give it an index of timestamps: df = df.set_index(pd.to_datetime(df['NAME']))"
        )
    if len(candidates) == 1:
        return candidates[0]
    rivals = find_times({name: _texts(rows[name]) for names in candidates for name in names})
    if len(rivals) > 1:
        raise _rivals([" + ".join(names) for names in rivals], "time", given, say)
    return rivals[0]


def _ids(rows: pd.DataFrame, time: Names, kind: Kind, given: Given, say: str | None) -> Names:
    """The columns of the ids: those given, the levels of an index, or one of a usual name."""
    named = names_of(given.get("id_column"))
    if named and set(named) <= set(rows):
        return named
    if len(kind.index) > 1 and (levels := tuple(name for name, _ in kind.index if name not in time)):
        return levels
    if any(given.get(key) for key in ("where", "duplicates", "panel")):
        return ()
    usual = [name for name in KNOWN_IDS if name in rows]
    if len(usual) > 1:
        raise _rivals(usual, "id", given, say)
    return tuple(usual)


def _rivals(names: Sequence[str], role: str, given: Given, say: str | None) -> UserError:
    """The error for columns of which each may be the id, or the time."""
    key = f"{role}_column"
    fix = f"{say}(..., {key}={names[0]!r})" if say else f"df = df.rename(columns={ {names[0]: given.get(key)} })"
    return UserError(f"{NAME}: {' and '.join(map(repr, names))} may both be the {role}. Say which: {fix}")
