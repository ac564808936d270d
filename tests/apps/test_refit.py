"""refit: after the results a model is trained once more, on more rows; what it forecasts with, shows and refuses."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from apps.refitted import INFORMER, LINEAR, RIDGE, ROWS, TREES, UNTIL, best_of, metrics_of, planted, refit_of, run
from program import call, refusal

from forecast import Forecaster
from forecast.apps import train
from forecast.apps.common.results import evaluate_checkpoint
from forecast.checkpoint.load import load_checkpoint


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "own.csv"
    planted(ROWS).to_csv(path)
    return path


@pytest.fixture(scope="module")
def runs(csv, tmp_path_factory):
    """Of each model a run without and one with refit=true."""
    folder, models = (
        tmp_path_factory.mktemp("runs"),
        {"ridge": RIDGE, "boosted_trees": TREES, "dlinear": LINEAR, "informer": INFORMER},
    )
    for name, changes in models.items():
        run(folder / f"{name}-held-out", csv, *changes)
        run(folder / name, csv, *changes, "refit=true")
    return folder


MODELS = pytest.mark.parametrize("name", ["ridge", "boosted_trees", "dlinear", "informer"])


@MODELS
def test_the_results_are_those_of_the_run_without_a_refit_to_the_bit(runs, name):
    plain, refitted = metrics_of(runs / f"{name}-held-out"), metrics_of(runs / name)
    block = refitted.pop("refit")
    for metrics in (plain, refitted):
        del metrics["cost"], metrics["files"]["forecast.png"], metrics["files"]["report.html"]  # which has the config
    assert refitted == plain
    assert block["rows"] == ["train", "val", "test"] and block["trained_until"] == UNTIL and "test" not in block
    ours, theirs = (torch.load(best_of(runs / run), weights_only=True) for run in (name, f"{name}-held-out"))
    assert all(torch.equal(value, theirs["state_dict"][key]) for key, value in ours["state_dict"].items())
    assert not refit_of(runs / f"{name}-held-out").exists()


@MODELS
def test_the_refitted_model_has_the_steps_the_scale_and_the_baselines_of_the_held_out_one(runs, name):
    best, refitted = load_checkpoint(best_of(runs / name)), load_checkpoint(refit_of(runs / name))
    assert refitted.step == best.step == metrics_of(runs / name)["refit"]["steps"]
    assert (refitted.step > 0) is (name not in ("ridge", "boosted_trees"))
    assert refitted.data == best.data and refitted.config == best.config
    assert torch.equal(refitted.record.fits["nlinear_weight"], best.record.fits["nlinear_weight"])
    assert any(not torch.equal(value, best.weights[key]) for key, value in refitted.weights.items())
    assert refitted.trained_until == UNTIL > best.trained_until == refitted.data["trained_until"]
    assert refitted.refit["held_out"]["test"] == metrics_of(runs / name)["test"]


@pytest.mark.parametrize("name", ["ridge", "dlinear"])
def test_it_has_learned_from_the_last_rows(runs, csv, tmp_path, name):
    """The wave began with the test rows: the held-out model has never seen it."""
    truth, errors = planted(ROWS + 5)["load"].to_numpy()[-5:], []
    for number, path in enumerate([best_of(runs / name), refit_of(runs / name)]):
        call("predict", f"ckpt_path={path}", f"output={tmp_path}/{number}.csv")
        errors.append(np.abs(pd.read_csv(tmp_path / f"{number}.csv")["load"] - truth).mean())
    assert errors[0] > 10 and errors[1] < errors[0] / 2, errors


def test_the_last_line_of_a_training_is_the_command_that_forecasts_with_it(runs):
    lines = (runs / "ridge" / "train.log").read_text().splitlines()
    assert lines[-1].endswith(f"Everything about this run is in {runs / 'ridge'}")
    assert f"forecast predict ckpt_path={refit_of(runs / 'ridge')} output=forecast.csv" in lines[-2]
    assert "rows of train, val, test, up to" in lines[-3] and "those of the held-out model, best.ckpt" in lines[-3]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_evaluate_shows_the_figures_of_the_held_out_model_and_says_so(runs, workplace, capsys, caplog):
    arguments = (f"ckpt_path={refit_of(runs / 'ridge')}", f"hydra.run.dir={workplace}/e")
    call("evaluate", *arguments, "--json")
    shown = json.loads(capsys.readouterr().out)
    expected = metrics_of(runs / "ridge")
    assert shown["held_out"] is True and "folder" not in shown
    for key in ("test", "val", "baselines"):
        assert shown[key] == expected[key]
    assert "these are the stored figures of the held-out model, best.ckpt" in (workplace / "e/evaluate.log").read_text()
    assert not (workplace / "e/metrics.json").exists()
    capsys.readouterr()
    call("evaluate", *arguments)
    best = f"ckpt_path={best_of(runs / 'ridge')}"
    table, warning = capsys.readouterr()
    assert warning.startswith("Warning: ")
    call("evaluate", best, f"hydra.run.dir={workplace}/best")
    assert f"{expected['test']['scaled']['mse']:.4f}" in table
    assert table.splitlines()[:12] == capsys.readouterr().out.splitlines()[:12]


@pytest.mark.parametrize("split", ["val", "train"])
def test_rows_that_it_has_learned_from_are_refused(runs, workplace, capsys, split):
    path = refit_of(runs / "ridge")
    message = refusal(capsys, "evaluate", f"ckpt_path={path}", f"split={split}")
    assert message == (
        f"split={split}: {path} has learned from the rows up to {UNTIL}, on which its error is no forecast error; "
        f"evaluate the held-out model, ckpt_path={best_of(runs / 'ridge')}, or rows that came later, split=new.\n"
    )
    call("evaluate", f"ckpt_path={best_of(runs / 'ridge')}", f"split={split}")  # what it advises


def test_another_file_is_refused_up_to_the_last_row_that_it_has_learned_from(runs, workplace, capsys):
    """A window of 19 rows may reach into these rows, what it forecasts may not."""
    arguments = (f"ckpt_path={refit_of(runs / 'dlinear')}", "data.path=later.csv", "split=all")
    planted(ROWS + 40).iloc[ROWS - 20 :].to_csv("later.csv")
    message = refusal(capsys, "evaluate", *arguments, f"hydra.run.dir={workplace}/e")
    assert f"split=all: {refit_of(runs / 'dlinear')} has learned from the rows up to {UNTIL}" in message
    planted(ROWS + 40).iloc[ROWS - 19 :].to_csv("later.csv")
    call("evaluate", *arguments, f"hydra.run.dir={workplace}/e")
    assert metrics_of(workplace / "e")["all"]["windows"] == 40 - 5 + 1


def test_rows_that_came_later_are_evaluated(csv, tmp_path):
    own = tmp_path / "own.csv"
    shutil.copy(csv, own)
    folder = run(tmp_path / "run", own, *RIDGE, "refit=true")
    planted(ROWS + 60).to_csv(own)
    for name in ("best", "refit"):
        path = folder / "checkpoints" / f"{name}.ckpt"
        call("evaluate", f"ckpt_path={path}", "split=new", f"hydra.run.dir={tmp_path}/{name}")
    held_out, refitted = (metrics_of(tmp_path / name) for name in ("best", "refit"))
    assert refitted["new"]["windows"] == held_out["new"]["windows"] == 60 - 5 + 1
    assert refitted["new"]["scaled"]["mse"] < held_out["new"]["scaled"]["mse"] / 2
    for baseline in (*refitted["baselines"].values(), *held_out["baselines"].values()):
        baseline.pop("difference")  # to the model
    assert refitted["baselines"] == held_out["baselines"]  # which are fitted to the train rows


def test_refit_val_shows_what_more_rows_give_on_the_test_rows(csv, tmp_path):
    folder = run(tmp_path / "run", csv, *LINEAR, "refit=val")
    metrics, checkpoint = metrics_of(folder), load_checkpoint(refit_of(folder))
    assert checkpoint.refit["rows"] == metrics["refit"]["rows"] == ["train", "val"]
    assert checkpoint.trained_until == "2022-01-21 00:00:00"
    call("evaluate", f"ckpt_path={refit_of(folder)}", f"hydra.run.dir={tmp_path}/e")
    assert metrics_of(tmp_path / "e")["test"] == metrics["refit"]["test"] != metrics["test"]
    text = (folder / "train.log").read_text()
    assert f"the MSE of refit.ckpt is {metrics['refit']['test']['scaled']['mse']:.4f}, that of the held-out" in text


def test_from_python_the_refitted_model_forecasts_and_the_held_out_one_is_judged(tmp_path, runs):
    overrides = [*RIDGE[1:], "refit=true", f"hydra.run.dir={tmp_path}/run"]
    fitted = Forecaster("ridge", overrides=overrides).fit(planted(ROWS))
    assert fitted.checkpoint.path == refit_of(tmp_path / "run")
    truth = planted(ROWS + 5)["load"].to_numpy()[-5:]
    assert np.abs(fitted.predict()["load"] - truth).mean() < 5
    held_out = Forecaster.load(best_of(tmp_path / "run")).evaluate()
    pd.testing.assert_frame_equal(fitted.evaluate(), held_out, atol=1e-6)


def test_it_is_inspected_and_exported(runs, tmp_path, capsys):
    path = refit_of(runs / "ridge")
    capsys.readouterr()
    call("inspect-checkpoint", str(path))
    card = json.loads(capsys.readouterr().out)
    assert card["refit"]["rows"] == ["train", "val", "test"] and card["refit"]["trained_until"] == UNTIL
    assert card["metrics"]["test"]["mse"] == metrics_of(runs / "ridge")["test"]["scaled"]["mse"]
    call("export", str(path), str(tmp_path / "exported"))
    assert json.loads((tmp_path / "exported/config.json").read_text())["refit"]["trained_until"] == UNTIL


def test_no_training_goes_on_from_it(runs, capsys):
    message = refusal(capsys, "train", f"ckpt_path={refit_of(runs / 'dlinear')}")
    last = runs / "dlinear" / "checkpoints" / "last.ckpt"
    assert "trained once more on more rows, and no training goes on from it" in message
    assert message.endswith(f"which refits anew: ckpt_path={last}\n")


@pytest.mark.parametrize(
    "changes, message",
    [
        (["refit=true", "trainer.limit_val_batches=0"], "refit=true: validation chooses for how many steps, and with"),
        (["refit=val", "schedule=plateau"], "refit=val: schedule=plateau goes by the validation error, and a"),
        (["refit=test"], "refit=test: must be 'val' or a valid boolean"),
    ],
)
def test_what_cannot_be_refitted_is_refused_before_the_data_are_read(tmp_path, capsys, changes, message):
    text = refusal(capsys, "train", *INFORMER, "data=demo", *changes, f"hydra.run.dir={tmp_path}/r")
    assert message in text


def test_without_a_best_step_the_results_stay_and_one_sentence_says_why(csv, tmp_path, capsys):
    """The only validation comes after the last epoch."""
    text = refusal(
        *(capsys, "train", *LINEAR, "data=csv", f"data.path={csv}", "refit=true"),
        *("trainer.check_val_every_n_epoch=9", f"hydra.run.dir={tmp_path}/r"),
    )
    assert "refit: no validation has chosen for how many steps to train, so there is no " in text
    assert metrics_of(tmp_path / "r")["test"]["windows"] > 0


def test_a_run_that_has_finished_is_refitted_by_going_on(runs, tmp_path):
    """To the bits of a run with refit=true from its beginning."""
    folder = shutil.copytree(runs / "dlinear-held-out", tmp_path / "run")
    before = metrics_of(folder)
    call("train", f"ckpt_path={folder}/checkpoints/last.ckpt", "refit=true")
    ours, theirs = (load_checkpoint(refit_of(one)) for one in (folder, runs / "dlinear"))
    assert all(torch.equal(value, theirs.weights[key]) for key, value in ours.weights.items())
    assert metrics_of(folder)["test"] == before["test"]


def test_a_run_killed_in_its_refit_ends_with_the_same_bits(csv, tmp_path, monkeypatch):
    """Before the refit has written anything, and when refit.ckpt is there but not evaluated."""
    changes = [*(word for word in INFORMER if "max_epochs" not in word), "trainer.max_epochs=1"]
    changes += ["model.dropout=0.1", "refit=val"]
    whole = run(tmp_path / "whole", csv, *changes)
    weights = torch.load(refit_of(whole), weights_only=True)["state_dict"]

    def killed(*_, **__):
        raise KeyboardInterrupt

    moments = {"before": ("refit", killed), "after": ("evaluate_checkpoint", held_out_alone(killed))}
    for moment, (name, instead) in moments.items():
        folder = tmp_path / moment
        with monkeypatch.context() as patched:
            patched.setattr(train, name, instead)
            with pytest.raises(SystemExit) as stop:
                run(folder, csv, *changes)
        assert stop.value.code == 130
        assert refit_of(folder).exists() is (moment == "after")
        assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
        call("train", f"ckpt_path={folder}/checkpoints/last.ckpt")
        found = torch.load(refit_of(folder), weights_only=True)["state_dict"]
        assert all(torch.equal(value, weights[key]) for key, value in found.items()), moment
        assert metrics_of(folder)["refit"]["test"] == metrics_of(whole)["refit"]["test"]


def held_out_alone(then):
    """An evaluation that works once."""
    calls = []

    def evaluated(*arguments, **options):
        calls.append(arguments)
        return then() if len(calls) > 1 else evaluate_checkpoint(*arguments, **options)

    return evaluated
