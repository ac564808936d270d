"""A folder from elsewhere is data: whatever its documents say, a command ends with a sentence, or goes on without them.

Each document is changed at every place in every way (`mutations`) and read by what the command does with it; the slow
tests have all of them, the others some of each place.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from apps.updates import updated, write
from comparison.folders import make_run, wave
from mutations import mutations, places, texts

from forecast.apps import predict
from forecast.apps.auto import command as auto
from forecast.apps.auto import steps
from forecast.apps.auto.pace import Pace
from forecast.apps.auto.task import AutoTask
from forecast.apps.common import outputs, study_page
from forecast.apps.inspect_checkpoint import run_metrics
from forecast.apps.tune.files import described
from forecast.apps.tune.studies import SharedStudy
from forecast.apps.update.state import log_text, read_state, save_state
from forecast.comparison.rows import comparisons, read_folder
from forecast.comparison.tables import csv_text, report
from forecast.config.space import Choices, Range
from forecast.errors import UserError
from forecast.jobs import Ended
from forecast.report.updates import alarm_sentences, figures_sentence
from forecast.run_folder import read_run
from forecast.run_folder.lock import release
from forecast.training.trial import Outcome

EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])


@pytest.fixture
def folder(tmp_path):
    """Deep enough that `mutations.OUTSIDE` is in tmp_path too, where nothing may appear."""
    inside = tmp_path / "a" / "b" / "folder"
    inside.mkdir(parents=True)
    yield inside
    assert [path.name for path in sorted(tmp_path.rglob("*")) if inside not in path.parents] == ["a", "b", "folder"]
    assert not Path("/tmp/outside").exists()


def failures(cases, act):
    """Of the cases those in which `act` neither passes nor raises a sentence; each with what it raised."""
    found = {}
    for name, case in cases:
        try:
            act(case)
        except UserError as error:
            if not str(error) or "\n" in str(error) or len(str(error)) > 1000:
                found[name] = f"no sentence: {str(error)[:200]}"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def rewriting(path, act):
    """Writes the case to the file, and acts."""

    def write_and_act(content):
        path.write_bytes(content)
        act()

    return write_and_act


@pytest.fixture(scope="module")
def updates_left(daily_run, tmp_path_factory):
    """The folder of three updates, one of which met a day."""
    place, run = tmp_path_factory.mktemp("updates"), daily_run
    from apps.updates import series

    for last in (60, 61, 63):
        updated(run, write(place / "h.csv", series(), last=last), place / "u")
    return place / "u"


def told(state):
    """What an update makes of a state that it goes on from."""
    latest = state.log[-1]
    log_text(state)
    figures_sentence({"mae": latest["mae"], "baseline_mae": latest["baseline_mae"]}, baseline="x", where="x")
    alarm_sentences(state.log, baseline=state.reference.baseline, level=state.levels[0] if state.levels else None)


def with_meta(arrays, text):
    return {**arrays, "meta": np.array(text.decode("utf-8", "replace"))}


def acting_on_a_state(folder):
    def act(arrays):
        np.savez(folder / "state.npz", **arrays)
        state = read_state(folder)
        assert state is not None
        told(state)
        save_state(folder, state)
        assert read_state(folder).latest_name == state.latest_name

    return act


@EVERY
def test_the_state_of_an_update(updates_left, folder, every):
    with np.load(updates_left / "state.npz") as file:
        arrays = dict(file)
    act = acting_on_a_state(folder)
    act(arrays)
    text = str(arrays["meta"]).encode()
    assert failures(((name, with_meta(arrays, one)) for name, one in texts(text, every=every)), act) == {}


ARRAYS = {
    "gone": lambda one: None,
    "objects": lambda one: np.array([{}] * 3, dtype=object),
    "texts": lambda one: np.array(["a", "b"]),
    "another axis": lambda one: one[None],
    "none": lambda one: one[:0] if one.ndim else np.zeros(0),
    "twice": lambda one: np.concatenate([one, one]) if one.ndim else np.stack([one, one]),
    "not finite": lambda one: np.full_like(one, np.nan) if one.dtype.kind == "f" else one,
    "no times": lambda one: np.full_like(one, np.datetime64("NaT")) if one.dtype.kind == "M" else one,
    "huge": lambda one: np.full_like(one, 1e308) if one.dtype.kind == "f" else one,
    "largest": lambda one: np.full_like(one, np.iinfo(one.dtype).max) if one.dtype.kind == "i" else one,
    "structured": lambda one: np.zeros(3, dtype=[("a", "f8")]),
    "half": lambda one: one.astype(np.float16) if one.dtype.kind == "f" else one,
}


def array_cases(arrays):
    for name, (kind, change) in ((name, one) for name in arrays for one in ARRAYS.items()):
        found = {**arrays, name: change(arrays[name])}
        yield f"{name} {kind}", {key: one for key, one in found.items() if one is not None}


def test_the_arrays_of_a_state(updates_left, folder):
    with np.load(updates_left / "state.npz") as file:
        arrays = dict(file)
    assert failures(array_cases(arrays), acting_on_a_state(folder)) == {}


def test_the_command_of_a_foreign_state(daily_run, updates_left, folder, capsys):
    """Of the cases that a state of this checkpoint can be, some by the command itself."""
    from apps.updates import series, words
    from program import call

    shutil.copytree(updates_left, folder / "u")
    path = write(folder / "h.csv", series(), last=63)
    with np.load(updates_left / "state.npz") as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"]))
    for changes in ({"columns": ["heat"]}, {"freq": "D"}, {"period": 10**9}, {"freq": "a\nb"}):
        np.savez(folder / "u/state.npz", **with_meta(arrays, json.dumps({**meta, **changes}).encode()))
        with pytest.raises(SystemExit) as stop:
            call("update", *words(daily_run, path, folder / "u"))
        assert stop.value.code == 1
        error = capsys.readouterr().err
        says = "its cutoffs are none that" if "freq" in changes else "is not of this checkpoint"
        assert "Traceback" not in error and (says in error or "cannot be read" in error)


def member(error=0.5):
    judged = {"scaled": {"mse": error, "mae": error}, "mase": 1.0}
    seconds = {"seconds": 1.0, "val_seconds": 0.1, "test_seconds": 0.1}
    return {**seconds, "windows": 100, "val": judged, "test": judged}


ASKED = {"FILE": "own.csv", "file": None, "horizon": 7, "minutes": 10.0, "target": None, "preset": "fast"}
ASKED |= {"metric": "mse", "level": [80.0], "settings": []}
NAMES = ("seasonal_naive", "ridge", "boosted_trees", "informer_plus")


@pytest.fixture
def automatic_run(folder):
    """A folder in which `forecast auto` has done all its trainings."""
    make_run(folder, errors=wave(0.5))
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "best.ckpt").touch()
    for name in NAMES:
        (folder / "members" / name / "checkpoints").mkdir(parents=True)
        (folder / "members" / name / "checkpoints" / "best.ckpt").touch()
        (folder / "members" / name / "member.json").write_text(json.dumps(member()))
    weighed = {"weights": [0.25] * 4, "error": "mse", "mean": 0.4, "best_member": 0.5, "alone": False}
    kept = {"windows": 100, "left_out": {"other": "no time"}, "weighed": weighed, "runs": list(NAMES)}
    (folder / "members" / "outcomes.json").write_text(json.dumps(kept))
    (folder / "members" / "auto.json").write_text(json.dumps({"request": ASKED, "seconds": 12.5}))
    return folder


def goes_on(folder):
    """The command where no step takes any time."""
    options = {**ASKED, "file": ASKED["FILE"], "output": str(folder)}
    arguments = argparse.Namespace(**options)
    task = AutoTask([], [], None, [], None)
    done = Ended(value={"windows": 100, "weights": [0.25] * 4, "mean": 0.4, "best_member": 0.5, "alone": None})
    with (
        mock.patch.object(auto, "find_task", lambda _: task),
        mock.patch.object(auto, "checksum", lambda _: None),
        mock.patch.object(auto, "run_step", lambda *_, **__: done),
        mock.patch.object(auto, "say", lambda *_, **__: None),
        mock.patch("forecast.apps.auto.progress.say", lambda *_, **__: None),
        mock.patch.object(auto, "print_table", lambda _: None),
    ):
        try:
            one = auto.Auto(arguments, folder, begun=time.monotonic())
            assert 0 <= one.budget.before < np.inf
            return one.run()
        finally:
            release(folder / "members")


AUTO = ("members/auto.json", "members/outcomes.json", "members/ridge/member.json", "metrics.json", "run.json")
MORE = [pytest.param(name, True, marks=pytest.mark.slow) for name in AUTO[:3]]  # the others: see `compared`


@pytest.mark.parametrize(("name", "every"), [*((name, False) for name in AUTO), *MORE])
def test_an_automatic_run_that_goes_on(automatic_run, name, every):
    before = {path: path.read_bytes() for path in automatic_run.rglob("*.json")}
    assert goes_on(automatic_run).document["leaderboard"]

    def act(content):
        for path, text in before.items():
            path.write_bytes(text)
        (automatic_run / name).write_bytes(content)
        goes_on(automatic_run)

    assert failures(texts(before[automatic_run / name], every=every), act) == {}


def test_time_that_is_no_number_lifts_no_limit(automatic_run):
    for seconds in ("NaN", "-1e9", "null", '"12"'):
        text = json.dumps({"request": ASKED, "seconds": 0}).replace('"seconds": 0', f'"seconds": {seconds}')
        (automatic_run / "members/auto.json").write_text(text)
        with pytest.raises(UserError, match=r"auto\.json is damaged: .*Choose another folder"):
            goes_on(automatic_run)


PACE = Pace(batches=100, batch_size=32, seconds=0.1, validation=2.0, draws=False)


@pytest.mark.parametrize("panel", [False, True])
def test_the_pace_of_a_member_gives_none_but_its_own_overrides(folder, panel):
    given = []
    with mock.patch.object(steps, "within", lambda _, overrides, __: given.append(overrides) or {}):
        allowed = {key for seconds in (24, 1000) for key in PACE.settings(seconds)} | {"data.windows_per_epoch"}

        def act(content):
            given.clear()
            (folder / "pace.json").write_bytes(content)
            steps.train_member(folder, ["model=x"], allowance=0.0, clock=time.process_time)
            pairs = [word.partition("=")[::2] for word in given[0][1:]]
            assert all(key in allowed and value.isdecimal() and 0 < int(value) <= 10**9 for key, value in pairs)

        own = {**PACE.settings(24), **({"data.windows_per_epoch": 7} if panel else {})}
        text = json.dumps(own).encode()
        act(text)
        assert len(given[0]) == 1 + len(own)
        strange = {"+callbacks.x._target_": 1, "callbacks.checkpoint.dirpath": "/tmp/outside", "hydra.run.dir": 7}
        more = ((key, json.dumps({**own, key: value}).encode()) for key, value in strange.items())
        for _, content in more:
            with pytest.raises(UserError, match=r"pace\.json cannot be read: "):
                act(content)
        # a step is a process of its own, which ends with a sentence where this raises one
        with mock.patch.object(steps, "_paced", lambda *_: {}):
            assert failures(((n, c) for n, c in texts(text) if c != b"{}"), act) == {}


SPACE = {"optim.lr": Range(low=1e-4, high=1e-1, log=True), "loss": Choices(("mse", "mae"))}


def joined(folder):
    return SharedStudy(folder, SPACE, seed=5, begun=100.0, first={"optim.lr": 1e-3, "loss": "mse"})


def studied(study):
    """What a process does with a study that it joins."""
    study.seconds_spent()
    study.fits(5.0, at_once=True)
    study.failures()
    study.best()
    for trial in study.trials:
        described(trial)
        assert all(SPACE[key].has(value) for key, value in trial.params.items())
    trial = study.ask(50)
    assert trial is None or trial.params.keys() == SPACE.keys()


@pytest.fixture
def journal(folder):
    """Of a study of three trials: finished, pruned and failed."""
    study = joined(folder)
    with study.at_work():
        for ended in ("finished", "pruned"):
            trial = study.ask(None)
            study.report(trial, 1, 0.6)
            study.tell(trial, Outcome(error=0.5, epochs=2, ended=ended), seconds=1.0)
        study.fail(study.ask(None), "no room", seconds=1.0)
    return folder / "journal.log"


def journal_cases(lines, every):
    """Each line lost, each line changed."""
    for number, line in enumerate(lines):
        rest = [*lines[:number], *lines[number + 1 :]]
        yield f"line {number} lost", b"\n".join(rest) + b"\n"
        for name, changed in texts(line, every=every):
            yield f"line {number} {name}", b"\n".join([*lines[:number], changed, *lines[number + 1 :]]) + b"\n"


@EVERY
def test_the_journal_of_a_study(journal, every):
    lines = journal.read_bytes().splitlines()

    def act(content):
        journal.write_bytes(content)
        studied(joined(journal.parent))

    act(b"\n".join(lines) + b"\n")
    cases = [*journal_cases(lines, every)]
    assert failures(cases if every else cases[:: max(1, len(cases) // 150)], act) == {}
    for code in (1, 10, 99, "x"):
        with pytest.raises(UserError, match="is no journal of a study"):
            act(b"\n".join([*lines, json.dumps({"op_code": code, "worker_id": "x", "study_id": 0}).encode(), b""]))


def test_a_trial_that_waits_brings_no_override_of_its_own(journal):
    lines = journal.read_bytes().splitlines()
    begun = {"op_code": 4, "worker_id": "x", "study_id": 0, "datetime_start": None, "state": 4, "value": None}
    begun |= {"values": None, "distributions": {}, "params": {}, "user_attrs": {}, "intermediate_values": {}}
    choices = json.dumps({"name": "CategoricalDistribution", "attributes": {"choices": ["os.system"]}})
    hostile = {"distributions": {"+callbacks.x._target_": choices}, "params": {"+callbacks.x._target_": 0}}
    fixed = {"system_attrs": {"fixed_params": {"optim.lr": 1e9, "loss": "os.system"}}}
    for more in ({**begun, **hostile, "system_attrs": {}}, {**begun, **fixed}):
        journal.write_bytes(b"\n".join([*lines, json.dumps(more).encode(), b""]))
        with pytest.raises(UserError, match=r"is no journal of a study \(trial 3 is not of the search space\)"):
            joined(journal.parent)


def trials_json():
    trial = {"trial": 0, "state": "finished", "error": 0.5, "seconds": 1.0, "epochs": 2, "reason": None}
    trial |= {"config": {"optim.lr": 1e-3, "loss": "mse"}, "by_epoch": [0.6, 0.5]}
    failed = {**trial, "trial": 1, "state": "failed", "error": None, "reason": "no room"}
    found = {"status": "finished", "model": "dlinear", "data": "demo", "seed": 1, "seq_len": 7, "pred_len": 5}
    found |= {"metric": "val mse", "minutes": None, "most_trials": 2, "seconds": 3.0, "why": "Done."}
    found |= {"space": {"optim.lr": {"low": 1e-4, "high": 1e-1, "log": True}, "loss": ["mse", "mae"]}}
    found |= {"trials": [trial, failed], "states": {"finished": 1, "failed": 1}}
    return found | {"best": {**trial, "command": "forecast train", "file": "experiment/best.yaml"}, "files": {}}


@EVERY
def test_the_page_of_a_study(folder, every):
    def act():
        study_page.remake(folder, overwrite=True)

    with mock.patch.object(outputs, "say", lambda *_: None):
        cases = texts(json.dumps(trials_json()).encode(), every=every)
        assert failures(cases, rewriting(folder / "trials.json", act)) == {}


@EVERY
@pytest.mark.parametrize("name", ["metrics.json", "run.json"])
def test_a_run_that_is_compared(folder, name, every):
    make_run(folder / "good", errors=wave(0.5), attention="full")
    make_run(folder / "odd", errors=wave(0.4), seed=2, number=1, attention="prob")
    text = (folder / "odd" / name).read_bytes()

    def act():
        runs = read_folder(folder)
        tables = comparisons(runs)
        assert any(run.path.name == "good" for table in tables for row in table.rows for run in row.finished)
        report("sweep", tables, runs, None)
        csv_text(tables, None)

    with mock.patch("forecast.comparison.bootstrap.RESAMPLES", 20):
        assert failures(texts(text, every=every), rewriting(folder / "odd" / name, act)) == {}


@EVERY
def test_metrics_beside_a_checkpoint(folder, every):
    make_run(folder, errors=wave(0.5))
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics |= {"val": metrics["test"], "training": {"windows": 100, "batch_size": 32, "max_epochs": 6, "lr": 1e-4}}
    metrics["test"]["scaled"]["mse"] = 5.0  # it loses, so that there is more to say
    checkpoint = folder / "checkpoints" / "best.ckpt"

    def act():
        assert isinstance(predict.verdict_of(checkpoint), list)
        for errors in run_metrics(checkpoint).values():
            assert all(isinstance(errors[name], int | float) for name in ("mse", "mae", "windows"))

    cases = texts(json.dumps(metrics).encode(), every=every)
    assert failures(cases, rewriting(folder / "metrics.json", act)) == {}


def test_hydras_files_and_overrides(folder):
    make_run(folder, errors=wave(0.5))
    for name in ("overrides.yaml", "hydra.yaml"):
        path = folder / ".hydra" / name
        whole = path.read_bytes()
        odd = [b"", whole[: len(whole) // 2], b"\xff", b"[" * 2000, b"a: " * 2000, b"- &a [x]\n- *a\n", b"!!python/x y"]
        odd += [b"- 2020-99-99", b"- 7", b"- [x]", b"x", b'- "a\\0b"', b"hydra:\n  job:\n    num: x\n", b"? [a]\n: b\n"]
        assert failures(((str(one), one) for one in odd), rewriting(path, lambda: read_run(folder))) == {}
        path.write_bytes(whole)


def test_a_place_of_each_document_is_changed_in_every_way():
    """The helper: each place of a document, those that hold others too."""
    assert [*places({"a": [{"b": 1}]})] == [("a",), ("a", 0), ("a", 0, "b")]
    names = [name for name, _ in mutations({"a": [{"b": 1}]})]
    assert len(names) == len({*names}) == 3 * 18 and "a.0.b NaN" in names
