"""The exceptions for what a user or a scheduler can cause, and the hint for a name that is nearly right."""

import difflib
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_NAME = 200  # characters of a name that somebody may have mistyped


class Terminated(BaseException):
    """A signal has ended a command; its text says how to go on. No Exception: nobody but the entry point catches it.

    number: SIGTERM, or SIGHUP of a terminal that was closed.
    """

    def __init__(self, text: str, number: int = signal.SIGTERM) -> None:
        super().__init__(text)
        self.number = number


class UserError(ValueError):
    """Something the user can mend. Its message says what is wrong, where, with which value, and the fix.

    The commands print it alone, without a traceback, and exit with status 1.
    """

    @property
    def hint(self) -> str:
        """The fix: what stands last in the message, after the last point, colon or semicolon."""
        return re.split(r"[.:;]\s+", str(self).rstrip(". \n"))[-1]


class UsageError(UserError):
    """An option that a command does not have. The exit status is 2."""


def closest(name: str, valid: Iterable[str]) -> str:
    """The hint " Did you mean 'optim.lr'?" for the valid name nearest to `name`, as a whole or in the last part of a
    dotted name; empty when none is near.

    None of over `LONGEST_NAME` characters: it would be compared for hours, and fill a message.
    """
    if len(name) > LONGEST_NAME:
        return ""

    def likeness(candidate: str) -> float:
        whole = difflib.SequenceMatcher(None, candidate, name).ratio()
        last = difflib.SequenceMatcher(None, candidate.rpartition(".")[2], name.rpartition(".")[2]).ratio()
        # A last part alone says less, and of two equal ones the shorter path is meant.
        return max(whole, 0.98 * last) - 0.001 * candidate.count(".")

    scores = {candidate: likeness(candidate) for candidate in sorted(valid) if len(candidate) <= LONGEST_NAME}
    near = max(scores, key=lambda candidate: scores[candidate], default="")
    return f" Did you mean '{near}'?" if scores.get(near, 0.0) >= 0.6 else ""


def closest_file(path: Path) -> str:
    """The same hint for a file that is not there, of what lies beside it, and where a relative path starts."""
    try:
        names = [file.name for file in path.parent.iterdir()]
    except (OSError, ValueError):
        names = []
    # by its whole name: an ending that two files share says nothing
    near = difflib.get_close_matches(path.name, sorted(names), n=1) if len(path.name) <= LONGEST_NAME else []
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"{hint} Check the path; a relative one starts at {Path.cwd()}."


@contextmanager
def readable(path: Path | str) -> Iterator[None]:
    """UserError for a file that is not there, or that the system does not let us read."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"{path} does not exist.{closest_file(Path(path))}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from error
