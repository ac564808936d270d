"""Models without gradient steps through the commands: trained, evaluated, predicted from, exported, like any other."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from apps.files import write_waves
from program import TINY, call, refusal

from forecast.apps.forecaster import Forecaster
from forecast.checkpoint.load import load_checkpoint
from forecast.errors import UserError
from forecast.report.verdict import verdict
from forecast.training import combined

ROWS, PERIOD = 601, 24
SIZES = ("seq_len=19", "label_len=7", "pred_len=5")


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "own.csv"
    return write_waves(path, rows=ROWS, period=PERIOD, columns=["load", "wind"], noise=0.1)


def trained(folder, csv, *changes):
    call("train", "data=csv", f"data.path={csv}", *SIZES, *changes, f"hydra.run.dir={folder}")
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def ridge(csv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ridge")
    return folder, trained(folder, csv, "model=ridge")


def test_a_run_of_the_ridge_is_a_run(ridge, csv):
    folder, metrics = ridge
    assert metrics["status"] == "finished" and metrics["model"] == "ridge"
    assert 0.9 * 0.01 < metrics["test"]["columns"]["load"]["original"]["mse"] < 1.3 * 0.01  # the noise's variance
    assert metrics["baselines"]["closed_form_nlinear"]["look_back"] == 19 < metrics["baselines"]["ridge"]["look_back"]
    assert metrics["baselines"]["seasonal_naive"]["period"] == PERIOD > 19
    assert metrics["test"]["windows"] == int(ROWS * 0.2) - 5 + 1
    checkpoint = load_checkpoint(folder / "checkpoints" / "best.ckpt")
    model = checkpoint.model()
    assert checkpoint.config.model.get("look_back") == model.look_back > 19
    assert checkpoint.record.parameters == sum(part.numel() for part in model.parameters())


def test_another_evaluation_gives_the_same_figures(ridge, tmp_path):
    folder, metrics = ridge
    call("evaluate", f"ckpt_path={folder}/checkpoints/best.ckpt", "split=test", f"hydra.run.dir={tmp_path}/e")
    again = json.loads((tmp_path / "e" / "metrics.json").read_text())
    assert again["test"] == metrics["test"] and again["baselines"] == metrics["baselines"]


def test_predict_needs_the_rows_that_the_map_reads_and_says_how_many(ridge, csv, tmp_path, capsys):
    best = ridge[0] / "checkpoints" / "best.ckpt"
    checkpoint, lines = load_checkpoint(best), csv.read_text().splitlines(keepends=True)
    seq_len, rows = checkpoint.config.seq_len, checkpoint.model().look_back
    (tmp_path / "short.csv").write_text("".join([lines[0], *lines[-seq_len + 1 :]]))
    arguments = (f"ckpt_path={best}", f"data.path={tmp_path}/short.csv", f"output={tmp_path}/f.csv")
    assert f"has {seq_len - 1} rows; the model reads the last {seq_len}" in refusal(capsys, "predict", *arguments)
    (tmp_path / "short.csv").write_text("".join([lines[0], *lines[-rows:]]))
    call("predict", *arguments)
    forecast = pd.read_csv(tmp_path / "f.csv")
    phase = 2 * np.pi * np.arange(ROWS, ROWS + 5) / PERIOD
    assert np.abs(forecast["load"] - np.sin(phase)).max() < 0.3
    assert np.abs(forecast["wind"] - np.cos(phase)).max() < 0.3


def test_from_python_the_model_and_the_baseline_of_its_name_are_two_rows(ridge):
    errors = Forecaster.load(ridge[0] / "checkpoints" / "best.ckpt").evaluate()
    assert list(errors.index) == [
        "ridge",
        "last_value",
        "seasonal_naive",
        "train_mean",
        "closed_form_nlinear",
        "ridge_baseline",
        "smoothing",
    ]


def test_going_on_is_refused(ridge, capsys):
    message = refusal(capsys, "train", f"ckpt_path={ridge[0]}/checkpoints/last.ckpt")
    assert "holds weights without the state of their training" in message


@pytest.mark.parametrize(
    "changes, expected",
    [
        (("model=ridge", "model.naive=trend"), "model.naive=trend"),
        (("model=ridge", "model.look_back=0"), "model.look_back=0"),
        (("model=ridge", "model.strength=0"), "model.strength=0: must be greater than 0"),
        (("model=ridge", "model.tolerance=-1"), "model.tolerance=-1: must be at least 0"),
        (("model=ridge", "model.columns=both"), "model.columns=both"),
        (("model=ridge", "model.look_back=500"), "model.look_back=500"),
        (("model=ridge", "data.season=0"), "data.season=0: must be at least 1"),
        (("model=seasonal_naive", "model.period=1.5"), "model.period=1.5"),
    ],
)
def test_wrong_options_are_refused(csv, tmp_path, capsys, changes, expected):
    message = refusal(capsys, "train", "data=csv", f"data.path={csv}", *SIZES, *changes, f"hydra.run.dir={tmp_path}/r")
    assert expected in message


@pytest.mark.slow
@pytest.mark.parametrize("name", ["last_value", "seasonal_naive", "train_mean"])
def test_a_naive_model_has_the_errors_of_the_baseline_of_its_name(csv, tmp_path, name):
    metrics = trained(tmp_path, csv, f"model={name}")
    assert metrics["test"]["scaled"] == metrics["baselines"][name]["scaled"]
    call("predict", f"ckpt_path={tmp_path}/checkpoints/best.ckpt", f"output={tmp_path}/f.csv")
    last = pd.read_csv(csv)[["load", "wind"]].to_numpy()
    mean = last[: int(ROWS * 0.7)].mean(0)
    expected = {"last_value": last[[-1] * 5], "seasonal_naive": last[-PERIOD : -PERIOD + 5], "train_mean": [mean] * 5}
    np.testing.assert_allclose(pd.read_csv(tmp_path / "f.csv")[["load", "wind"]], expected[name], atol=1e-3)


def test_on_white_noise_no_model_beats_all_baselines(tmp_path):
    noise = np.random.default_rng(3).normal(50.0, 7.0, size=2000)
    table = pd.DataFrame({"date": pd.date_range("2024", periods=len(noise), freq="h"), "load": noise})
    table.to_csv(tmp_path / "noise.csv", index=False)
    metrics = trained(tmp_path / "run", tmp_path / "noise.csv", "model=ridge")
    assert not [sentence for sentence in verdict(metrics, "test") if "beats all" in sentence]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "smoothing", "boosted_trees", "seasonal_naive", "last_value"])
def test_it_becomes_a_program(csv, tmp_path, name):
    trained(tmp_path / "run", csv, f"model={name}")
    best = tmp_path / "run" / "checkpoints" / "best.ckpt"
    call("export", str(best), str(tmp_path / "exported"))
    description = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert "refused" not in description["program"]
    assert description["inputs"][0]["shape"] == ["B", load_checkpoint(best).model().look_back, 2]


def test_the_weights_of_a_model_that_is_trained_are_those_of_its_seed(monkeypatch, tmp_path, capsys):
    states = []

    def stopped(*plan):
        states.append(torch.random.get_rng_state())
        raise UserError("the training begins")

    monkeypatch.setattr(combined, "build_model", stopped)
    assert "the training begins" in refusal(capsys, "train", *TINY, "seed=3", f"hydra.run.dir={tmp_path}/run")
    torch.manual_seed(3)
    assert torch.equal(states[0], torch.random.get_rng_state())  # neither baselines nor a look at the class drew


def test_what_the_fit_chose_is_said_as_settings(csv, tmp_path):
    trained(tmp_path, csv, "model=boosted_trees", "model.trees=2", "calibration=none")
    said = (tmp_path / "train.log").read_text()
    assert "chosen: skip.look_back=" in said and ", fitted=" in said and "{" not in said.split("chosen: ")[1]
