"""A trial of `forecast tune`: it ends at its deadline or when it is told to, and leaves nothing behind."""

import itertools
import math

import pytest
from apps.tunings import DLINEAR
from config.composed import run_config

from forecast.apps.common import training_data
from forecast.apps.common.training_data import read_data
from forecast.errors import UserError
from forecast.training.trial import Trials, without_extras


def plan_of(folder, *words):
    return training_data.plan_of(without_extras(run_config(*DLINEAR, "trainer.max_epochs=3", *words)), {}, folder)


def trials(read=read_data):
    return Trials(read)


def go_on(epoch, error):
    return True


def test_it_reports_each_validation_and_comes_to_the_lowest(tmp_path):
    seen = []
    outcome = trials().run(
        plan_of(tmp_path), monitor="mse", report=lambda *one: seen.append(one) or True, deadline=math.inf
    )
    assert [epoch for epoch, _ in seen] == [0, 1, 2]
    assert (outcome.error, outcome.epochs, outcome.ended) == (min(error for _, error in seen), 3, "finished")
    assert not list(tmp_path.iterdir())


def test_it_ends_after_the_epoch_whose_report_says_so(tmp_path):
    outcome = trials().run(plan_of(tmp_path), monitor="mse", report=lambda epoch, error: epoch < 1, deadline=math.inf)
    assert (outcome.epochs, outcome.ended) == (2, "pruned")


@pytest.mark.parametrize(("steps", "epochs"), [(3, 0), (11, 1), (10**6, 3)])
def test_it_is_cut_off_at_its_deadline_within_a_step(steps, epochs, tmp_path):
    """The clock ticks once each time it is read: after each batch of train and of val, 8 and 2 an epoch here."""
    ticks = itertools.count(1)
    outcome = trials().run(plan_of(tmp_path), monitor="mse", report=go_on, deadline=steps, clock=lambda: next(ticks))
    assert outcome.epochs == epochs
    assert (outcome.error is None) == (epochs == 0)
    assert outcome.ended == ("finished" if epochs == 3 else "cut")
    if epochs < 3:
        assert next(ticks) == steps + 1  # nothing ran after the deadline


@pytest.mark.parametrize("model", ["dlinear", "ridge"])
def test_the_error_is_the_one_that_is_asked_for(model, tmp_path):
    plan = plan_of(tmp_path, f"model={model}")
    errors = [trials().run(plan, monitor=one, report=go_on, deadline=math.inf).error for one in ("mse", "mae")]
    assert errors[0] < 1 and errors[0] != pytest.approx(errors[1], rel=0.05)


def test_data_are_read_once_for_each_look_back(tmp_path):
    read = []
    some = trials(lambda source, config: read.append(config.seq_len) or read_data(source, config))
    few = ["trainer.max_epochs=1", "trainer.limit_train_batches=1"]
    for words in ([], ["optim.lr=0.01"], ["seq_len=23"], ["data.batch_size=32"], ["seq_len=23", "loss=mae"]):
        some.run(plan_of(tmp_path, *few, *words), monitor="mse", report=go_on, deadline=math.inf)
    assert read == [19, 23]


def test_early_stopping_ends_a_trial_as_it_ends_a_training(tmp_path):
    words = ["trainer.max_epochs=30", "optim.lr=1.0", "schedule=constant", "callbacks.early_stopping.patience=2"]
    outcome = trials().run(plan_of(tmp_path, *words), monitor="mse", report=go_on, deadline=math.inf)
    assert outcome.ended == "finished" and outcome.epochs < 30


def test_several_processes_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"a trial trains in one process, not in 2\. Say trainer=default"):
        plan = plan_of(tmp_path, "trainer.devices=2", "trainer.strategy=ddp_spawn")
        trials().run(plan, monitor="mse", report=go_on, deadline=math.inf)
