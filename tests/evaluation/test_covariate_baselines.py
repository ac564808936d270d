"""The ridge of every run with columns that are known in advance: fitted, saved, read back, evaluated."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from checkpoints import write_untrained
from evaluation.small_panels import L, P, panel, prepared

from forecast.apps.common.inputs import trained_source
from forecast.apps.common.results import evaluate_checkpoint
from forecast.apps.common.training_data import read_data
from forecast.checkpoint.load import load_checkpoint
from forecast.data.split import LastSplit
from forecast.evaluation.baselines import fit_baselines, fitting_rows, make_baselines, window_shape
from forecast.evaluation.evaluate import Protocol
from forecast.models.ridge import Ridge

LENGTHS = ["seq_len=22", "label_len=11", "pred_len=5"]


@pytest.fixture
def shifted(tmp_path):
    """Two targets, each a known column some hours later."""
    rng, n = np.random.default_rng(0), 900
    known = rng.normal(size=(n, 2))
    table = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=n, freq="h"), "a": known[:, 0], "b": known[:, 1]})
    table["x"] = np.roll(known[:, 0], 2) + 0.1 * rng.normal(size=n)
    table["y"] = 40 - 3 * np.roll(known[:, 1], 3) + 0.1 * rng.normal(size=n)
    table.to_csv(path := tmp_path / "shifted.csv", index=False)
    return path


def test_it_is_saved_read_back_and_finds_each_targets_column(shifted, tmp_path):
    keys = ["model=dlinear", "data=csv", f"data.path={shifted}", "data.target=[y,x]"]
    scores = {}
    for known in ("[a,b]", "[]"):
        path = write_untrained(tmp_path / "some.ckpt", *keys, f"data.known={known}", *LENGTHS)
        checkpoint = load_checkpoint(path)
        source = trained_source(checkpoint.config.data, root=None)
        data = read_data(source, checkpoint.config)
        common = {"protocol": Protocol(), "protocol_name": "all", "batch_size": 64, "device": torch.device("cpu")}
        metrics = evaluate_checkpoint(checkpoint, source, data, split="test", **common).metrics
        assert metrics["baselines"]["ridge"]["look_back"] >= 2
        scores[known] = metrics["baselines"]["ridge"]["scaled"]["mse"]
    assert scores["[a,b]"] < scores["[]"] / 20


def test_the_saved_one_forecasts_what_the_model_does(shifted, tmp_path):
    keys = ["model=ridge", "data=csv", f"data.path={shifted}", "data.target=[y,x]", "data.known=[b,a]", *LENGTHS]
    checkpoint = load_checkpoint(write_untrained(tmp_path / "some.ckpt", *keys))
    data = read_data(trained_source(checkpoint.config.data, root=None), checkpoint.config)
    model = Ridge(window=window_shape(data))
    model.fit(fitting_rows(data))
    saved = make_baselines(data, fitted=checkpoint.record.fits)["ridge"]
    assert saved.look_back == model.look_back
    batch = data.windows("val", look_back=model.look_back).__getitems__(range(9))
    torch.testing.assert_close(saved(*batch[:3]), model(*batch[:3]), rtol=1e-4, atol=1e-4)


def test_of_a_panel_it_is_fitted_to_whole_windows_alone_and_finds_the_column():
    made = panel((61, 47, 43, 89, 55), gaps=0.02)
    rng = np.random.default_rng(1)
    values = rng.normal(size=made.values.shape)
    values[1:, 0] = values[:-1, -1]  # the first target is the known column, a step later
    measured = rng.random(values.shape) > 0.01
    spoilt = values.copy()
    spoilt[~measured[:, 0], 0] = 1e3
    frames = [replace(made, values=one, measured=measured) for one in (values, spoilt)]
    known = made.columns[-1:]
    split = LastSplit(horizon=P, val=3, test=2)
    data = [prepared(frame, split=split, targets=(0,), covariates=known) for frame in frames]
    data[1] = replace(data[1], scaler=data[0].scaler, kept=None)
    fits = [fit_baselines(one) for one in data]
    assert torch.equal(fits[0]["ridge_effect"], fits[1]["ridge_effect"])
    assert fits[0]["ridge_effect"].shape[0] == 1
    batch = data[0].windows("val", look_back=L + 30).__getitems__(range(20))
    ridge = make_baselines(data[0], fitted=fits[0])["ridge"]
    rows = ridge.look_back
    error = (ridge(batch.past[:, -rows:], batch.past_known[:, -rows:], batch.future_known) - batch.target)[
        batch.measured
    ]
    assert error.square().mean() < batch.target[batch.measured].square().mean() / 3
