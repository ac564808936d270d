"""What an automatic run is at, what is left, and how much of its time has passed."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress

from forecast.apps.auto.budget import Budget
from forecast.text.terminal import say

AFTER = ("ensemble", "refit", "backtest", "explain", "forecast", "page")


class Progress:
    """A bar of the time on a terminal, lines elsewhere, on stderr. names: of the members that are trained first."""

    def __init__(self, budget: Budget, names: Sequence[str]) -> None:
        self.budget, self.left, self.begun = budget, [*names, *AFTER], 0.0
        self.bar: RichProgress | None = None
        self.task = TaskID(0)

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self.bar = RichProgress(*columns, console=Console(file=sys.stderr), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=self.budget.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def note(self, text: str) -> None:
        """A line that stays."""
        if self.bar is not None:
            self.bar.stop()
        say(text, file=sys.stderr)
        if self.bar is not None:
            self.bar.start()

    def now(self, name: str) -> None:
        """A step begins."""
        self.begun = time.monotonic()
        self.left = [step for step in self.left if step not in (name, name.split(maxsplit=1)[0])]
        if self.bar is not None:
            after = f", then {', '.join(self.left)}" if self.left else ""
            self.bar.update(self.task, description=f"{name}{after}")
        self.tick()

    def tick(self) -> None:
        """Time passes."""
        self.budget.note()
        if self.bar is not None:
            self.bar.update(self.task, completed=min(self.budget.passed, self.budget.total))

    def done(self, name: str, error: str) -> None:
        """A step has ended."""
        self.left = [step for step in self.left if step != name]
        if self.begun and not error:
            seconds = time.monotonic() - self.begun
            self.note(f"{self.budget.passed:6.0f} s  {name}, {seconds:.1f} s")
        self.begun = 0.0
