"""model=theta|ets|arima as every other model: trained, evaluated, predicted from; not exported."""

import json

import numpy as np
import pandas as pd
import pytest
from program import call, refusal

from forecast.text.overrides import install

ROWS, SEASON, P = 157, 7, 5


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Two columns of days with a week, a trend and noise."""
    days, noise = np.arange(ROWS), np.random.default_rng(0).normal(size=(ROWS, 2))
    week = np.sin(2 * np.pi * days / SEASON)[:, None]
    path = tmp_path_factory.mktemp("data") / "my.csv"
    table = pd.DataFrame(week * [3, 5] + 0.05 * days[:, None] + 0.3 * noise, columns=["a", "b"])
    table.insert(0, "date", pd.date_range("2021-03-01", periods=ROWS))
    table.to_csv(path, index=False)
    return path


def overrides(csv, run, model):
    lengths = ["seq_len=11", "label_len=0", f"pred_len={P}"]
    return [f"model={model}", "data=csv", f"data.path={csv}", *lengths, f"hydra.run.dir={run}"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # statsforecast's own
@pytest.mark.parametrize("model", ["theta", "ets", "arima"])
def test_it_is_trained_evaluated_and_predicted_from(model, csv, tmp_path, capsys):
    pytest.importorskip("statsforecast", reason='needs statsforecast: pip install -e ".[stats]"')
    run = tmp_path / "run"
    call("train", *overrides(csv, run, model))
    log = (run / "train.log").read_text()
    metrics = json.loads((run / "metrics.json").read_text())
    windows = metrics["test"]["windows"]
    assert f"{windows} windows of 2 targets: {2 * windows} fits" in log and "fits so far failed" not in log
    assert metrics["model"] == model and metrics["test"]["skill"] > 0.1  # above the seasonal naive
    checkpoint = run / "checkpoints/best.ckpt"
    capsys.readouterr()
    call("evaluate", f"ckpt_path={checkpoint}", "--json")
    again = json.loads(capsys.readouterr().out)
    assert again["test"]["scaled"] == metrics["test"]["scaled"]
    output = tmp_path / "forecast.csv"
    call("predict", f"ckpt_path={checkpoint}", f"output={output}")
    forecast = pd.read_csv(output, parse_dates=["date"])
    assert list(forecast.columns) == ["date", "a", "b"] and len(forecast) == P
    level = 0.05 * (ROWS + np.arange(P))
    truth = np.sin(2 * np.pi * (ROWS + np.arange(P)) / SEASON)[:, None] * [3, 5] + level[:, None]
    assert np.abs(forecast[["a", "b"]].to_numpy() - truth).max() < 1.5
    said = refusal(capsys, "export", checkpoint, tmp_path / "exported")
    assert "is fitted anew to each window" in said and "model=ridge" in said


def test_without_the_package_a_training_is_refused_before_the_data_are_read(csv, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("forecast.apps.common.training_data.source_rows", lambda *_: pytest.fail("the data were read"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refusal(capsys, "train", *overrides(csv, tmp_path / "run", "theta"))
    assert said.count("\n") == 1 and f"statsforecast is not installed. Install it: {install('stats')}" in said
    assert "model=ridge" in said
