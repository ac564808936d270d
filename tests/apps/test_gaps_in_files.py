"""A file with gaps, from the training to the forecast: refused, or filled as data.gaps says, and in run.json."""

import json

import numpy as np
import pandas as pd
import pytest
from apps.files import LAYOUT, OWN, read_forecast, write_csv
from program import call, refusal

from forecast import Forecaster
from forecast.apps.common.inputs import evaluated_data

POLICIES = ("interpolate", "forward_fill", "mask")
FEW = ["trainer.limit_train_batches=2", "logger=none", "checks.leakage=false"]
# rows of 400 that are no lines of the file, and cells that are empty: one gap in each split
ROWS, CELLS = [51, 52, 53, 300, 370], [(52 + 60, 1), (371, 2)]


def write_gappy(path, *, rows=400, absent=(), empty=(), **options):
    """write_csv's file without some lines and cells (row, column of the line)."""
    write_csv(path, rows=rows, **options)
    head, *lines = path.read_text().splitlines()
    for row, column in empty:
        cells = lines[row].split(";")
        cells[column] = ""
        lines[row] = ";".join(cells)
    path.write_text("\n".join([head, *(line for i, line in enumerate(lines) if i not in set(absent))]) + "\n")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run folder of a training with each policy on the same file, own.csv beside them."""
    folder = tmp_path_factory.mktemp("gaps")
    write_gappy(folder / "own.csv", absent=ROWS, empty=CELLS)
    for policy in POLICIES:
        path = f"data.path={folder}/own.csv"
        call("train", *OWN, *LAYOUT, *FEW, path, f"data.gaps={policy}", f"hydra.run.dir={folder}/{policy}")
    return folder


def gaps_record(runs, policy):
    return json.loads((runs / policy / "run.json").read_text())["data"]["gaps"]


# 280 rows train, 40 val, 80 test; seq_len 19, pred_len 5. mask: a run of g rows shuts 19 + g - 1 windows; of those at
# row 300 only 15 belong to val, whose last window begins at row 296. The others leave out none.
NONE = {"train": 0, "val": 0, "test": 0}
LEFT_OUT = {"interpolate": NONE, "forward_fill": NONE, "mask": {"train": 21 + 19, "val": 15, "test": 20}}


@pytest.mark.parametrize("policy", POLICIES)
def test_run_json_and_the_log_tell_what_was_filled_and_what_it_cost(runs, policy):
    assert gaps_record(runs, policy) == {
        "policy": policy,
        "rows_added": 5,
        "cells_filled": 2,
        "longest_run": 3,
        "windows_left_out": LEFT_OUT[policy],
    }
    log = (runs / policy / "train.log").read_text()
    assert f"data.gaps={policy} added 5 missing rows and filled 2 empty cells; longest gap in rows: 3" in log
    counts = ", ".join(f"{count} of {name}" for name, count in LEFT_OUT[policy].items())
    assert (f"windows left out beside gaps: {counts}" in log) == (policy == "mask")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_windows_that_are_left_are_the_ones_evaluated(runs, policy):
    metrics = json.loads((runs / policy / "metrics.json").read_text())
    left_out = LEFT_OUT[policy]
    assert metrics["val"]["windows"] == 40 - 5 + 1 - left_out["val"]
    assert metrics["test"]["windows"] == 80 - 5 + 1 - left_out["test"]
    with np.load(runs / policy / "errors_by_window.npz") as errors:
        touched = {start for start in errors["start"].tolist() if {370, 371} & set(range(start, start + 19))}
        assert (touched == set()) == (policy == "mask")


@pytest.mark.parametrize("scale", ["train", "window"])
def test_windows_in_which_nothing_was_measured_count_nowhere(tmp_path, scale):
    write_gappy(tmp_path / "own.csv", absent=range(340, 352))
    arguments = [*OWN, *LAYOUT, f"data.path={tmp_path}/own.csv", "data.gaps=forward_fill", "model=ridge"]
    call(
        "train",
        *[word for word in arguments if not word.startswith("model.")],
        f"protocol.mase_scale={scale}",
        "logger=none",
        f"hydra.run.dir={tmp_path}/run",
    )
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    with np.load(tmp_path / "run" / "errors_by_window.npz") as errors:
        none = np.isnan(errors["squared_scaled"]).all(axis=1)
        assert none.sum() == 12 - 5 + 1 and len(none) == metrics["test"]["windows"]
    assert np.isfinite([metrics["test"]["mase"], metrics["baselines"]["ridge"]["difference"]["mse"]]).all()


@pytest.mark.parametrize("policy", ["interpolate", "mask"])
def test_evaluate_reads_the_file_by_the_same_rule(runs, policy, tmp_path):
    call("evaluate", f"ckpt_path={runs}/{policy}/checkpoints/best.ckpt", f"hydra.run.dir={tmp_path}")
    again, before = (json.loads((f / "metrics.json").read_text()) for f in (tmp_path, runs / policy))
    assert again["test"] == before["test"] and again["baselines"] == before["baselines"]


def test_a_training_without_the_key_refuses_the_file_and_names_it(runs, tmp_path, capsys):
    arguments = [*OWN, *LAYOUT, f"data.path={runs}/own.csv", f"hydra.run.dir={tmp_path}"]
    text = refusal(capsys, "train", *arguments)
    # its own line: 5 rows lack before it
    assert "own.csv: line 53: before it 3 rows of '15min' are missing" in text and "data.gaps=interpolate" in text
    text = refusal(capsys, "train", *arguments, "data.gaps=fill")
    assert "data.gaps=fill: must be 'refuse', 'interpolate', 'forward_fill', 'mask'" in text


def test_a_continued_run_keeps_its_rule(runs, capsys):
    last = f"ckpt_path={runs}/mask/checkpoints/last.ckpt"
    text = refusal(capsys, "train", last, "data.gaps=interpolate", "trainer.max_epochs=2")
    assert "data.gaps=interpolate: the saved run has data.gaps=mask" in text


def test_gaps_that_leave_a_split_no_window_are_refused_before_the_training(tmp_path, capsys):
    write_gappy(tmp_path / "own.csv", absent=range(265, 320, 8))
    arguments = [*OWN, *LAYOUT, f"data.path={tmp_path}/own.csv", "data.gaps=mask", f"hydra.run.dir={tmp_path}/run"]
    text = refusal(capsys, "train", *arguments)
    assert "with data.gaps=mask all 36 windows are left out beside gaps" in text


# forecasts


def forecast(runs, policy, folder, *changes):
    best = f"ckpt_path={runs}/{policy}/checkpoints/best.ckpt"
    call("predict", best, f"output={folder}/forecast.csv", *changes, f"hydra.run.dir={folder}/predict")
    return read_forecast(folder / "forecast.csv")


@pytest.mark.parametrize("policy", POLICIES)
def test_another_history_with_gaps_is_filled_by_the_rule_of_the_training(runs, policy, tmp_path):
    options = {"rows": 101, "start": "2022-05-05", "seed": 3}
    write_gappy(tmp_path / "gappy.csv", absent=[17, 18], empty=[(90, 1)] if policy != "mask" else [], **options)
    result = forecast(runs, policy, tmp_path, f"data.path={tmp_path}/gappy.csv")
    assert result["when"].iloc[0] == "2022-05-06 01:15:00"
    # filled by hand, the rows give the same forecast
    write_csv(tmp_path / "whole.csv", **options)
    if policy != "mask":
        table = pd.read_csv(tmp_path / "whole.csv", sep=";", decimal=",")
        before, after = table["load"][89], table["load"][91]
        table.loc[90, "load"] = before if policy == "forward_fill" else (before + after) / 2
        table.to_csv(tmp_path / "whole.csv", sep=";", decimal=",", index=False)
    same = forecast(runs, policy, tmp_path, f"data.path={tmp_path}/whole.csv")
    pd.testing.assert_frame_equal(result, same, rtol=1e-6)


def test_seq_len_rows_with_a_gap_among_them_are_enough(runs, tmp_path):
    write_gappy(tmp_path / "short.csv", rows=19, absent=[7])
    assert len(forecast(runs, "interpolate", tmp_path, f"data.path={tmp_path}/short.csv")) == 5


def test_a_masked_gap_in_the_last_rows_gives_a_forecast_and_says_what_was_filled(runs, tmp_path, capsys):
    write_gappy(tmp_path / "history.csv", rows=101, start="2022-05-05", absent=[85, 86])
    result = forecast(runs, "mask", tmp_path, f"data.path={tmp_path}/history.csv")
    said = capsys.readouterr().err
    for words in (
        "history.csv: of the last seq_len = 19 rows, 2022-05-05 20:30:00 to 2022-05-06 01:00:00, 2 were missing",
        "the first at 2022-05-05 21:15:00, the last at 2022-05-05 21:30:00",
        "data.gaps=mask filled values: 2 of 'load', 2 of 'wind'. No past of the training held",
    ):
        assert words in said, said
    # filled by hand with the last value
    table = write_csv(tmp_path / "whole.csv", rows=101, start="2022-05-05")
    table.loc[85:86, ["load", "wind"]] = table.loc[84, ["load", "wind"]].to_numpy()
    table.to_csv(tmp_path / "whole.csv", sep=";", decimal=",", index=False)
    same = forecast(runs, "mask", tmp_path, f"data.path={tmp_path}/whole.csv")
    assert "were missing" not in capsys.readouterr().err
    pd.testing.assert_frame_equal(result, same, rtol=1e-6)


def test_a_history_ends_with_its_last_whole_row_for_each_command_and_a_table(runs, best, tmp_path):
    write_gappy(tmp_path / "history.csv", rows=101, start="2022-05-05", empty=[(100, 2)])
    write_csv(tmp_path / "whole.csv", rows=100, start="2022-05-05")
    for run in (runs / "interpolate" / "checkpoints" / "best.ckpt", best):  # with a rule for gaps and without one
        forecaster = Forecaster.load(run)
        after = forecaster.predict(tmp_path / "history.csv")
        pd.testing.assert_frame_equal(after, forecaster.predict(tmp_path / "whole.csv"))
    table = write_csv(tmp_path / "table.csv", rows=101, start="2022-05-05").set_index("when")
    assert forecaster.predict(table.assign(wind=[*table["wind"][:-1], np.nan])).index[0] == table.index[-1]
    data = evaluated_data(forecaster.checkpoint, forecaster._loaded.source(), tmp_path / "history.csv", split="all")
    assert len(data.windows("all")) == 100 - 19 - 5 + 1


def test_a_file_without_gaps_says_so_in_run_json(csv_run):
    gaps = json.loads((csv_run / "run.json").read_text())["data"]["gaps"]
    none = {"train": 0, "val": 0, "test": 0}
    assert gaps == {"policy": "refuse", "rows_added": 0, "cells_filled": 0, "longest_run": 0, "windows_left_out": none}
