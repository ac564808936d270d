"""The cells of a file as arrays, and what is said of them: what the reader decided, what a check found."""

import logging
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
JOINT = "/"  # between the cells of several id columns, in an id
# error: no training reads the file as it is. mend: data.gaps can fill it. note: a training runs, but look at it.
Severity = Literal["error", "mend", "note"]
Gaps = Literal["refuse", "interpolate", "forward_fill", "mask", "zero"]
_log = logging.getLogger(__name__)
MAX_QUOTED = 60  # characters of a cell: after an unclosed quote one cell holds half of the file


class Finding(NamedTuple):
    """One sentence or two: where, which value, how often, and the fix."""

    severity: Severity
    text: str


class Findings(list[Finding]):
    """The findings in one file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def say(self, text: str) -> None:
        """Logs, and keeps as a note, what the reader decided by itself; once of a file that is read in parts."""
        if Finding("note", text) not in self:
            self.append(Finding("note", text))
            _log.info("%s: %s", self.path, text)

    def add(self, severity: Severity, text: str) -> None:
        """Keeps a finding, without the path in front, which is the same for all."""
        text = text.removeprefix(f"{self.path}: ")
        as_it_is = text.startswith(("data.", self.path))
        self.append(Finding(severity, text if as_it_is else text[:1].upper() + text[1:]))

    def texts(self, severity: Severity) -> list[str]:
        """The texts of the findings of one severity."""
        return [finding.text for finding in self if finding.severity == severity]


def quoted(cell: str) -> str:
    """A cell in quotes, as messages show it: a long one is cut."""
    return repr(cell) if len(cell) <= MAX_QUOTED else f"{cell[:MAX_QUOTED]!r}..."


def counted(count: int, noun: str) -> str:
    """A number with its noun: '1 row', '3 rows'."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
