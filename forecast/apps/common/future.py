"""What is known in advance of the steps that are forecast: the file `future`, as the model wants it."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from forecast.apps.common.inputs import read_source
from forecast.checkpoint.load import Checkpoint
from forecast.data.future import read_future
from forecast.data.panel import PanelFrame
from forecast.data.roles import HOLIDAY, holiday_flags, recode
from forecast.data.sources import CsvSource, Source
from forecast.data.values.cells import FloatArray, IntArray
from forecast.errors import UserError
from forecast.text.terminal import listed

log = logging.getLogger(__name__)


def future_source(
    checkpoint: Checkpoint, source: Source, path: Path | str | None, reading: Mapping[str, object] | None = None
) -> CsvSource | None:
    """The file `future`, read as the history `source` but for `reading`; None where none was named.

    UserError where the model knows nothing in advance.
    """
    if path is None:
        return None
    if not checkpoint.future_columns:
        raise UserError(
            f"future={path}: the model was trained without columns that are known in advance. Leave it out, or train "
            "with data.known=[NAME]."
        )
    return read_source(source, path, reading)


def future_values(
    checkpoint: Checkpoint, source: Source, frame: PanelFrame, series: IntArray, future: CsvSource | None
) -> FloatArray:
    """The covariates (S, P, K) at the steps after each series, in original units; of what stays hidden 0.

    source: the history. series (M,): those that are forecast. future: the file with the values of what is known in
    advance; None: they stand in the history's own file, behind the last target. UserError where one is missing.
    """
    columns, steps = checkpoint.future_columns, checkpoint.config.pred_len
    values = np.zeros((len(frame), steps, len(checkpoint.covariates)))
    if checkpoint.holidays is not None:
        flags = holiday_flags(frame.shown(frame.calendar(steps)), checkpoint.holidays)
        after = (frame.steps + frame.lengths)[:, None] + np.arange(steps)
        values[..., checkpoint.covariates.index(HOLIDAY)] = flags[after]
    if columns:
        file = source if future is None else future
        assert isinstance(file, CsvSource)
        book = checkpoint.codebook(file)
        known = read_future(
            file, columns=columns, history=frame, series=series, steps=steps, book=book, own=future is None
        ).copy()
        if future is None:
            log.info("%s: its rows behind the last target say what is known in advance: %s", file.path, listed(columns))
        recode(known, columns, book.words(columns), checkpoint.categories, where=str(file.path))
        values[..., [checkpoint.covariates.index(name) for name in columns]] = known
    return values
