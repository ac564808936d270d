"""data.floor: no forecast, and no end of an interval, is below what cannot be: of one series or many, whoever makes it.

The same maps are fitted with a floor and without, so that the one's forecasts are those of the other, cut.
"""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from program import TINY, call, refusal

from forecast.apps.common.training_data import read_data
from forecast.apps.export import description_of
from forecast.checkpoint.load import load_checkpoint
from forecast.data.sources import Source

ROWS, PERIOD, PRED_LEN = 594, 24, 5  # the last hours are of the night
SIZES = ("seq_len=19", "label_len=7", f"pred_len={PRED_LEN}")
LEAST = 1e-4  # of float32, in the units of the file
FLOORS = {"none": (), "of both": ("data.floor=0",), "of one": ("data.floor={sales: 0}",)}
MODELS = {"ridge": (), "informer": (*TINY[5:], "loss=normal")}


def sales(rng, level):
    """Sales that stop at night, and their difference from a plan, which may be below 0."""
    day = np.sin(np.arange(ROWS) / PERIOD * 2 * np.pi)
    sold = rng.poisson(level * np.clip(day, 0, None)).astype(float)
    return {"sales": sold, "heat": np.maximum(level * day + rng.normal(size=ROWS), 0)}


@pytest.fixture(scope="module", params=["series", "panel"])
def data(request, tmp_path_factory):
    rng, path = np.random.default_rng(3), tmp_path_factory.mktemp("data") / "own.csv"
    stamps = pd.date_range("2020-01-01", periods=ROWS, freq="h")
    ids = {"series": {"a": 4}, "panel": {"a": 4, "b": 300}}[request.param]
    parts = [pd.DataFrame({"date": stamps, "id": name, **sales(rng, level)}) for name, level in ids.items()]
    table = pd.concat(parts)
    (table if len(ids) > 1 else table.drop(columns="id")).to_csv(path, index=False)
    return ["data=csv", f"data.path={path}", *(["data.id_column=id"] if len(ids) > 1 else [])]


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """The folder of a training by its model and its floor."""
    made = {}

    def run(model, floor):
        if (model, floor) not in made:
            folder = tmp_path_factory.mktemp("run")
            words = (*data, *SIZES, f"model={model}", *MODELS[model], *FLOORS[floor])
            call("train", *words, f"hydra.run.dir={folder}")
            made[model, floor] = folder
        return made[model, floor]

    return run


def shown(folder):
    with np.load(folder / "forecasts.npz") as arrays:
        return {name: arrays[name] for name in ("forecast", "lower", "upper", "ridge", "truth") if name in arrays}


def of_sales(arrays):
    return {name: values[:, :, 0] for name, values in arrays.items()}


@pytest.mark.parametrize("floor", ["of both", "of one"])
def test_forecasts_of_an_evaluation_are_cut_those_of_baselines_too(runs, floor):
    free, cut = (of_sales(shown(runs("ridge", name))) for name in ("none", floor))
    assert (free["forecast"] < -0.1).any() and (free["lower"] < -0.1).any()
    for name in ("forecast", "ridge"):
        assert np.abs(cut[name] - np.maximum(free[name], 0)).max() < LEAST
        assert 0 <= cut[name].min() < LEAST
    assert 0 <= cut["lower"].min() < LEAST and (cut["upper"] >= cut["forecast"][..., None]).all()


def test_a_column_without_a_floor_is_as_it_was(runs):
    free, cut = (shown(runs("ridge", name))["forecast"][:, :, 1] for name in ("none", "of one"))
    assert (free < -0.1).any() and np.array_equal(free, cut)


def test_errors_are_those_of_what_is_cut(runs):
    free, cut = (json.loads((runs("ridge", name) / "metrics.json").read_text()) for name in ("none", "of both"))
    assert cut["test"]["columns"]["sales"]["original"]["mse"] < free["test"]["columns"]["sales"]["original"]["mse"]
    assert cut["baselines"]["ridge"]["scaled"]["mse"] < free["baselines"]["ridge"]["scaled"]["mse"]


def test_a_network_is_chosen_and_judged_with_its_floor(runs):
    free, cut = (runs("informer", name) for name in ("none", "of both"))
    assert of_sales(shown(free))["forecast"].min() < 0 <= of_sales(shown(cut))["forecast"].min() < LEAST
    errors = [json.loads((folder / "metrics.json").read_text())["val"]["scaled"]["mse"] for folder in (free, cut)]
    assert errors[1] < errors[0]
    content = torch.load(cut / "checkpoints" / "best.ckpt", weights_only=True)
    assert content["callbacks"]["CheckpointFiles"]["best_mse"] == pytest.approx(errors[1], rel=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_forecast_after_the_file_is_cut(runs, tmp_path, model):
    tables = {}
    for floor in ("none", "of both"):
        path = tmp_path / f"{floor}.csv"
        call("predict", f"ckpt_path={runs(model, floor)}/checkpoints/best.ckpt", f"output='{path}'", "level=[50]")
        tables[floor] = pd.read_csv(path).select_dtypes("number")
    assert list(tables["none"]) == ["sales", "heat", "sales-lo-50", "sales-hi-50", "heat-lo-50", "heat-hi-50"]
    assert (tables["none"] < 0).any(axis=None) and (tables["of both"] >= 0).all(axis=None)
    if model == "ridge":
        points = ["sales", "heat"]
        assert np.allclose(tables["of both"][points], tables["none"][points].clip(lower=0), atol=LEAST)


def test_a_backtest_is_cut(runs, tmp_path):
    best = runs("ridge", "of both") / "checkpoints" / "best.ckpt"
    call("backtest", f"ckpt_path={best}", "backtest.folds=3", f"hydra.run.dir={tmp_path}/backtest")
    table = pd.read_parquet(tmp_path / "backtest" / "backtest.parquet")
    made = table.drop(columns=[name for name in table if name in ("fold", "step")]).select_dtypes("number")
    assert len(made) and not (made < 0).any(axis=None) and (made < LEAST).any(axis=None)


def test_the_report_says_it(runs):
    assert "no forecast, and no interval, is below 0" in (runs("ridge", "of one") / "report.html").read_text()


def test_who_runs_the_exported_program_is_told_it(runs):
    checkpoint = load_checkpoint(runs("ridge", "of one") / "checkpoints" / "best.ckpt")
    if len(checkpoint.scale.ids) == 1:  # of many there is no program
        assert description_of(checkpoint, None)["floor"] == {"sales": 0}


def test_a_truth_at_the_floor_lies_in_its_interval_to_the_bit(runs):
    checkpoint = load_checkpoint(runs("ridge", "of both") / "checkpoints" / "best.ckpt")
    config = checkpoint.config
    data = read_data(config.data.build(Source), config)
    windows = data.windows("test")
    batch = windows[0]
    assert batch.floor.shape == (1, 1, 2)
    every = windows.__getitems__(range(len(windows)))
    assert torch.equal(every.target.amin(1, keepdim=True).minimum(every.floor), every.floor)
    assert (every.target == every.floor).any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("data.floor={sale: 0}", "has no target 'sale'. Did you mean 'sales'?"),
        ("data.floor=none", "data.floor=none: must be a valid number or a mapping"),
        ("data.floor=nan", "data.floor=nan: must be a finite number"),
    ],
)
def test_a_floor_that_cannot_be_is_refused(data, tmp_path, capsys, words, message):
    assert message in refusal(capsys, "train", *data, *SIZES, "model=ridge", words, f"hydra.run.dir={tmp_path}/run")
