"""Processes that train together: one folder for all, how long each waits for the others, what is said of a lost one.

Of several machines none knows whether another one is slow, stopped or cut off: there is only the time to wait.
"""

import datetime
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from forecast.errors import UserError
from forecast.run_folder import checkpoint_path
from forecast.text.overrides import typed

# What gloo and torch's store say when the time is over.
TIMED_OUT = re.compile(r"tim(ed |e)out", re.IGNORECASE)
# What gloo says where it never came so far.
UNREACHED = re.compile(r"timed out connecting|connect timeout", re.IGNORECASE)
# What gloo says of a peer that is gone: a line of its source, then what happened, then hints for programmers.
GLOO = re.compile(r"\[\S*gloo/\S+\] (?P<reason>.*?)(\. |$)", re.MULTILINE)
# What torch says itself of gloo's work and of NCCL's, without a class of its own.
OF_TORCH = ("Operation timed out!", "remote process exited")


class SameFolder(Callback):
    """All processes must write to one folder. Raises UserError before the first step when they do not."""

    def on_fit_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Compares with the first process."""
        here = str(Path(trainer.default_root_dir).absolute())
        first = trainer.strategy.broadcast(here)
        if here != first:
            raise UserError(
                f"process {trainer.global_rank} would write to {here}, the first one to {first}. Say "
                "hydra.run.dir=FOLDER for all of them, or torchrun --rdzv-id=NAME."
            )


def limit_waiting(trainer: pl.Trainer, seconds: float) -> None:
    """How long a process waits for the others, in the strategies that connect some; Lightning has no key for it."""
    if hasattr(trainer.strategy, "_timeout"):
        trainer.strategy._timeout = datetime.timedelta(seconds=seconds)


@contextmanager
def lost_processes(run_dir: Path, seconds: float) -> Iterator[None]:
    """Turns what torch raises where another process, or the way to it, is gone into a UserError."""
    try:
        yield
    except RuntimeError as error:
        if not is_loss(error):
            raise
        raise UserError(lost(str(error), run_dir, seconds)) from error


def is_loss(error: RuntimeError) -> bool:
    """Whether an error says that another process, or the way to it, is gone: of gloo, of torch's store, of NCCL."""
    store = torch.distributed.is_available() and isinstance(
        error, torch.distributed.DistStoreError | torch.distributed.DistNetworkError
    )
    return store or bool(GLOO.search(str(error))) or any(text in str(error) for text in OF_TORCH)


def lost(text: str, run_dir: Path, seconds: float) -> str:
    """What to say of such an error, with the checkpoint to go on from. seconds: `process_timeout`."""
    text = text.partition("\n")[0]
    reason = match["reason"] if (match := GLOO.search(text)) else text
    if UNREACHED.search(text):
        sentence = (
            f"this process cannot reach another one of the training ({reason}). Where that is a loopback address, or "
            "one of another network, say which interface leads to the others, GLOO_SOCKET_IFNAME=eth0 before the "
            "command on every host (`ip address` lists them)"
        )
    elif TIMED_OUT.search(text):
        sentence = (
            f"another process of this training did not answer within {seconds:g} s (process_timeout={seconds:g}): its "
            "host is stopped, cut off or slower than that. See that it answers, or raise process_timeout"
        )
    else:
        sentence = (
            f"another process of this training has ended ({reason}): its own log in {run_dir} or what started it says "
            "why. Mend that"
        )
    last = checkpoint_path(run_dir, "last")
    if not last.exists():
        return f"{sentence}, then start again: no checkpoint was written yet."
    again = typed("ckpt_path", str(last))
    return f"{sentence}, then go on from the last checkpoint: the same command again on every host, with {again}"
