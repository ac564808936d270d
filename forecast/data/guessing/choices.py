"""What is chosen of a layout, and why; and the readings of a file among which nobody but its writer can choose."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from forecast.data.reading.layout import USUAL, Layout
from forecast.errors import UserError

Given = Mapping[str, object]


class Reading(NamedTuple):
    """One way to read a file: what it is, and the keys of the layout that choose it."""

    description: str
    settings: Given


class Undecided(UserError):
    """Several readings of a file give different data.

    ids: the columns that tell series below one another apart, which can also be read together, as a panel. shortest:
    the rows of the shortest of these.
    """

    def __init__(
        self, message: str, readings: Sequence[Reading], *, ids: Sequence[str] = (), shortest: int = 0
    ) -> None:
        super().__init__(message)
        self.readings, self.ids, self.shortest = readings, tuple(ids), shortest


@dataclass
class Guess:
    """A layout, and a line for each choice in it.

    kept: columns that stay although they say nothing; None where all do. target: the column to forecast,
    if one is named.
    """

    layout: Layout
    kept: Collection[str] | None = None
    target: str | None = None
    ids: Sequence[str] = ()
    reasons: list[str] = field(default_factory=list)

    def set(self, reason: str, **settings: object) -> None:
        """Takes a choice."""
        self.layout = self.layout.changed(settings)
        self.reasons.append(reason)


def settings_of(layout: Layout) -> dict[str, object]:
    """The keys of a layout that are not as usual."""
    pairs = {key.name: (getattr(layout, key.name), getattr(USUAL, key.name)) for key in fields(Layout)}
    return {key: list(now) if isinstance(now, tuple) else now for key, (now, usual) in pairs.items() if now != usual}
