"""What the workers of a cluster make in parts: the forecasts of series, or those of the windows of an evaluation."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from forecast.config.settings import RaySettings


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
    def run(self) -> Mapping[str, Any]:
        """Of JSON's types."""

    def make(self, path: Path, number: int, of: int) -> Made:
        """Writes a part, unless it is there. Raises OSError, and UserError for what the user can mend."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a command writes, as its user says it: `key`=`value`. other, shared: values to advise."""

    key: str
    value: str
    other: str
    shared: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a command asks of a cluster. pieces: the folder of the parts. device: cpu or cuda.

    begin: makes a worker ready for its parts, and must be picklable. unit: of what there are `size`. again: what to do
    after a failure.
    """

    ray: RaySettings
    device: str
    place: Place
    pieces: Path
    begin: Callable[[], Work]
    unit: str
    size: int
    again: str = "say the same command again"


def name_of(shard: tuple[int, int], run: Mapping[str, Any]) -> str:
    """The file of a part: its number, and the checksum of all that its bits depend on."""
    known = json.dumps(dict(run), sort_keys=True).encode()
    checksum = hashlib.md5(known, usedforsecurity=False).hexdigest()[:12]
    return f"shard-{shard[0]:05}-of-{shard[1]:05}-{checksum}{run['ending']}"
