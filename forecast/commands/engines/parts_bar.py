"""How far a forecast in parts is: a bar on a terminal, lines elsewhere."""

import logging
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from forecast.data.panel.parts import Part

log = logging.getLogger(__name__)

LINES = 10  # where there is no terminal


class PartsBar:
    """Counts the series of the parts that are done. series: of all."""

    def __init__(self, series: int) -> None:
        self.series, self.done, self.said = series, 0, 0
        self.bar: Progress | None = None
        self.task: Any = None

    def __enter__(self) -> "PartsBar":
        if sys.stderr.isatty():
            columns = (TextColumn("series"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=self.series)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def add(self, answer: object) -> None:
        """A part is answered; one that failed has no series."""
        self.done += answer.stop - answer.first if isinstance(answer, Part) else 0
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
        elif self.done * LINES // self.series > self.said:
            self.said = self.done * LINES // self.series
            log.info("%d of %d series", self.done, self.series)
