"""The columns of numbers in a file: what is missing, what is no number, what never moves, what stands out."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.gaps import MISSING_WORDS, longest_run
from forecast.data.survey.findings import Finding, cell_words, many

FloatArray = npt.NDArray[np.float64]

FAR = 10.0  # robust standard deviations from the median
JUMP = 20.0  # robust standard deviations of the steps, there and back again
MOST_TEXT = 0.5  # share of the cells: beyond it a column holds names, below it some cells are damaged
RARE = 0.01  # share of the values: what is far oftener than this is a second level of the column
_COMMA = re.compile(r"[+-]?\d+,\d+")
_POINT = re.compile(r"[+-]?\d+\.\d+")
_TO_SIGMA = 1.4826  # of a normal distribution: standard deviation / median absolute deviation


@dataclass(frozen=True)
class Column:
    """One column. values (n,): NaN where a cell is missing or no number; longest: the most such rows in succession."""

    name: str
    values: FloatArray
    missing: int
    longest: int
    outliers: npt.NDArray[np.int64]
    findings: list[Finding]

    @property
    def constant(self) -> bool:
        """Whether all its numbers are one number."""
        known = self.values[~np.isnan(self.values)]
        return bool(len(known)) and bool((known == known[0]).all())


def guess_decimal(columns: list[list[str]]) -> str:
    """A comma when more cells are written so, else a point."""
    cells = [cell for column in columns for cell in column[:1000]]
    commas, points = (sum(bool(form.fullmatch(cell)) for cell in cells) for form in (_COMMA, _POINT))
    return "," if commas > points else "."


def survey_column(name: str, cells: list[str], lines: list[int], decimal: str) -> Column:
    """Reads a column; lines: of the file, one for each cell."""
    text = pd.Series(cells, dtype=str)
    missing = text.str.lower().isin(MISSING_WORDS).to_numpy()
    written = text if decimal == "." else text.str.replace(".", "?", regex=False).str.replace(",", ".", regex=False)
    numbers = pd.to_numeric(written.mask(missing), errors="coerce")
    values = np.array(numbers, dtype=np.float64)
    infinite = np.isinf(values)
    values[infinite] = np.nan
    other = np.flatnonzero(np.isnan(values) & ~infinite & ~missing)
    outliers = find_outliers(values)
    found = _findings(name, cells, lines, values=values, missing=missing, infinite=infinite, other=other)
    found += _outlier_finding(name, lines, values, outliers)
    return Column(name, values, int(missing.sum()), longest_run(missing), outliers, found)


def find_outliers(values: FloatArray) -> npt.NDArray[np.int64]:
    """The rows (W,) of values (n,) that are far from all others, or jump away from both neighbours and back.

    Far: more than FAR robust standard deviations (from the median absolute deviation) from the median; a jump: more
    than JUMP of those of the steps. A column that hardly moves has no such measure, and no outliers.
    """
    known = np.flatnonzero(~np.isnan(values))
    x = values[known]
    if len(x) < 3:
        return np.empty(0, dtype=np.int64)
    far = _distances(x) > FAR
    if far.mean() > RARE and len(np.unique(x[far])) > 1:  # another level; one value again and again is a code of faults
        far[:] = False
    steps = np.diff(x)
    scale = _scale(steps)
    if scale > 0:
        before, behind = steps[:-1] / scale, steps[1:] / scale
        far[1:-1] |= (np.minimum(abs(before), abs(behind)) > JUMP) & ((before < 0) != (behind < 0))
    return known[far].astype(np.int64)


def _scale(x: FloatArray) -> float:
    return float(np.median(abs(x - np.median(x)))) * _TO_SIGMA


def _distances(x: FloatArray) -> FloatArray:
    scale = _scale(x)
    return abs(x - np.median(x)) / scale if scale > 0 else np.zeros_like(x)


def _outlier_finding(name: str, lines: list[int], values: FloatArray, outliers: npt.NDArray[np.int64]) -> list[Finding]:
    if not outliers.size:
        return []
    known = values[~np.isnan(values)]
    median, scale = float(np.median(known)), _scale(known)
    worst = int(outliers[abs(values[outliers] - median).argmax()])
    away = f", {abs(values[worst] - median) / scale:.0f} robust standard deviations from the median" if scale else ""
    return [
        Finding(
            "note",
            f"Column '{name}': {many(len(outliers), 'outlier')}; the farthest, {values[worst]:g} in line {lines[worst]}"
            f"{away} ({median:g}). Faults of the sensor are better left empty and filled by data.gaps.",
        )
    ]


def _findings(
    name: str,
    cells: list[str],
    lines: list[int],
    *,
    values: FloatArray,
    missing: npt.NDArray[np.bool_],
    infinite: npt.NDArray[np.bool_],
    other: npt.NDArray[np.int64],
) -> list[Finding]:
    found = []

    def say(level: str, text: str) -> None:
        found.append(Finding(level, f"Column '{name}': {text}"))  # type: ignore[arg-type]

    count = len(cells)
    if missing.all():
        say("stop", "has no value at all. Drop it.")
    elif missing.any():
        first = int(missing.argmax())
        level = "stop" if missing.mean() > 0.5 else "gap"
        fix = " That is no gap to fill: drop the column." if level == "stop" else ""
        say(
            level,
            f"{many(int(missing.sum()), 'value')} of {count} missing, the first in line {lines[first]} "
            f"({cell_words(cells[first])}), at most {longest_run(missing)} in succession.{fix}",
        )
    if infinite.any():
        first = int(infinite.argmax())
        say("stop", f"{cell_words(cells[first])} in line {lines[first]} is not finite. Leave such a cell empty.")
    if other.size:
        say("stop", _text_words(cells, lines, other))
    known = values[~np.isnan(values)]
    if len(known) and (known == known[0]).all():
        say("note", f"is always {known[0]:g}. It says nothing: better drop it.")
    return found


def _text_words(cells: list[str], lines: list[int], rows: npt.NDArray[np.int64]) -> str:
    """What to say of the rows (W,) of a column whose cells are neither numbers nor missing."""
    first = int(rows[0])
    cell, most = cells[first], len(rows) > MOST_TEXT * len(cells)
    told = f"{cell_words(cell)} in line {lines[first]} is no number; {many(len(rows), 'such cell')}."
    if _COMMA.fullmatch(cell) or _POINT.fullmatch(cell):
        fix = "Give the other character with --decimal." if most else "Write all decimals with the same character."
        return f"{told} {fix}"
    if not most:
        return f"{told} Correct it, or leave it empty."
    kinds = many(len({cells[row] for row in rows}), "different word")
    return (
        f"holds text ({kinds}, {cell_words(cell)} in line {lines[first]}). Drop it, or train on one other column: "
        "data.features=S data.target=NAME."
    )
