"""Categories, facts and holidays from train to predict, and again by a checkpoint."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from checkpoints import write_untrained
from data.test_roles import panel, series
from program import TINY, call

from forecast import Forecaster
from forecast.apps.common.inputs import evaluated_data, trained_source
from forecast.checkpoint.load import load_checkpoint

LENGTHS = ["data=csv", "seq_len=11", "label_len=5", "pred_len=3"]
ONE = ["data.target=load", "data.known=[weather]", "data.past=[shift]", "data.categorical=[shift]"]
MANY = ["data.target=sold", "data.known=[promo]", "data.id_column=shop", "data.static=[size,region]", "data/split=last"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles")
    series().to_csv(folder / "one.csv", index=False)
    panel().to_csv(folder / "many.csv", index=False)
    write_untrained(folder / "one.ckpt", *LENGTHS, *ONE, f"data.path={folder}/one.csv")
    write_untrained(folder / "many.ckpt", *LENGTHS, *MANY, f"data.path={folder}/many.csv")
    return folder


def own_forecast(checkpoint, batch):
    with torch.inference_mode():
        return checkpoint.model()(batch.past, batch.past_known, batch.future_known).double().numpy()


def test_a_forecast_with_categories_is_that_of_the_window(folder):
    checkpoint = load_checkpoint(folder / "one.ckpt")
    assert checkpoint.data["covariates"] == {"weather": ["fog", "rain", "sun"], "shift": ["1", "2", "3"]}
    assert (checkpoint.data["hidden"], checkpoint.future_columns) == (["shift"], ("weather",))
    data = evaluated_data(checkpoint, trained_source(checkpoint.config.data, root=None), None, split="test")
    windows = data.windows("test")
    expected = data.original(own_forecast(checkpoint, windows[len(windows) - 1]), np.array([0]))[0]
    future = series()[-3:][["date", "weather"]]
    found = Forecaster.load(folder / "one.ckpt", device="cpu").predict(series()[:-3], future=future)
    np.testing.assert_allclose(found["load"], expected[:, 0], rtol=1e-5)
    other = Forecaster.load(folder / "one.ckpt", device="cpu").predict(
        series()[:-3], future=future.assign(weather="fog")
    )
    assert (found["load"] != other["load"]).any()


def test_a_forecast_with_facts_is_that_of_the_window(folder):
    checkpoint = load_checkpoint(folder / "many.ckpt")
    assert checkpoint.data["covariates"] == {"promo": ["no", "yes"], "size": None, "region": ["north", "south"]}
    data = evaluated_data(checkpoint, trained_source(checkpoint.config.data, root=None), None, split="test")
    windows = data.windows("test")
    batch = windows.__getitems__(torch.from_numpy(windows.origins.ends - 1))
    expected = data.original(own_forecast(checkpoint, batch), np.arange(3))
    table, last = panel(), (panel().groupby("shop").cumcount(ascending=False) < 3).to_numpy()
    forecaster = Forecaster.load(folder / "many.ckpt", device="cpu")
    found = forecaster.predict(table[~last], future=table[last])
    np.testing.assert_allclose(found["sold"].to_numpy().reshape(3, 3), expected[..., 0], rtol=1e-4)
    moved = forecaster.predict(table[~last].assign(region="north"), future=table[last])
    changed = (found["sold"] != moved["sold"]).to_numpy().reshape(3, 3).any(axis=1)
    assert changed.tolist() == [True, False, True]  # the shop in the north is there already


def test_a_category_that_the_training_did_not_have_is_told(folder, caplog):
    future = series()[-3:][["date", "weather"]].assign(weather=["snow", "sun", "snow"])
    Forecaster.load(folder / "one.ckpt", device="cpu").predict(series()[:-3], future=future)
    assert "column 'weather' has in 2 rows categories that the training did not have, snow" in caplog.text
    table, last = panel(), (panel().groupby("shop").cumcount(ascending=False) < 3).to_numpy()
    table = table.assign(region=table["region"].where(table["shop"] != "b", "east"))
    Forecaster.load(folder / "many.ckpt", device="cpu").predict(table[~last], future=table[last])
    assert "column 'region' has in 1 series categories that the training did not have, east" in caplog.text


def test_a_new_series_is_told_its_known_numbers_in_the_units_of_the_others(folder, tmp_path):
    table = panel().assign(price=np.arange(120.0)).reset_index(drop=True)
    table.to_csv(tmp_path / "p.csv", index=False)
    keys = [*MANY[:1], "data.known=[price]", *MANY[2:], f"data.path={tmp_path}/p.csv"]
    checkpoint = load_checkpoint(write_untrained(tmp_path / "c.ckpt", *LENGTHS, *keys))
    other = pd.concat([table, table[:40].assign(shop="new", sold=lambda rows: 7.0 + rows["price"] % 3)])
    other.to_csv(tmp_path / "other.csv", index=False)
    source = trained_source(checkpoint.config.data, root=None)
    data = evaluated_data(checkpoint, source, tmp_path / "other.csv", split="test")
    assert (data.scaler.mean[:, -1] == data.scaler.mean[0, -1]).all() and data.scaler.own.tolist() == [False] * 3 + [
        True
    ]


def test_holidays_need_no_file_of_the_future(folder, tmp_path):
    pytest.importorskip("holidays", reason='needs holidays: pip install -e ".[holidays]"')
    series().to_csv(tmp_path / "one.csv", index=False)
    best = write_untrained(
        tmp_path / "c.ckpt", *LENGTHS, "data.target=load", "data.holidays=DE", f"data.path={tmp_path}/one.csv"
    )
    checkpoint = load_checkpoint(best)
    assert checkpoint.data["columns"] == ["load", "shift", "holiday"] and checkpoint.future_columns == ()
    data = evaluated_data(checkpoint, trained_source(checkpoint.config.data, root=None), None, split="test")
    windows = data.windows("test")
    expected = data.original(own_forecast(checkpoint, windows[len(windows) - 1]), np.array([0]))[0]
    found = Forecaster.load(best, device="cpu").predict(series()[:-3])
    np.testing.assert_allclose(found["load"], expected[:, 0], rtol=1e-5)


@pytest.mark.parametrize("name", ["one", "many"])
def test_a_run_with_roles_trains_goes_on_and_is_evaluated_on_another_file(folder, tmp_path, name):
    keys = [key for key in TINY if not key.startswith(("data", "seq_len", "label_len", "pred_len"))]
    run = f"hydra.run.dir={tmp_path}/run"
    roles = [*LENGTHS, *(ONE if name == "one" else MANY), f"data.path={folder}/{name}.csv", "checks.leakage=false"]
    call("train", *keys, *roles, run)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert (metrics["features"], metrics["target"]) == ("roles", "load" if name == "one" else "sold")
    call("train", f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt", "trainer.max_epochs=2")
    table = series(120, seed=8) if name == "one" else panel(("a", "d"), 50, seed=9)
    table.to_csv(tmp_path / "other.csv", index=False)
    split = "all" if name == "one" else "test"
    best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
    call("evaluate", best, f"data.path={tmp_path}/other.csv", f"split={split}", f"hydra.run.dir={tmp_path}/e")
    assert json.loads((tmp_path / "e/metrics.json").read_text())["features"] == "roles"
