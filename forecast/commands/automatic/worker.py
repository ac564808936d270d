"""A step of an automatic run in a process of its own, which can be stopped, or fail, and takes its memory with it."""

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from forecast.errors import UserError
from forecast.text.terminal import say

GRACE = 3.0  # seconds in which a step that is stopped may write what it has
LOOK = 0.2  # seconds between two looks
STEPS = "forecast.commands.automatic.steps"
ALARM = "leakage check"  # with which all its alarms begin

Context = multiprocessing.context.ForkServerContext | multiprocessing.context.SpawnContext


class Outcome(NamedTuple):
    """What a step gave: its value, or why there is none. leaks: whether that is an alarm of the leakage check."""

    value: Any = None
    error: str = ""
    leaks: bool = False


def context() -> Context:
    """Processes that begin with what steps import: made once, by the first of them, where the system can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([STEPS])
    return found


def begin_server() -> None:
    """Begins to import what the steps need, while the command reads its file."""
    if context().get_start_method() == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


def run_step(
    step: str, arguments: dict[str, object], *, log: Path, limit: float, tick: Callable[[], None] = lambda: None
) -> Outcome:
    """Runs a function of STEPS in a process; what it prints goes to the end of a file.

    It is named and not handed over, so that the process which begins it need not import what it needs. limit: seconds
    after which it is stopped. tick: called while it runs. A step that raises, dies or is stopped has an outcome with an
    error, of one sentence. Ctrl-C stops it too.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = context().Process(target=_perform, args=(STEPS, step, arguments, str(log), sender), daemon=False)
    process.start()
    sender.close()
    stopped = False
    try:
        passed = 0.0
        while not wait([receiver, process.sentinel], timeout=LOOK):
            passed += LOOK
            tick()
            if passed >= limit:
                stopped = True
                break
        if not stopped and receiver.poll():
            outcome = receiver.recv()
            process.join(GRACE)
            return Outcome(*outcome)
    except EOFError:
        pass
    finally:
        if process.is_alive():
            process.terminate()
            process.join(GRACE)
            if process.is_alive():
                process.kill()
        process.join()
    if stopped:
        return Outcome(error="there was no more time for it")
    return Outcome(error=f"its process has ended with status {process.exitcode}; {log} has what it said")


def _perform(module: str, step: str, arguments: dict[str, object], log: str, sender: Connection) -> None:
    """The process: output to the log, its end with that of the process that began it, the step, its outcome."""
    from forecast.evaluation.leakage_windows import NothingShown  # here: the process that begins it needs no torch

    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began it, which then stops this one
    with Path(log).open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    try:
        outcome = Outcome(getattr(importlib.import_module(module), step)(**arguments))
    except UserError as error:
        outcome = Outcome(error=str(error), leaks=str(error).startswith(ALARM) and not isinstance(error, NothingShown))
    except BaseException as error:  # whatever a model does, the others go on
        say(traceback.format_exc(), file=sys.stderr)
        outcome = Outcome(error=f"{type(error).__name__}: {error}".strip().splitlines()[0])
    sys.stdout.flush()
    sys.stderr.flush()
    sender.send(tuple(outcome))
    sender.close()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
