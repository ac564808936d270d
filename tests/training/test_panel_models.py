"""Every model through the whole program on a small panel: unequal series, some short, some with gaps."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from program import call, refusal

from forecast.config import compose
from forecast.text.overrides import install

LENGTHS = {"long": 140, "short": 20, "middle": 83, "other": 101}
WINDOW = ["seq_len=19", "label_len=7", "pred_len=5", "data/split=last", "data.split.val=2", "data.split.test=3"]
STEPS = [
    *("trainer.max_epochs=1", "trainer.limit_train_batches=2", "trainer.accelerator=cpu", "data.batch_size=8"),
    *("trainer.enable_progress_bar=false", "callbacks.figures=null", "logger=none"),
]
SMALL = {"d_model": 14, "n_heads": 2, "d_ff": 28}
FILES = (Path(compose.__file__).parents[2] / "conf" / "model").glob("[!_]*.yaml")
# An ensemble is made of finished trainings: tests/apps/test_weighted_ensemble.py.
MODELS = sorted(path.stem for path in FILES if path.stem != "weighted_ensemble")
PER_WINDOW = ("arima", "ets", "theta")
NAIVE = ("last_value", "seasonal_naive", "season_mean", "train_mean")
UNSIZED = ("dlinear", "nlinear", *NAIVE, "ridge", "smoothing", "boosted_trees", *PER_WINDOW)


@pytest.fixture(scope="module")
def panel_csv(tmp_path_factory):
    """Days of four series; of one two rows are missing, of another a cell."""
    draws, parts = np.random.default_rng(0), []
    for s, (name, days) in enumerate(LENGTHS.items()):
        times = pd.date_range(end=f"2025-06-{10 + s}", periods=days)
        values = 10.0**s * (3 + np.sin(np.arange(days) * 2 * np.pi / 7) + 0.1 * draws.normal(size=days))
        parts.append(pd.DataFrame({"unique_id": name, "ds": times, "y": values.round(4), "x": draws.normal(size=days)}))
    table = pd.concat(parts).reset_index(drop=True)
    table.loc[50, "y"] = np.nan
    path = tmp_path_factory.mktemp("panel") / "shops.csv"
    table.drop([70, 71, 200]).to_csv(path, index=False)
    return path


def keys(panel_csv, model, short):
    sizes = [] if model in UNSIZED else [f"model.{key}={value}" for key, value in SMALL.items()]
    data = ["data=csv", f"data.path={panel_csv}", "data.id_column=unique_id", "data.time_column=ds", "data.target=y"]
    return [f"model={model}", *data, "data.gaps=interpolate", f"data.short={short}", *WINDOW, *STEPS, *sizes]


EVERY_DAY = [("gpt", "pad"), ("informer", "drop"), ("ridge", "pad")]
# A padded window has what a dropped series spares a model; how series are dropped is the same for one trained in steps
# and for one that is fitted.
CASES = [*((model, "pad") for model in MODELS), ("informer", "drop"), ("ridge", "drop"), ("boosted_trees", "drop")]


@pytest.mark.parametrize(
    ("model", "short"),
    [pytest.param(*case, marks=() if case in EVERY_DAY else pytest.mark.slow) for case in CASES],
)
def test_every_model_is_trained_judged_and_forecasts_with_made_up_cells(model, short, panel_csv, tmp_path):
    if model in PER_WINDOW and find_spec("statsforecast") is None:
        pytest.skip('needs statsforecast: pip install -e ".[stats]"')
    run, output = tmp_path / "run", tmp_path / "f.csv"
    call("train", *keys(panel_csv, model, short), f"hydra.run.dir={run}")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["series"]["evaluated"] == (4 if short == "pad" else 3)
    assert np.isfinite(metrics["test"]["scaled"]["mse"]) and metrics["test"]["windows"] > 0
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", "device=cpu", f"hydra.run.dir={tmp_path}/again")
    assert json.loads((tmp_path / "again" / "metrics.json").read_text())["test"] == metrics["test"]
    call("predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={output}", "device=cpu")
    found = pd.read_csv(output)
    assert found.groupby("unique_id", sort=False).size().to_dict() == dict.fromkeys(LENGTHS, 5)
    assert np.isfinite(found[["y", "x"]].to_numpy()).all()


STEPWISE = ["informer", "model.decode=autoregressive", "attention=full"]


@pytest.mark.parametrize("changes", [STEPWISE, ["gpt", "loss=student_t"], ["informer", "loss=quantile"]])
def test_decoding_step_by_step_and_quantiles_too(changes, panel_csv, tmp_path):
    run = tmp_path / "run"
    call("train", *keys(panel_csv, changes[0], "pad"), "checks.leakage=false", *changes[1:], f"hydra.run.dir={run}")
    assert json.loads((run / "metrics.json").read_text())["test"]["series"]["evaluated"] == 4


@pytest.mark.parametrize("model", PER_WINDOW)
def test_models_that_need_statsforecast_say_so_where_it_is_missing(model, panel_csv, tmp_path, capsys):
    if find_spec("statsforecast") is not None:
        pytest.skip("statsforecast is installed")
    text = refusal(capsys, "train", *keys(panel_csv, model, "drop"), f"hydra.run.dir={tmp_path}/run")
    assert f"the package statsforecast is not installed. Install it: {install('stats')}" in text
    assert text.count("\n") == 1
