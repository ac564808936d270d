"""A process of a Ray cluster that makes parts of a work: it reads model and data itself, and no number travels."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass

import torch

from forecast.commands.engines.ray_pool import check_same, check_seen
from forecast.commands.engines.share_out import Failed
from forecast.commands.engines.work import Made, Task, Work, name_of
from forecast.config.commit import commit
from forecast.config.trust import trusting
from forecast.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is told. folder: where the command was started. token: in the name of the file that all must see.

    run: of the command's own work, which the worker's must equal. trust: modules, see `config.trust`.
    """

    task: Task
    folder: str
    token: str
    trust: frozenset[str]
    run: dict[str, object]
    commit: str


class Worker:
    """A process on the cluster: reads model and data once, then makes parts. A Failed is what the user can mend."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.begun: Work | None = None

    def ready(self) -> str | Failed:
        """Reads model and data; the name of a file that the command must see."""
        node, place = socket.gethostname(), self.order.task.place
        try:
            self._begun()
            seen = place.shared.folder / f".seen-{self.order.token}-{node}-{os.getpid()}"
            with place.written():
                seen.write_text(self.order.token)
        except UserError as error:
            return Failed(f"{node}: {error}")
        return seen.name

    def work(self, number: int, of: int) -> Made | Failed:
        """Writes a part, unless it is there."""
        place = self.order.task.place
        try:
            begun = self._begun()
            with place.written():
                return begun.make(place.shared.folder / name_of((number, of), begun.run), number, of)
        except UserError as error:
            return Failed(str(error))

    def _begun(self) -> Work:
        if self.begun is None:
            task = self.order.task
            check_seen(task.place.shared, f".seen-{self.order.token}")
            torch.set_num_threads(task.cluster.threads)
            with suppress(OSError):  # a folder that is not shared; what is named from there is missed by its name
                os.chdir(self.order.folder)
            with trusting(self.order.trust):
                work = task.begin()
            check_same({**self.order.run, "commit": self.order.commit}, {**work.run, "commit": commit()})
            self.begun = work
        return self.begun
