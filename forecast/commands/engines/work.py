"""What the workers of a cluster make in parts: the forecasts of series, or those of the windows of an evaluation."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forecast.commands.engines.ray_pool import Cluster, Shared
from forecast.commands.scoring import written_or_refused

LEAST = 32  # parts, where there is so much to do: what a death costs, and what the last worker may be late by


class Made(Protocol):
    """What is told of a part: the first and the end of the series or windows that it has."""

    @property
    def first(self) -> int:
        """The number of the first one."""

    @property
    def stop(self) -> int:
        """One more than that of the last."""


class Work(Protocol):
    """A work in parts. run: what all its parts have alike, and the bits depend on; `ending` is that of their files."""

    @property
    def run(self) -> Mapping[str, object]:
        """Of JSON's types."""

    def make(self, path: Path, number: int, of: int) -> Made:
        """Writes a part, unless it is there. Raises OSError, and UserError for what the user can mend."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a command writes, as its user says it: `key`=`value`. other: another value to advise.

    shared: the folder of the parts, which all machines must see.
    """

    key: str
    value: str
    other: str
    shared: Shared

    def written(self) -> AbstractContextManager[None]:
        """UserError where a file cannot be written."""
        return written_or_refused(self.value, key=self.key, other=self.other)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a command asks of a cluster. begin: makes a worker ready for its parts, and must be picklable.

    unit: of what there are `size`.
    """

    cluster: Cluster
    place: Place
    begin: Callable[[], Work]
    unit: str
    size: int


def name_of(shard: tuple[int, int], run: Mapping[str, object]) -> str:
    """The file of a part: its number, and the checksum of all that its bits depend on."""
    known = json.dumps(dict(run), sort_keys=True).encode()
    checksum = hashlib.md5(known, usedforsecurity=False).hexdigest()[:12]
    return f"shard-{shard[0]:05}-of-{shard[1]:05}-{checksum}{run['ending']}"


def number_of_parts(asked: int | None, size: int, *, whole: int, piece: int) -> int:
    """How many parts `size` series or windows have, however many make them: a command that goes on looks for the same.

    whole: so many are forecast together, and no part has less. piece: a part has so many at most, unless asked for.
    """
    return max(1, min(asked or max(LEAST, -(-size // piece)), -(-size // whole)))
