"""A file that has got rows since it was trained on: the new ones are evaluated, and a refusal says what to do."""

import functools
import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from apps.files import LAYOUT, write_csv
from checkpoints import LENGTHS, SIZES, write_untrained
from program import call, refusal

from forecast import Forecaster
from forecast.checkpoint.load import load_checkpoint

ROWS, MORE, P = 300, 11, 5
QUICK = [
    *(f"model.{key}={value}" for key, value in SIZES.items()),
    *("trainer.max_epochs=1", "trainer.limit_train_batches=1", "callbacks.figures=null"),
]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """Header and rows of a file that is longer than the one trained on."""
    path = tmp_path_factory.mktemp("longer") / "longer.csv"
    write_csv(path, rows=ROWS + 50)
    return path.read_text().splitlines(keepends=True)


@pytest.fixture
def trained(tmp_path, lines):
    (tmp_path / "own.csv").write_text("".join(lines[: 1 + ROWS]))
    return write_untrained(tmp_path / "best.ckpt", *LENGTHS, *LAYOUT, f"data.path={tmp_path}/own.csv")


def grow(folder, lines, more=MORE):
    (folder / "own.csv").write_text("".join(lines[: 1 + ROWS + more]))


def evaluated(folder, checkpoint, *changes):
    call("evaluate", f"ckpt_path={checkpoint}", "split=new", *changes, f"hydra.run.dir={folder}/new")
    return json.loads((folder / "new" / "metrics.json").read_text())


def test_the_windows_of_the_new_rows_are_evaluated_and_it_says_from_when(trained, tmp_path, lines, capsys):
    grow(tmp_path, lines)
    metrics = evaluated(tmp_path, trained)
    assert metrics["new"]["windows"] == MORE - P + 1
    assert metrics["evaluated_from"] == lines[1 + ROWS].split(";")[0]
    assert f"split=new: the {MORE} rows from {metrics['evaluated_from']} on" in capsys.readouterr().err
    with np.load(tmp_path / "new" / "errors_by_window.npz") as errors:
        assert errors["start"].tolist() == [ROWS - 22 + k for k in range(MORE - P + 1)]  # the past reaches back


def test_their_error_is_that_of_the_forecasts_after_each_row(trained, tmp_path, lines):
    grow(tmp_path, lines)
    forecaster = Forecaster.load(trained)
    history = np.array([[float(cell.replace(",", ".")) for cell in line.split(";")[1:]] for line in lines[1:]])
    squared = []
    for k in range(MORE - P + 1):
        (tmp_path / "part.csv").write_text("".join(lines[: 1 + ROWS + k]))
        values = forecaster.predict(tmp_path / "part.csv")[["load", "wind"]].to_numpy()
        squared.append((values - history[ROWS + k : ROWS + k + P]) ** 2)
    columns = evaluated(tmp_path, trained)["new"]["columns"]
    mse = [columns[name]["original"]["mse"] for name in ("load", "wind")]
    assert mse == pytest.approx(np.mean(squared, axis=(0, 1)), rel=1e-4)


def test_a_copy_that_has_grown_is_named_by_its_path(trained, tmp_path, lines):
    (tmp_path / "copy.csv").write_text("".join(lines))
    metrics = evaluated(tmp_path, trained, f"data.path={tmp_path}/copy.csv")
    assert metrics["new"]["windows"] == 50 - P + 1 and metrics["evaluated_file"].endswith("copy.csv")


def test_a_file_written_anew_has_grown_where_its_rows_are_the_same(trained, tmp_path, lines):
    """Times and values count, not bytes."""
    text = "".join(lines[: 1 + ROWS + MORE])
    (tmp_path / "own.csv").write_text(text.replace("\n", "\r\n"), newline="")
    assert evaluated(tmp_path, trained)["new"]["windows"] == MORE - P + 1


def without_first_row(lines):
    return [lines[0], *lines[2:]]


def with_another_value(lines, *, row=30):
    return [*lines[:row], lines[row].split(";")[0] + ";1,0;2,0\n", *lines[row + 1 :]]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param(lambda lines: lines[:200], "lacks rows of those trained on", id="shorter"),
        pytest.param(lambda lines: lines[: 1 + ROWS], "has 0 rows after 2021-03-04 02:45:00", id="not grown"),
        pytest.param(
            lambda lines: lines[: 1 + ROWS + P - 1], "has 4 rows after .* when 1 more are there", id="too few"
        ),
        pytest.param(
            without_first_row,
            "lacks rows of those trained on",
            id="rows removed",
        ),
        pytest.param(
            with_another_value,
            "holds other values than those trained on.*split=all",
            id="another value",
        ),
        pytest.param(
            functools.partial(with_another_value, row=290),
            r"holds other values than those trained on\. Restore it, or evaluate it as another file: data.path=",
            id="another value of the test rows",
        ),
    ],
)
def test_a_file_without_new_rows_or_with_other_old_ones_is_refused(trained, lines, capsys, written, message):
    folder = trained.parent
    (folder / "own.csv").write_text("".join(written(lines)))
    text = refusal(capsys, "evaluate", f"ckpt_path={trained}", "split=new", f"hydra.run.dir={folder}/r")
    assert text.startswith(f"split=new: {folder}/own.csv ") and re.search(message, text), text


def test_another_split_of_a_grown_file_is_refused_with_a_command_that_works(trained, tmp_path, lines, capsys):
    grow(tmp_path, lines)
    text = refusal(capsys, "evaluate", f"ckpt_path={trained}", f"hydra.run.dir={tmp_path}/r")
    assert f"{tmp_path}/own.csv has changed since {trained} was trained on it" in text
    assert "see by split=new" in text
    again = shlex.split(text.split("train on all rows: forecast ")[1])
    call(*again, *QUICK, f"hydra.run.dir={tmp_path}/again")
    splits = load_checkpoint(tmp_path / "again/checkpoints/best.ckpt").data["splits"]
    assert splits["test"][1] == ROWS + MORE


def test_another_horizon_is_answered_with_a_training_that_works(trained, tmp_path, capsys):
    for command in ("predict", "evaluate"):
        text = refusal(capsys, command, f"ckpt_path={trained}", "pred_len=7", f"hydra.run.dir={tmp_path}/r")
        assert text.startswith(f"pred_len=7: {trained} was trained to forecast pred_len = 5 steps.")
    advised = shlex.split(text.split("train a model of its own: forecast ")[1])
    call(*advised, *QUICK, f"hydra.run.dir={tmp_path}/seven")
    assert load_checkpoint(tmp_path / "seven/checkpoints/best.ckpt").config.pred_len == 7


def test_values_of_another_size_are_warned_of_in_a_forecast_and_an_evaluation(trained, tmp_path, lines, capsys):
    table = write_csv(tmp_path / "large.csv", rows=60, start="2022-01-01")
    table.assign(load=1000 * table["load"]).to_csv(tmp_path / "large.csv", sep=";", decimal=",", index=False)
    common = [f"ckpt_path={trained}", f"data.path={tmp_path}/large.csv"]
    call("predict", *common, f"output={tmp_path}/f.csv")
    said = capsys.readouterr().err
    assert re.search(r"large\.csv, the last 22 rows: column 'load' has the median \d\.\d+e\+0[67], in the train", said)
    assert "'wind'" not in said
    call("evaluate", *common, "split=all", f"hydra.run.dir={tmp_path}/e")
    assert "large.csv, the rows of all: column 'load' has the median" in capsys.readouterr().err


SHOPS = "a", "=b", "c"
PANEL = [*LENGTHS, "data=csv", "data.id_column=shop", "data.target=load", "data/split=shares", "data.season=7"]


def panel(rows, *, of=SHOPS):
    """So many rows of each shop, which do not begin at the same time."""
    parts = []
    for number, name in enumerate(of):
        values = np.random.default_rng(number).normal(size=ROWS + 40).round(3)
        dates = pd.date_range("2021-03-01", periods=ROWS + 40, freq="h") + pd.Timedelta(days=number)
        parts.append(pd.DataFrame({"shop": name, "date": dates, "load": values})[: rows[number]])
    return pd.concat(parts)


@pytest.fixture
def of_panel(tmp_path):
    panel([ROWS, ROWS - 30, ROWS - 60]).to_csv(tmp_path / "own.csv", index=False)
    return write_untrained(tmp_path / "best.ckpt", *PANEL, f"data.path={tmp_path}/own.csv")


def test_the_new_rows_of_each_series_of_a_panel_are_evaluated(of_panel, tmp_path, capsys):
    """Some have many, one too few for a window, one none; of a new one all rows are."""
    table = panel([ROWS + 11, ROWS - 30 + 3, ROWS - 60, 60], of=(*SHOPS, "new"))
    table.to_csv(tmp_path / "own.csv", index=False)
    metrics = evaluated(tmp_path, of_panel)
    seq_len = load_checkpoint(of_panel).config.seq_len
    assert metrics["new"]["windows"] == 11 - P + 1 + 60 - seq_len - P + 1
    assert metrics["evaluated_from"] == str(table["date"][table["shop"] == "new"].iloc[seq_len])
    assert f"split=new: the {11 + 3 + 60} rows from" in capsys.readouterr().err


def test_no_padded_window_of_a_new_series_forecasts_the_rows_that_it_is_scaled_by(tmp_path):
    path, rows = tmp_path / "own.csv", [ROWS, ROWS - 30, ROWS - 60]
    panel(rows).to_csv(path, index=False)
    padded = write_untrained(tmp_path / "best.ckpt", *PANEL, "data.short=pad", f"data.path={path}")
    seq_len = load_checkpoint(padded).config.seq_len
    panel([*rows, 60, seq_len - 1], of=(*SHOPS, "new", "brief")).to_csv(path, index=False)
    assert evaluated(tmp_path, padded)["new"]["windows"] == 60 - seq_len - P + 1


def test_their_error_is_that_of_the_forecasts_after_each_row_of_a_panel(of_panel, tmp_path):
    whole, squared = panel([ROWS + 11, ROWS - 30, ROWS - 60]), []
    whole.to_csv(tmp_path / "own.csv", index=False)
    forecaster, truth = Forecaster.load(of_panel), whole["load"][whole["shop"] == "a"].to_numpy()
    for k in range(11 - P + 1):
        panel([ROWS + k, ROWS - 30, ROWS - 60]).to_csv(tmp_path / "part.csv", index=False)
        table = forecaster.predict(tmp_path / "part.csv")
        squared.append((table["load"][table["shop"] == "a"] - truth[ROWS + k : ROWS + k + P]) ** 2)
    mse = evaluated(tmp_path, of_panel)["new"]["columns"]["load"]["original"]["mse"]
    assert mse == pytest.approx(np.mean(squared), rel=1e-4)


def test_a_panel_with_another_past_is_refused_by_the_name_of_a_series(of_panel, tmp_path, capsys):
    table = panel([ROWS + 11, ROWS - 30 + 3, ROWS - 60])
    table.iloc[ROWS + 11 + 5, 2] += 1
    table.to_csv(tmp_path / "own.csv", index=False)
    text = refusal(capsys, "evaluate", f"ckpt_path={of_panel}", "split=new", f"hydra.run.dir={tmp_path}/r")
    assert re.search("own.csv, series '=b' lacks rows .* holds other values than those trained on", text)
    panel([ROWS, ROWS - 30, ROWS - 60]).to_csv(tmp_path / "own.csv", index=False)
    text = refusal(capsys, "evaluate", f"ckpt_path={of_panel}", "split=new", f"hydra.run.dir={tmp_path}/r")
    assert "own.csv, series 'a' has 0 rows after" in text and "Evaluate when 5 more are there" in text
