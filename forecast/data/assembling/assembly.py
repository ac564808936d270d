"""The parts of a panel that were made regular, as one frame."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forecast.data.assembling.grid import Grid
from forecast.data.assembling.regular import Regular, say_left_out
from forecast.data.assembling.rows import PanelRows
from forecast.data.gaps import Repair
from forecast.data.panel import PanelFrame
from forecast.data.sources import CsvSource
from forecast.errors import UserError


def times_are_counted(source: CsvSource) -> bool:
    """Whether the first row of a series is its first step, as the file has no times."""
    return source.panel_form == "rows" or not source.time_columns


def frame_of(series: Regular, rows: PanelRows, grid: Grid, name: str, *, counted: bool) -> PanelFrame:
    """The frame of all series that were kept; what was left out and filled is said. UserError where none was kept.

    rows: of which these are, for their names. counted: whether the first row of a series is its first step.
    """
    ids = rows.ids
    left_out = {reason: [ids[number] for number in numbers.tolist()] for reason, numbers in series.left_out.items()}
    if not series.kept.size:
        reasons = ", ".join(f"{len(names)} with {reason}" for reason, names in left_out.items())
        raise UserError(
            f"{name}: none of {len(ids)} series can be used: {reasons}. Name columns that all rows have: "
            "data.columns=[NAME]"
        )
    say_left_out(name, left_out, series.repair)
    begin = int(series.steps.min())
    offsets = np.concatenate([[0], np.cumsum(series.lengths)]).astype(np.int64)
    return PanelFrame(
        values=np.ascontiguousarray(series.values),  # columns are read one by one, and windows are views of rows
        offsets=offsets,
        steps=series.steps - begin,
        ids=np.array([ids[number] for number in series.kept.tolist()], dtype=np.str_),
        first=grid.stamp(begin),
        freq=grid.freq,
        columns=rows.columns,
        name=name,
        measured=series.measured,
        id_column=rows.id_column,
        time_column=rows.time_column,
        numbers=(begin + 1, 1) if counted or not grid.stepped else grid.number(begin),
        repair=series.repair,
        left_out=left_out,
        checksum=rows.checksum,
        time_format=rows.time_format,
    )


def taken_series(parts: Sequence[Regular]) -> Regular:
    """Parts of one panel, one after another, without their values."""
    repairs = [part.repair for part in parts]
    reasons = dict.fromkeys(reason for part in parts for reason in part.left_out)
    return replace(
        parts[0],
        kept=np.concatenate([part.kept for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        steps=np.concatenate([part.steps for part in parts]),
        repair=Repair(
            repairs[0].policy,
            rows_added=sum(repair.rows_added for repair in repairs),
            cells_filled=sum(repair.cells_filled for repair in repairs),
            longest_run=max(repair.longest_run for repair in repairs),
        ),
        left_out={
            reason: np.concatenate([part.left_out[reason] for part in parts if reason in part.left_out])
            for reason in reasons
        },
    )
