"""`forecast backtest`: what a fold learned from, what it forecast, what is said of it, and what is refused."""

import json
import re
import subprocess
import sys
import time

import forked
import numpy as np
import pandas as pd
import pytest
from apps.backtests import CUTOFFS, FOLDS, OF_A_FILE, PRED_LEN, RIDGE, backtested, series
from program import refusal

from forecast import Forecaster
from forecast.documents import read_arrays
from forecast.errors import UserError
from forecast.run_folder import read_run

BASELINES = ["last_value", "seasonal_naive", "train_mean", "closed_form_nlinear", "ridge", "smoothing"]


@pytest.fixture(scope="module")
def refitted(tmp_path_factory):
    """A training for each of three folds."""
    folder = tmp_path_factory.mktemp("refitted")
    return folder, *backtested(folder, *RIDGE, *FOLDS, "backtest.refit=every_fold")


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    return folder, *backtested(folder, *RIDGE, *FOLDS)


@pytest.mark.parametrize("kind", ["refitted", "trained_once"])
def test_the_table_has_each_forecast_beside_the_truth_and_the_baselines(kind, request):
    _, table, _ = request.getfixturevalue(kind)
    truth = series()
    assert list(table) == ["fold", "cutoff", "time", "target", "y", "forecast", "lo-80", "hi-80", *BASELINES]
    assert table["fold"].tolist() == [fold for fold in range(3) for _ in range(PRED_LEN)]
    for fold, cutoff in enumerate(CUTOFFS):
        rows = table[table["fold"] == fold]
        assert (rows["cutoff"] == truth.index[cutoff]).all() and (rows["target"] == "OT").all()
        assert rows["time"].tolist() == truth.index[cutoff + 1 : cutoff + 1 + PRED_LEN].tolist()
        np.testing.assert_array_equal(rows["y"], truth.iloc[cutoff + 1 : cutoff + 1 + PRED_LEN])
        np.testing.assert_allclose(rows["last_value"], truth.iloc[cutoff], rtol=1e-5)
        assert (rows["lo-80"] <= rows["forecast"]).all() and (rows["forecast"] <= rows["hi-80"]).all()
    assert table["time"].iloc[-1] == truth.index[-1]


def test_where_validation_holds_too_few_windows_the_table_has_no_intervals(tmp_path):
    of_file = [*OF_A_FILE, f"data.path={tmp_path}/own.csv", "backtest.folds=3"]
    series().iloc[-150:].rename_axis("date").to_csv(tmp_path / "own.csv")
    table, _ = backtested(tmp_path / "few", *of_file)
    assert not [name for name in table if name.startswith(("lo-", "hi-"))]
    (log,) = (tmp_path / "few").rglob("train.log")
    cure = log.read_text().partition("For those of 80 %: ")[2].split()[0].rstrip(".")
    assert cure.startswith("backtest.val=")
    table, _ = backtested(tmp_path / "enough", *of_file, cure)
    assert table["lo-80"].notna().all() and "lo-95" not in table


def test_without_refit_each_forecast_is_what_predict_gives_after_the_rows_before_it(trained_once):
    folder, table, _ = trained_once
    forecaster = Forecaster.load(folder / "folds/fold-all/checkpoints/best.ckpt")
    for fold, cutoff in enumerate(CUTOFFS):
        expected = forecaster.predict(series().iloc[: cutoff + 1].to_frame(), level=[80])
        rows = table[table["fold"] == fold]
        np.testing.assert_allclose(rows["forecast"], expected["OT"], rtol=1e-4)
        np.testing.assert_allclose(rows["lo-80"], expected["OT-lo-80"], rtol=1e-4)


def test_each_refit_learns_from_all_rows_before_its_forecast(refitted):
    folder, _, _ = refitted
    for fold, cutoff in enumerate(CUTOFFS):
        splits = read_run(folder / f"folds/fold-{fold}").run_info["data"]["splits"]
        val = int(0.125 * (cutoff + 1))
        expected = {
            "train": [0, cutoff + 1 - val],
            "val": [cutoff + 1 - val, cutoff + 1],
            "test": [cutoff + 1, cutoff + 6],
        }
        assert {name: list(splits[name]) for name in expected} == expected


def test_errors_are_those_of_a_slow_loop_in_the_unit_that_the_page_names_and_of_the_folds_own_run(refitted):
    folder, table, document = refitted
    scale = pd.DataFrame(read_arrays(folder / "parts" / "scales.npz")).iloc[0]
    train = series().iloc[: CUTOFFS[0] + 1 - int(0.125 * (CUTOFFS[0] + 1))].to_numpy()
    assert scale["std"] == pytest.approx(train.std())
    page = (folder / "report.html").read_text()
    assert "in standard deviations of the train rows of the first model" in page
    period = json.loads((folder / "folds/fold-0/metrics.json").read_text())["mase_scale"]["period"]
    assert scale["naive"] == pytest.approx(np.abs(train[period:] - train[:-period]).mean())
    for name, column in {"model": "forecast", **dict(zip(BASELINES, BASELINES, strict=True))}.items():
        means = []
        for fold in range(3):
            rows = table[table["fold"] == fold]
            errors = [(f - y) for f, y in zip(rows[column], rows["y"], strict=True)]
            found = document["by_fold"][fold][name]
            assert found["mse"] == pytest.approx(np.mean([(e / train.std()) ** 2 for e in errors]), abs=2e-6)
            assert found["mase"] == pytest.approx(np.mean([abs(e) / scale["naive"] for e in errors]), abs=2e-6)
            means.append(found["mse"])
        assert document["overall"][name]["mse"] == pytest.approx(np.mean(means), abs=2e-6)
    own = json.loads((folder / "folds/fold-0/metrics.json").read_text())
    assert document["by_fold"][0]["model"]["mse"] == pytest.approx(own["test"]["scaled"]["mse"], abs=2e-6)
    assert document["by_fold"][0]["ridge"]["mse"] == pytest.approx(own["baselines"]["ridge"]["scaled"]["mse"], abs=2e-6)


def test_a_checkpoint_gives_the_same_forecasts_as_the_training_before_its_folds(trained_once, tmp_path):
    folder, table, document = trained_once
    again, found = backtested(tmp_path, f"ckpt_path={folder}/folds/fold-all/checkpoints/best.ckpt", *FOLDS[:2])
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    assert found["by_fold"] == document["by_fold"]


def test_the_same_command_again_trains_nothing_and_gives_the_same_bytes(refitted, capsys):
    folder, _, document = refitted
    kept = {path: path.stat().st_mtime_ns for path in (*folder.rglob("best.ckpt"), *folder.glob("parts/*.parquet"))}
    before = (folder / "backtest.parquet").read_bytes()
    _, again = backtested(folder, *RIDGE, *FOLDS, "backtest.refit=every_fold")
    assert (folder / "backtest.parquet").read_bytes() == before
    assert {**again, "seconds": 0} == {**document, "seconds": 0}
    assert len(kept) == 6 and all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert "Over 3 forecasts of 5 steps" in capsys.readouterr().out


def test_a_folder_of_another_backtest_is_refused(refitted, capsys):
    folder, _, _ = refitted
    text = refusal(capsys, "backtest", *RIDGE, *FOLDS, "seed=2", f"hydra.run.dir={folder}")
    assert "holds another backtest" in text and "another folder" in text


@pytest.mark.parametrize("name", ["backtest.parquet", "backtest.json", "report.html", "run.json"])
def test_a_file_of_somebody_elses_is_not_written_over(name, tmp_path, capsys):
    (tmp_path / name).write_text("mine")
    text = refusal(capsys, "backtest", *RIDGE, *FOLDS, f"hydra.run.dir={tmp_path}")
    assert f"{tmp_path / name} is there and is not of a backtest. Nothing is overwritten: choose another folder" in text
    assert (tmp_path / name).read_text() == "mine" and not (tmp_path / "folds").exists()


def test_the_same_command_goes_to_the_same_folder_and_another_one_to_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("forecast.apps.backtest.command.of_config", stopped)
    for words in ((), (), ("seed=2",), ("backtest.folds=4",)):
        assert "stopped here" in refusal(capsys, "backtest", *RIDGE, *FOLDS, *words)
    assert len(list((tmp_path / "backtests").iterdir())) == 3


def stopped(*_):
    raise UserError("stopped here")


REFUSED = {
    "backtest.folds=0": "backtest.folds=0: must be at least 1",
    "backtest.step=0": "backtest.step=0: must be at least 1",
    "backtest.refit=sometimes": "backtest.refit=sometimes: must be",
    "backtest.fold=3": "backtest.fold' is no key of the config. Did you mean 'backtest.folds'",
    "data/split=last": "data/split=last: a backtest cuts the data into folds itself. Leave data/split out",
    "data.split.val=0.5": "Leave data.split.val out; see backtest.KEY",
    "refit=true": "Leave refit out; see backtest.refit",
    "protocol=apart": "Leave protocol out; see backtest.step",
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(word, tmp_path, capsys):
    text = refusal(capsys, "backtest", *RIDGE, "backtest.folds=3", word, f"hydra.run.dir={tmp_path}")
    assert REFUSED[word] in text and not (tmp_path / "folds").exists()


def test_a_backtest_longer_than_the_data_is_refused(tmp_path, capsys):
    words = [*RIDGE, "backtest.step=60", f"hydra.run.dir={tmp_path}"]
    text = refusal(capsys, "backtest", *words, "backtest.folds=50")
    assert "backtest.folds=50: longer than the data: the forecasts take the last 2945 of at most 700 rows" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["backtest.folds=4"], "folds that overlap the training rows of .*At most 3 do not: backtest.folds=3"),
        (["backtest.folds=3", "backtest.refit=every_fold"], "not trained again. .*forecast backtest .*model=ridge"),
        (["backtest.folds=3", "seq_len=20"], "seq_len=20: with ckpt_path the model, its data and its lengths are"),
        (["backtest.folds=3", "model=dlinear"], "Leave model out, or leave ckpt_path out to train"),
    ],
)
def test_what_a_checkpoint_cannot_do_is_refused(trained_once, words, says, tmp_path, capsys):
    best = trained_once[0] / "folds/fold-all/checkpoints/best.ckpt"
    common = [f"ckpt_path={best}", "backtest.step=7"]
    text = refusal(capsys, "backtest", *common, *words, f"hydra.run.dir={tmp_path}")
    assert re.search(says, text, re.DOTALL), text


def test_another_file_is_looked_back_on_where_the_model_has_not_learned(trained_once, tmp_path, capsys):
    folder, table, _ = trained_once
    best = f"ckpt_path={folder}/folds/fold-all/checkpoints/best.ckpt"
    series().rename_axis("date").to_frame().to_csv(tmp_path / "grown.csv")
    words = [best, *FOLDS[:2], f"data.path={tmp_path}/grown.csv"]
    again, _ = backtested(tmp_path / "r", *words)
    pd.testing.assert_frame_equal(again, table, rtol=1e-5)
    text = refusal(capsys, "backtest", *words, "backtest.folds=4", f"hydra.run.dir={tmp_path}/s")
    assert "At most 3 do not" in text


@pytest.mark.parametrize("given", ["the data trained on", "a table"])
def test_from_python_it_is_the_same_table(trained_once, given):
    folder, table, _ = trained_once
    forecaster = Forecaster.load(folder / "folds/fold-all/checkpoints/best.ckpt")
    rows = series().to_frame() if given == "a table" else None
    pd.testing.assert_frame_equal(forecaster.backtest(rows, folds=3, step=7), table, rtol=1e-5)
    with pytest.raises(UserError, match=r"folds that overlap the training rows .*At most 3 do not"):
        forecaster.backtest(rows, folds=4, step=7)
    with pytest.raises(UserError, match="step=0: must be at least 1"):
        forecaster.backtest(rows, step=0)


def test_killed_after_the_first_fold_it_goes_on_to_the_same_bytes(refitted, tmp_path):
    """Real moments of a kill, with trainings of many steps: tests/training/test_killed_backtest.py."""
    words = [*RIDGE, *FOLDS, "backtest.refit=every_fold", f"hydra.run.dir={tmp_path}"]
    process = forked.Popen([sys.executable, "-m", "forecast", "backtest", *words], stdout=subprocess.DEVNULL)
    while not list(tmp_path.glob("parts/fold-*.parquet")):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (tmp_path / "backtest.parquet").exists()
    backtested(tmp_path, *words[:-1])  # beside the sweep that is still at work
    assert (tmp_path / "backtest.parquet").read_bytes() == (refitted[0] / "backtest.parquet").read_bytes()
