"""The years that docs/limits.md promises, at both ends: a file of them is trained on, forecast and kept up."""

import numpy as np
import pandas as pd
import pytest
from apps.updates import RIDGE, updated
from program import call, refusal

LENGTHS = ["data.features=S", "data.target=load", "seq_len=10", "label_len=3", "pred_len=3", "calibration=none"]


def write(path, times):
    values = np.random.default_rng(0).normal(size=len(times)).cumsum().round(3)
    pd.DataFrame({"date": times.strftime("%Y-%m-%d"), "load": values}).to_csv(path, index=False)
    return path


def trained(folder, times, model="ridge"):
    path = write(folder / "trained.csv", times)
    call("train", *RIDGE, f"model={model}", *LENGTHS, f"data.path={path}", f"hydra.run.dir={folder}/run")
    return folder / "run"


@pytest.mark.parametrize("first", ["1678-01-01", "2261-07-15"])
def test_a_file_at_either_end_of_the_promised_years_is_trained_on_forecast_and_kept_up(tmp_path, first):
    times = pd.date_range(first, periods=170, freq="D")
    run = trained(tmp_path, times[:160])
    call("predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={tmp_path}/out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["date"].tolist() == times[160:163].strftime("%Y-%m-%d").tolist()
    for rows, updates in ((160, 1), (165, 2), (170, 3)):
        path = write(tmp_path / "grown.csv", times[:rows])
        document = updated(run, path, tmp_path / "updates")
        assert (document["status"], document["updates"]) == ("updated", updates)


def test_a_forecast_beyond_the_years_that_can_be_counted_is_refused_and_does_not_begin_again_in_1678(tmp_path, capsys):
    run = trained(tmp_path, pd.date_range(end="2261-12-31", periods=80, freq="YE"), "last_value")
    message = refusal(capsys, "predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={tmp_path}/out.csv")
    assert "go beyond the year 2262, the last that can be counted" in message
    assert not (tmp_path / "out.csv").exists()
