"""What a survey found, and how much it matters."""

from typing import Literal, NamedTuple

# stop: no training reads the file as it is. gap: data.gaps can fill it. note: a training runs, but look at it.
Level = Literal["stop", "gap", "note"]
SHOWN = 40  # characters of a cell


class Finding(NamedTuple):
    """One sentence or two: where, which value, how often, and the fix."""

    level: Level
    text: str


def cell_words(cell: str) -> str:
    """A cell in quotes; a long one is cut."""
    return repr(cell if len(cell) <= SHOWN else cell[:SHOWN] + "...")


def many(count: int, what: str) -> str:
    """A number with its noun: '1 row', '3 rows'."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
