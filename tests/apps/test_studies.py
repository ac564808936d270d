"""The study of a folder: which trials it draws, begins, counts and prefers; nothing is trained here."""

import time

import pytest

from forecast.apps.tune.search import distribution
from forecast.apps.tune.studies import SharedStudy
from forecast.training.trial import Outcome

SPACE = {"optim.lr": {"low": 1e-4, "high": 1e-1, "log": True}, "n": {"low": 1, "high": 9}, "c": [None, "a", True]}


def joined(folder, space=SPACE, first=None, seed=5, begun=100.0):
    drawn = {key: distribution(key, values) for key, values in space.items()}
    return SharedStudy(folder, drawn, seed=seed, begun=begun, first=first)


def outcome(error=0.5, ended="finished", epochs=3):
    return Outcome(error=error, epochs=epochs, ended=ended)


def run(study, *, seconds=1.0, **came):
    trial = study.ask(None)
    study.tell(trial, outcome(**came), seconds=seconds)
    return trial.params


def test_trials_are_the_same_whatever_number_of_processes_draws_them(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = joined(tmp_path / "one")
    alone = [run(one, error=number / 7) for number in range(15)]
    parts = [joined(tmp_path / "two"), joined(tmp_path / "two")]
    assert [run(parts[number % 2], error=number / 7) for number in range(15)] == alone
    assert len(one.study.trials) == len(parts[0].study.trials) == 15  # none was drawn twice


def test_the_first_point_is_the_one_that_it_is_given(tmp_path):
    point = {"optim.lr": 0.01, "n": 4, "c": None}
    assert run(joined(tmp_path, first=point)) == point
    assert run(joined(tmp_path, first=point)) != point


def test_a_trial_is_begun_where_the_shortest_so_far_would_fit_and_at_once_where_the_longest_would(tmp_path):
    study = joined(tmp_path)
    assert study.fits(0.001, at_once=False) and not study.fits(0.0, at_once=False)
    for seconds, ended in ((3.0, "finished"), (7.0, "finished"), (1.0, "pruned"), (2.0, "cut")):
        run(study, seconds=seconds, ended=ended)
    assert [study.fits(left, at_once=False) for left in (2.9, 3.1)] == [False, True]
    assert [study.fits(left, at_once=True) for left in (6.9, 7.1)] == [False, True]


def test_the_best_is_the_lowest_that_was_trained_to_its_end(tmp_path):
    study = joined(tmp_path)
    assert study.best() is None
    for error, ended in ((0.1, "pruned"), (0.3, "cut"), (0.2, "cut")):
        run(study, error=error, ended=ended)
    assert study.best().number == 2
    run(study, error=0.9)
    run(study, error=0.8)
    assert study.best().number == 4


def test_no_more_trials_are_begun_than_allowed_but_for_those_that_something_else_ended(tmp_path):
    study = joined(tmp_path)
    trial = study.ask(2)
    study.fail(trial, "Ctrl-C", seconds=1.0, again=True)
    study.fail(study.ask(2), "its own fault", seconds=1.0)
    assert study.ask(2) is not None
    assert study.ask(2) is None  # the second one runs


def test_a_trial_of_a_process_that_is_gone_has_failed_as_the_next_one_begins(tmp_path):
    """That one at work has not: test_tune_processes.py."""
    study = joined(tmp_path)
    study.ask(None)
    assert [trial.state.name for trial in study.trials] == ["RUNNING"]
    (trial,) = joined(tmp_path).trials
    assert (trial.state.name, trial.user_attrs["reason"]) == ("FAIL", "its process was killed")


def test_a_point_that_failed_or_was_pruned_before_is_not_trained_again(tmp_path):
    study = joined(tmp_path, {"c": ["a", "b"]})
    for _ in range(2):
        study.fail(study.ask(None), "a fault", seconds=1.0)
    assert study.ask(None) is None and len(study.trials) == 2 and study.failures() == 2


def test_the_seconds_of_a_study_go_on_where_the_command_before_has_noted_them(tmp_path):
    joined(tmp_path, begun=time.time() - 7).note()
    second = joined(tmp_path, begun=time.time() - 3)
    assert second.before == second.seconds_spent() == pytest.approx(7, abs=1)
    second.note()
    assert joined(tmp_path).before == pytest.approx(10, abs=1)
