"""How far a forecast in parts is: a bar on a terminal, lines elsewhere."""

import logging
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from forecast.commands.engines.share_out import Failed

log = logging.getLogger(__name__)

LINES = 10  # where there is no terminal


class PartsBar:
    """Counts the series or windows of the parts that are done. size: of all."""

    def __init__(self, size: int, unit: str) -> None:
        self.size, self.unit, self.done, self.said = size, unit, 0, 0
        self.bar: Progress | None = None
        self.task = TaskID(0)

    def __enter__(self) -> "PartsBar":
        if sys.stderr.isatty():
            columns = (TextColumn(self.unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=self.size)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def add(self, answer: Any) -> None:
        """A part is answered; one that failed has nothing."""
        self.done += 0 if isinstance(answer, Failed) else answer.stop - answer.first
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
        elif self.done * LINES // self.size > self.said:
            self.said = self.done * LINES // self.size
            log.info("%d of %d %s", self.done, self.size, self.unit)
