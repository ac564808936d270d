"""A series whose time column holds whole numbers: read, trained on and continued as a panel of one is."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame
from program import call

from forecast.apps.forecaster import Forecaster
from forecast.errors import UserError

ROWS, BRIEF = 300, ("seq_len=24", "pred_len=5", "logger=none", "calibration=none", "checks.leakage=false")


def table(first, unit):
    y = np.sin(np.arange(ROWS) / 4) + np.random.default_rng(0).normal(size=ROWS) / 10
    return pd.DataFrame({"date": first + unit * np.arange(ROWS), "y": y, "k": np.arange(ROWS) % 5})


def written(folder, first, unit, kind):
    rows, path = table(first, unit).drop(columns="k"), folder / f"my.{kind}"
    rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
    return path


@pytest.mark.parametrize(("first", "unit"), [(0, 1), (1, 1), (7, 4), (-20, 10)])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_numbers_of_steps_are_its_times(tmp_path, first, unit, kind):
    frame = read_frame(written(tmp_path, first, unit, kind))
    times = frame.times()
    assert (len(frame), frame.freq, times[:2].tolist()) == (ROWS, "ms", [first, first + unit])


@pytest.mark.parametrize(("first", "unit", "kind"), [(0, 1, "csv"), (-20, 10, "parquet")])
def test_a_series_of_numbered_steps_is_continued_by_the_next_numbers(tmp_path, first, unit, kind):
    path = written(tmp_path, first, unit, kind)
    words = ["model=last_value", "data=csv", f"data.path={path}", "data.target=y", *BRIEF]
    call("train", *words, f"hydra.run.dir={tmp_path}/run")
    for words in ([], [f"data.path={path}"]):
        output = tmp_path / "forecast.csv"
        call("predict", f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt", f"output={output}", *words, "overwrite=true")
        assert pd.read_csv(output)["date"].tolist() == [first + unit * (ROWS + step) for step in range(5)]
    found = Forecaster.load(tmp_path / "run/checkpoints/best.ckpt").predict()
    assert found["date"].tolist() == pd.read_csv(output)["date"].tolist()


def test_what_is_known_of_numbered_steps_is_found_by_their_numbers(tmp_path):
    rows = table(7, 4)
    rows.to_csv(tmp_path / "my.csv", index=False)
    after = pd.DataFrame({"date": 7 + 4 * np.arange(ROWS, ROWS + 5)[::-1], "k": range(5)})
    after.to_csv(tmp_path / "future.csv", index=False)
    data = ["data=csv", f"data.path={tmp_path}/my.csv", "data.target=[y]", "data.known=[k]"]
    call("train", "model=ridge", *data, *BRIEF, f"hydra.run.dir={tmp_path}/run")
    words = [f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt", f"output={tmp_path}/forecast.csv"]
    call("predict", *words, f"future={tmp_path}/future.csv")
    assert pd.read_csv(tmp_path / "forecast.csv")["date"].tolist() == sorted(after["date"])


def test_steps_that_lack_a_number_are_gaps(tmp_path):
    table(7, 4).drop(index=[60, 61]).to_csv(tmp_path / "my.csv", index=False)
    with pytest.raises(UserError, match=r"line 62: before it 2 rows are missing, from step 247 on"):
        read_frame(tmp_path / "my.csv")
