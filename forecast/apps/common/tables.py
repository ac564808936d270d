"""A DataFrame as the file that the one reader of series takes, so that both are checked and used alike."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import fields
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow.parquet as pq

from forecast.apps.common.frame_kinds import KIND, NAME, Frame, Kind, Table, arrow_table, frame_of, names_of
from forecast.comparison.rows import at
from forecast.config.build import parameters, valid_value
from forecast.config.compose import parsed
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.sources import CsvSource, Source
from forecast.errors import UserError, closest
from forecast.files import replacing
from forecast.run_folder import TRAINING_TABLE
from forecast.run_folder.shapes import Metrics
from forecast.text.terminal import quiet_output

LAID_OUT = ("time_column", "id_column", "where", "duplicates", "panel")


def data_keys(words: Sequence[str]) -> dict[str, object]:
    """Of overrides those that say where ids and times stand, {KEY: VALUE} of data=csv."""
    known = {key: parameters(CsvSource)[key].annotation for key in LAID_OUT}
    own = [word for word in words if word.partition("=")[0] in {f"data.{key}" for key in LAID_OUT}]
    return typed_settings(own, "data", known)


def typed_settings(words: Sequence[str], group: str, known: Mapping[str, object]) -> dict[str, object]:
    """{KEY: VALUE} of words GROUP.KEY=VALUE in Hydra's grammar. UserError for others.

    known: {KEY: annotation of its values}.
    """
    settings = {}
    for word in words:
        place, _, text = word.partition("=")
        key = place.removeprefix(f"{group}.")
        if key not in known or key == place:
            near = closest(place, [f"{group}.{name}" for name in known])
            raise UserError(f"{word}: this command does not take it.{near} Set one of {group}.{{{', '.join(known)}}}.")
        (override,) = parsed([word])
        if override.is_sweep_override():
            raise UserError(f"{word!r} has several values, as a sweep has; a list is written {place}=[{text}].")
        settings[key] = valid_value(override.value(), known[key], place)
    return settings


def data_keywords(settings: Iterable[str]) -> list[str]:
    """Of keywords those that are keys of the data."""
    return [name for name in settings if name in parameters(CsvSource)]


def known_frame(table: Table, source: Source, columns: Sequence[str] = ()) -> Frame:
    """A table in the form that the reader takes, with the names of the data that a model was trained on.

    columns: those that it reads, whose only one a Series without a name holds.
    """
    panel = isinstance(source, CsvSource) and source.panel_form == "long"
    given = {"time_column": getattr(source, "time_column", "date"), "id_column": getattr(source, "id_column", None)}
    alone = columns[0] if len(columns) == 1 else "value"
    frame = frame_of(table, given, panel=panel, alone=alone, say=None)
    return frame.called(given["time_column"], names_of(given["id_column"]))


def layout_of(frame: Frame, source: Source) -> dict[str, object]:
    """The keys of a layout that read a table: of its rows becomes what the source has it, its text is as usual.

    Columns of time and of conditions that the table has are read as the source's own.
    """
    own = source if isinstance(source, CsvSource) else USUAL
    kept = {
        key: getattr(own, key)
        for key in ("missing", "time_zone", "sort", "duplicates", "resample", "aggregate", "gaps")
    }
    if own.where and set(own.where) <= set(frame.rows):
        kept["where"] = own.where
    if not frame.time:
        kept |= {"time_column": None, "freq": own.freq, "start": own.start}
    elif not any(pd.api.types.is_datetime64_any_dtype(frame.rows[name]) for name in frame.time):
        kept |= {"time_format": own.time_format if frame.time == own.time_columns else None}
    layout = USUAL.changed({"time_column": frame.layout.get("time_column"), **kept})
    return {key.name: getattr(layout, key.name) for key in fields(Layout) if key.name != "columns"}


def place_table(folder: Path, frame: Frame) -> bool:
    """Writes a table into the folder of a training, made of it; False where the same stands there.

    Raises UserError where another one stands there, which is kept.
    """
    path = folder / TRAINING_TABLE
    with replacing(path) as unfinished:
        pq.write_table(arrow_table(frame.rows).replace_schema_metadata({KIND: frame.kind.text()}), unfinished)
        if not path.exists():
            return True
        if path.read_bytes() != unfinished.read_bytes():
            raise UserError(f"{folder} holds another {TRAINING_TABLE}. Choose another folder, or move the file away")
        return False


@contextmanager
def spoken(*, verbose: bool) -> Iterator[None]:
    """verbose: False shows warnings alone."""
    silent = nullcontext() if verbose else redirect_stdout(StringIO())
    with silent, nullcontext() if verbose else quiet_output():
        yield


@contextmanager
def spoken_of_as_frame(path: Path, *, name: str = NAME) -> Iterator[None]:
    """A UserError about the file that a table was written to speaks of the DataFrame, by that name, and of its rows."""
    try:
        yield
    except UserError as error:
        text = re.sub(r"(?<!path=)(?:\bfuture=)?" + re.escape(str(path)), name, str(error))  # commands name the file
        if text != str(error):
            rows = "df" if name == NAME else name
            error.args = (re.sub(r"\bline (\d+)", lambda line: f"{rows}.iloc[{int(line[1]) - 2}]", text),)
        raise


@contextmanager
def as_file(
    table: Table | None, source: Source, columns: Sequence[str] = (), *, name: str = NAME
) -> Iterator[tuple[Path | str | None, Mapping[str, object], Kind | None]]:
    """(a file with the rows of `table`, the keys of a `Layout` that read it, what it was); a path, and None, as it is.

    columns: as `known_frame` takes them. name: of the table, by which a UserError speaks of it and its rows.
    """
    if table is None or isinstance(table, Path | str):
        yield table, {}, None if table is None else Kind()
        return
    frame = known_frame(table, source, columns)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(arrow_table(frame.rows), path)
        with spoken_of_as_frame(path, name=name):
            yield path, layout_of(frame, source), frame.kind


def errors_table(metrics: Metrics, split: str) -> pd.DataFrame:
    """The errors in metrics.json on a split: a row for the model and one for each baseline, NaN where not known."""
    from forecast.evaluation.metrics import UNIT_FREE

    model, baselines = metrics["model"], metrics["baselines"]
    rows = {model: metrics[split]} | {
        f"{name}_baseline" if name == model else name: baselines[name] for name in baselines
    }
    original = [f"{error}_original" for error in ("mse", "mae") if "original" in metrics[split]]
    names = ("mse_scaled", "mae_scaled", *UNIT_FREE, *original)
    places = {name: tuple(reversed(name.split("_"))) for name in names}
    table: pd.DataFrame = pd.DataFrame(
        {name: [at(errors, place) for errors in rows.values()] for name, place in places.items()},
        index=list(rows),
        dtype=float,
    )
    return table
