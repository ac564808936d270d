"""What is shown while a training runs, and with --quiet."""

import itertools
import logging
import re
import sys
from types import SimpleNamespace

import pytest
import torch
from report.test_verdict import make

from forecast.report.verdict import print_report
from forecast.text.terminal import duration, quiet_output
from forecast.training.progress import Progress
from forecast.training.throughput import Throughput


@pytest.fixture
def trainer():
    """Of six epochs of ten steps, in the second."""
    throughput = Throughput(clock=lambda: 0.0)
    throughput.samples, throughput.total = 1587, 10.0
    metrics = {"train/mse_scaled": torch.tensor(0.3521), "val/mse_scaled": torch.tensor(0.9216)}
    return SimpleNamespace(
        callback_metrics=metrics,
        callbacks=[SimpleNamespace(), throughput],
        checkpoint_callbacks=[],
        is_global_zero=True,
        max_epochs=6,
        current_epoch=1,
        global_step=0,
        estimated_stepping_batches=60,
    )


@pytest.fixture
def shown(trainer, monkeypatch):
    """The callback after 20 steps in 40 seconds, the last ten in 20."""
    progress, seconds = Progress(), itertools.chain([0.0, 20.0], itertools.repeat(40.0))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    progress.on_train_start(trainer)
    progress.on_train_epoch_start(trainer)
    trainer.global_step = 20
    return progress


def test_an_epoch_ends_with_a_line_that_says_how_long_the_rest_will_take(shown, trainer, caplog):
    caplog.set_level(logging.INFO)
    shown.on_train_epoch_end(trainer, SimpleNamespace(best_step=20))
    trainer.callback_metrics["val/mse_scaled"] = torch.tensor(0.95)
    shown.on_train_epoch_end(trainer, SimpleNamespace(best_step=10))
    line = "epoch 2/6  train 0.352  val 0.922 (best)  159 windows/s  20 s, 1 min 20 s left"
    assert caplog.messages == [line, line.replace("0.922 (best)", "0.950")]


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_line_moves_where_somebody_looks_on(shown, trainer, monkeypatch, capsys, looked_at):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: looked_at)
    monkeypatch.setenv("COLUMNS", "50")
    shown.on_train_batch_end(trainer)
    text = capsys.readouterr().err
    assert text == ("\repoch 2/6  train 0.352  val 0.922  159 windows/s \r" if looked_at else "")
    with quiet_output():
        shown.drawn = -1.0
        shown.on_train_batch_end(trainer)
    assert capsys.readouterr().err == ""


def test_durations_are_in_words():
    assert [duration(s) for s in (41.2, 160, 4800)] == ["41 s", "2 min 40 s", "1 h 20 min"]


def test_a_quiet_report_is_the_verdict_alone(capsys):
    print_report(make(), "test")
    tables = capsys.readouterr().out
    with quiet_output():
        print_report(make(), "test")
    verdict = capsys.readouterr().out
    assert verdict and tables.endswith(verdict) and re.search("MSE +MAE", tables) and "MSE  " not in verdict
