"""Lightning for our users: without its noise, and with its errors as messages that say what to do."""

import errno
import logging
import os
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

# A logger's package by the folder of its code -> what to do when it fails.
LOGGERS = {
    "/wandb/": "Log in (wandb login), or log to the run folder alone: logger.offline=true",
    "/mlflow/": "See that its server answers, or log to the run folder: logger.tracking_uri=null",
}
# An advertisement, with a link.
ADVERTISEMENT = "Tip: For seamless cloud"
HARMLESS = (
    # Lightning 2.6 with torch 2.13; Lightning's own affair
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    # trainer.log_every_n_steps is what the user set, or our default; a short epoch is logged at its end
    r"The number of training batches \(\d+\) is smaller than the logging interval",
    # ours goes on after the batches that were trained on: the datamodule saves how many
    r"You're resuming from a checkpoint that ended before the epoch ended and your dataloader is not resumable",
    # compile=graphs: gradients are added to weights on the stream of the recording, which torch waits for by itself
    r"The AccumulateGrad node's stream does not match",
    # best.ckpt of the run that is continued stays where it is
    r"Checkpoint directory .* exists and is not empty",
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Lightning's log goes to ours alone, not to the console a second time, and lacks the advertisement."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    source = logging.getLogger("lightning.pytorch.utilities.rank_zero")

    def no_advertisement(record: logging.LogRecord) -> bool:
        return ADVERTISEMENT not in record.getMessage()

    def no_full_disk(failed: threading.ExceptHookArgs) -> None:
        # TensorBoard writes in a thread, and raises in the main one as well when it cannot: no traceback for that
        if not isinstance(failed.exc_value, OSError) or failed.exc_value.errno not in {*UNWRITABLE, errno.ENOENT}:
            threading.__excepthook__(failed)

    source.addFilter(no_advertisement)
    excepthook, threading.excepthook = threading.excepthook, no_full_disk
    with warnings.catch_warnings():
        for message in HARMLESS:
            warnings.filterwarnings("ignore", message=message)
        try:
            yield
        finally:
            source.removeFilter(no_advertisement)
            threading.excepthook = excepthook


@contextmanager
def errors_for_users(run_dir: Path) -> Iterator[None]:
    """Turns what Lightning or torch.optim refuse into a UserError, their exits into KeyboardInterrupt and Terminated.

    Where it was raised distinguishes what they refuse from a bug of ours. A GPU that is full or lost is a UserError
    too, with the checkpoint to go on from.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        with _logger_errors(), _restoring_errors():
            yield
    except SIGTERMException as stop:
        raise Terminated(resume_hint(run_dir, "SIGTERM ended the training. Find out what sent it")) from stop
    except SystemExit as stop:
        # Lightning answers Ctrl-C with exit status 1, and goes on ignoring it
        if isinstance(stop.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from stop
        raise
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        hint = resume_hint(run_dir, "Make room or make the folder writable")
        raise UserError(f"{where}{error.strerror}, in the run folder {run_dir}. {hint}") from error
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"the GPU has too little memory: {_first_line(error)} Take a smaller data.batch_size, seq_len or "
            "model.d_model, or device memory that other programs do not use."
        ) from error
    except RuntimeError as error:
        # by name: the modules of torch.compile take seconds to import, and are there when they raise
        if type(error).__module__.startswith(("torch._dynamo.", "torch._inductor.")):
            raise UserError(
                f"compile: torch.compile cannot compile the training step here: {_first_line(error)} Leave compile= "
                "out, or install what it needs: a C++ compiler such as g++ for a CPU, Triton for a GPU."
            ) from error
        # a GPU was lost or broke down: AcceleratorError exists from torch 2.8 on; before, only its text says so
        lost = isinstance(error, getattr(torch, "AcceleratorError", ()))
        if not lost and not str(error).startswith(("CUDA error", "NCCL", "cuDNN error", "CUBLAS")):
            raise
        raise UserError(
            f"the GPU failed: {_first_line(error)} {resume_hint(run_dir, 'See that it works (nvidia-smi)')}"
        ) from error
    except (ValueError, TypeError, MisconfigurationException) as error:
        raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
        if isinstance(error, UserError) or not any(part in raised_in for part in ("/lightning/", "/torch/optim/")):
            raise
        raise UserError(str(error)) from error


@contextmanager
def _logger_errors() -> Iterator[None]:
    """Turns whatever a logger's package raises into a UserError: no account, no server, a setting that it refuses."""
    try:
        yield
    except Exception as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        package = next((folder for folder in LOGGERS if any(folder in file for file in files)), None)
        if package is None:
            raise
        raise UserError(
            f"logger={package.strip('/')} failed: {_first_line(error)} {LOGGERS[package]}, or logger=csv."
        ) from error


@contextmanager
def _restoring_errors() -> Iterator[None]:
    """Turns what Lightning stumbles over in a checkpoint whose entries are of other kinds into a UserError."""
    try:
        yield
    except (AttributeError, LookupError) as error:
        files = {Path(frame.filename).stem for frame in traceback.extract_tb(error.__traceback__)}
        if "checkpoint_connector" not in files:
            raise
        raise UserError(
            "ckpt_path: the checkpoint was changed by other means, and cannot be gone on from: "
            f"{_first_line(error)} Take RUN/checkpoints/last.ckpt of another run, or train anew without ckpt_path"
        ) from error


def _first_line(error: BaseException) -> str:
    """The text of an error without what follows it, hints for programmers."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if line.endswith(".") else line + "."
