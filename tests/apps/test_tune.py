"""`forecast tune`: what is drawn, by what it is judged, what it leaves, and what is refused."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from apps.tunings import DLINEAR, SPACE, WORDS, drawn, read, tuned
from program import TINY, call, refusal

from forecast.apps.tune import command
from forecast.data.sources import DemoSource
from forecast.data.split import ShareSplit
from forecast.text.overrides import install

STRANGER = "journal.log"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune") / "study"
    return folder, tuned(folder, "tune.trials=5")


def values(document, state):
    return [trial["error"] for trial in document["trials"] if trial["state"] == state]


def test_the_first_trial_is_the_config_as_it_was_typed_and_the_best_the_lowest_that_was_trained_to_its_end(study):
    _, document = study
    assert document["trials"][0]["config"] == {"optim.lr": 1e-4, "model.kernel_size": 25, "loss": "mse"}
    finished = values(document, "finished")
    assert len(document["trials"]) == 5 and document["best"]["error"] == min(finished)
    assert document["states"].get("finished", 0) + document["states"].get("pruned", 0) == 5
    assert all(trial["error"] == min(trial["by_epoch"]) for trial in document["trials"])


def test_the_same_study_twice_has_the_same_trials_and_one_that_was_ended_goes_on_to_them(study, tmp_path):
    _, document = study
    first = tuned(tmp_path / "again", "tune.trials=2")
    assert drawn(first) == drawn(document)[:2]
    assert drawn(tuned(tmp_path / "again", "tune.trials=5")) == drawn(document)
    other = tuned(tmp_path / "other", "tune.trials=2", "seed=2")
    assert [t["config"] for t in other["trials"]] != [t["config"] for t in first["trials"]]


def test_what_it_prints_trains_to_the_validation_error_of_the_best_trial(study, tmp_path, capsys, monkeypatch):
    folder, document = study
    monkeypatch.chdir(tmp_path)
    tuned(folder, "tune.trials=5")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Train with it: ")]
    words = shlex.split(line.removeprefix("Train with it: "))
    assert words[:2] == ["forecast", "train"]
    call("train", *words[2:], f"hydra.run.dir={tmp_path}/run", "trainer.enable_progress_bar=false")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["val"]["scaled"]["mse"] == pytest.approx(document["best"]["error"], rel=1e-5)


def test_a_model_with_dropout_and_sampled_keys_is_trained_to_the_same_error_by_its_command(tmp_path):
    """Nothing that a trial leaves out (baselines, checkpoints, the leakage guard) draws a number."""
    space = "tune.space={model.dropout: [0.2], optim.lr: [1e-3, 3e-3]}"
    folder, run = tmp_path / "study", tmp_path / "run"
    words = [*TINY, "data.features=MS", "trainer.max_epochs=2", "data.batch_size=64"]
    call("tune", *words, space, "tune.minutes=null", "tune.trials=2", f"hydra.run.dir={folder}")
    call("train", *shlex.split(read(folder)["best"]["command"])[2:], f"hydra.run.dir={run}")
    assert json.loads((run / "metrics.json").read_text())["val"]["scaled"]["mse"] == pytest.approx(
        read(folder)["best"]["error"], rel=1e-5
    )


@pytest.mark.parametrize("model", ["dlinear", "ridge"])
def test_no_trial_looks_at_a_test_row(model, tmp_path):
    count, columns = 400, ["HUFL", "OT"]
    frame = DemoSource(split=ShareSplit(), demo_seed=7, rows=count).frame()
    table = pd.DataFrame(frame.values, columns=frame.columns)[columns]
    table.insert(0, "date", frame.timestamps(0))
    rows = {"whole": table, "scrambled": table.copy()}
    test = slice(int(0.8 * count) + 1, None)  # shares of 0.7, 0.1 and 0.2
    rows["scrambled"].iloc[test, 1:] = 1e3 * np.random.default_rng(3).standard_normal((count - test.start, 2))
    space = SPACE if model == "dlinear" else "tune.space={model.look_back: [null, 19, 38], model.tolerance: [0, 0.1]}"
    found = {}
    of_a_file = [word for word in DLINEAR if not word.startswith(("data=", "data.rows", "model=", "data.features"))]
    for name, one in rows.items():
        path = tmp_path / f"{name}.csv"
        one.to_csv(path, index=False)
        words = [*of_a_file, f"model={model}", "data=csv", f"data.path={path}", space, "tune.minutes=null"]
        call("tune", *words, "tune.trials=3", f"hydra.run.dir={tmp_path / name}")
        found[name] = drawn(read(tmp_path / name))
    assert found["whole"] == found["scrambled"]
    assert len({trial["error"] for trial in found["whole"]}) > 1


def test_the_page_shows_every_trial(study):
    folder, document = study
    page = (folder / "report.html").read_text()
    assert "Tuning of dlinear on demo" in page and "forecast train " in page
    for trial in document["trials"]:
        assert f"{trial['config']['optim.lr']:.4g}" in page
    assert not list(folder.rglob("*.ckpt"))


def test_json_is_the_document_with_its_folder(tmp_path, capsys):
    tuned(tmp_path / "study", "tune.trials=1", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer == read(tmp_path / "study")
    assert answer["status"] == "finished" and answer["folder"] == str(tmp_path / "study")


def test_a_point_that_was_tried_is_not_trained_again_and_a_space_without_others_ends_the_study(tmp_path, capsys):
    call(
        "tune",
        *DLINEAR,
        "tune.space={loss: [mse, mae]}",
        "tune.minutes=null",
        f"hydra.run.dir={tmp_path}",
        "tune.trials=9",
    )
    document = read(tmp_path)
    assert sorted(trial["config"]["loss"] for trial in document["trials"]) == ["mae", "mse"]
    assert "Hardly a point of the space is left that was not tried." in capsys.readouterr().out


def test_a_poor_trial_is_pruned_by_its_validations(tmp_path):
    space = "tune.space={optim.lr: {low: 1e-7, high: 1e-1, log: true}}"
    call(
        "tune",
        *DLINEAR,
        "trainer.max_epochs=4",
        space,
        "tune.minutes=null",
        "tune.trials=10",
        f"hydra.run.dir={tmp_path}",
    )
    document = read(tmp_path)
    pruned = [trial for trial in document["trials"] if trial["state"] == "pruned"]
    assert pruned and all(1 < trial["epochs"] < 4 for trial in pruned)
    assert min(trial["error"] for trial in pruned) > document["best"]["error"]


def test_the_error_that_chooses_checkpoints_chooses_trials(tmp_path):
    document = tuned(tmp_path, "tune.trials=1", "callbacks.checkpoint.monitor=mae")
    other = tuned(tmp_path / "mse", "tune.trials=1")
    assert document["metric"] == "val mae, scaled"
    assert document["trials"][0]["error"] != other["trials"][0]["error"]


def test_a_trial_that_fails_is_said_and_left_out(tmp_path, capsys):
    space = "tune.space={seq_len: [19, 600], optim.lr: [1e-3, 3e-3, 1e-2]}"
    call("tune", *DLINEAR, space, "tune.minutes=null", "tune.trials=6", f"hydra.run.dir={tmp_path}")
    document = read(tmp_path)
    failed = [trial for trial in document["trials"] if trial["state"] == "failed"]
    assert failed and all(trial["config"]["seq_len"] == 600 and "600" in trial["reason"] for trial in failed)
    assert document["best"]["config"]["seq_len"] == 19
    numbers = ", ".join(str(trial["trial"]) for trial in failed)
    many = f"Trials {numbers} have" if len(failed) > 1 else f"Trial {numbers} has"
    assert f"{many} failed: {failed[0]['reason'][:40]}" in capsys.readouterr().out
    assert failed[0]["reason"].split(":")[0] in (tmp_path / "report.html").read_text()


def test_where_all_trials_fail_the_first_reason_is_said(tmp_path, capsys):
    space = "tune.space={optim.lr: {low: 1e-3, high: 1e-2}, seq_len: [600]}"
    said = refusal(capsys, "tune", *DLINEAR, space, f"hydra.run.dir={tmp_path}")
    assert "all 5 trials have failed, the first with: " in said.splitlines()[-1] and "600" in said.splitlines()[-1]


def test_too_little_time_for_a_first_validation_is_said(tmp_path, capsys):
    said = refusal(capsys, "tune", *DLINEAR, SPACE, "tune.minutes=1e-6", f"hydra.run.dir={tmp_path}")
    assert "no trial came to a validation: no trial was begun. What is left of 1e-06 minutes is too short" in said
    assert "Choose a smaller model, or a larger tune.minutes" in said


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (["seq_len=23"], "model, data or other settings"),
        (["data.rows=800"], "model, data or other settings"),
        (["tune.space={loss: [mse, mae]}"], "search space"),
    ],
)
def test_the_folder_of_another_study_is_refused(study, other, what, capsys):
    folder, _ = study
    before = {file: file.read_bytes() for file in folder.rglob("*.*") if file.is_file() and file.suffix != ".log"}
    words = [word for word in WORDS if word.partition("=")[0] not in [one.partition("=")[0] for one in other]]
    said = refusal(capsys, "tune", *words, *other, "tune.trials=9", f"hydra.run.dir={folder}")
    assert f"hydra.run.dir={folder} holds a study of another {what}. Choose another folder" in said
    assert before == {file: file.read_bytes() for file in before}


def test_a_strangers_file_is_kept(tmp_path, capsys):
    (tmp_path / STRANGER).write_text("mine")
    said = refusal(capsys, "tune", *WORDS, "tune.trials=1", f"hydra.run.dir={tmp_path}")
    assert f"{tmp_path / STRANGER} is there and is not of a study" in said
    assert (tmp_path / STRANGER).read_text() == "mine"


def test_without_a_folder_the_same_command_goes_on_in_tunings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for trials in (1, 2):
        call("tune", *WORDS, f"tune.trials={trials}")
    (folder,) = (tmp_path / "tunings").iterdir()
    assert len(read(folder)["trials"]) == 2
    call("tune", *WORDS, "tune.trials=1", "seed=3")
    assert len(list((tmp_path / "tunings").iterdir())) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune.minutes=0"], "tune.minutes=0: must be above 0"),
        (["tune.minutes=-3"], "tune.minutes=-3: must be above 0"),
        (["tune.trials=0", "tune.minutes=1"], "tune.trials=0: must be at least 1"),
        (["tune.minuts=1"], "'tune.minuts' is no key of the config. Did you mean 'tune.minutes'?"),
        (["tune.minutes=null"], "nothing would end the study. Say tune.trials=20, or tune.minutes=10"),
        (["refit=true"], "refit=True: a trial is a new training"),
        (["tune.space={optim.lrr: [1e-3]}"], "'optim.lrr' is no key of the config. Did you mean 'optim.lr'?"),
        (["tune.space={loss: [msee, mse]}"], "loss=msee: there is no such choice. Did you mean 'mse'?"),
        (
            ["model=theta", "tune.space=null"],
            "model=theta has no search space; these have one: ridge, boosted_trees, dlinear",
        ),
        (["optim.lr=-1"], "optim.lr"),
    ],
)
def test_bad_input_is_refused_before_any_trial(words, message, tmp_path, capsys):
    before = [*DLINEAR, *([] if words[-1].startswith("tune.space") else [SPACE])]
    said = refusal(capsys, "tune", *before, *words, f"hydra.run.dir={tmp_path}")
    assert message in said and len(said.splitlines()) <= 2
    assert not (tmp_path / "study.json").exists()


def test_a_sweep_of_studies_is_refused(tmp_path, capsys):
    said = refusal(capsys, "tune", "-m", *WORDS, "seed=1,2", f"hydra.sweep.dir={tmp_path}")
    assert "forecast tune -m: a study is of one model." in said


def test_without_optuna_the_command_to_install_it_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    said = refusal(capsys, "tune", *WORDS, "tune.trials=1", f"hydra.run.dir={tmp_path}")
    assert f"the package optuna is not installed. Install it: {install('tune')}" in said


def test_yaml_of_a_users_own_is_found_by_the_trials_and_by_what_is_printed(tmp_path, capsys):
    (tmp_path / "mine/experiment").mkdir(parents=True)
    own = "# @package _global_\nseq_len: 23\nlabel_len: 7\n"
    (tmp_path / "mine/experiment/longer.yaml").write_text(own)
    words = [word for word in WORDS if not word.startswith(("seq_len", "label_len"))]
    folder = tmp_path / "study"
    call(
        "tune",
        "--config-dir",
        tmp_path / "mine",
        *words,
        "experiment=longer",
        "tune.trials=1",
        f"hydra.run.dir={folder}",
    )
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Train with it: ")]
    call("train", *shlex.split(line)[5:], f"hydra.run.dir={tmp_path}/run", "trainer.enable_progress_bar=false")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["seq_len"] == 23
    assert metrics["val"]["scaled"]["mse"] == pytest.approx(read(folder)["best"]["error"], rel=1e-5)
