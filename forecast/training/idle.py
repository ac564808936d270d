"""How long whoever computes stood idle between training steps, and for how much of that it waited for data."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Gap(NamedTuple):
    """Two moments, see `Idle.moment`, and how much of the time between was `fetching` and how much is counted `apart`.

    fetching, apart in seconds.
    """

    begin: Any
    end: Any
    fetching: float
    apart: float


class Idle:
    """Sums over the gaps between steps, in seconds.

    seconds: all of it. waiting: for data.

    On a CPU a gap lasts from the end of a step to the start of the next. A GPU works on what it was told long after the
    program has gone on, so there both moments are events in its own queue: the gap is the time from the last operation
    of a step to the first of the next, and nothing when the program was ahead. Fetching a batch counts as waiting as
    far as it fits into the gap. The events are read when the GPU has passed them: nobody waits for that but the last
    `settle`.
    """

    def __init__(self, device: torch.device, *, clock: Callable[[], float]) -> None:
        self.device = device
        self.clock = clock
        self.seconds = self.waiting = 0.0
        self.left: Any = None  # when the last step ended
        self.gaps: deque[Gap] = deque()

    def moment(self) -> Any:
        """Now, as whoever computes sees it: seconds on a CPU, an event on a GPU."""
        if self.device.type != "cuda":
            return self.clock()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def leave(self) -> None:
        """A step has ended."""
        self.left = self.moment()

    def enter(self, *, fetching: float, apart: float) -> None:
        """The next step begins, or the training ends. fetching, apart: seconds since `leave`, see `Gap`."""
        if self.left is None:
            return
        self.gaps.append(Gap(self.left, self.moment(), fetching, apart))
        self.left = None
        self.settle(last=False)

    def settle(self, *, last: bool) -> None:
        """Adds the gaps that are over. last: waits for a GPU to pass them all."""
        if last and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        while self.gaps and (self.device.type != "cuda" or self.gaps[0].end.query()):
            gap = self.gaps.popleft()
            idle = max(0.0, self._between(gap) - gap.apart)
            self.seconds += idle
            self.waiting += min(gap.fetching, idle)

    def _between(self, gap: Gap) -> float:
        seconds: float = gap.begin.elapsed_time(gap.end) / 1e3 if self.device.type == "cuda" else gap.end - gap.begin
        return seconds
