"""What an evaluation of a panel leaves: the files of a run with errors by series, as the report reads them."""

import json

import numpy as np
import pandas as pd
import pytest
from program import call, refusal

from forecast.comparison.rows import comparisons, mse_difference, read_folder
from forecast.run_folder import SERIES_ERRORS, read_run, sha256, torn

HOURS = {"shop 0": 300, "[bold]": 170, "shop 2": 260, "flat": 120, "short": 20, "shop 5": 210}
DATA = [
    *("data=csv", "data.id_column=unique_id", "data.time_column=ds", "seq_len=19", "label_len=7", "pred_len=5"),
    *("data/split=last", "data.split.horizon=5", "data.split.val=2", "data.split.test=3", "data.season=24"),
]
RIDGE = ["model=ridge", "logger=none", "checks.leakage=false"]
NAIVE = ["model=last_value", *RIDGE[1:]]


@pytest.fixture(scope="module")
def panel_csv(tmp_path_factory):
    draws, parts = np.random.default_rng(0), []
    for s, (name, hours) in enumerate(HOURS.items()):
        values = np.sin(np.arange(hours) * 2 * np.pi / 24) + 0.1 * draws.normal(size=hours).cumsum() + s
        times = pd.date_range("2021-01-01", periods=hours, freq="h") + pd.Timedelta(hours=5 * s)
        y = np.full(hours, 3.0) if name == "flat" else 10.0 ** (s % 3) * values
        parts.append(pd.DataFrame({"unique_id": name, "ds": times, "y": y.round(4)}))
    path = tmp_path_factory.mktemp("panel") / "shops.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def runs(panel_csv, tmp_path_factory):
    """Two trainings: a ridge and a seasonal naive."""
    folder = tmp_path_factory.mktemp("runs")
    call("train", *DATA, f"data.path={panel_csv}", *RIDGE, f"hydra.run.dir={folder}/ridge")
    call("train", *DATA, f"data.path={panel_csv}", *NAIVE, f"hydra.run.dir={folder}/last")
    return folder


@pytest.fixture(scope="module")
def metrics(runs):
    return json.loads((runs / "ridge" / "metrics.json").read_text())


def test_metrics_json_has_the_shape_of_any_run_and_the_series(metrics):
    test = metrics["test"]
    assert test["windows"] == 5 * 11 and test["skill"] > 0.5 and test["flat"] == []
    assert test["series"]["count"] == 6 and test["series"]["evaluated"] == 5 and test["series"]["without_mase"] == 1
    assert {row["id"] for row in test["series"]["worst"] + test["series"]["best"]} == set(HOURS) - {"short", "flat"}
    assert test["columns"]["y"]["series_without_mase"] == 1
    assert metrics["mase_scale"] == {"period": 24, "rows": "train", "columns_without": []}
    fitted = {"train_mean", "closed_form_nlinear", "ridge", "smoothing"}
    assert set(metrics["baselines"]) == {"last_value", "seasonal_naive", *fitted}
    assert metrics["baselines"]["seasonal_naive"]["period"] == 24
    assert metrics["val"]["windows"] == 5 * 6 and metrics["val"]["mase"] > 0
    assert 0 < test["wape"] < metrics["baselines"]["last_value"]["wape"] < 1
    for key in ("mse", "mae"):  # the model is the best of the baselines, on the same windows
        assert test["scaled"][key] == metrics["baselines"]["ridge"]["scaled"][key]


def test_each_baseline_has_its_difference_to_the_model_by_series(metrics):
    for block in metrics["baselines"].values():
        expected = metrics["test"]["scaled"]["mse"] - block["scaled"]["mse"]
        assert block["difference"]["mse"] == pytest.approx(expected, abs=2e-6)
        assert block["difference"]["blocks"] == 5


def test_errors_by_series_average_to_the_metrics(runs, metrics):
    table = pd.read_csv(runs / "ridge" / SERIES_ERRORS)
    assert table["unique_id"].tolist() == [name for name in HOURS if name != "short"]
    assert table["windows"].tolist() == [11] * 5
    assert table.columns.tolist()[2:] == ["mse_scaled", "mae_scaled", "mase", "rmsse", "smape", "wape"]
    assert table["mase"].isna().tolist() == [False, False, False, True, False]
    for key in ("mase", "rmsse", "smape"):
        assert table[key].mean() == pytest.approx(metrics["test"][key], abs=2e-6)
    assert table["mse_scaled"].mean() == pytest.approx(metrics["test"]["scaled"]["mse"], abs=2e-6)  # as many windows
    with np.load(runs / "ridge" / "errors_by_window.npz") as errors:
        lengths = [HOURS[name] for name in table["unique_id"]]
        assert errors["series"].tolist() == np.repeat([0, 1, 2, 3, 5], 11).tolist()
        assert errors["start"].tolist() == [hours - 24 - 10 + i for hours in lengths for i in range(11)]
        assert (errors["measured"] == 5).all()
        means = errors["squared_scaled"].reshape(5, 11).mean(1)
        np.testing.assert_allclose(means, table["mse_scaled"], atol=1e-6)


def test_forecasts_are_of_the_worst_and_the_best_series(runs, metrics, panel_csv):
    rows = pd.read_csv(panel_csv, parse_dates=["ds"]).set_index("unique_id")
    with np.load(runs / "ridge" / "forecasts.npz") as saved:
        named = [row["id"] for row in metrics["test"]["series"]["worst"] + metrics["test"]["series"]["best"]]
        assert saved["series"].tolist() == named
        for place, name in enumerate(named):
            own = rows.loc[name]
            np.testing.assert_allclose(saved["truth"][place, :, 0], own["y"].tail(5), rtol=1e-6)
            np.testing.assert_allclose(saved["past"][place, :, 0], own["y"].iloc[-24:-5], rtol=1e-6)
            assert saved["timestamps"][place].tolist() == own["ds"].tail(24).to_numpy("datetime64[ns]").tolist()
            error = np.abs(saved["forecast"][place, :, 0] - own["y"].tail(5))
            assert error.mean() < np.abs(saved["last_value"][place, :, 0] - own["y"].tail(5)).mean()
    assert (runs / "ridge" / "forecast.png").stat().st_size > 10_000


def test_a_file_that_was_exchanged_is_noticed(runs, tmp_path, metrics):
    folder = runs / "ridge"
    assert set(metrics["files"]) == {path.name for path in folder.iterdir()} & set(metrics["files"])
    assert metrics["files"][SERIES_ERRORS] == sha256(folder / SERIES_ERRORS)
    for name in metrics["files"]:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert torn(tmp_path, metrics) is None
    (tmp_path / SERIES_ERRORS).write_text("")
    assert torn(tmp_path, metrics) == SERIES_ERRORS
    assert read_run(folder).state == "finished"


def test_the_report_shows_mase_and_wape_and_the_series(runs, panel_csv, tmp_path, capsys):
    best = runs / "ridge" / "checkpoints" / "best.ckpt"
    call("evaluate", f"ckpt_path={best}", f"hydra.run.dir={tmp_path}/again", "device=cpu")
    text = capsys.readouterr().out
    assert "WAPE" in text and "sMAPE" in text and "seasonal naive (24 steps)" in text
    assert "The worst and the best series" in text and "[bold]" in text
    by = "MSE, MAE: over the cells of all series, in deviations of each series"
    assert by in " ".join(text.split()) and "the verdict is by MSE" in text
    assert "5 of 6 series evaluated, 1 without a MASE" in text
    first, again = (json.loads((path / "metrics.json").read_text()) for path in (runs / "ridge", tmp_path / "again"))
    assert first["test"] == again["test"] and first["baselines"] == again["baselines"]


def test_two_runs_are_compared_by_their_series(runs):
    (comparison,) = comparisons(read_folder(runs))
    last, ridge = sorted(comparison.rows, key=lambda row: row.first("model"))
    interval = mse_difference(last, ridge)
    assert interval.blocks == 5 and interval.difference > 0


def test_an_offset_that_no_series_has_room_for_is_refused_before_a_training(panel_csv, tmp_path, capsys):
    offsets = ["protocol.horizon_offsets=[3000]", f"hydra.run.dir={tmp_path}"]
    text = refusal(capsys, "train", *DATA, f"data.path={panel_csv}", *RIDGE, *offsets)
    assert "at 3000 steps from its window no forecast of pred_len" in text


def test_series_all_shorter_than_seq_len_are_trained_on_judged_and_continued(panel_csv, tmp_path):
    """No train window lies whole in its series, so there is no closed-form NLinear beside the model."""
    few = [change for change in DATA if not change.startswith("seq_len")]
    run = tmp_path / "run"
    call("train", *few, "seq_len=400", "data.short=pad", f"data.path={panel_csv}", *RIDGE, f"hydra.run.dir={run}")
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", f"hydra.run.dir={tmp_path}/again", "device=cpu")
    first, again = (json.loads((path / "metrics.json").read_text()) for path in (run, tmp_path / "again"))
    assert first["test"] == again["test"] and "closed_form_nlinear" not in again["baselines"]
    call("predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={tmp_path}/f.csv", "device=cpu")
    assert len(pd.read_csv(tmp_path / "f.csv")) == 5 * len(HOURS)


def test_files_that_a_pattern_names_are_one_panel(panel_csv, tmp_path, capsys):
    table = pd.read_csv(panel_csv)
    for number, (_, rows) in enumerate(table.groupby("unique_id", sort=False)):
        rows.to_csv(tmp_path / f"part{number}.csv", index=False)
    run = tmp_path / "run"
    call("train", *DATA, f"data.path='{tmp_path}/part*.csv'", *NAIVE, f"hydra.run.dir={run}")
    assert json.loads((run / "metrics.json").read_text())["test"]["series"]["count"] == len(HOURS)
    call("predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={tmp_path}/f.csv", "device=cpu")
    assert len(pd.read_csv(tmp_path / "f.csv")) == 5 * (len(HOURS) - 0)
    text = refusal(capsys, "train", *DATA, f"data.path='{tmp_path}/none*.csv'", *RIDGE, f"hydra.run.dir={run}2")
    assert "no file is called so. Check the pattern" in text


def test_the_command_that_check_data_gives_for_a_panel_trains_on_all_series(panel_csv, tmp_path, capsys):
    capsys.readouterr()
    call("check-data", panel_csv, "data.id_column=unique_id", "--json")
    program, name, *changes = json.loads(capsys.readouterr().out)["command"]
    assert (program, name) == ("forecast", "train")
    call("train", *changes, "logger=none", f"hydra.run.dir={tmp_path}/run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["series"]["count"] == len(HOURS) and metrics["test"]["series"]["evaluated"] >= 4


def test_the_table_says_what_the_verdict_of_a_panel_without_scaling_is_by(panel_csv, metrics, tmp_path, capsys):
    run = tmp_path / "run"
    call("train", *DATA, f"data.path={panel_csv}", "data.scaling=none", *NAIVE, f"hydra.run.dir={run}")
    text = " ".join(capsys.readouterr().out.split())
    by = "MSE, MAE: over the cells of all series, in the units of the file, so that"
    assert by in text and "the verdict is by MSE" in text
    assert (metrics["scaling"], json.loads((run / "metrics.json").read_text())["scaling"]) == ("series", "none")


def test_the_rows_after_the_test_are_a_split_of_many_series_too(panel_csv, tmp_path, capsys):
    rows = [
        "data/split=ett_hourly",
        "data.split.train=90",
        "data.split.val=20",
        "data.split.test=20",
        "calibration=none",
    ]
    data = [word for word in DATA if "data.split" not in word and "data/split" not in word]
    call("train", *data, *rows, f"data.path={panel_csv}", *NAIVE, f"hydra.run.dir={tmp_path}/run")
    best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
    call("evaluate", best, "split=tail", f"hydra.run.dir={tmp_path}/tail")
    metrics = json.loads((tmp_path / "tail" / "metrics.json").read_text())
    assert metrics["tail"]["windows"] == sum(max(0, hours - 130 - 5 + 1) for hours in HOURS.values())
    assert "has the splits train, val, test, tail, new. Did you mean 'tail'?" in refusal(
        capsys, "evaluate", best, "split=tial"
    )
