"""Runs the entry points as a user does, inside the test's process: Hydra, config, files and all."""

import functools
import gc
import signal
import sys
from contextlib import contextmanager
from unittest import mock

import jaxtyping

from forecast.__main__ import start
from forecast.config.entry import logging_restored

# A whole training in a second or two, without pictures in TensorBoard, which take longer than it.
TINY = [
    *("data=demo", "data.rows=700", "seq_len=19", "label_len=7", "pred_len=5"),
    *("model.d_model=14", "model.n_heads=2", "model.d_ff=17"),
    *("trainer.max_epochs=1", "trainer.accelerator=cpu", "trainer.enable_progress_bar=false", "callbacks.figures=null"),
]
# For processes, which draw forecast.png as users see it: with one column in a fourth of the time.
ONE_COLUMN = [*TINY, "data.features=S", "checks.leakage=false"]
# For a training whose steps, checkpoints or messages are what a test is about.
BRIEF = [*TINY, "checks.leakage=false", "calibration=none", "logger=none"]
WITH_FIGURES = [change for change in TINY if change != "callbacks.figures=null"]


def heed_ctrl_c():
    """A shell lets what it starts in the background ignore Ctrl-C, and so everything that is started from there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def shapes_unchecked():
    """Without the shape checks that tests put around each function: no user has them."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@functools.cache
def leave_imported_alone():
    """The garbage collector, which Lightning calls after each training, passes over what the first run imported."""
    gc.collect()
    gc.freeze()


def call(program, *arguments):
    """`forecast PROGRAM ARGUMENTS`; raises SystemExit as the program would exit. Logging is put back."""
    argv = mock.patch.object(sys, "argv", [f"{program}.py", *map(str, arguments)])
    try:
        with logging_restored(), shapes_unchecked(), argv:
            start(program)
    finally:
        leave_imported_alone()


def refusal(capsys, program, *arguments):
    """What a refused command prints on stderr; it must exit with status 1 and show no traceback."""
    try:
        call(program, *arguments)
    except SystemExit as stop:
        assert stop.code == 1
    else:
        raise AssertionError(f"{program}.py {arguments} was not refused")
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message
