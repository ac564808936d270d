"""The parts of `forecast auto`: its time, its processes, how epochs fit into seconds, why a model was chosen."""

import json
import subprocess
import sys
import time
from multiprocessing import forkserver
from unittest import mock

import pytest
import yaml

from forecast.apps.auto.board import leaderboard, reason
from forecast.apps.auto.budget import Budget
from forecast.apps.auto.command import PRESETS
from forecast.apps.auto.steps import Pace
from forecast.apps.auto.task import AutoTask, by_processor, members_of, rows_of_a_year
from forecast.errors import UserError
from forecast.jobs.steps import REAL_TIME, ProcessorClock, end_workers, run_step


def pace(**changes):
    return Pace(**{"batches": 100, "batch_size": 32, "seconds": 0.1, "validation": 2.0, "draws": False, **changes})


@pytest.mark.parametrize(
    ("allowance", "settings"),
    [
        (1000, {"trainer.max_epochs": 10, "callbacks.early_stopping.patience": 2}),  # 1000 steps, not six epochs alone
        (60, {"trainer.max_epochs": 5, "callbacks.early_stopping.patience": 2}),
        (
            24,
            {"trainer.max_epochs": 3, "callbacks.early_stopping.patience": 2, "trainer.limit_train_batches": 60},
        ),
        (9, {"trainer.max_epochs": 2, "callbacks.early_stopping.patience": 2, "trainer.limit_train_batches": 25}),
        (5, {"trainer.max_epochs": 1, "callbacks.early_stopping.patience": 2, "trainer.limit_train_batches": 30}),
        (3.9, None),
    ],
)
def test_a_training_is_as_long_as_its_time_and_no_shorter_than_one(allowance, settings):
    assert pace().settings(allowance) == settings


@pytest.mark.parametrize(("allowance", "networks"), [(1000, 5), (240, 3), (60, 1), (9, 1)])
def test_further_networks_are_trained_where_one_has_all_its_epochs(allowance, networks):
    five = pace(seconds=0.5, validation=10.0, networks=5)  # each network takes the seconds of pace()
    settings = five.settings(allowance)
    assert settings.pop("networks") == networks
    assert settings == pace().settings(allowance / networks)


@pytest.mark.parametrize("preset", ["fast", "good", "best"])
def test_columns_known_in_advance_have_a_network_of_their_own_and_all_of_the_networks_time(preset):
    settings = yaml.safe_load(PRESETS.read_text())
    known = AutoTask(["data.known=[promo]"], [], None, [], 7)
    plain, told = (members_of(settings, preset, task) for task in (AutoTask([], [], None, [], 7), known))
    of_years = members_of(settings, preset, known._replace(year=365))
    assert of_years == [*told[:-1], "ridge_recent", "boosted_trees_recent", told[-1]]
    assert "data.recent=365" in known._replace(year=365).of(settings["fitted"]["ridge_recent"])
    assert plain == settings["presets"][preset]
    assert told[:-1] == [name for name in plain if name in settings["fitted"]]
    assert told[-1] == "informer_plus_ahead" and told[-1] not in plain
    rare = members_of(settings, preset, known._replace(intermittent=True))
    assert [name for name in rare if name != "season_mean"] == told and rare.index("season_mean") == len(told) - 1


@pytest.mark.parametrize(
    ("freq", "rows", "horizon", "year"),
    [
        *(("h", 26_400, 24, 8760), ("h", 26_200, 24, None), ("D", 1200, 28, 365), ("D", 900, 28, None)),
        *(("W-SUN", 160, 26, 52), ("W-SUN", 160, 27, None), ("MS", 40, 6, 12), ("YS", 30, 1, None)),
    ],
)
def test_a_year_of_rows_is_one_of_three_that_holds_two_horizons(freq, rows, horizon, year):
    assert rows_of_a_year(freq, rows=rows, horizon=horizon) == year


def test_of_a_panel_an_epoch_draws_fewer_windows():
    settings = pace(draws=True).settings(24)
    assert settings["data.windows_per_epoch"] == 60 * 32 and "trainer.limit_train_batches" not in settings


@pytest.mark.parametrize("allowance", [5, 9, 24, 40, 60, 100, 1000])
def test_no_training_is_planned_to_take_longer_than_it_may(allowance):
    one = pace()
    settings = one.settings(allowance)
    batches = settings.get("trainer.limit_train_batches", one.batches)
    assert settings["trainer.max_epochs"] * (batches * one.seconds + one.validation) <= allowance


def test_time_before_a_kill_counts_and_the_time_between_does_not(tmp_path):
    first = Budget(tmp_path, {"a": 1}, minutes=1, begun=time.monotonic() - 20)
    assert first.left == pytest.approx(40, abs=1)
    first.note()
    second = Budget(tmp_path, {"a": 1}, minutes=1, begun=time.monotonic() - 5)
    assert second.left == pytest.approx(35, abs=1)
    assert second.last_moment == pytest.approx(35 + 3 + 7.5, abs=1)
    member_of(tmp_path)
    with pytest.raises(UserError, match="another a"):
        Budget(tmp_path, {"a": 2}, minutes=1, begun=time.monotonic())


def member_of(folder):
    """A file of a model that has been trained."""
    (folder / "members" / "ridge").mkdir()
    (folder / "members" / "ridge" / "member.json").write_text("{}")


def test_where_nothing_is_trained_another_request_begins_anew(tmp_path):
    Budget(tmp_path, {"a": 1}, minutes=1, begun=time.monotonic() - 20)
    (tmp_path / "members" / "patchtst").mkdir()
    (tmp_path / "members" / "patchtst" / "pace.json").write_text("{}")
    (tmp_path / "members" / "patchtst.log").write_text("why")
    second = Budget(tmp_path, {"a": 2}, minutes=1, begun=time.monotonic())
    assert second.left == pytest.approx(60, abs=1)
    assert {path.name for path in (tmp_path / "members").iterdir()} == {"auto.json", "patchtst.log"}


def test_the_state_of_another_version_is_refused(tmp_path):
    (tmp_path / "members").mkdir()
    (tmp_path / "members" / "auto.json").write_text(json.dumps({"request": {"a": 1}, "seconds": 3.0}))
    with pytest.raises(UserError, match=r"auto\.json is damaged or was written by another version: format: Field req"):
        Budget(tmp_path, {"a": 1}, minutes=1, begun=time.monotonic())


@pytest.fixture(scope="module", autouse=True)
def own_server():
    """Steps of other tests need one that has imported torch; these are quicker without."""
    yield
    forkserver._forkserver._stop()


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """A module of steps that end in every way."""
    (tmp_path / "odd_steps.py").write_text(
        "import os, time\n"
        "from forecast.errors import UserError\n"
        "def sums(a, b): print('adding'); return a + b\n"
        "def number(): return os.getpid()\n"
        "def loses(): raise RuntimeError('CUDA error: an illegal memory access was encountered')\n"
        "def refuses(): raise UserError('too few rows')\n"
        "def breaks(): raise KeyError('oops')\n"
        "def dies(): os._exit(9)\n"
        "def waits(seconds=600): time.sleep(seconds)\n"
        "def works(seconds):\n    end = time.time() + 30\n"
        "    while time.process_time() < seconds and time.time() < end: pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    odd = "odd_steps"
    return lambda step, limit=60.0, clock=REAL_TIME, **arguments: run_step(
        odd, step, arguments, log=tmp_path / "log", limit=limit, clock=clock
    )


def test_a_step_gives_its_value_and_its_words_go_to_the_log(steps, tmp_path):
    assert steps("sums", a=2, b=3) == (5, "", "")
    assert (tmp_path / "log").read_text() == "adding\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the seconds of another process are those of Linux")
def test_a_script_without_a_guard_is_not_run_again_by_its_steps(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\nfrom forecast.jobs.steps import begin_server, run_step\n"
        "print('begun', flush=True)\nbegin_server('textwrap')\n"
        "print(run_step('textwrap', 'dedent', {'text': ' value'}, log=Path('log'), limit=60.0).value)\n"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["begun", "value"], done.stderr
    assert (tmp_path / "log").read_text() == ""


def test_the_seconds_of_a_processor_are_those_of_what_works_and_stop_it(steps):
    clock = ProcessorClock()
    began = clock()
    assert steps("waits", seconds=2, limit=1.0, clock=clock).error == ""
    assert clock() - began < 1
    outcome = steps("works", seconds=600, limit=1.5, clock=clock)
    assert outcome.error == "there was no more time for it"
    assert 1.5 <= clock() - began < 3


@pytest.mark.parametrize(
    ("words", "counted"), [((), False), (("budget=time",), False), (("seed=3", "budget=cpu"), True)]
)
def test_whose_minutes_count_is_said_by_a_word(words, counted):
    assert by_processor(words) == counted


def test_minutes_of_nothing_known_are_refused():
    with pytest.raises(UserError, match="budget=gpu: minutes are those of the clock, budget=time, or of a processor"):
        by_processor(["budget=gpu"])


@pytest.mark.parametrize(
    ("step", "said"), [("refuses", "too few rows"), ("breaks", "KeyError: 'oops'"), ("dies", "ended with status 9")]
)
def test_a_step_that_fails_says_why_in_a_sentence(steps, step, said):
    outcome = steps(step)
    assert outcome.value is None and said in outcome.error
    assert outcome.kind == {"refuses": "UserError", "breaks": "KeyError", "dies": ""}[step]


def test_a_step_that_takes_too_long_is_stopped(steps):
    begin = time.monotonic()
    assert steps("waits", limit=2.0).error == "there was no more time for it"
    assert time.monotonic() - begin < 30


def test_steps_on_a_gpu_have_one_process_until_it_dies_is_stopped_or_has_lost_the_gpu(steps):
    with mock.patch("forecast.jobs.steps.on_gpu", lambda: True):
        first = steps("number").value
        assert "oops" in steps("breaks").error and steps("number").value == first
        for end, limit in (("dies", 60.0), ("waits", 1.0), ("loses", 60.0)):
            assert steps(end, limit).error
            following = steps("number").value
            assert following not in (None, first)
            first = following
    end_workers()


def member(val, test, seconds=1.0):
    return {"val": {"scaled": {"mse": val}}, "test": {"scaled": {"mse": test}, "mase": 1.0}, "seconds": seconds}


TWO = {"ridge": member(0.5, 0.6), "patchtst": member(0.4, 0.7)}
ENSEMBLE = {"test": {"scaled": {"mse": 0.55}, "mase": 0.9}, "cost": {"train_seconds": 3.0}}


def test_the_mean_is_chosen_where_it_errs_less_on_rows_that_it_has_not_seen():
    weighed = {"weights": [0.25, 0.75], "mean": 0.38, "members": [0.5, 0.4], "alone": False}
    rows = leaderboard(TWO, {"informer": "no time"}, weighed, ENSEMBLE, error="mse")
    assert [row["model"] for row in rows] == ["weighted_ensemble", "patchtst", "ridge", "informer"]
    assert [row["chosen"] for row in rows] == [True, False, False, False]
    assert rows[-1]["reason"] == "no time" and rows[0]["test"] == 0.55
    said = reason(rows, weighed, error="mse")
    assert "patchtst 75 %, ridge 25 %" in said and "5.0 % below that of patchtst alone" in said


def test_the_table_and_the_sentence_have_the_errors_by_which_the_mean_was_chosen():
    """By its own member.json patchtst errs 0.4, as its epoch was chosen on those windows."""
    weighed = {"weights": [0.25, 0.75], "mean": 0.45, "members": [0.5, 0.48], "alone": False}
    rows = leaderboard(TWO, {}, weighed, ENSEMBLE, error="mse")
    assert [row["validation"] for row in rows] == [0.45, 0.48, 0.5] and rows[0]["chosen"]
    assert "Its MSE is 6.2 % below that of patchtst alone" in reason(rows, weighed, error="mse")


def test_of_few_windows_the_reason_says_so():
    weighed = {"weights": [0.25, 0.75], "mean": 0.41, "members": [0.5, 0.4], "alone": None}
    rows = leaderboard(TWO, {}, weighed, ENSEMBLE, error="mse")
    assert reason(rows, weighed, error="mse").endswith(
        "The validation windows are too few to choose one of them alone, though patchtst errs less."
    )


@pytest.mark.parametrize(("mean", "alone"), [(0.38, False), (0.41, None)])
def test_a_mean_of_one_member_is_that_member(mean, alone):
    weighed = {"weights": [1.0, 0.0], "mean": mean, "members": [0.5, 0.4], "alone": alone}
    rows = leaderboard(TWO, {}, weighed, ENSEMBLE, error="mse")
    assert [row["model"] for row in rows if row["chosen"]] == ["ridge"]
    assert reason(rows, weighed, error="mse") == "Chosen: ridge alone. In the weighted mean it has all of the weight."


def test_no_member_of_a_mean_is_named_with_all_or_none_of_it():
    weighed = {"weights": [0.997, 0.003], "mean": 0.38, "members": [0.5, 0.4], "alone": False}
    said = reason(leaderboard(TWO, {}, weighed, ENSEMBLE, error="mse"), weighed, error="mse")
    assert "the weighted mean of ridge 99.7 %, patchtst 0.3 %." in said


def test_else_the_best_member_alone():
    weighed = {"weights": [0.0, 1.0], "mean": 0.41, "members": [0.5, 0.4], "alone": True}
    rows = leaderboard(TWO, {}, weighed, ENSEMBLE, error="mse")
    assert [row["model"] for row in rows] == ["patchtst", "ridge"] and rows[0]["chosen"]
    assert reason(rows, weighed, error="mse").startswith("Chosen: patchtst alone.")


def test_without_an_ensemble_the_member_that_errs_least_on_validation_windows():
    rows = leaderboard(TWO, {}, None, None, error="mse")
    assert rows[0]["model"] == "patchtst" and rows[0]["chosen"]
    assert "errs least on validation windows" in reason(rows, None, error="mse")
    assert "no other model" in reason(
        leaderboard({"ridge": TWO["ridge"]}, {}, None, None, error="mse"), None, error="mse"
    )
