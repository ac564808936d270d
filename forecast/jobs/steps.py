"""A function in a process of its own, which can be stopped, or fail, and takes its memory with it."""

import atexit
import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType

from forecast.errors import UserError
from forecast.jobs import Ended
from forecast.jobs.fresh_process import is_lost
from forecast.text.terminal import say

GRACE = 3.0  # seconds in which a step that is stopped may write what it has
LOOK = 0.2  # seconds between two looks


class Clock:
    """Seconds that go by."""

    def __call__(self) -> float:
        """Now."""
        return time.monotonic()

    def watch(self, process: int) -> None:
        """A step is at work in that process."""


class ProcessorClock(Clock):
    """Seconds of a processor, of all threads, that this process and its steps have taken: of Linux."""

    def __init__(self) -> None:
        self._ended, self._of_process = 0.0, dict[int, float]()

    def __call__(self) -> float:
        """So far."""
        return time.process_time() + self._ended + sum(self._of_process.values())

    def watch(self, process: int) -> None:
        """Looks at the clock of a step's process, which is gone with it."""
        with contextlib.suppress(OSError):
            seconds = time.clock_gettime(~process << 3 | 2)  # as clock_getcpuclockid, which Python has for threads
            before = self._of_process.get(process, 0.0)
            self._ended += before if seconds < before else 0.0  # a number that another process had
            self._of_process[process] = seconds


REAL_TIME = Clock()


def context(module: str) -> multiprocessing.context.ForkServerContext | multiprocessing.context.SpawnContext:
    """Processes that begin with a module imported: once, by the first of them, where the system can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([module])
    return server


@contextlib.contextmanager
def unknown_main() -> Iterator[None]:
    """In this block multiprocessing knows no main module: it would run a user's script once more in each new process.

    So a script may call what takes steps at its top level, without `if __name__ == "__main__":`.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def on_gpu() -> bool:
    """Whether steps have one process: a fork loses the GPU, and each new process would have to make it ready again."""
    import torch

    return bool(torch.cuda.is_available())


def begin_server(module: str) -> None:
    """Begins to import what the steps of a module need, while the command reads its file."""
    if on_gpu():
        workers.append(Worker(module))
    elif context(module).get_start_method() == "forkserver":
        from multiprocessing import forkserver

        with unknown_main():
            forkserver.ensure_running()


class Worker:
    """A process that performs steps of a module, one after another; with a GPU one that is no fork."""

    def __init__(self, module: str) -> None:
        self.connection, far = multiprocessing.Pipe()
        begin = multiprocessing.get_context("spawn") if on_gpu() else context(module)
        self.process = begin.Process(target=_serve, args=(module, far), daemon=False)
        with unknown_main():
            self.process.start()
        far.close()

    def end(self, seconds: float = 0.0) -> None:
        """Ends the process, which may take so long to end by itself."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self.process.join(seconds)
        for stop in (self.process.terminate, self.process.kill):
            if self.process.is_alive():  # else its number may be another one's
                stop()
                self.process.join(GRACE)


workers: list[Worker] = []


def end_workers() -> None:
    """Ends the worker that was kept, if there is one: Python would wait for it at its end."""
    while workers:
        workers.pop().end(GRACE)


atexit.register(end_workers)


def run_step(
    module: str,
    step: str,
    arguments: dict[str, object],
    *,
    log: Path,
    limit: float,
    tick: Callable[[], None] = lambda: None,
    clock: Clock = REAL_TIME,
) -> Ended:
    """Runs a function of a module in a process; what it prints goes to the end of a file.

    It is named and not handed over, so that the process which begins it need not import what it needs. limit: seconds
    of the clock after which it is stopped. tick: called while it runs. A step that raises, dies or is stopped ends with
    an error. Ctrl-C stops it too, and so does the end of this process, however that ends. With a GPU the next step has
    the same process, until `end_workers`.
    """
    worker, grace = workers.pop() if workers else Worker(module), 0.0
    process, end = worker.process, clock() + limit
    try:
        worker.connection.send((step, arguments, str(log)))
        while not wait([worker.connection, process.sentinel], timeout=LOOK):
            clock.watch(process.pid or 0)
            tick()
            if clock() >= end:
                return Ended(error="there was no more time for it")
        if worker.connection.poll():
            ended, grace = Ended(*worker.connection.recv()), GRACE
            if on_gpu() and not is_lost(RuntimeError(ended.error)):
                workers.append(worker)
            return ended
    except (EOFError, OSError):  # it died
        process.join(GRACE)
    finally:
        if worker not in workers:
            worker.end(grace)
    return Ended(error=f"its process has ended with status {process.exitcode}; {log} has what it said")


def _serve(module: str, connection: Connection) -> None:
    """The process: steps until nobody asks for another one, or until the process that began it has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began it, which then stops this one
    steps = importlib.import_module(module)
    while request := connection.recv():
        step, arguments, log = request
        connection.send(tuple(_perform(getattr(steps, step), arguments, log)))


def _perform(step: Callable[..., object], arguments: dict[str, object], log: str) -> Ended:
    """Output to the log, the step, what it came to."""
    with Path(log).open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    try:
        return Ended(step(**arguments))
    except UserError as error:
        return Ended(error=str(error), kind=type(error).__name__)
    except BaseException as error:  # whatever a model does, the others go on
        say(traceback.format_exc(), file=sys.stderr)
        kind = type(error).__name__
        return Ended(error=f"{kind}: {error}".strip().splitlines()[0], kind=kind)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
