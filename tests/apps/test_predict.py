"""predict.py: the steps after the end of a file, in original units."""

import errno
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from apps.files import LAYOUT, OWN, read_forecast, write_csv
from checkpoints import LENGTHS, write_untrained
from matplotlib.figure import Figure
from permissions import read_only
from program import call, refusal

from forecast.checkpoint.load import load_checkpoint
from forecast.data.values.calendar import time_features
from forecast.data.writing import ForecastTable
from forecast.report.verdict import verdict
from forecast.run_folder import read_run, run_of


def predicted(folder, best, *changes):
    call("predict", f"ckpt_path={best}", f"output={folder}/forecast.csv", *changes, f"hydra.run.dir={folder}/run")
    return read_forecast(folder / "forecast.csv")


def refused(capsys, folder, best, *changes, output="f.csv"):
    """What a refused forecast says; it writes none."""
    paths = [f"output={folder}/{output}", f"hydra.run.dir={folder}/r"]
    text = refusal(capsys, "predict", f"ckpt_path={best}", *changes, *paths)
    assert not (folder / "f.csv").exists()
    return text


NOT_FOR_A_FORECAST = ("sklearn", "scipy.stats", "scipy.optimize", "lightning", "tensorboard", "sympy", "jinja2")


def test_a_forecast_from_the_shell_imports_nothing_of_a_training(tmp_path, best):
    """It takes one and a half times as long as importing torch and pandas; each of these would add to that."""
    script = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=open('modules', 'w'))); "
    script += "from forecast.__main__ import main; sys.argv[:1] = ['forecast']; main()"
    words = [sys.executable, "-c", script, "predict", f"ckpt_path={best}", "hydra.run.dir=run"]
    subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)
    modules = (tmp_path / "modules").read_text().split()
    assert "torch" in modules and not {*NOT_FOR_A_FORECAST} & {*modules}
    assert not [name for name in modules if name.startswith(("forecast.apps.auto", "forecast.training."))]


def test_the_forecast_is_wide_has_the_next_timestamps_and_original_units(tmp_path, best):
    history = write_csv(tmp_path / "history.csv", rows=101, start="2022-05-05", seed=3)
    forecast = predicted(tmp_path, best, f"data.path={tmp_path}/history.csv")
    assert forecast.columns.tolist() == ["when", "load", "wind"]
    last = history["when"].iloc[-1]
    assert pd.to_datetime(forecast["when"]).tolist() == [last + (i + 1) * pd.Timedelta("15min") for i in range(5)]
    assert forecast["load"].between(5_000, 15_000).all()  # as the series does; scaled it would be around 0
    assert (tmp_path / "forecast.png").stat().st_size > 0


def test_the_forecast_is_the_models_own_unscaled_by_the_training_files_scaler(tmp_path, best):
    history = write_csv(tmp_path / "history.csv", rows=101, start="2022-05-05", seed=3)
    forecast = predicted(tmp_path, best, f"data.path={tmp_path}/history.csv")
    checkpoint = load_checkpoint(best)
    mean, std = checkpoint.scale.mean[0], checkpoint.scale.std[0]
    past = (history[["load", "wind"]].to_numpy()[-19:] - mean) / std
    times = pd.date_range(history["when"].iloc[-19], periods=24, freq="15min")
    known = time_features(times, "15min")
    inputs = [torch.tensor(part, dtype=torch.float32)[None] for part in (past, known[:19], known[19:])]
    with torch.inference_mode():
        expected = checkpoint.model()(*inputs)[0].double().numpy() * std + mean
    np.testing.assert_allclose(forecast[["load", "wind"]].to_numpy(), expected, rtol=1e-6)


def test_without_a_file_the_data_trained_on_are_continued(tmp_path, best, csv_run):
    own = csv_run.parent / "own.csv"
    pd.testing.assert_frame_equal(predicted(tmp_path, best), predicted(tmp_path, best, f"data.path={own}"))


def test_the_last_test_window_is_forecast_as_in_the_evaluation(tmp_path, best, csv_run):
    lines = (csv_run.parent / "own.csv").read_text().splitlines()
    (tmp_path / "history.csv").write_text("\n".join(lines[:-5]) + "\n")
    forecast = predicted(tmp_path, best, f"data.path={tmp_path}/history.csv")
    with np.load(csv_run / "forecasts.npz") as forecasts:
        np.testing.assert_allclose(forecast[["load", "wind"]].to_numpy(), forecasts["forecast"][-1], rtol=1e-5)
        assert pd.to_datetime(forecast["when"]).tolist() == pd.to_datetime(forecasts["timestamps"][-1][-5:]).tolist()


def test_it_says_whether_the_model_beats_a_naive_forecast(tmp_path, best, capsys):
    """A sentence a line, as the training said them, below one line that says of what they are."""
    predicted(tmp_path, best)
    lines = capsys.readouterr().out.splitlines()
    heading = lines.index("best.ckpt of this run on its test windows:")
    assert lines[heading + 1].startswith("Forecasts of ") and lines[heading + 1 :] == verdict(
        read_run(run_of(best)).metrics, "test"
    )


@pytest.mark.parametrize(
    "output, message",
    [
        ("none/forecast.csv", "there is no folder"),
        ("forecast.png", "must end in .csv"),
        ("forecast", "must end in .csv"),
    ],
    ids=lambda value: value[:20],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, best, capsys, output, message):
    assert message in refused(capsys, tmp_path, best, output=output)


def test_the_history_is_not_overwritten(tmp_path, best, capsys):
    write_csv(tmp_path / "history.csv", rows=101)
    before = (tmp_path / "history.csv").read_text()
    text = refused(capsys, tmp_path, best, f"data.path={tmp_path}/history.csv", output="history.csv")
    assert "data.path is read from there" in text
    assert (tmp_path / "history.csv").read_text() == before


STRANGERS = {
    "f.csv of other columns": {"f.csv": "a,b\n1,2\n"},
    "f.csv of the same columns, longer": {"f.csv": "when,load,wind\n" + "2021-03-01,1,2\n" * 6},
    "f.csv of another kind": {"f.csv": "\udcff\0"},
    "f.png alone": {"f.png": "a picture"},
    "f.png beside a table": {"f.csv": "a\n", "f.png": "a picture"},
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_file_is_overwritten_only_on_request(tmp_path, best, capsys, name):
    for file, text in STRANGERS[name].items():
        (tmp_path / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    content = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = ["predict", f"ckpt_path={best}", f"output={tmp_path}/f.csv"]
    text = refusal(capsys, *arguments)
    first = tmp_path / next(iter(STRANGERS[name]))
    assert f"{first} is there and is not a whole forecast. Nothing is overwritten: choose another name, or" in text
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == content
    assert text.endswith("say overwrite=true\n")
    if len(content) == 2:
        call(*arguments, "overwrite=true")
        assert len(pd.read_csv(tmp_path / "f.csv")) == 5 and (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_a_forecast_of_yesterday_is_replaced_and_an_empty_file_written_to(tmp_path, best):
    (tmp_path / "forecast.csv").touch()
    first = predicted(tmp_path, best)
    write_csv(tmp_path / "history.csv", rows=101, start="2022-05-05", seed=3)
    assert not predicted(tmp_path, best, f"data.path={tmp_path}/history.csv").equals(first)


def test_nothing_but_the_output_is_written_and_the_current_folder_may_be_read_only(tmp_path, best, monkeypatch, capfd):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with read_only(here):
        call("predict", f"ckpt_path={best}", f"output={tmp_path}/f.csv")
    assert not list(here.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"here", "f.csv", "f.csv.json", "f.png"}
    assert "Traceback" not in capfd.readouterr().err


def full_disk_at(monkeypatch, suffix):
    """A file of that suffix finds no room on the disk."""

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    name, owner = {".csv": ("text", ForecastTable), ".png": ("savefig", Figure)}[suffix]
    monkeypatch.setattr(owner, name, refuse)


@pytest.mark.parametrize("suffix", [".csv", ".png"])
def test_on_a_full_disk_the_file_that_had_no_room_is_named_and_yesterdays_forecast_stays(
    tmp_path, best, capsys, monkeypatch, suffix
):
    predicted(tmp_path, best)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("forecast.*")}
    full_disk_at(monkeypatch, suffix)
    text = refusal(capsys, "predict", f"ckpt_path={best}", f"output={tmp_path}/forecast.csv")
    assert f"{tmp_path}/forecast{suffix}: No space left on device. Make room, or choose" in text
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*forecast*")} == before


def made_checkpoint(folder, *options, trained):
    """A checkpoint for own.csv in the folder: of a short training, or with first weights, which takes a moment."""
    data = [*LAYOUT, f"data.path={folder}/own.csv", *options]
    if not trained:
        return write_untrained(folder / "best.ckpt", *data, *LENGTHS)
    call("train", *OWN, *data, "trainer.limit_train_batches=1", f"hydra.run.dir={folder}/run")
    return folder / "run/checkpoints/best.ckpt"


@pytest.mark.parametrize("freq", ["MS", "100ms", "B"])
def test_any_frequency_goes_all_the_way_from_a_csv_to_a_forecast(tmp_path, freq):
    write_csv(tmp_path / "own.csv", rows=170, start="1901-01-01", freq=freq)
    forecast = predicted(tmp_path, made_checkpoint(tmp_path, trained=freq == "100ms"))
    expected = pd.date_range("1901-01-01", periods=175, freq=freq)[-5:]
    assert pd.DatetimeIndex(pd.to_datetime(forecast["when"])).tolist() == expected.tolist()


def moved_columns(lines):
    cells = [line.split(";") for line in lines[1:]]
    return "\n".join(["wind;extra;when;load", *(";".join([wind, "7", time, load]) for time, load, wind in cells)])


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(moved_columns, id="columns moved, one more"),
        pytest.param(lambda lines: "\r\n".join(["\ufeff" + lines[0], *lines[1:], "", ""]), id="byte order mark"),
        pytest.param(lambda lines: "\n".join([lines[0], *lines[-19:]]) + "\n", id="the last seq_len rows"),
    ],
)
def test_how_the_same_history_is_written_changes_nothing(tmp_path, best, written):
    write_csv(tmp_path / "a.csv", rows=29, seed=3)
    (tmp_path / "b.csv").write_bytes(written((tmp_path / "a.csv").read_text().splitlines()).encode())
    a, b = (predicted(tmp_path, best, f"data.path={tmp_path}/{name}.csv") for name in "ab")
    pd.testing.assert_frame_equal(a, b)


OTHER_FILES = {
    "other columns": (
        {"columns": ("load", "winds")},
        ["no column 'wind'", "load, winds", "Did you mean 'winds'?"],
    ),
    "another frequency": ({"freq": "h"}, ["the frequency 'h'; the model was trained on '15min'", "Resample"]),
    "a frequency of two rows": ({"freq": "h", "rows": 2}, ["no value in 3 of 5 rows at the frequency '15min'"]),
    "header only": ({"rows": 0}, ["a header and no rows"]),
    "fewer rows than seq_len": ({"rows": 18}, ["has 18 rows; the model reads the last 19"]),
}


@pytest.mark.parametrize("other", OTHER_FILES)
def test_a_file_unlike_the_one_trained_on_is_refused(tmp_path, best, capsys, other):
    options, words = OTHER_FILES[other]
    write_csv(tmp_path / "other.csv", **options)
    text = refused(capsys, tmp_path, best, f"data.path={tmp_path}/other.csv")
    assert all(word in text for word in [f"{tmp_path}/other.csv", *words]), text


@pytest.mark.parametrize("features", ["MS", "S"])
def test_one_column_goes_all_the_way_from_a_csv_to_a_forecast(tmp_path, features):
    write_csv(tmp_path / "own.csv", rows=170, columns=("load",))
    options = ("data.target=load", f"data.features={features}")
    forecast = predicted(tmp_path, made_checkpoint(tmp_path, *options, trained=features == "MS"))
    assert forecast.columns.tolist() == ["when", "load"]
    assert forecast["load"].between(5_000, 15_000).all()
