"""A model with a part that is fitted at once: judged before its first step, resumed, refitted, exported."""

import json
import shutil
from unittest import mock

import pandas as pd
import pytest
import torch
from program import BRIEF, TINY, call, refusal

import forecast.training.checkpoint
from forecast.checkpoint.load import load_checkpoint

PLUS = [*TINY, "model=informer_plus", "model.patch_len=3", "checks.leakage=false", "logger=none"]
RIDGE = [*(word for word in BRIEF if not word.startswith("model.")), "model=ridge"]
USELESS = ["optim.lr=30", "trainer.max_epochs=2", "callbacks.early_stopping=null"]  # each step makes it worse


def metrics_of(run):
    return json.loads((run / "metrics.json").read_text())


def weights_of(run, name="best"):
    return torch.load(run / f"checkpoints/{name}.ckpt", weights_only=True)["state_dict"]


@pytest.fixture(scope="module")
def useless(tmp_path_factory):
    run = tmp_path_factory.mktemp("useless") / "run"
    call("train", *PLUS, *USELESS, "refit=true", f"hydra.run.dir={run}")
    return run


def test_epoch_0_may_stay_the_best_and_is_then_the_ridge_itself(useless, tmp_path):
    call("train", *RIDGE, f"hydra.run.dir={tmp_path}")
    best = load_checkpoint(useless / "checkpoints/best.ckpt")
    assert (best.step, best.best_epoch) == (0, 0)
    ours, theirs = metrics_of(useless), metrics_of(tmp_path)
    for split in ("val", "test"):
        assert ours[split]["scaled"]["mse"] == pytest.approx(theirs[split]["scaled"]["mse"], rel=1e-6)
    assert best.config.model.get("skip_options")["look_back"] == theirs_look_back(tmp_path)


def theirs_look_back(run):
    return load_checkpoint(run / "checkpoints/best.ckpt").config.model.get("look_back")


@pytest.mark.slow
def test_a_training_that_helps_is_chosen_and_exported(tmp_path):
    """Chosen by validation, whose error is then below the ridge's."""
    call("train", *PLUS, "optim.lr=3e-3", "trainer.max_epochs=6", "model.skip=seasonal", f"hydra.run.dir={tmp_path}")
    best = load_checkpoint(tmp_path / "checkpoints/best.ckpt")
    assert best.best_epoch > 0
    assert best.weights["gate"].abs().max() > 0
    metrics = metrics_of(tmp_path)
    assert metrics["val"]["scaled"]["mse"] < 0.999 * validated_untrained(tmp_path)
    call("export", str(best.path), str(tmp_path / "exported"))


def validated_untrained(run):
    model = load_checkpoint(run / "checkpoints/best.ckpt").model()
    weights = {**model.state_dict(), "gate": torch.zeros_like(model.gate)}
    content = torch.load(run / "checkpoints/best.ckpt", weights_only=True)
    content["state_dict"] = {f"model.{name}": value for name, value in weights.items()}
    torch.save(content, run / "checkpoints/untrained.ckpt")
    call("evaluate", f"ckpt_path={run}/checkpoints/untrained.ckpt", "split=val", f"hydra.run.dir={run}/untrained")
    return metrics_of(run / "untrained")["val"]["scaled"]["mse"]


@pytest.mark.slow
def test_a_run_killed_after_any_validation_ends_with_the_same_bits(tmp_path):
    save, copies = forecast.training.checkpoint.save_checkpoint, []

    def save_and_copy(trainer, name):
        save(trainer, name)
        if name == "last":
            copies.append((trainer.global_step, shutil.copytree(trainer.default_root_dir, tmp_path / f"{len(copies)}")))

    words = [*PLUS, "optim.lr=1e-3", "trainer.max_epochs=2", "callbacks.early_stopping.patience=2"]
    with mock.patch.object(forecast.training.checkpoint, "save_checkpoint", save_and_copy):
        call("train", *words, f"hydra.run.dir={tmp_path}/whole")
    steps = [step for step, _ in copies]
    assert steps[0] == 0 < steps[1]  # the validation before the first step
    for _, copy in copies[:2]:
        call("train", f"ckpt_path={copy}/checkpoints/last.ckpt")
        for name in ("best", "last"):
            ours, whole = weights_of(copy, name), weights_of(tmp_path / "whole", name)
            assert all(torch.equal(value, ours[key]) for key, value in whole.items())
        ours, whole = metrics_of(copy), metrics_of(tmp_path / "whole")
        assert ours["test"] == whole["test"] and ours["val"] == whole["val"]


def test_a_refit_fits_the_skip_to_more_rows_even_where_no_step_helped(useless):
    best, refitted = (load_checkpoint(useless / f"checkpoints/{name}.ckpt") for name in ("best", "refit"))
    assert best.step == refitted.step == 0
    assert best.config.model.get("skip_options") == refitted.config.model.get("skip_options")
    assert not torch.equal(best.weights["skip.weight"], refitted.weights["skip.weight"])
    refitted.model()  # its weights are those of its config


def test_it_forecasts_and_evaluates_as_any_other(useless, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ckpt = f"ckpt_path={useless}/checkpoints/best.ckpt"
    call("predict", ckpt, "output=f.csv", "level=[80]")
    assert len(pd.read_csv("f.csv")) == 5
    call("evaluate", ckpt, f"hydra.run.dir={tmp_path}/e")
    assert metrics_of(tmp_path / "e")["test"] == metrics_of(useless)["test"]


@pytest.mark.slow
def test_initial_weights_are_the_networks_the_skip_is_fitted_anew(tmp_path):
    words = [*PLUS, "optim.lr=1e-3"]
    call("train", *words, f"hydra.run.dir={tmp_path}/first")
    call(
        "train",
        *words,
        "trainer.max_epochs=1",
        "data.rows=650",
        "optim.lr=1e-30",
        f"initial_weights={tmp_path}/first/checkpoints/best.ckpt",
        f"hydra.run.dir={tmp_path}/second",
    )
    first, second = weights_of(tmp_path / "first"), weights_of(tmp_path / "second")
    for name, value in first.items():
        if "skip" not in name:
            torch.testing.assert_close(second[name], value)
    assert not torch.equal(first["model.skip.weight"], second["model.skip.weight"])


def test_a_skip_that_does_not_fit_the_rows_is_refused(tmp_path, capsys):
    message = refusal(capsys, "train", *PLUS, "+model.skip_options.look_back=600", f"hydra.run.dir={tmp_path}")
    assert "model.look_back=600: no window of the train rows reads back so far" in message
