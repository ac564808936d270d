"""A DataFrame as the file that the one reader of series takes, so that both are checked and used alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from forecast.commands.outputs import keep_others
from forecast.data.sources import FileSource, Source
from forecast.errors import UserError
from forecast.files import replacing
from forecast.run_folder import RUN_INFO, TRAINING_TABLE
from forecast.text.terminal import listed

Table = pd.DataFrame | Path | str
NAME = "the DataFrame"


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


def write_table(table: pd.DataFrame, path: Path, *, time_column: str, separator: str = ",", decimal: str = ".") -> None:
    """Writes a table as a CSV file, the time first. Raises UserError for a table without time."""
    actual = time_column_of(table, time_column)
    if isinstance(table.index, pd.DatetimeIndex):
        table = table.rename_axis(index=actual).reset_index()
    table = table.rename(columns={actual: time_column})
    columns = [time_column, *(name for name in table.columns if name != time_column)]
    table.to_csv(path, columns=columns, index=False, sep=separator, decimal=decimal)


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


@contextmanager
def as_file(table: Table | None, source: Source) -> Iterator[Path | str | None]:
    """The path of a file with the rows of `table`, written as the source's own file is; a path, and None, as they are.

    A UserError that is raised meanwhile speaks of the DataFrame in place of the file.
    """
    if not isinstance(table, pd.DataFrame):
        yield table
        return
    layout = {"time_column": source.time_column}
    if isinstance(source, FileSource):
        layout |= {"separator": source.separator, "decimal": source.decimal}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(table, path, **layout)
        try:
            yield path
        except UserError as error:
            raise UserError(str(error).replace(str(path), NAME)) from error
