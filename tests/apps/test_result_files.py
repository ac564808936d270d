"""What an evaluation writes, without one: the table by step, and what is drawn and computed for it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from data.csv_files import series_frame

from forecast.apps.common.results import draw_windows, naive_of, steps_csv
from forecast.data.prepare import prepare
from forecast.data.saved_scale import SavedScale
from forecast.data.split import TargetRows
from forecast.evaluation.metrics import naive_errors
from forecast.report import figures

W, L, P = 2, 5, 3
SPLITS = {"train": range(61), "val": range(61, 71), "test": range(71, 83)}


def test_the_steps_are_counted_from_one():
    text = steps_csv({"mse_scaled": [0.5, 0.12345678], "a,b": [1.0, float("nan")]})
    assert text == 'step,mse_scaled,"a,b"\n1,0.500000,1.000000\n2,0.123457,nan\n'


def prepared(values):
    stamps = pd.date_range("2020-01-01", periods=len(values), freq="h")
    frame = series_frame(values, stamps, ("a", "b", "c"), "h", "x")
    return prepare(frame, splits=SPLITS, targets=(2, 0), seq_len=L, pred_len=P, encoding="timeF")


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(83, 3)) * [1.0, 7.0, 11.0] + 3.0


def test_mase_of_another_file_is_scaled_by_the_train_rows_that_the_checkpoint_knows(values):
    data = prepared(values)
    scale = SavedScale.of(data.scaler, data.frame.ids, naive_errors(data, "test"))
    checkpoint, whole = SimpleNamespace(scale=scale), prepared(3 * values[::-1].copy())
    other = replace(whole, splits={"all": TargetRows.of(range(83))})
    known = naive_of(checkpoint, other, "all", "train")
    assert np.array_equal(known.absolute, scale.naive.absolute) and known.period == 24
    own = naive_errors(other, "all", "split")  # its own rows before the first forecast, which are fewer than a day
    assert np.array_equal(naive_of(checkpoint, other, "all", "split").absolute, own.absolute)
    trained = naive_errors(whole, "test")
    assert np.array_equal(naive_of(checkpoint, whole, "test", "train").absolute, trained.absolute)


@pytest.mark.parametrize(("best", "name"), [("ridge", "ridge"), ("closed_form_nlinear", "closed-form NLinear")])
def test_the_picture_has_the_best_baseline_and_the_target_above(monkeypatch, tmp_path, best, name):
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.append(figure))
    mse = {"last_value": 0.9, "ridge": 0.5, "closed_form_nlinear": 0.5, "best_reachable": 0.1} | {best: 0.4}
    forecasts = {key: np.full((W, P, 2), level) for key, level in mse.items() if key != "best_reachable"}
    windows = {
        "past": np.zeros((W, L, 2)),
        "truth": np.zeros((W, P, 2)),
        "forecast": np.zeros((W, P, 2)),
        **forecasts,
        "timestamps": np.tile(pd.date_range("2020-01-01", periods=L + P, freq="h").to_numpy(), (W, 1)),
        "columns": np.array(["a", "b"]),
    }
    baselines = {key: {"scaled": {"mse": level}} for key, level in mse.items()}
    metrics = {"model": "informer", "data": "my.csv", "target": "b", "seq_len": L, "baselines": baselines}
    draw_windows(tmp_path / "x.png", windows, metrics)
    (figure,) = drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["past", "truth", name, "forecast"]
    assert figure.axes[0].get_ylabel().startswith("b") and figure.get_suptitle().startswith("informer on my.csv")
    (line,) = [line for line in figure.axes[0].lines if line.get_label() == "baseline"]
    assert set(line.get_ydata()) == {0.4}
