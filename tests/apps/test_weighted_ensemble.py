"""model=weighted_ensemble: finished trainings as one model, through the commands, from one file."""

import json
import shutil
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from apps.files import write_waves
from program import call, refusal

from forecast import Forecaster
from forecast.checkpoint.load import load_checkpoint

ROWS, PERIOD = 601, 24
SIZES = ("seq_len=19", "label_len=7", "pred_len=5")
NETWORK = ("trainer=cpu", "trainer.max_epochs=2", "optim.lr=0.01", "logger=none", "callbacks.figures=null")
MEMBERS = {
    "ridge": ("model=ridge", "model.look_back=5", "model.naive=last"),
    "naive": ("model=seasonal_naive", "data.features=S"),  # sees one column of the two
    "linear": ("model=dlinear", "seq_len=31", "trainer.enable_progress_bar=false", *NETWORK),
}


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "own.csv"
    return write_waves(path, rows=ROWS, period=PERIOD, columns=["load", "OT"], noise=0.5)


def trained(folder, csv, *changes):
    call("train", "data=csv", f"data.path={csv}", "data.features=MS", *SIZES, *changes, f"hydra.run.dir={folder}")
    return json.loads((folder / "metrics.json").read_text())


def runs(folder, *names):
    return f"model.runs=[{','.join(str(folder / name) for name in names)}]"


@pytest.fixture(scope="module")
def members(csv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("members")
    for name, changes in MEMBERS.items():
        trained(folder / name, csv, *changes, "refit=true")
    return folder


@pytest.fixture(scope="module")
def ensemble(members, csv):
    folder = members / "ensemble"
    return folder, trained(folder, csv, "model=weighted_ensemble", runs(members, *MEMBERS), "refit=true")


def of(folder, name="best"):
    return load_checkpoint(folder / "checkpoints" / f"{name}.ckpt")


def test_its_forecast_is_the_weighted_mean_of_the_members_forecasts(ensemble, members, csv):
    weights = of(ensemble[0]).model().weights_by_step().numpy()
    assert weights.shape == (5, 3) and weights.sum(1) == pytest.approx(np.ones(5))
    own = Forecaster.load(ensemble[0] / "checkpoints/best.ckpt").predict(csv)
    theirs = [Forecaster.load(members / name / "checkpoints/best.ckpt").predict(csv)["OT"] for name in MEMBERS]
    np.testing.assert_allclose(own["OT"], (np.stack(theirs, 1) * weights).sum(1), atol=2e-3)


def test_a_member_without_a_weight_changes_nothing_and_is_not_asked(ensemble):
    model = of(ensemble[0]).model()
    window = model.window
    past = torch.randn(3, model.look_back, window.n_columns)
    known = (torch.randn(3, model.look_back, window.n_known), torch.randn(3, window.pred_len, window.n_known))
    model.weights = torch.tensor([[0.25, 0.0, 0.75]])
    every = model.forecasts(past, *known)
    with mock.patch.object(type(model.each[1]), "forward", side_effect=AssertionError("asked")):
        assert torch.equal(model(past, *known), 0.25 * every[0] + 0.75 * every[2])


def test_the_mean_beats_each_of_its_members(ensemble, members):
    metrics = ensemble[1]
    assert all(len(one["weights"]) == 4 and max(one["weights"]) < 0.9 for one in metrics["members"])
    assert [one["model"] for one in metrics["members"]] == ["ridge", "seasonal_naive", "dlinear"]
    alone = [json.loads((members / name / "metrics.json").read_text()) for name in MEMBERS]
    for split in ("val", "test"):
        assert metrics[split]["scaled"]["mse"] < min(one[split]["scaled"]["mse"] for one in alone)
    assert metrics["model"] == "weighted_ensemble" and metrics["test"]["intervals"]


def test_the_file_alone_forecasts_evaluates_and_is_exported(ensemble, members, csv, tmp_path, capsys):
    alone = tmp_path / "best.ckpt"
    shutil.copy(ensemble[0] / "checkpoints/best.ckpt", alone)
    before = Forecaster.load(ensemble[0] / "checkpoints/best.ckpt").predict(csv, level=[80])
    shutil.copytree(members, tmp_path / "kept")
    after = Forecaster.load(alone).predict(csv, level=[80])
    pd.testing.assert_frame_equal(before, after)
    assert list(after) == ["date", "OT", "OT-lo-80", "OT-hi-80"]
    call("export", str(alone), str(tmp_path / "exported"))
    described = json.loads((tmp_path / "exported/config.json").read_text())
    assert "refused" not in described["program"]


def test_a_refit_is_of_the_members_with_the_weights_of_the_held_out_ensemble(ensemble, members):
    held_out, refitted = of(ensemble[0]), of(ensemble[0], "refit")
    assert torch.equal(held_out.weights["weights"], refitted.weights["weights"])
    ridge = of(members / "ridge", "refit").weights
    assert torch.equal(refitted.weights["members.0.weight"], ridge["weight"])
    assert refitted.trained_until > held_out.trained_until


def test_the_same_runs_give_the_same_bits(ensemble, members, csv, tmp_path):
    again = trained(tmp_path / "again", csv, "model=weighted_ensemble", runs(members, *MEMBERS))
    for key in ("test", "val", "members"):
        assert again[key] == ensemble[1][key]


def test_one_run_alone_is_that_run(members, csv, tmp_path):
    metrics = trained(tmp_path / "one", csv, "model=weighted_ensemble", runs(members, "ridge"))
    ridge = json.loads((members / "ridge" / "metrics.json").read_text())
    assert metrics["test"]["scaled"] == ridge["test"]["scaled"]


def test_where_the_mean_is_no_better_on_rows_it_has_not_seen_the_best_member_stands_alone(members, csv, tmp_path):
    trained(tmp_path / "ridge", csv, "model=ridge")
    both = f"model.runs=[{tmp_path}/ridge,{members}/naive]"
    metrics = trained(tmp_path / "both", csv, "model=weighted_ensemble", both)
    assert [one["weights"] for one in metrics["members"]] == [[1.0], [0.0]]


def test_of_rows_that_no_calendar_describes_there_is_a_mean_too(tmp_path):
    years = pd.date_range("1930-01-01", periods=80, freq="YS")
    values = np.random.default_rng(0).normal(size=80)
    pd.DataFrame({"date": years, "OT": values}).to_csv(tmp_path / "y.csv", index=False)
    for name in ("train_mean", "last_value"):
        trained(tmp_path / name, tmp_path / "y.csv", f"model={name}", "data.features=S")
    both = ("model=weighted_ensemble", runs(tmp_path, "train_mean", "last_value"), "data.features=S")
    metrics = trained(tmp_path / "both", tmp_path / "y.csv", *both)
    assert sum(one["weights"][0] for one in metrics["members"]) == pytest.approx(1)


@pytest.mark.parametrize("windows", [1, 3])
def test_of_few_windows_the_mean_stays_however_much_they_seem_to_say_for_one_member(members, csv, tmp_path, windows):
    split = ["data/split=last", f"data.split.val={windows}", "data.split.test=11", "protocol=apart"]
    for name in ("ridge", "naive"):
        trained(tmp_path / name, csv, *MEMBERS[name], *split)
    metrics = trained(tmp_path / "both", csv, "model=weighted_ensemble", runs(tmp_path, "ridge", "naive"), *split)
    one, other = (one["weights"] for one in metrics["members"])
    assert [a + b for a, b in zip(one, other, strict=True)] == pytest.approx([1.0] * len(one))
    assert windows == 1 or min(*one, *other) > 0  # one window may well leave hardly a share to the worse one
    assert f"{windows} validation windows" in (log := (tmp_path / "both" / "train.log").read_text())
    assert "too few to judge the mean of the members by" in log


@pytest.mark.parametrize(
    "case",
    [
        (["model.runs=[]"], "name two or more finished trainings"),
        (["model.runs=[nowhere]"], "nowhere is no folder of a finished training"),
        (["RUNS", "pred_len=7"], "other values of pred_len: say pred_len=5"),
        (["RUNS", "data.target=load"], "other values of data.target"),
        (["RUNS", "data.split.train=0.5", "data.split.val=0.3"], "other values of data.split"),
        (["RUNS", "data.features=S"], "the columns: it sees load"),
        (["RUNS", "networks=3"], "draws nothing"),
        (["RUNS", "loss=quantile"], "trains on no loss"),
        (["RUNS", "model.embedding=fixed"], "say model.embedding=timeF"),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(members, csv, tmp_path, capsys, case):
    changes, words = case
    changes = [runs(members, *MEMBERS) if word == "RUNS" else word for word in changes]
    base = ["data=csv", f"data.path={csv}", "data.features=MS", *SIZES, "model=weighted_ensemble"]
    said = refusal(capsys, "train", *base, *changes, f"hydra.run.dir={tmp_path}/run")
    assert words in said and "Traceback" not in said


def test_an_ensemble_is_no_member(ensemble, members, csv, tmp_path, capsys):
    base = ["data=csv", f"data.path={csv}", "data.features=MS", *SIZES, "model=weighted_ensemble"]
    said = refusal(capsys, "train", *base, runs(members, "ensemble"), f"hydra.run.dir={tmp_path}/run")
    assert "is an ensemble itself. Name its members: model.runs=[" in said


def test_where_no_member_has_a_refit_there_is_none(members, csv, tmp_path, capsys):
    (copy := tmp_path / "ridge").mkdir()
    shutil.copytree(members / "ridge", copy, dirs_exist_ok=True)
    (copy / "checkpoints/refit.ckpt").unlink()
    base = ["data=csv", f"data.path={csv}", "data.features=MS", *SIZES, "model=weighted_ensemble", "refit=true"]
    said = refusal(capsys, "train", *base, f"model.runs=[{copy}]", f"hydra.run.dir={tmp_path}/run")
    assert "no member has a refit.ckpt of train and val and test rows" in said


def test_a_panel_with_facts_and_columns_known_in_advance(tmp_path):
    times, generator = pd.date_range("2022-01-01", periods=97, freq="D"), np.random.default_rng(0)
    parts = []
    for size, shop in enumerate("abcde"):
        promo = generator.integers(2, size=97)
        sales = np.sin(2 * np.pi * np.arange(97) / 7) + promo + 0.3 * generator.normal(size=97)
        parts.append(pd.DataFrame({"shop": shop, "day": times, "sales": sales, "promo": promo, "size": size}))
    pd.concat(parts).to_csv(tmp_path / "long.csv", index=False)
    panel = ["data=csv", f"data.path={tmp_path}/long.csv", "data.id_column=shop", "data.time_column=day", *SIZES]
    panel += ["data.target=sales", "data/split=last", "data.split.val=3", "data.split.test=2", "logger=none"]
    roles = ["data.known=[promo]", "data.static=[size]"]
    call("train", *panel, *roles, "model=ridge", f"hydra.run.dir={tmp_path}/ridge")
    call("train", *panel, "data.columns=[sales]", "model=seasonal_naive", f"hydra.run.dir={tmp_path}/naive")
    both = ["model=weighted_ensemble", runs(tmp_path, "ridge", "naive"), f"hydra.run.dir={tmp_path}/both"]
    call("train", *panel, *roles, *both)
    metrics = json.loads((tmp_path / "both/metrics.json").read_text())
    weights = [one["weights"] for one in metrics["members"]]
    assert np.array(weights).sum(0) == pytest.approx(1) and metrics["test"]["series"]["count"] == 5
    assert metrics["test"]["covariates"]["promo"]["use"] == "useful"


def test_each_series_of_a_panel_has_weights_of_its_own_in_each_command_and_a_new_one_those_of_all(tmp_path):
    """One half repeats its week, the other half wanders."""
    generator, times = np.random.default_rng(3), pd.date_range("2022-01-01", periods=91, freq="D")
    week = 5 * generator.normal(size=7)
    kinds = {"w": lambda: np.resize(week, 91) + generator.normal(size=91), "r": lambda: generator.normal(size=91)}
    values = {
        f"{kind}{i}": kinds[kind]().cumsum() if kind == "r" else kinds[kind]() for kind in kinds for i in range(5)
    }
    wide = pd.DataFrame({"day": times, **values})
    wide.to_csv(tmp_path / "wide.csv", index=False)
    panel = ["data=csv", "data.panel=columns", "data.time_column=day", *SIZES, "data/split=last", "data.split.val=3"]
    panel += [f"data.path={tmp_path}/wide.csv", "data.split.test=2", "data.season=7", "logger=none"]
    for model in ("seasonal_naive", "last_value"):
        call("train", *panel, f"model={model}", "refit=val", f"hydra.run.dir={tmp_path}/{model}")
    both = ["model=weighted_ensemble", runs(tmp_path, "seasonal_naive", "last_value"), "refit=val"]
    mse = {}
    for name, more in {"alike": [], "apart": ["data.id_as_fact=true"]}.items():
        call("train", *panel, *both, *more, f"hydra.run.dir={tmp_path}/{name}")
        metrics = json.loads((tmp_path / name / "metrics.json").read_text())
        mse[name] = metrics["test"]["scaled"]["mse"]
    assert mse["apart"] < 0.95 * mse["alike"]
    wide.rename(columns={"w0": "new"}).to_csv(tmp_path / "new.csv", index=False)
    forecasts = {}
    for name in mse:
        for file in ("wide", "new"):
            path = tmp_path / f"{name}_{file}.csv"
            given = [f"data.path={tmp_path}/{file}.csv", f"output={path}", "unseen=scale"]
            call("predict", f"ckpt_path={tmp_path}/{name}/checkpoints/refit.ckpt", *given)
            table = pd.read_csv(path)
            forecasts[name, file] = table.pivot(index="day", columns="unique_id", values=table.columns[2])
    before, after = forecasts["apart", "wide"], forecasts["apart", "new"]
    rest = before.columns.drop("w0")
    assert before[rest].equals(after[rest])
    np.testing.assert_allclose(after["new"], forecasts["alike", "new"]["new"], rtol=1e-4)
    assert not np.allclose(before["w0"], after["new"], rtol=1e-2)
