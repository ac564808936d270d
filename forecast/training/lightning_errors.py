"""Lightning for our users: without its noise, and with its errors as messages that say what to do."""

import logging
import re
import signal
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.exceptions import SIGTERMException

from forecast.config.hydra_errors import UNWRITABLE
from forecast.errors import Terminated, UserError
from forecast.training.checkpoint import resume_hint

# What gloo and NCCL say of another process, and CUDA of a GPU, in errors without a class of their own.
OF_PROCESSES = re.compile(r"gloo/|pair closure|Operation timed out!|remote process exited")
OF_GPU = re.compile(r"CUDA error|NCCL|cuDNN error|CUBLAS")
# Whose code refuses settings, in errors that a bug of ours could raise too.
REFUSED = re.compile("/lightning/|/torch/optim/")
HARMLESS = (
    # Lightning 2.6 with torch 2.13; Lightning's own affair
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    # trainer.log_every_n_steps is what the user set, or our default; a short epoch is logged at its end
    r"The number of training batches \(\d+\) is smaller than the logging interval",
    # ours goes on after the batches that were trained on: the datamodule saves how many
    r"You're resuming from a checkpoint that ended before the epoch ended and your dataloader is not resumable",
    # of a recorded step: gradients are made on the stream of the recording, which torch waits for by itself
    r"The AccumulateGrad node's stream does not match",
    # a step is tried before it is recorded; what this does not detect, the recording does
    r"Synchronization debug mode is a prototype",
    # best.ckpt of the run that is continued stays where it is
    r"Checkpoint directory .* exists and is not empty",
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Lightning's warnings go to our log alone; what it says of each start is left out."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    source = logging.getLogger("lightning.pytorch.utilities.rank_zero")

    def no_full_disk(failed: threading.ExceptHookArgs) -> None:
        # TensorBoard writes in a thread, and raises in the main one as well when it cannot: no traceback for that
        if not isinstance(failed.exc_value, OSError) or failed.exc_value.errno not in UNWRITABLE:
            threading.__excepthook__(failed)

    level = source.level
    source.setLevel(logging.WARNING)
    excepthook, threading.excepthook = threading.excepthook, no_full_disk
    with warnings.catch_warnings():
        for message in HARMLESS:
            warnings.filterwarnings("ignore", message=message)
        try:
            yield
        finally:
            source.setLevel(level)
            threading.excepthook = excepthook


@contextmanager
def errors_for_users(run_dir: Path, *, start: Path | None = None, batch_size: int = 1) -> Iterator[None]:
    """Turns what torch, Lightning, a logger or the disk refuse into a UserError: a line of ours, then their own words.

    Their exits become KeyboardInterrupt and Terminated. start: the checkpoint that the training goes on from.
    batch_size: of the training.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except UserError:
        raise
    except SIGTERMException as stop:
        raise Terminated(resume_hint(run_dir, "SIGTERM ended the training. Find out what sent it")) from stop
    except SystemExit as stop:
        # Lightning answers Ctrl-C with exit status 1, and goes on ignoring it
        if isinstance(stop.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from stop
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if start and any("checkpoint_connector" in frame.filename and "restore" in frame.name for frame in frames):
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"ckpt_path={start} is damaged or was written by another version: {reason}") from error
        cause: BaseException | None = error
        # what ends a training may fail too, where the other processes or the GPU are gone
        while cause is error or isinstance(cause, RuntimeError):
            files = [frame.filename for frame in traceback.extract_tb(cause.__traceback__)]
            if context := _context(cause, files, run_dir, batch_size):
                raise UserError(f"{context}\n{cause}") from error
            cause = cause.__cause__ or cause.__context__
        raise


def _context(error: BaseException, files: list[str], run_dir: Path, batch_size: int) -> str:
    """What failed, and what to do; empty for a bug of ours. files: of the traceback."""
    kind, text, context = type(error), str(error), ""
    if logger := next((name for name in ("wandb", "mlflow") if any(f"/{name}/" in file for file in files)), ""):
        context = f"logger={logger} failed. Mend its settings, or log to the run folder alone: logger=csv"
    elif isinstance(error, OSError) and error.errno in UNWRITABLE:
        hint = resume_hint(run_dir, "Make room or make the folder writable")
        context = f"{run_dir} cannot be written to. {hint}"
    elif isinstance(error, torch.OutOfMemoryError):
        smaller = f"data.batch_size={batch_size // 2}, or " if batch_size > 1 else ""
        context = f"The GPU has too little memory. Take {smaller}a smaller seq_len or model.d_model"
    elif kind.__module__.startswith(("torch._dynamo.", "torch._inductor.")):  # by name: importing them takes seconds
        context = "The training step cannot be compiled here. Leave compile= out, or install what it needs"
    elif kind.__name__.startswith("Dist") or (isinstance(error, RuntimeError) and OF_PROCESSES.search(text)):
        lost = "Another process of this training has ended, or did not answer within process_timeout seconds"
        network = "where a host has several networks, say GLOO_SOCKET_IFNAME=eth0 before the command"
        context = f"{lost}. {resume_hint(run_dir, f'See why, on every host; {network}')}"
    elif kind.__name__ == "AcceleratorError" or (isinstance(error, RuntimeError) and OF_GPU.match(text)):
        context = f"The GPU failed. {resume_hint(run_dir, 'See that it works (nvidia-smi)')}"
    elif isinstance(error, ValueError | TypeError | MisconfigurationException) and REFUSED.search(files[-1]):
        context = "A setting of the trainer, the optimizer or the schedule is refused:"
    return context
