"""What is known in advance of the steps that are forecast: the file `future`, as the model wants it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from forecast.checkpoint.load import Checkpoint
from forecast.commands.inputs import read_source
from forecast.data.categories import in_numbers_of
from forecast.data.cells import FloatArray, IntArray
from forecast.data.frame import SeriesFrame
from forecast.data.frequency import future_timestamps
from forecast.data.future import Wanted, read_future, wanted_after
from forecast.data.holidays import holiday_flags
from forecast.data.panel.assembly import times_are_counted
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.future import StepsAfter, read_panel_future
from forecast.data.roles import HOLIDAY
from forecast.data.sources import CsvSource, Source
from forecast.errors import UserError

FUTURE = "what is known in advance (future)"


def check_future(checkpoint: Checkpoint, path: Path | str | None) -> None:
    """UserError for a file of what is known in advance where the model knows nothing so."""
    if path is not None and not checkpoint.told:
        raise UserError(
            f"future={path}: the model was trained without columns that are known in advance. Leave it out, or train "
            "with data.known=[NAME]."
        )


def future_values(
    checkpoint: Checkpoint,
    source: Source,
    frame: SeriesFrame,
    path: Path | str | None,
    reading: Mapping[str, object] | None = None,
) -> FloatArray:
    """The covariates (P, K) at the steps after a history, in original units; of what stays hidden 0.

    path: the file `future`; reading: as in `history`. UserError where it is missing or lacks something.
    """
    check_future(checkpoint, path)
    columns, steps = checkpoint.told, checkpoint.config.pred_len
    values = np.zeros((steps, len(checkpoint.covariates)))
    if checkpoint.holidays is not None:
        after = future_timestamps(frame.timestamps[-1], frame.freq, steps)
        values[:, checkpoint.covariates.index(HOLIDAY)] = holiday_flags(after, checkpoint.holidays)
    if columns:
        if path is None:
            raise _needed(wanted_after(frame, columns, steps))
        file, book = read_source(source, path, reading), checkpoint.codebook(source)
        told = read_future(path, file, columns=columns, history=frame, steps=steps, book=book)
        told = in_numbers_of(checkpoint.categories, told, columns, book, str(path))
        values[:, [checkpoint.covariates.index(name) for name in columns]] = told
    return values


def panel_future(
    checkpoint: Checkpoint, source: CsvSource, frame: PanelFrame, series: IntArray, future: CsvSource | None
) -> FloatArray:
    """The covariates (S, P, K) at the steps after each series of a panel; see `future_values`.

    source: the history. series (M,): those that are forecast. future: see `future_source`.
    """
    columns, steps = checkpoint.told, checkpoint.config.pred_len
    values = np.zeros((len(frame), steps, len(checkpoint.covariates)))
    if checkpoint.holidays is not None:
        flags = holiday_flags(frame.calendar(steps), checkpoint.holidays)
        after = (frame.steps + frame.lengths)[:, None] + np.arange(steps)
        values[..., checkpoint.covariates.index(HOLIDAY)] = flags[after]
    if columns:
        if future is None:
            raise _needed(StepsAfter(frame, steps, times_are_counted(source)).wanted(int(series[0]), columns))
        book = checkpoint.codebook(source)
        told = read_panel_future(future, columns=columns, history=frame, series=series, steps=steps, book=book)
        told = in_numbers_of(checkpoint.categories, told, columns, book, str(future.path))
        values[..., [checkpoint.covariates.index(name) for name in columns]] = told
    return values


def future_source(
    checkpoint: Checkpoint, source: Source, path: Path | str | None, reading: Mapping[str, object] | None = None
) -> CsvSource | None:
    """The file `future` of a panel, read as its history; None where none was named."""
    check_future(checkpoint, path)
    if path is None:
        return None
    file = read_source(source, path, reading)
    assert isinstance(file, CsvSource)
    return file


def _needed(wanted: Wanted) -> UserError:
    return UserError(
        f"The model was trained with columns that are known in advance, and must be told {wanted}. Write them into a "
        "file as the history is written and name it: future=FILE"
    )
