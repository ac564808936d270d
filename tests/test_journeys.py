"""What users do, from end to end: each command once as it should go, and once as it is refused.

On one network and one ridge, each trained once. What a command does beyond that is tested in tests/apps under `full`.
"""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from program import call, refusal

from forecast import Forecaster
from forecast.checkpoint.load import load_checkpoint

DAYS, GROWN = 117, 127
SIZES = ["seq_len=14", "label_len=7", "pred_len=3"]
QUICK = ["trainer=cpu", "trainer.max_epochs=2", "trainer.enable_progress_bar=false", "logger=none", "optim.lr=0.002"]
NETWORK = ["model=informer", "model.d_model=8", "model.n_heads=2", "model.d_ff=16", "callbacks.figures=null", *QUICK]
BEST, LAST = "checkpoints/best.ckpt", "checkpoints/last.ckpt"


def shops(days, *, names="abc"):
    """A row for each shop and day: sales with a week, and a price."""
    tables = []
    for number, name in enumerate("abc", start=1):
        draws = np.random.default_rng(number)
        week = number * (10 + 3 * np.sin(2 * np.pi * np.arange(GROWN + 3) / 7))
        price, sold = ((level + draws.normal(size=GROWN + 3)).round(3) for level in (week / number, week))
        dates = pd.date_range("2024-01-01", periods=GROWN + 3)
        tables.append(pd.DataFrame({"shop": name, "date": dates, "price": price, "sold": sold}).iloc[days])
    return pd.concat([table for table in tables if table["shop"].iloc[0] in names])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with one.csv, grown.csv, many.csv and future.csv, and the runs `network`, `ridge` and `panel`."""
    folder = tmp_path_factory.mktemp("home")
    shops(slice(DAYS), names="a").drop(columns="shop").to_csv(folder / "one.csv", index=False)
    shops(slice(GROWN), names="a").drop(columns="shop").to_csv(folder / "grown.csv", index=False)
    shops(slice(DAYS)).to_csv(folder / "many.csv", index=False)
    shops(slice(DAYS, DAYS + 3)).drop(columns="sold").to_csv(folder / "future.csv", index=False)
    call("train", *of_file(folder), *NETWORK, f"hydra.run.dir={folder}/network")
    call("train", *of_file(folder), "model=ridge", "refit=true", f"hydra.run.dir={folder}/ridge")
    known = ["data.id_column=shop", "data.target=sold", "data.known=[price]", "model=ridge"]
    call("train", *of_file(folder, "many"), *known, f"hydra.run.dir={folder}/panel")
    return folder


def of_file(folder, name="one"):
    return ["data=csv", f"data.path={folder}/{name}.csv", "data.target=null", *SIZES]


def metrics_of(run):
    return json.loads((run / "metrics.json").read_text())


def test_a_training_leaves_a_checkpoint_figures_intervals_and_a_page(home):
    run, metrics = home / "network", metrics_of(home / "network")
    assert metrics["status"] == "finished" and 0 < metrics["test"]["scaled"]["mse"] < 5
    assert {"seasonal_naive", "last_value", "train_mean", "closed_form_nlinear", "ridge"} <= metrics["baselines"].keys()
    assert metrics["test"]["coverage"]["80"] > 0.5
    assert load_checkpoint(run / BEST).is_best and (run / "report.html").stat().st_size > 10_000
    assert json.loads((run / "run.json").read_text())["status"] == "finished"


def test_a_training_that_is_resumed_ends_as_one_that_was_not_stopped(home, tmp_path):
    once, twice = tmp_path / "once", tmp_path / "twice"
    call("train", *of_file(home), *NETWORK, "trainer.max_epochs=3", f"hydra.run.dir={once}")
    call("train", *of_file(home), *NETWORK, "trainer.max_epochs=1", f"hydra.run.dir={twice}")
    call("train", f"ckpt_path={twice}/{LAST}", "trainer.max_epochs=3")
    ours, theirs = (load_checkpoint(run / LAST).weights for run in (once, twice))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert metrics_of(once)["test"]["scaled"] == metrics_of(twice)["test"]["scaled"]


def test_a_training_begins_with_the_weights_of_another(home, tmp_path):
    start = [f"initial_weights={home}/network/{BEST}", "optim.lr=1e-9", "trainer.max_epochs=1"]
    words = [word for word in NETWORK if not word.startswith(("optim.lr", "trainer.max_epochs"))]
    call("train", *of_file(home), *words, *start, f"hydra.run.dir={tmp_path}/run")
    before, after = load_checkpoint(home / "network" / BEST).weights, load_checkpoint(tmp_path / "run" / LAST).weights
    learned = [name for name in before if "running" not in name and "batches" not in name]
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in learned)


def test_the_attention_is_one_word_of_the_config(home, tmp_path):
    call("train", *of_file(home), *NETWORK, "attention=full", "trainer.max_epochs=1", f"hydra.run.dir={tmp_path}/run")
    prob, full = metrics_of(home / "network"), metrics_of(tmp_path / "run")
    assert full["attention"] == "full" != prob["attention"] and full["test"]["scaled"] != prob["test"]["scaled"]


def test_a_sweep_is_a_row_for_each_run_in_a_report(home, tmp_path):
    sweep = [f"hydra.sweep.dir={tmp_path}/sweep", "model=ridge,seasonal_naive", "logger=none"]
    call("train", "-m", *of_file(home), *sweep)
    call("report", tmp_path / "sweep")
    table = pd.read_csv(tmp_path / "sweep" / "report.csv")
    assert len(table) == 2 and (tmp_path / "sweep" / "report.html").exists()


def test_a_checkpoint_is_evaluated_as_its_training_was(home, tmp_path):
    call("evaluate", f"ckpt_path={home}/network/{BEST}", f"hydra.run.dir={tmp_path}/out")
    ours, theirs = (metrics_of(run)["test"]["scaled"] for run in (tmp_path / "out", home / "network"))
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_new_rows_of_a_grown_file_are_evaluated(home, tmp_path):
    grown = ["split=new", f"data.path={home}/grown.csv"]
    call("evaluate", f"ckpt_path={home}/ridge/{BEST}", *grown, f"hydra.run.dir={tmp_path}/out")
    assert metrics_of(tmp_path / "out")["new"]["windows"] == GROWN - DAYS - 2


def test_a_forecast_continues_the_file_with_intervals_around_it(home, tmp_path):
    call("predict", f"ckpt_path={home}/network/{BEST}", f"output={tmp_path}/f.csv", "level=[80]")
    table = pd.read_csv(tmp_path / "f.csv", parse_dates=["date"])
    assert table["date"].tolist() == list(pd.date_range("2024-01-01", periods=DAYS + 3)[DAYS:])
    assert (table["sold-lo-80"] < table["sold"]).all() and (table["sold"] < table["sold-hi-80"]).all()


def test_the_refitted_model_has_learned_from_the_last_rows(home, tmp_path):
    for name in ("best", "refit"):
        call("predict", f"ckpt_path={home}/ridge/checkpoints/{name}.ckpt", f"output={tmp_path}/{name}.csv")
    held_out, refitted = (pd.read_csv(tmp_path / f"{name}.csv")["sold"] for name in ("best", "refit"))
    assert not np.allclose(held_out, refitted, rtol=1e-6) and np.allclose(held_out, refitted, rtol=0.5)


def test_many_series_are_forecast_with_what_is_known_and_in_parts_to_the_same_bytes(home, tmp_path):
    words = [f"ckpt_path={home}/panel/{BEST}", f"future={home}/future.csv"]
    call("predict", *words, f"output={tmp_path}/whole.csv")
    table = pd.read_csv(tmp_path / "whole.csv")
    assert table.groupby("shop").size().to_dict() == dict.fromkeys("abc", 3)
    for part in ("1", "2"):
        call("predict", *words, f"shard={part}/2", f"output={tmp_path}/part{part}.csv")
    call("merge", tmp_path / "part1.csv", tmp_path / "part2.csv", "--output", tmp_path / "merged.csv")
    assert (tmp_path / "merged.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_backtest_is_a_table_of_forecasts_beside_what_came(home, tmp_path):
    call("backtest", f"ckpt_path={home}/ridge/{BEST}", "backtest.folds=3", f"hydra.run.dir={tmp_path}/out")
    table = pd.read_parquet(tmp_path / "out" / "backtest.parquet")
    assert len(table) == 3 * 3 * 2 and table.notna().all(axis=None) and (tmp_path / "out" / "report.html").exists()


def test_a_forecast_is_kept_up_from_day_to_day(home, tmp_path):
    for name in ("one", "grown"):
        words = [f"ckpt_path={home}/ridge/{BEST}", f"data.path={home}/{name}.csv"]
        call("update", *words, f"hydra.run.dir={tmp_path}/kept")
        latest = pd.read_csv(tmp_path / "kept" / "latest.csv", parse_dates=["date"])
    assert latest["date"].iloc[0] == pd.Timestamp("2024-01-01") + pd.Timedelta(days=GROWN)
    assert len(pd.read_csv(tmp_path / "kept" / "log.csv"))


def test_settings_are_searched(home, tmp_path):
    words = [*of_file(home), "model=dlinear", *QUICK, "tune.trials=2", f"hydra.run.dir={tmp_path}/study"]
    call("tune", *words, "trainer.max_epochs=1", "callbacks.figures=null")
    assert len(json.loads((tmp_path / "study" / "trials.json").read_text())["trials"]) == 2


def test_a_file_and_a_horizon_are_enough_for_a_forecast(home, tmp_path):
    words = [home / "one.csv", "--horizon", "3", "--preset", "fast", "--minutes", "0.05"]
    call("auto", *words, "--output", tmp_path / "out")
    assert len(pd.read_csv(tmp_path / "out" / "forecast.csv")) == 3 and (tmp_path / "out" / "report.html").exists()


def test_a_file_is_described_with_a_command_that_trains_on_it(home, tmp_path, capsys):
    call("check-data", home / "one.csv", "--json")
    command = json.loads(capsys.readouterr().out)["command"]
    words = [word for word in command[2:] if not word.startswith("model")]
    call("train", *words, "model=ridge", f"hydra.run.dir={tmp_path}/run")
    assert metrics_of(tmp_path / "run")["status"] == "finished"


def test_what_an_informer_looks_at_is_written(home, tmp_path):
    call("attend", home / "network" / BEST, "--to", tmp_path)
    assert (tmp_path / "attention.npz").is_file()


def test_a_checkpoint_is_described_on_one_page(home, capsys):
    call("inspect-checkpoint", home / "network" / BEST, "--json")
    assert json.loads(capsys.readouterr().out)["model"] == "informer"


def test_an_exported_program_forecasts_without_this_package(home, tmp_path):
    call("export", home / "ridge" / BEST, tmp_path / "out")
    (program,) = (tmp_path / "out").glob("*.pt2")
    model, checkpoint = torch.export.load(program).module(), load_checkpoint(home / "ridge" / BEST).model()
    window, rows = checkpoint.window, checkpoint.look_back
    shapes = (rows, window.n_columns), (rows, window.n_known), (window.pred_len, window.n_known)
    inputs = [torch.randn(2, *shape) for shape in shapes]
    torch.testing.assert_close(model(*inputs), checkpoint(*inputs), rtol=1e-4, atol=1e-4)


def test_from_python_a_frame_comes_in_and_a_frame_goes_out(home, tmp_path):
    frame = pd.read_csv(home / "one.csv", parse_dates=["date"])
    forecaster = Forecaster("ridge", overrides=[*SIZES, "data.target=null", f"hydra.run.dir={tmp_path}/run"]).fit(frame)
    forecast = forecaster.predict(frame)
    assert list(forecast.columns) == ["date", "price", "sold"] and len(forecast) == 3
    again = Forecaster.load(tmp_path / "run" / BEST).predict(frame)
    pd.testing.assert_frame_equal(forecast, again, rtol=1e-5)


def damaged(home, folder):
    """A copy of the ridge's run whose checkpoint was cut off."""
    shutil.copytree(home / "ridge", folder)
    path = folder / BEST
    path.write_bytes(path.read_bytes()[:1000])
    return path


REFUSED = {
    "a misspelt key": ("train", ["DATA", "optim.learing_rate=1"], "learing_rate"),
    "a model that there is not": ("train", ["DATA", "model=infromer"], "informer"),
    "a file that is not there": ("train", ["data=csv", "data.path=HOME/none.csv"], "none.csv"),
    "a target that the file lacks": ("train", ["DATA", "data.target=slod"], "sold"),
    "windows longer than the file": ("train", ["DATA", "model=ridge", "seq_len=500"], "seq_len"),
    "a checkpoint that is not there": ("evaluate", ["ckpt_path=HOME/ridge/checkpoints/bets.ckpt"], "no such file"),
    "a damaged checkpoint": ("evaluate", ["ckpt_path=DAMAGED"], "damaged"),
    "other columns than trained on": ("predict", ["RIDGE", "data.path=HOME/future.csv", "OUT"], "future.csv"),
    "a folder that is none": ("predict", ["RIDGE", "output=HOME/one.csv/f.csv"], "one.csv"),
    "a future that is not told": ("predict", ["ckpt_path=HOME/panel/checkpoints/best.ckpt", "OUT"], "future="),
    "parts of different forecasts": ("merge", ["HOME/one.csv", "HOME/grown.csv", "--output", "NEW/m.csv"], "one.csv"),
    "more folds than rows": ("backtest", ["RIDGE", "backtest.folds=500", "hydra.run.dir=NEW/b"], "folds"),
    "a file without new rows": ("update", ["RIDGE", "data.path=HOME/none.csv", "hydra.run.dir=NEW/u"], "none.csv"),
    "nothing to search": ("tune", ["DATA", "model=seasonal_naive", "tune.trials=2", "hydra.run.dir=NEW/t"], "tune"),
    "a forecast of nothing": ("auto", ["HOME/none.csv", "--horizon", "3", "--output", "NEW/a"], "none.csv"),
    "attention of a model without": ("attend", ["HOME/ridge/checkpoints/best.ckpt", "--to", "NEW"], "ridge"),
    "a page of nothing": ("inspect-checkpoint", ["DAMAGED"], "best.ckpt"),
    "an export over files": ("export", ["HOME/ridge/checkpoints/best.ckpt", "HOME"], "HOME"),
    "a report of one run": ("report", ["NEW"], "NEW"),
    "a table that is not published": ("reproduce", ["--table", "etth3_m"], "etth3_m"),
    "weights that are none": ("import-informer2020", ["DAMAGED", "NEW/i", "--data", "ETTh1"], "best.ckpt"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_one_sentence(home, tmp_path, capsys, case):
    """With status 1, and nothing is written under the name that was asked for."""
    program, words, part = REFUSED[case]
    (tmp_path / "new").mkdir()
    places = {"HOME": str(home), "NEW": str(tmp_path / "new"), "OUT": f"output={tmp_path}/new/f.csv"}
    places["RIDGE"] = f"ckpt_path={home}/ridge/{BEST}"
    if any("DAMAGED" in word for word in words):
        places["DAMAGED"] = str(damaged(home, tmp_path / "damaged"))
    typed = [of_file(home) if word == "DATA" else [word] for word in words]
    typed = [word for some in typed for word in some]
    for name, place in places.items():
        typed = [word.replace(name, place) for word in typed]
        part = part.replace(name, place)
    if program == "train":
        typed.append(f"hydra.run.dir={tmp_path}/new/run")
    message = refusal(capsys, program, *typed)
    assert part in message.replace("\n", " ")
    assert not [path for path in (tmp_path / "new").rglob("*") if path.suffix in (".csv", ".ckpt", ".pt2")]
