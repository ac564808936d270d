"""refit of a panel: all rows of each series."""

import numpy as np
import pandas as pd
import pytest
from apps.refitted import LINEAR, PERIOD, RIDGE, SIZES, metrics_of, refit_of
from program import call, refusal

PANEL = [
    *("data=csv", "data.id_column=shop", "data.time_column=ds", *SIZES, "data/split=last", "data.split.horizon=5"),
    *("data.split.val=2", "data.split.test=12"),
]


@pytest.fixture(scope="module")
def panel_csv(tmp_path_factory):
    """Five series, noise, and in the last 60 rows of each a wave."""
    parts, draws = [], np.random.default_rng(3)
    for s, rows in enumerate((150, 210, 170, 190, 160)):
        steps = np.arange(rows)
        wave = np.where(steps >= rows - 60, 30 * np.sin(2 * np.pi * steps / PERIOD), 0.0)
        times = pd.date_range("2022-01-01", periods=rows, freq="h")
        parts.append(pd.DataFrame({"shop": f"s{s}", "ds": times, "y": (wave + draws.normal(size=rows)).round(4)}))
    path = tmp_path_factory.mktemp("panel") / "shops.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("changes", [RIDGE, LINEAR], ids=["ridge", "dlinear"])
def test_a_panel_is_refitted_on_all_rows_of_each_series(panel_csv, tmp_path, capsys, changes):
    changes = [word for word in changes if not word.startswith("data")]
    common = [*changes, *PANEL, f"data.path={panel_csv}"]
    call("train", *common, f"hydra.run.dir={tmp_path}/plain")
    call("train", *common, "refit=true", f"hydra.run.dir={tmp_path}/run")
    plain, metrics = metrics_of(tmp_path / "plain"), metrics_of(tmp_path / "run")
    assert (metrics["test"], metrics["baselines"]) == (plain["test"], plain["baselines"])
    assert metrics["refit"]["trained_until"] == "2022-01-09 17:00:00"  # of the longest series
    path, errors = refit_of(tmp_path / "run"), []
    for name in ("best", "refit"):
        call("predict", f"ckpt_path={tmp_path}/run/checkpoints/{name}.ckpt", f"output={tmp_path}/{name}.csv")
        forecast = pd.read_csv(tmp_path / f"{name}.csv")
        rows = forecast.groupby("shop")["y"].apply(np.asarray)
        lengths = (150, 210, 170, 190, 160)
        truth = [30 * np.sin(2 * np.pi * (n + np.arange(5)) / PERIOD) for n in lengths]
        errors.append(np.mean([np.abs(made - true).mean() for made, true in zip(rows, truth, strict=True)]))
    assert errors[1] < errors[0] / 2, errors
    capsys.readouterr()
    assert "split=val: " in refusal(capsys, "evaluate", f"ckpt_path={path}", "split=val", f"hydra.run.dir={tmp_path}/e")
    call("evaluate", f"ckpt_path={path}", f"hydra.run.dir={tmp_path}/e")
    assert "The worst and the best series" in capsys.readouterr().out
    other = (f"ckpt_path={path}", f"data.path={panel_csv}", f"hydra.run.dir={tmp_path}/e")
    message = refusal(capsys, "evaluate", *other)
    assert "has learned from the rows up to" in message and "split=new" in message
    parts = [rows for _, rows in pd.read_csv(panel_csv, parse_dates=["ds"]).groupby("shop")]
    more = [rows.tail(7).assign(ds=rows["ds"].tail(7) + pd.Timedelta("7h")) for rows in parts]
    pd.concat([*parts, *more]).to_csv(tmp_path / "grown.csv", index=False)
    call("evaluate", f"ckpt_path={path}", f"data.path={tmp_path}/grown.csv", "split=new", f"hydra.run.dir={tmp_path}/n")
    # of each series those after its own last row, though others went on until later
    assert metrics_of(tmp_path / "n")["new"]["windows"] == 5 * (7 - 5 + 1)
