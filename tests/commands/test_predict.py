"""predict.py: the steps after the end of a file, in original units."""

import numpy as np
import pandas as pd
import pytest
import torch
from checkpoints import LENGTHS, write_untrained
from commands.files import LAYOUT, OWN, write_csv
from program import call, refusal

from forecast.checkpoint.load import load_checkpoint
from forecast.data.time_features import time_features


def predicted(folder, best, *changes):
    call("predict", f"ckpt_path={best}", f"output={folder}/forecast.csv", *changes, f"hydra.run.dir={folder}/run")
    return pd.read_csv(folder / "forecast.csv")


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
    mean, std = (np.array(checkpoint.data["scaler"][key]) for key in ("mean", "std"))
    past = (history[["load", "wind"]].to_numpy()[-19:] - mean) / std
    times = pd.date_range(history["when"].iloc[-19], periods=24, freq="15min")
    known = time_features(times, "15min")
    inputs = [torch.tensor(part, dtype=torch.float32)[None] for part in (past, known[:19], known[19:])]
    with torch.inference_mode():
        expected = checkpoint.model()(*inputs)[0].double().numpy() * std + mean
    np.testing.assert_allclose(forecast[["load", "wind"]].to_numpy(), expected, rtol=1e-6)


def test_seq_len_rows_are_enough_and_earlier_rows_change_nothing(tmp_path, best):
    write_csv(tmp_path / "long.csv", rows=101, seed=3)
    lines = (tmp_path / "long.csv").read_text().splitlines()
    (tmp_path / "short.csv").write_text("\n".join([lines[0], *lines[-19:]]) + "\n")
    pd.testing.assert_frame_equal(
        predicted(tmp_path, best, f"data.path={tmp_path}/long.csv"),
        predicted(tmp_path, best, f"data.path={tmp_path}/short.csv"),
    )


def test_fewer_rows_than_seq_len_are_refused(tmp_path, best, capsys):
    write_csv(tmp_path / "short.csv", rows=18)
    text = refusal(
        capsys,
        "predict",
        f"ckpt_path={best}",
        f"data.path={tmp_path}/short.csv",
        f"output={tmp_path}/f.csv",
        f"hydra.run.dir={tmp_path}/r",
    )
    assert "has 18 rows; the model reads the last seq_len = 19" in text
    assert not (tmp_path / "f.csv").exists()


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
    predicted(tmp_path, best)
    assert "on its test windows: The model" in capsys.readouterr().out


@pytest.mark.parametrize(
    "output, words",
    [
        ("none/forecast.csv", "there is no folder"),
        ("forecast.png", "must end in .csv"),
        ("forecast", "must end in .csv"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, best, capsys, output, words):
    text = refusal(capsys, "predict", f"ckpt_path={best}", f"output={tmp_path}/{output}", f"hydra.run.dir={tmp_path}/r")
    assert words in text


def test_the_history_is_not_overwritten(tmp_path, best, capsys):
    write_csv(tmp_path / "history.csv", rows=101)
    before = (tmp_path / "history.csv").read_text()
    same = [f"data.path={tmp_path}/history.csv", f"output={tmp_path}/history.csv"]
    text = refusal(capsys, "predict", f"ckpt_path={best}", *same, f"hydra.run.dir={tmp_path}/r")
    assert "is the history itself" in text
    assert (tmp_path / "history.csv").read_text() == before


@pytest.mark.parametrize("freq", ["MS", "100ms", "YS-JAN", "W-WED", "B", "7min", "D", "QE-DEC"])
def test_any_frequency_goes_all_the_way_from_a_csv_to_a_forecast(tmp_path, freq):
    """The first two by a training, the others by a checkpoint that holds what a training would say of the file."""
    write_csv(tmp_path / "own.csv", rows=170, start="1901-01-01", freq=freq)
    given = [*LAYOUT, f"data.path={tmp_path}/own.csv"]
    if freq in ("MS", "100ms"):
        call("train", *OWN, *given, "trainer.limit_train_batches=1", f"hydra.run.dir={tmp_path}/run")
        best = tmp_path / "run/checkpoints/best.ckpt"
    else:
        best = write_untrained(tmp_path / "best.ckpt", *given, *LENGTHS)
    forecast = predicted(tmp_path, best)
    expected = pd.date_range("1901-01-01", periods=175, freq=freq)[-5:]
    assert pd.DatetimeIndex(pd.to_datetime(forecast["when"])).tolist() == expected.tolist()


def test_the_files_columns_are_found_by_name(tmp_path, best):
    write_csv(tmp_path / "a.csv", rows=29)
    lines = [line.split(";") for line in (tmp_path / "a.csv").read_text().splitlines()]
    moved = [";".join([wind, "7", time, load]) for time, load, wind in lines]
    (tmp_path / "b.csv").write_text("\n".join(["wind;extra;when;load", *moved[1:]]))
    a, b = (predicted(tmp_path, best, f"data.path={tmp_path}/{name}.csv") for name in "ab")
    pd.testing.assert_frame_equal(a, b)


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path, best):
    write_csv(tmp_path / "a.csv", rows=29)
    lines = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "b.csv").write_bytes("\r\n".join(["\ufeff" + lines[0], *lines[1:], "", ""]).encode())
    a, b = (predicted(tmp_path, best, f"data.path={tmp_path}/{name}.csv") for name in "ab")
    pd.testing.assert_frame_equal(a, b)


OTHER_FILES = {
    "other columns": ({"columns": ("load", "winds")}, ["no column 'wind'", "load, winds", "Did you mean 'winds'?"]),
    "another frequency": ({"freq": "h"}, ["the frequency 'h'; the model was trained on '15min'", "Resample"]),
    "a frequency of two rows": ({"freq": "h", "rows": 2}, ["line 3", "'15min'", "expects 2021-03-01 00:15:00"]),
    "header only": ({"rows": 0}, ["a header and no rows"]),
}


@pytest.mark.parametrize("other", OTHER_FILES)
def test_a_file_unlike_the_one_trained_on_is_refused(tmp_path, best, capsys, other):
    options, words = OTHER_FILES[other]
    write_csv(tmp_path / "other.csv", **options)
    paths = [f"data.path={tmp_path}/other.csv", f"output={tmp_path}/f.csv", f"hydra.run.dir={tmp_path}/r"]
    text = refusal(capsys, "predict", f"ckpt_path={best}", *paths)
    assert all(word in text for word in [f"{tmp_path}/other.csv", *words]), text
    assert not (tmp_path / "f.csv").exists()


@pytest.mark.parametrize("features", ["M", "MS", "S"])
def test_one_column_goes_all_the_way_from_a_csv_to_a_forecast(tmp_path, features):
    write_csv(tmp_path / "own.csv", rows=170, columns=("load",))
    given = [*LAYOUT, f"data.path={tmp_path}/own.csv", "data.target=load", f"data.features={features}"]
    if features == "MS":
        call("train", *OWN, *given, "trainer.limit_train_batches=1", f"hydra.run.dir={tmp_path}/run")
        best = tmp_path / "run/checkpoints/best.ckpt"
    else:
        best = write_untrained(tmp_path / "best.ckpt", *given, *LENGTHS)
    forecast = predicted(tmp_path, best)
    assert forecast.columns.tolist() == ["when", "load"]
    assert forecast["load"].between(5_000, 15_000).all()
