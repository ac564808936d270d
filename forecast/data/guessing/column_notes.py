"""What is worth a look in the numbers of a file that can be read: outliers, and columns that never move."""

import json
import shlex

import numpy as np
import numpy.typing as npt

from forecast.data.reading.layout import Layout
from forecast.data.reading.table import Table
from forecast.data.reading.time_formats import MONTH_NUMBERS
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import Findings, counted, quoted

FAR = 10.0  # robust standard deviations from the median
JUMP = 20.0  # robust standard deviations of the steps, there and back again
RARE = 0.01  # share of the values: what is far oftener than this is a second level of the column
_TO_SIGMA = 1.4826  # of a normal distribution: standard deviation / median absolute deviation


def note_columns(table: Table, layout: Layout, findings: Findings) -> list[int]:
    """Notes on the columns of a table that a layout reads; the number of outliers of each of them (C)."""
    months = [name for name in table.columns if name.strip().lower() in MONTH_NUMBERS]
    if len({MONTH_NUMBERS[name.strip().lower()] for name in months}) == 12 and isinstance(layout.time_column, str):
        path, year = str(table.text.path), json.dumps(layout.time_column)
        kind = "" if table.text.table is None else table.text.table.kind.split()[1].lower()
        written = f", sep={json.dumps(table.text.separator)}, decimal={json.dumps(layout.decimal)}" if not kind else ""
        code = (
            f'(__import__("pandas").read_{kind or "csv"}({json.dumps(path)}{written})'
            f'.melt({year}, {json.dumps(months)}, "month").pipe(lambda m: '
            f'm.assign(date=m[{year}].astype(str).str[:4] + "-" + m["month"].str.strip().str[:3])'
            f'[["date", "value"]].to_csv({json.dumps(path + ".months.csv")}, index=False)))'
        )
        findings.add(
            "note",
            "Twelve columns are named as months: they may be one series, a row a year. To forecast that, write a row "
            f"for each month, and name the file that this makes:\npython -c {shlex.quote(code)}",
        )
    outliers = [find_outliers(column) for column in table.values.T]
    worst = [
        int(rows[abs(column[rows] - np.median(column[np.isfinite(column)])).argmax()]) if rows.size else -1
        for rows, column in zip(outliers, table.values.T, strict=True)
    ]
    records = table.records([row for row in worst if row >= 0])
    for name, column, rows, row in zip(table.columns, table.values.T, outliers, worst, strict=True):
        known = column[np.isfinite(column)]
        if len(known) and (known == known[0]).all():
            findings.add("note", f"Column {quoted(name)} is always {known[0]:g}. It says nothing: better drop it.")
        if rows.size:
            median, scale = float(np.median(known)), _scale(known)
            away = abs(column[row] - median) / scale if scale else 0.0
            where = f"{away:.0f} robust standard deviations from the median ({median:g})"
            jump = "a jump away from both of its neighbours and back"
            findings.add(
                "note",
                f"Column {quoted(name)}: {counted(rows.size, 'outlier')}; the farthest, {column[row]:g} in line "
                f"{records[row][0]}, {where if away > FAR else jump}. Faults of a sensor are better left empty and "
                "filled by data.gaps; peaks that were there, as of rain or sun, stay.",
            )
    return [rows.size for rows in outliers]


def find_outliers(values: FloatArray) -> npt.NDArray[np.int64]:
    """The rows (W,) of finite values (n,) that are far from all others, or jump away from both neighbours and back.

    Far: more than FAR robust standard deviations (from the median absolute deviation) from the median; a jump: more
    than JUMP of those of the steps. A column that hardly moves has no such measure, and no outliers.
    """
    known = np.flatnonzero(np.isfinite(values))
    x = values[known]
    if len(x) < 3:
        return np.empty(0, dtype=np.int64)
    scale = _scale(x)
    far = abs(x - np.median(x)) / scale > FAR if scale > 0 else np.zeros(len(x), dtype=bool)
    if far.mean() > RARE and len(np.unique(x[far])) > 1:  # another level; one value again and again is a code of faults
        far[:] = False
    steps = np.diff(x)
    scale = _scale(steps)
    if scale > 0:
        before, after = steps[:-1] / scale, steps[1:] / scale
        far[1:-1] |= (np.minimum(abs(before), abs(after)) > JUMP) & ((before < 0) != (after < 0))
    return known[far].astype(np.int64)


def _scale(x: FloatArray) -> float:
    return float(np.median(abs(x - np.median(x)))) * _TO_SIGMA
