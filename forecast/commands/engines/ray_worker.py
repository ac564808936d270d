"""A process of a Ray cluster that makes parts of a work: it reads model and data itself, and no number travels."""

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from forecast.commands.engines.share_out import Failed
from forecast.commands.engines.work import Made, Place, Task, Work, name_of
from forecast.commands.predict_panel import written_or_refused
from forecast.config.code_hash import code_hash
from forecast.config.trust import trusting
from forecast.errors import UserError

REACHED = 5.0  # seconds for an address to answer, and for a file to be seen through a network file system


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is told. folder: where the command was started. token: in the name of the file that all must see.

    run: of the command's own work, which the worker's must equal. trust: modules, see `config.trust`.
    """

    task: Task
    folder: str
    token: str
    trust: frozenset[str]
    run: dict[str, Any]
    code: str


class Worker:
    """A process on the cluster: reads model and data once, then makes parts. A Failed is what the user can mend."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.work: Work | None = None

    def ready(self) -> str | Failed:
        """Reads model and data; the name of a file that the command must see."""
        node, task = socket.gethostname(), self.order.task
        try:
            self._begun()
            seen = task.pieces / f".seen-{self.order.token}-{node}-{os.getpid()}"
            with written_or_refused(task.place.value, key=task.place.key, other=task.place.other):
                seen.write_text(self.order.token)
        except UserError as error:
            return Failed(f"{node}: {error}")
        return seen.name

    def score(self, number: int, of: int) -> Made | Failed:
        """Writes a part, unless it is there."""
        task = self.order.task
        try:
            work = self._begun()
            with written_or_refused(task.place.value, key=task.place.key, other=task.place.other):
                return work.make(task.pieces / name_of((number, of), work.run), number, of)
        except UserError as error:
            return Failed(str(error))

    def _begun(self) -> Work:
        if self.work is None:
            task = self.order.task
            check_seen(task.pieces / f".seen-{self.order.token}", task.place)
            torch.set_num_threads(task.ray.threads)
            with suppress(OSError):  # a folder that is not shared; what is named from there is missed by its name
                os.chdir(self.order.folder)
            with trusting(self.order.trust):
                work = task.begin()
            check_same({**self.order.run, "code": self.order.code}, {**work.run, "code": code_hash()})
            self.work = work
        return self.work


def check_seen(path: Path, place: Place) -> None:
    """UserError unless a file is there, within REACHED seconds."""
    end = time.monotonic() + REACHED
    while not path.is_file():
        if time.monotonic() > end:
            raise UserError(
                f"{place}: {path.parent} is no folder that all machines of the cluster share. Choose one that they "
                f"do: {place.key}={place.shared}"
            )
        time.sleep(0.1)


def check_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """UserError where a worker's forecasts would be of something else, or end in other digits."""
    fixes = {
        "torch": f"Install the same there: pip install 'torch=={ours['torch']}'",
        "code": "Install the same forecast on all machines",
        "device": "Take machines with the same processors",
    }
    for key, value in ours.items():
        if value != theirs.get(key):
            fix = fixes.get(key, "Name files on a folder that all machines share: ckpt_path=, data.path=, future=")
            raise UserError(f"its {key} is {theirs.get(key)}, that of the command {value}. {fix}")
