"""`forecast backtest` of many series."""

import numpy as np
import pandas as pd
import pytest
from apps.backtests import backtested
from program import call, refusal

LENGTHS = {"long": 300, "late": 170, "[bold]": 260, "short": 30}
PANEL = ["data=csv", "data.id_column=unique_id", "data.time_column=ds", "data.season=24", "seq_len=19", "pred_len=5"]
PANEL += ["label_len=7", "model=ridge", "logger=none", "level=[80]", "backtest.folds=3"]


@pytest.fixture(scope="module")
def panel_csv(tmp_path_factory):
    draws, parts = np.random.default_rng(0), []
    for s, (name, hours) in enumerate(LENGTHS.items()):
        values = np.sin(np.arange(hours) * 2 * np.pi / 24) + 0.1 * draws.normal(size=hours).cumsum() + s
        times = pd.date_range("2021-01-01", periods=hours, freq="h") + pd.Timedelta(hours=5 * s)
        parts.append(pd.DataFrame({"unique_id": name, "ds": times, "y": values.round(4)}))
    path = tmp_path_factory.mktemp("panel") / "shops.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("refit", ["never", "every_fold"])
def test_of_a_panel_each_series_is_looked_back_on_at_its_own_end(panel_csv, refit, tmp_path):
    table, document = backtested(tmp_path, *PANEL, f"data.path={panel_csv}", f"backtest.refit={refit}")
    assert list(table)[:6] == ["fold", "cutoff", "id", "time", "target", "y"]
    rows = pd.read_csv(panel_csv, parse_dates=["ds"])
    for name, hours in LENGTHS.items():
        own, truth = table[table["id"] == name], rows[rows["unique_id"] == name]
        fits = [fold for fold in range(3) if hours - 5 * (3 - fold) >= 19]  # whole windows alone
        assert own["fold"].tolist() == [fold for fold in fits for _ in range(5)]
        assert own["time"].tolist() == truth["ds"].iloc[hours - 5 * len(fits) :].tolist()
        np.testing.assert_allclose(own["y"], truth["y"].iloc[hours - 5 * len(fits) :], rtol=1e-6)
        last = truth["y"].iloc[[hours - 5 * (3 - fold) - 1 for fold in fits for _ in range(5)]]
        np.testing.assert_allclose(own["last_value"], last, rtol=1e-4)
    assert document["by_fold"][2]["values"] == 20 and document["overall"]["model"]["mase"] > 0
    assert document["overall"]["ridge"]["mse"] == pytest.approx(document["overall"]["model"]["mse"], rel=0.2)


def test_a_panels_checkpoint_forecasts_no_row_that_it_was_trained_on(panel_csv, tmp_path, capsys):
    call("train", *PANEL[:-2], f"data.path={panel_csv}", f"hydra.run.dir={tmp_path}/run")
    best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
    table, _ = backtested(tmp_path / "b", best, "backtest.folds=9")
    learned = {name: hours - int(0.2 * hours) for name, hours in LENGTHS.items()}  # shares: the last 0.2 are the test
    begins = table.groupby("id")["time"].min()
    for s, (name, row) in enumerate(learned.items()):
        assert begins[name] >= pd.Timestamp("2021-01-01") + pd.Timedelta(hours=5 * s + row)
    assert table.groupby("id")["fold"].nunique().to_dict() == {"[bold]": 9, "late": 6, "long": 9, "short": 1}
    text = refusal(capsys, "backtest", best, "backtest.folds=13", f"hydra.run.dir={tmp_path}/c")
    assert "folds that overlap the training rows" in text and "At most 12 do not: backtest.folds=12" in text
    again, _ = backtested(tmp_path / "d", best, "backtest.folds=9", f"data.path={panel_csv}")
    pd.testing.assert_frame_equal(again, table)


def test_another_file_of_a_panel_is_looked_back_on_from_the_end_of_what_each_series_has_learned(panel_csv, tmp_path):
    """Of a series that was not trained on at all its folds."""
    call("train", *PANEL[:-2], f"data.path={panel_csv}", f"hydra.run.dir={tmp_path}/run")
    rows = pd.read_csv(panel_csv, parse_dates=["ds"])
    more = rows[rows["unique_id"] == "late"].iloc[-40:].assign(ds=lambda table: table["ds"] + pd.Timedelta("40h"))
    new = rows[rows["unique_id"] == "long"].iloc[:90].assign(unique_id="new")
    pd.concat([rows[60:], more, new]).to_csv(tmp_path / "other.csv", index=False)
    best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
    table, _ = backtested(tmp_path / "b", best, "backtest.folds=12", f"data.path={tmp_path}/other.csv")
    folds = table.groupby("id")["fold"].nunique()
    assert folds.to_dict() == {"[bold]": 10, "late": 12, "long": 12, "new": 12, "short": 1}
    learned = {"long": 240, "late": 136, "[bold]": 208}
    for s, (name, row) in enumerate(learned.items()):
        begins = table[table["id"] == name]["time"].min()
        assert begins >= pd.Timestamp("2021-01-01") + pd.Timedelta(hours=5 * s + row)
