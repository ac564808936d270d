"""A DataFrame as the file that the one reader of series takes, so that both are checked and used alike."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from forecast.apps.common.outputs import keep_others
from forecast.comparison.rows import at
from forecast.config.check import check_reading
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.sources import FileSource, Source
from forecast.errors import UserError
from forecast.evaluation.metrics import UNIT_FREE
from forecast.files import replacing
from forecast.run_folder import RUN_INFO, TRAINING_TABLE
from forecast.run_folder.shapes import Metrics, block_of
from forecast.text.terminal import listed

Table = pd.DataFrame | Path | str
NAME = "the DataFrame"


def check_table(table: object) -> None:
    """Raises UserError for what is no DataFrame with one name a column, and no path."""
    if isinstance(table, pd.Series):
        name = str(table.name or "value")
        raise UserError(f"a Series was given in place of a DataFrame. Give series.to_frame({name!r})")
    if table is not None and not isinstance(table, Table):
        kind = type(table).__name__
        raise UserError(f"a {kind} was given in place of a DataFrame or the path of a CSV file. Give pd.DataFrame(...)")
    if isinstance(table, pd.DataFrame) and isinstance(table.columns, pd.MultiIndex):
        first = table.columns[0] if len(table.columns) else ()
        raise UserError(
            f"{NAME} has columns of {table.columns.nlevels} levels, the first is {first}. Give each one name: "
            "df.columns = ['_'.join(map(str, names)) for names in df.columns]"
        )


def time_column_of(table: pd.DataFrame, usual: str = "date") -> str:
    """What a table's time is called: its DatetimeIndex, the column `usual`, or its only column of timestamps.

    Raises UserError when it has none of these.
    """
    if isinstance(table.index, pd.DatetimeIndex):
        return str(table.index.name or usual)
    times = [str(name) for name in table.columns if pd.api.types.is_datetime64_any_dtype(table[name])]
    if usual in table.columns:
        return usual
    if len(times) == 1:
        return times[0]
    names = listed(map(str, table.columns[:12]))
    raise UserError(
        f"{NAME} has no time: no index of it, no column '{usual}' and {len(times)} columns of timestamps, of {names}. "
        "Give it an index of timestamps: df = df.set_index(pd.to_datetime(df['NAME']))"
    )


def zone_of(table: object, usual: str = "date") -> tzinfo | None:
    """The time zone of a DataFrame's times; None without one, and of what is no DataFrame."""
    if not isinstance(table, pd.DataFrame):
        return None
    if isinstance(table.index, pd.DatetimeIndex):
        return table.index.tz
    columns = [usual] if usual in table.columns else list(table.columns)
    zones = (getattr(table[name].dtype, "tz", None) for name in columns)
    return next((zone for zone in zones if zone is not None), None)


def in_zone(times: "pd.Series[pd.Timestamp]", known: str | None, zone: tzinfo | None) -> "pd.Series[pd.Timestamp]":
    """Times without a zone, by the clock of the zone `known`, or of `zone` where that is None, in `zone`.

    The same where `zone` is None. Of an hour that a clock repeats it is the first.
    """
    if zone is None or not pd.api.types.is_datetime64_any_dtype(times):
        return times
    first = np.ones(len(times), dtype=bool)
    local = times.dt.tz_localize(known or zone, ambiguous=first, nonexistent="shift_forward")
    return local.dt.tz_convert(zone)


def write_table(table: pd.DataFrame, path: Path, *, time_column: str | None) -> None:
    """Writes a table as a Parquet file, the time first; None: its columns as they are, without its index.

    A column of cells of several types becomes text. Raises UserError for a table without time.
    """
    if time_column is not None:
        actual = time_column_of(table, time_column)
        if isinstance(table.index, pd.DatetimeIndex):
            table = table.rename_axis(index=actual).reset_index()
        table = table.rename(columns={actual: time_column})
        table = table[[time_column, *(name for name in table.columns if name != time_column)]]
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
    pq.write_table(pa.table(columns, names=list(map(str, table.columns))), path)


def layout_of(table: pd.DataFrame, source: Source) -> Layout:
    """How a table is read: what becomes of its rows as the source has it, how its text is written as usual.

    Columns of time and of conditions that the table has are read as the source's own.
    """
    own = source if isinstance(source, FileSource) else USUAL
    kept = {key: getattr(own, key) for key in ("missing", "time_zone", "duplicates", "resample", "aggregate", "gaps")}
    if own.where and set(own.where) <= set(table.columns):
        kept["where"] = own.where
    indexed = isinstance(table.index, pd.DatetimeIndex)
    if own.time_column is None and not indexed:
        return Layout(time_column=None, freq=own.freq, start=own.start, **kept)
    if own.time_columns and not indexed and set(own.time_columns) <= set(table.columns):
        dates = any(pd.api.types.is_datetime64_any_dtype(table[name]) for name in own.time_columns)
        time_format = None if dates else own.time_format
        return Layout(time_column=own.time_column, time_format=time_format, **kept)
    usual = own.time_column if isinstance(own.time_column, str) else "date"
    return Layout(time_column=time_column_of(table, usual), **kept)


def keep_table(folder: Path, table: pd.DataFrame, *, time_column: str) -> None:
    """Writes the table of a training into its run folder. Raises UserError where another file would be lost."""
    path = folder / TRAINING_TABLE
    fix = "choose another folder, or move the file away"
    run = (folder / RUN_INFO).is_file()
    keep_others(
        [path], ours=run, key=f"hydra.run.dir={folder}", like=f"a file of a training: there is no {RUN_INFO}", fix=fix
    )
    with replacing(path) as unfinished:
        write_table(table, unfinished, time_column=time_column)


def place_table(folder: Path, table: pd.DataFrame) -> bool:
    """Writes a table into the folder that a caller has named; False where the same stands there.

    Raises UserError where another one stands there, which is kept.
    """
    path = folder / TRAINING_TABLE
    with replacing(path) as unfinished:
        write_table(table, unfinished, time_column=time_column_of(table))
        if not path.exists():
            return True
        if path.read_bytes() != unfinished.read_bytes():
            raise UserError(f"output={str(folder)!r} holds another {TRAINING_TABLE}. Choose another folder")
        return False


@contextmanager
def as_file(
    table: Table | None, source: Source, reading: Mapping[str, object] | None = None
) -> Iterator[tuple[Path | str | None, Mapping[str, object]]]:
    """(a file with the rows of `table`, the keys of a `Layout` that read it); a path, and None, as they are.

    reading: such keys for a path. A UserError that is raised meanwhile speaks of the DataFrame in place of the file.
    """
    check_table(table)
    if reading and not isinstance(table, Path | str):
        raise UserError(f"reading: {next(iter(reading))} says how a file is read, and none is given. Leave it out.")
    check_reading(reading or {})
    if not isinstance(table, pd.DataFrame):
        yield table, reading or {}
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        layout = layout_of(table, source)
        named = set(layout.time_columns) <= set(table.columns)
        write_table(table, path, time_column=None if named else str(layout.time_column))
        try:
            yield path, {key.name: getattr(layout, key.name) for key in fields(Layout) if key.name != "columns"}
        except UserError as error:
            raise UserError(str(error).replace(str(path), NAME)) from error


def errors_table(metrics: Metrics, split: str) -> pd.DataFrame:
    """The errors in metrics.json on a split: a row for the model and one for each baseline, NaN where not known."""
    model, baselines = metrics["model"], metrics["baselines"]
    rows = {model: block_of(metrics, split)} | {
        f"{name}_baseline" if name == model else name: baselines[name] for name in baselines
    }
    original = [f"{error}_original" for error in ("mse", "mae") if "original" in block_of(metrics, split)]
    names = ("mse_scaled", "mae_scaled", *UNIT_FREE, *original)
    places = {name: tuple(reversed(name.split("_"))) for name in names}
    table: pd.DataFrame = pd.DataFrame(
        {name: [at(errors, place) for errors in rows.values()] for name, place in places.items()},
        index=list(rows),
        dtype=float,
    )
    return table
