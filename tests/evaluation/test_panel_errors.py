"""Errors on a panel: against a loop over cells and an independent library, whatever is missing, for any batches."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from evaluation.small_panels import LENGTHS, P, panel, prepared
from hypothesis import given, settings
from hypothesis import strategies as st
from utilsforecast import losses

from forecast.data.scaling import seasonal_differences
from forecast.data.split import LastSplit, TargetRows
from forecast.evaluation.metrics import UNIT_FREE, ErrorSums, naive_errors

SEASON = 7


def errors_of(data, forecast, *, batch_size=32, split="test"):
    """forecast: of all windows of the split (W, P, T), scaled."""
    sums = ErrorSums(data.pred_len, *data.target_scale)
    windows = data.windows(split)
    for numbers in torch.arange(len(windows)).split(batch_size):
        batch = windows.__getitems__(numbers)
        sums.update(forecast[numbers], batch.target, batch.measured, batch.series)
    return sums


def naive_of(data):
    return naive_errors(replace(data, season=SEASON), "test", "split")


def drawn(data, split="test", seed=3):
    shape = len(data.windows(split)), data.pred_len, len(data.targets)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def cell_by_cell(data, forecast, split="test"):
    """Every measured cell of every window: (series, target, step, error scaled, truth, forecast in original units)."""
    frame, rows = data.frame, data.splits[split]
    window = 0
    for s in range(len(frame)):
        begin, mean, std = frame.offsets[s], data.scaler.mean[s], data.scaler.std[s]
        for origin in range(begin, frame.offsets[s + 1]):
            if origin < rows.first[s] or origin + P > rows.stop[s] or origin - begin < data.context:
                continue
            for step in range(P):
                for place, column in enumerate(data.targets):
                    if frame.measured is None or frame.measured[origin + step, column]:
                        truth = float(frame.values[origin + step, column])
                        told = float(forecast[window, step, place]) * std[column] + mean[column]
                        yield s, place, step, (told - truth) / std[column], truth, told
            window += 1


def scale_cell_by_cell(data, split="test"):
    frame = data.frame
    scale = np.zeros((2, len(frame), len(data.targets)))
    first = data.origins(split).first
    for s in range(len(frame)):
        for place, column in enumerate(data.targets):
            steps = []
            for row in range(frame.offsets[s] + SEASON, min(first[s], frame.offsets[s + 1])):
                pair = [row, row - SEASON]
                if frame.measured is None or frame.measured[pair, column].all():
                    now, before = frame.values[pair, column].astype(np.float64)
                    steps.append(abs(now - before))
            scale[:, s, place] = (np.mean(steps), np.mean(np.square(steps))) if steps else (0, 0)
    return scale


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=7),
    gaps=st.sampled_from([0.0, 0.2, 0.7]),
    batch_size=st.sampled_from([1, 7, 64]),
    pad=st.booleans(),
)
def test_all_figures_are_those_of_a_loop_over_measured_cells(lengths, gaps, batch_size, pad):
    data = prepared(panel((*lengths, 43), gaps=gaps), pad=pad)
    forecast = drawn(data)
    sums, naive = errors_of(data, forecast, batch_size=batch_size), naive_of(data)
    absolute, squared = scale_cell_by_cell(data)
    std = data.target_scale[1]
    rounding = 2 * np.finfo(np.float64).eps * np.abs(data.frame.values).max()  # of values, whose differences are less
    np.testing.assert_allclose(naive.absolute * std, absolute, rtol=1e-12, atol=rounding)
    np.testing.assert_allclose(naive.squared * std**2, squared, rtol=1e-12, atol=rounding**2)
    cells = pd.DataFrame(cell_by_cell(data, forecast), columns=["s", "t", "step", "error", "truth", "told"])
    if cells.empty:
        return
    for (s, t), part in cells.groupby(["s", "t"]):
        scaled, own = part.error.to_numpy(), (part.told - part.truth).to_numpy()
        table = {name: values[s, t] for name, values in sums.series(naive).items()}
        expected = {
            "mse": np.square(scaled).mean(),
            "mae": np.abs(scaled).mean(),
            "mase": np.abs(own).mean() / absolute[s, t] if absolute[s, t] else math.nan,
            "rmsse": math.sqrt(np.square(own).mean() / squared[s, t]) if squared[s, t] else math.nan,
            "smape": (200 * np.abs(own) / (part.truth.abs() + part.told.abs())).mean(),
            "wape": np.abs(own).sum() / part.truth.abs().sum(),
        }
        assert table == pytest.approx(expected, rel=1e-4, nan_ok=True)  # targets are float32
    for t, (block, part) in enumerate(zip(sums.columns(["y", "x"], naive).values(), by_target(cells), strict=True)):
        if part.empty:
            continue
        own = part.told - part.truth
        assert block["scaled"]["mse"] == pytest.approx(part.error.pow(2).mean(), rel=1e-4)
        assert block["original"]["mae"] == pytest.approx(own.abs().mean(), rel=1e-4)
        assert block["original"]["bias"] == pytest.approx(own.mean(), rel=1e-3, abs=1e-4)
        assert block["wape"] == pytest.approx(own.abs().sum() / part.truth.abs().sum(), rel=1e-4)
        assert block["series_without_mase"] == sum(absolute[s, t] == 0 for s in part.s.unique())
    mse, mae = sums.steps()
    means = cells.groupby(["step", "t"]).error.agg([lambda x: x.pow(2).mean(), lambda x: x.abs().mean()])
    for step, part in means.groupby(level=0):
        assert [mse[step], mae[step]] == pytest.approx(part.mean().tolist(), rel=1e-4)


def by_target(cells):
    return [cells[cells.t == t] for t in range(2)]


LOSSES = {
    "mae": (losses.mae, False, 1.0),
    "smape": (losses.smape, False, 200.0),  # theirs goes from 0 to 1
    "mase": (losses.mase, True, 1.0),
    "rmsse": (losses.rmsse, True, 1.0),
}


@pytest.mark.parametrize("metric", LOSSES)
def test_one_window_a_series_has_the_figures_of_an_independent_library(metric):
    """M4's case: the whole history is the scale, the last horizon the test."""
    data = prepared(panel(columns=("y",)), targets=(0,), split=LastSplit(horizon=P), pad=True)
    forecast = drawn(data)
    naive = naive_of(data)
    series = np.flatnonzero(data.origins("test").counts)
    kept = series[naive.absolute[series, 0] > 0]
    long, train = [], []
    for window, s in enumerate(series):
        rows = data.frame.rows(s)[:, 0].astype(np.float64)
        told = forecast[window, :, 0].double().numpy() * data.scaler.std[s, 0] + data.scaler.mean[s, 0]
        if s in kept:
            long.append(pd.DataFrame({"unique_id": s, "y": rows[-P:], "model": told}))
            train.append(pd.DataFrame({"unique_id": s, "y": rows[:-P]}))
    loss, with_train, factor = LOSSES[metric]
    options = {"seasonality": SEASON, "train_df": pd.concat(train)} if with_train else {}
    theirs = loss(pd.concat(long), models=["model"], **options)["model"].to_numpy() * factor
    ours = errors_of(data, forecast).series(naive)[metric][kept, 0]
    if metric == "mae":
        ours = ours * data.scaler.std[kept, 0]
    assert len(kept) == len(LENGTHS) - 1  # the one of P rows has no history
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    if metric != "mae" and len(kept) == len(series):
        assert errors_of(data, forecast).overall(naive)[metric] == pytest.approx(theirs.mean(), rel=1e-4)


def test_the_mean_over_series_weighs_each_alike_however_many_windows_it_has():
    data = prepared(panel())
    sums, naive = errors_of(data, drawn(data)), naive_of(data)
    for i, block in enumerate(sums.columns(["y", "x"], naive).values()):
        for key in ("mase", "rmsse", "smape"):
            values = sums.series(naive)[key][:, i]
            assert block[key] == pytest.approx(np.nanmean(values))
    assert set(UNIT_FREE) < set(sums.overall(naive))


def test_what_each_series_has_of_the_error_averages_to_it():
    data = prepared(panel())
    sums = errors_of(data, drawn(data))
    overall = sums.overall(naive_of(data))
    assert sums.shares().shape == (sums.evaluated().sum(),)
    assert sums.shares().mean() == pytest.approx(overall["scaled"]["mse"])


def test_a_series_that_repeats_its_season_has_no_mase_and_is_counted():
    frame = panel((60, 60, 60), columns=("y",))
    frame.values[60:120, 0] = np.tile(np.arange(SEASON), 9)[:60]
    data = prepared(frame, targets=(0,))
    sums, naive = errors_of(data, drawn(data)), naive_of(data)
    mase = sums.series(naive)["mase"][:, 0]
    assert np.isnan(mase).tolist() == [False, True, False]
    block = sums.columns(["y"], naive)["y"]
    assert block["series_without_mase"] == 1 and block["mase"] == pytest.approx(np.nanmean(mase))


def test_wape_is_unknown_where_the_truth_is_zero():
    frame = panel((60, 60), columns=("y",), values=np.zeros((120, 1)))
    data = prepared(frame, targets=(0,))
    sums, naive = errors_of(data, drawn(data)), naive_of(data)
    figures = sums.overall(naive)
    assert figures["wape"] is None and figures["mase"] is None and figures["rmsse"] is None
    assert figures["scaled"]["mse"] > 0 and figures["smape"] == pytest.approx(200)


def test_the_scale_sees_the_rows_of_its_series_before_the_first_forecast_alone():
    frame = panel()
    data = prepared(frame)
    before = naive_of(data)
    for first, end in zip(data.origins("test").first, frame.offsets[1:], strict=True):
        frame.values[first:end] += 1e6
    after = naive_of(data)
    assert np.array_equal(before.absolute, after.absolute) and np.array_equal(before.squared, after.squared)


def test_a_period_longer_than_a_series_gives_it_no_scale():
    found = seasonal_differences(panel(), panel().offsets[:-1], panel().offsets[1:], period=50, targets=(0,))
    assert (found.absolute[:, 0] > 0).tolist() == [length > 50 for length in LENGTHS]


def test_scales_are_the_same_however_many_rows_are_looked_at_together(monkeypatch):
    frame = panel(gaps=0.3)
    rows = frame.offsets[:-1], frame.offsets[1:] - 3
    whole = seasonal_differences(frame, *rows, period=SEASON, targets=(1, 2))
    monkeypatch.setattr("forecast.data.scaling.CELLS", 50)
    parts = seasonal_differences(frame, *rows, period=SEASON, targets=(1, 2))
    assert np.array_equal(whole.absolute, parts.absolute)


def test_scaled_by_seasonal_differences_the_mae_of_a_series_is_its_mase():
    """Up to the rows between its train rows and its first test forecast, here none."""
    frame = panel()
    split = LastSplit(horizon=P)
    data = prepared(frame, scaling="season", split=split, pad=True)
    rows = data.splits["train"]
    data = replace(data, splits=data.splits | {"test": TargetRows(rows.stop, data.splits["test"].stop)})
    naive = naive_of(data)
    table = errors_of(data, drawn(data)).series(naive)
    known = ~np.isnan(table["mase"])
    assert known.all(1).tolist() == [length - 2 * P > SEASON for length in LENGTHS]
    np.testing.assert_allclose(table["mae"][known], table["mase"][known], rtol=1e-12)
