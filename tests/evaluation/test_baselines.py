"""The baselines against plain loops and against measured rows."""

import csv
import functools
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from data.splits import split_rows
from evaluation import small_panels
from scales import given_scales

from forecast.data.prepare import prepare
from forecast.data.read import source_rows
from forecast.data.seasonality import rank_seasons
from forecast.data.sources import CatalogSource
from forecast.data.split import RowSplit
from forecast.evaluation.baselines import (
    baseline_look_backs,
    fit_baselines,
    fit_nlinear,
    fitting_rows,
    linear_model,
    make_baselines,
    window_shape,
)
from forecast.evaluation.evaluate import Protocol, evaluate
from forecast.evaluation.fitting import train_season
from forecast.models.naive import LastValue
from forecast.models.smoothing import QuickSmoothing

L, P = 11, 7
SPLIT = RowSplit(train=8640, val=2880, test=2880)
NOTHING = torch.empty(1, L, 0), torch.empty(1, P, 0)


def prepared(values, *, train, targets):
    """Values (N, C) that the scaler leaves as they are: train rows, P of val, and the rest."""
    stamps = pd.date_range("2020-01-01", periods=len(values), freq="h")
    frame = series_frame(values, stamps, tuple("abcde"[: values.shape[1]]), "h", "test")
    splits = {"train": range(train), "val": range(train, train + P), "test": range(train + P, len(values))}
    scaler = given_scales(np.zeros(values.shape[1]), np.ones(values.shape[1]))
    return prepare(frame, splits=splits, targets=targets, seq_len=L, pred_len=P, encoding="timeF", scaler=scaler)


def test_closed_form_nlinear_is_the_ridge_solution_over_all_train_windows_and_targets():
    values = np.random.default_rng(0).normal(size=(83, 3))
    data = prepared(values, train=61, targets=(2, 0))
    x, y = [], []
    for start in range(61 - L - P + 1):
        for c in (2, 0):
            window = values[start : start + L + P, c].astype(np.float32).astype(float)
            x.append(window[:L] - window[L - 1])
            y.append(window[L:] - window[L - 1])
    x_mean, y_mean = np.mean(x, 0), np.mean(y, 0)
    x, y = np.array(x) - x_mean, np.array(y) - y_mean
    # ridge regression is least squares with extra rows
    stacked = np.concatenate([x, np.sqrt(1e-3 * np.trace(x.T @ x) / L) * np.eye(L)])
    expected = np.linalg.lstsq(stacked, np.concatenate([y, np.zeros((L, P))]), rcond=None)[0].T
    weight = fit_nlinear(data)
    np.testing.assert_allclose(weight[:, :-1].numpy(), expected[:, :-1], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(weight[:, -1].numpy(), y_mean - expected @ x_mean, rtol=1e-7, atol=1e-9)
    past = torch.from_numpy(values[None, :L])
    out = linear_model(window_shape(data), weight)(past, *NOTHING)
    last = values[L - 1, 2]
    by_hand = expected @ (values[:L, 2] - last - x_mean) + y_mean + last
    np.testing.assert_allclose(out[0, :, 0].numpy(), by_hand, rtol=1e-5)


def test_a_fitted_line_is_continued_in_float64_on_float32_windows():
    line = np.arange(83.0)[:, None] + 1000
    data = prepared(line, train=61, targets=(0,))
    model = linear_model(window_shape(data), fit_nlinear(data))
    past = torch.from_numpy(line[None, -L - P : -P])
    out = model(past, *NOTHING)
    torch.testing.assert_close(out[0, :, 0], torch.from_numpy(line[-P:, 0]), rtol=1e-5, atol=0)
    assert torch.equal(model(past.float(), *NOTHING), out.float())


def test_a_baseline_looks_back_further_than_seq_len_at_the_same_windows():
    values = np.random.default_rng(0).normal(size=(199, 2))
    data = prepared(values, train=131, targets=(0, 1))
    weight = torch.zeros(P, 43, dtype=torch.float64)
    weight[:, 0] = 1.0  # the value 43 rows before the forecast, less the last one, plus that
    forecaster = linear_model(window_shape(data), weight)
    options = {"protocol": Protocol(), "batch_size": 16, "device": torch.device("cpu"), "fitted": {}}
    evaluation = evaluate(forecaster, data, split="test", **options)
    origins = evaluation.origins
    assert len(evaluation.windows.start) == 199 - 138 - P + 1 == evaluation.errors.n_windows
    assert np.allclose(evaluation.forecasts["model"], values[origins - 43][:, None], atol=1e-6)
    early = evaluate(forecaster, data, split="train", **options)
    assert early.windows.start[0] == 0
    assert np.allclose(early.forecasts["model"][0], values[0], atol=1e-6)  # before the series its first row stands


def test_the_smoothing_is_the_same_when_it_is_made_again_and_reads_rows_of_its_own():
    values = np.sin(np.arange(199) / 3)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(199, 2))
    data = replace(prepared(values, train=131, targets=(1, 0)), season=19)
    fitted = QuickSmoothing(window=window_shape(data))
    fitted.fit(fitting_rows(data))
    fits = fit_baselines(data)
    past = torch.from_numpy(values[None, : fitted.look_back]).float(), torch.empty(1, fitted.look_back, 0), NOTHING[1]
    assert torch.equal(make_baselines(data, fitted=fits)["smoothing"](*past), fitted(*past))
    assert baseline_look_backs(fits)["smoothing"] == fitted.look_back > L


def test_where_it_would_forecast_too_many_windows_there_is_no_smoothing():
    values = np.random.default_rng(0).normal(size=(9000, 3))
    assert "smoothing" in fit_baselines(prepared(values[:8000], train=131, targets=(0, 1, 2)))
    assert "smoothing" not in fit_baselines(prepared(values, train=131, targets=(0, 1, 2)))


def test_a_season_longer_than_the_window_is_repeated_from_the_rows_before_it():
    values = np.tile(np.random.default_rng(0).normal(size=(29, 1)), (9, 1))
    data = replace(prepared(values, train=131, targets=(0,)), season=29)
    model = make_baselines(data)["seasonal_naive"]
    options = {"protocol": Protocol(), "batch_size": 16, "device": torch.device("cpu"), "fitted": {}}
    assert model.look_back == 29 > L
    assert evaluate(model, data, split="test", **options).errors.steps()[0].max() < 1e-12


@pytest.mark.parametrize(
    ("zeros", "least", "there"), [(0.6, 1, True), (0.4, 1, False), (0.6, -1, False), (1.0, 1, False)]
)
def test_where_most_values_are_0_the_mean_of_the_last_season_is_a_baseline(zeros, least, there):
    rng = np.random.default_rng(0)
    values = np.where(rng.random((199, 1)) < zeros, 0, rng.integers(least, 7, size=(199, 1))).astype(float)
    assert ("season_mean" in make_baselines(prepared(values, train=131, targets=(0,)))) == there


@pytest.mark.parametrize("scaling", ["series", "season", "global", "none"])
def test_the_train_mean_is_that_of_the_measured_cells_before_val(scaling):
    values = np.random.default_rng(0).normal(50, 7, size=(199, 2))
    measured = np.random.default_rng(1).random(values.shape) < 0.8
    filled = np.where(measured, values, 1e3)
    splits = {"train": range(131), "val": range(131, 160), "test": range(160, 199)}
    means = []
    for later in (0.0, 10.0):
        filled[131:] += later
        stamps = pd.date_range("2020-01-01", periods=len(values), freq="h")
        frame = series_frame(filled.copy(), stamps, ("a", "b"), "h", "test", missing=~measured)
        sizes = {"targets": (1, 0), "seq_len": L, "pred_len": P, "encoding": "timeF"}
        data = prepare(frame, splits=splits, scaling=scaling, season=24, **sizes)
        model = make_baselines(data, fitted=fit_baselines(data, ridge=False))["train_mean"]
        means.append(data.original(model(torch.zeros(1, L, 2), *NOTHING).numpy(), np.array([0]))[0])
    expected = [values[:131, c][measured[:131, c]].mean() for c in (1, 0)]
    np.testing.assert_allclose(means[0], np.tile(expected, (P, 1)), rtol=1e-6)
    assert np.array_equal(means[0], means[1])


def test_the_train_mean_of_a_panel_is_that_of_each_series():
    data = small_panels.prepared(small_panels.panel((200, 61, 89), gaps=0.1))
    model = make_baselines(data, fitted=fit_baselines(data, ridge=False))["train_mean"]
    means = data.original(model.extend(torch.zeros(3, 1, 2)).numpy(), np.arange(3))
    for s, (first, stop) in enumerate(zip(data.splits["train"].first, data.splits["train"].stop, strict=True)):
        for t, column in enumerate(data.targets):
            cells = data.frame.values[first:stop, column][data.frame.measured[first:stop, column]]
            np.testing.assert_allclose(means[s, :, t], cells.mean(), rtol=1e-6)


def test_the_season_is_that_of_the_train_rows():
    steps = np.arange(1999)
    weekly = np.where(steps % 168 < 120, 1.0, 0.0)[:, None] + 0.1 * np.sin(2 * np.pi * steps / 24)[:, None]
    data = prepared(weekly, train=1409, targets=(0,))
    assert season_of(data) == 168
    after = weekly.copy()
    after[1409:, 0] = np.random.default_rng(0).normal(size=590).cumsum()  # which the day before tells more of
    assert rank_seasons(after, data.frame.freq, pred_len=data.pred_len)[0].period == 24
    assert season_of(prepared(after, train=1409, targets=(0,))) == 168


def season_of(data):
    return train_season(data.frame, data.splits["train"], data.targets, pred_len=data.pred_len)


def published():
    file = Path(__file__).parents[3] / "shared/reference/published_results.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8") as lines:
        return [row for row in csv.DictReader(lines) if row["source"] == "measured-all-windows"]


PRED_LENS = (24, 48, 96, 168, 192, 336, 720)
# Of the second file each end; between them are other windows of the same rows.
BETWEEN = [("ETTh2", pred_len) for pred_len in (168, 192, 336)]


@pytest.mark.parametrize("features", ["M", "S"])
@pytest.mark.parametrize(
    ("name", "pred_len"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case in BETWEEN))
        for case in product(("ETTh1", "ETTh2"), PRED_LENS)
    ],
)
def test_baselines_reproduce_the_measured_rows(ett_root, name, features, pred_len):
    rows = [r for r in published() if (r["dataset"], r["features"], r["pred_len"]) == (name, features, str(pred_len))]
    if not rows:
        pytest.skip("no published_results.csv, or no row of these settings in it")
    errors = baseline_errors(ett_root, name, features, pred_len, nlinear=True)
    compared = 0
    for row in rows:
        baseline = {"seasonal_naive_24": "seasonal_naive"}.get(row["model"], row["model"])
        if baseline in errors:
            expected = {key: float(row[key]) for key in ("mse", "mae")}
            assert errors[baseline] == pytest.approx(expected, abs=0.001), row
            compared += 1
    assert compared


@functools.cache
def read(root, name, features):
    source = CatalogSource(name=name, root=str(root), features=features, target="OT", split=SPLIT)
    frame = source_rows(source)
    return frame, source.target_columns(frame)


def baseline_errors(root, name, features, pred_len, *, protocol=None, nlinear=False):
    """The naive baselines' and, if wanted, the linear map's; the ridge, which takes longer than all, is in no row."""
    split, lengths = SPLIT, {"seq_len": 336, "pred_len": pred_len}
    frame, targets = read(root, name, features)
    data = prepare(frame, splits=split_rows(frame, split, **lengths), targets=targets, encoding="timeF", **lengths)
    options = {"split": "test", "protocol": protocol or Protocol(), "batch_size": 256, "device": torch.device("cpu")}
    fitted = {"nlinear_weight": fit_nlinear(data)} if nlinear else {}
    evaluation = evaluate(LastValue(window=window_shape(data)), data, fitted=fitted, **options)
    overall = {key: sums.overall()["scaled"] for key, sums in evaluation.baselines.items()}
    return {key: {metric: scaled[metric] for metric in ("mse", "mae")} for key, scaled in overall.items()}


@pytest.mark.parametrize(
    "pred_len, mse, mae",
    [
        (96, 1.295, 0.713),
        pytest.param(192, 1.325, 0.733, marks=pytest.mark.slow),
        pytest.param(336, 1.323, 0.744, marks=pytest.mark.slow),
        (720, 1.339, 0.756),
    ],
)
def test_dropping_the_last_batch_of_32_gives_the_published_repeat_row(ett_root, pred_len, mse, mae):
    """Zeng et al. 2023 evaluated in batches of 32 and left the last one out, as the Informer's code does."""
    errors = baseline_errors(ett_root, "ETTh1", "M", pred_len, protocol=Protocol(drop_last_of=32))
    assert errors["last_value"] == pytest.approx({"mse": mse, "mae": mae}, abs=0.0006)
