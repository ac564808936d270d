"""Evaluating: every window once, in fixed chunks, whatever the batch size or the training before has set."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from models.small import WINDOW, informer

from forecast.data.prepare import prepare
from forecast.data.split import TargetRows
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines, fit_nlinear, make_baselines, season, window_shape
from forecast.evaluation.blocks import split_metrics
from forecast.evaluation.evaluate import (
    CHUNK,
    Protocol,
    check_finite,
    counted_windows,
    evaluate,
    evenly_spaced,
    exact_float32,
)
from forecast.evaluation.predict import Continuation
from forecast.models.naive import LastValue

N, C, L, P = 211, WINDOW["n_columns"], WINDOW["seq_len"], WINDOW["pred_len"]
ALL, FULL_BATCHES = Protocol(), Protocol(drop_last_of=32)
SPLITS = {"train": range(101), "val": range(101, 131), "test": range(131, N)}
WINDOWS = N - 131 - P + 1


@pytest.fixture(scope="module")
def data():
    values = 1e4 * np.random.default_rng(0).normal(size=(N, C)).cumsum(0)
    stamps = pd.date_range("2020-01-01", periods=N, freq="h")
    return prepared(series_frame(values, stamps, ("a", "b", "c"), "h", "test"), L)


def prepared(frame, seq_len):
    return prepare(frame, splits=SPLITS, targets=(0, 1, 2), seq_len=seq_len, pred_len=P, encoding="timeF")


class Forecaster(torch.nn.Module):
    """Forecasts by a function of the window's past."""

    def __init__(self, forecast):
        super().__init__()
        self.forecast = forecast

    def forward(self, past, past_known, future_known):
        return self.forecast(past)


def evaluated(data, model, *, batch_size=32, protocol=ALL):
    options = {"split": "test", "protocol": protocol, "batch_size": batch_size, "device": torch.device("cpu")}
    return evaluate(model, data, fitted=fit_baselines(data), **options)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return informer().eval()


def test_figures_are_equal_to_the_last_bit_for_any_batch_size(data, model):
    first = evaluated(data, model, batch_size=32)
    for batch_size in (1, 7, 64, 1000):
        other = evaluated(data, model, batch_size=batch_size)
        for name in ("sums", "by_step", "variances"):
            assert torch.equal(getattr(other.errors, name), getattr(first.errors, name))
        assert np.array_equal(other.windows.squared, first.windows.squared)
        assert np.array_equal(other.forecasts["model"], first.forecasts["model"])


@pytest.mark.parametrize(
    ("batch_size", "protocol", "chunks"),
    [
        *((batch_size, ALL, [CHUNK, CHUNK, WINDOWS - 2 * CHUNK]) for batch_size in (1, 1000)),
        (32, FULL_BATCHES, [32, 32]),  # the authors' protocol
    ],
)
def test_a_model_is_called_on_the_windows_that_count_in_fixed_chunks(data, batch_size, protocol, chunks):
    sizes = []

    def forecast(past):
        sizes.append(len(past))
        return past[:, :P]

    errors = evaluated(data, Forecaster(forecast), batch_size=batch_size, protocol=protocol).errors
    assert (sizes, errors.n_windows) == (chunks, sum(chunks))


def test_every_window_counts_once_and_in_order(data, model):
    evaluation = evaluated(data, model)
    assert evaluation.errors.n_windows == WINDOWS == len(data.windows("test"))
    assert evaluation.windows.start.tolist() == list(range(131 - L, 131 - L + WINDOWS))
    with torch.inference_mode():
        last = data.windows("test").__getitems__([WINDOWS - 1])
        error = (model(*last[:3]) - last.target).double()
    np.testing.assert_allclose(evaluation.windows.squared[-1], error.square().mean(1)[0].numpy(), rtol=1e-4)


def test_the_kept_forecasts_are_those_of_windows_spread_over_the_split(data, model):
    evaluation = evaluated(data, model)
    shown = evenly_spaced(WINDOWS, 25)
    assert evaluation.origins.tolist() == [131 + number for number in shown] and shown[-1] == WINDOWS - 1
    windows = data.windows("test").__getitems__(shown)
    last = windows.past[:, -1:].expand(-1, P, -1)
    assert np.array_equal(evaluation.forecasts["last_value"], last.numpy())
    with torch.inference_mode():
        alone = model(*windows[:3])
    np.testing.assert_allclose(evaluation.forecasts["model"], alone.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("known, period", [(None, 24), (13, 13)])
def test_the_season_is_that_of_the_data_or_else_the_usual_one_of_the_frequency(data, known, period):
    data = replace(data, season=known)
    assert season(data) == period
    past = torch.randn(2, 31, C)
    assert torch.equal(make_baselines(data)["seasonal_naive"].extend(past), past[:, 31 - period : 31 - period + P])


def test_skill_is_the_share_of_the_seasonal_naives_error_that_the_model_avoids(data):
    data = prepared(data.frame, 29)  # a season of 24 fits: the two naive baselines differ
    evaluation = evaluated(data, LastValue(window=window_shape(data)))
    own, naive = (evaluation.baselines[name].total("squared").mean() for name in ("last_value", "seasonal_naive"))
    assert own != naive
    assert split_metrics(evaluation, data, "test")["skill"] == pytest.approx(1 - own / naive, rel=1e-12)


def test_flat_columns_are_those_of_the_model_and_not_of_a_baseline(data):
    assert split_metrics(evaluated(data, Forecaster(lambda past: past[:, :P])), data, "test")["flat"] == []
    assert split_metrics(evaluated(data, LastValue(window=window_shape(data))), data, "test")["flat"] == ["a", "b", "c"]


def test_the_closed_form_baseline_is_fitted_on_train_windows_alone(data):
    values = data.frame.values.copy()
    values[101:] = 0.0
    assert torch.equal(fit_nlinear(prepared(replace(data.frame, values=values), L)), fit_nlinear(data))
    values[100] = 0.0
    assert not torch.equal(fit_nlinear(prepared(replace(data.frame, values=values), L)), fit_nlinear(data))


def test_models_are_evaluated_in_exact_float32_whatever_a_training_has_set_which_is_restored(data, model):
    seen = set()
    hook = model.register_forward_pre_hook(lambda *_: seen.add(torch.get_float32_matmul_precision()))
    torch.set_float32_matmul_precision("medium")
    try:
        evaluated(data, model)
        with exact_float32():
            assert not torch.backends.cudnn.allow_tf32 and torch.backends.cudnn.deterministic
        assert (seen, torch.get_float32_matmul_precision()) == ({"highest"}, "medium")
    finally:
        hook.remove()
        torch.set_float32_matmul_precision("highest")


def test_a_protocol_that_counts_no_window_is_refused(data):
    short = replace(data, splits={**data.splits, "test": TargetRows.of(range(131, 131 + P - 1))})
    for args, windows in (((data, "val", FULL_BATCHES), 26), ((short, "test", ALL), 0)):
        with pytest.raises(
            UserError, match=f"split {args[1]} has {windows} windows, of which the protocol counts none"
        ):
            counted_windows(args[0].windows(args[1]), *args[1:])


def test_a_forecast_of_a_history_far_from_the_train_rows_has_another_reason_than_a_training():
    past = torch.zeros(2, 3, 5)
    past[1, 2, 3] = -2e7
    with pytest.raises(
        UserError, match=r"not finite numbers: the history holds a value 2e\+07 standard dev.*data.gaps="
    ):
        check_finite(torch.tensor([torch.inf]), past)
    with pytest.raises(UserError, match=r"not finite numbers: the training has diverged"):
        check_finite(torch.tensor([torch.inf]), past / 100)


def test_a_history_with_a_value_too_far_for_a_model_is_refused(data):
    values = data.frame.values.copy()
    values[-1, 1] = -1e308
    frame = replace(data.frame, values=values, name="my.csv")
    ends = Continuation(
        model=LastValue(window=replace(window_shape(data), targets=(1,))),
        frame=frame,
        scales=lambda _: data.scaler,
        targets=(1,),
        seq_len=L,
        pred_len=P,
        encoding="timeF",
        device=torch.device("cpu"),
    )
    with pytest.raises(
        UserError, match=r"my.csv: the forecasts are not finite numbers: the history holds a value inf .*data.gaps="
    ):
        ends.some([0])


def test_a_forecast_that_is_not_finite_is_refused(data):
    with pytest.raises(UserError, match=r"not finite.*optim\.lr"):
        evaluated(data, Forecaster(lambda past: past[:, :P] * float("nan")))


def test_the_best_possible_model_has_no_error(data):
    def oracle(past):
        """Knows where it is from the first value of the window."""
        series = data.kept[:, :C]
        starts = [int((series == row[0]).all(1).nonzero()[0]) for row in past]
        return torch.stack([series[s + L : s + L + P] for s in starts])

    assert evaluated(data, Forecaster(oracle)).errors.total("squared").sum() == 0


@pytest.mark.parametrize(
    "count, most, expected", [(1, 5, [0]), (2, 5, [0, 1]), (9, 3, [0, 4, 8]), (5, 5, [0, 1, 2, 3, 4])]
)
def test_evenly_spaced_numbers_take_both_ends(count, most, expected):
    assert evenly_spaced(count, most) == expected


def test_windows_apart_are_those_of_every_window_that_begin_pred_len_rows_apart(data, model):
    every, apart = (evaluated(data, model, protocol=Protocol(stride=stride)) for stride in (1, P))
    assert list(apart.windows.start) == list(every.windows.start[::P]) and len(apart.windows.start) == -(-WINDOWS // P)
    np.testing.assert_allclose(apart.windows.squared, every.windows.squared[::P], rtol=1e-5)
    assert apart.errors.n_windows == len(apart.windows.start)


def test_each_window_is_scaled_by_all_rows_before_it(data):
    """By hand: MASE is the mean over windows of MAE / mean seasonal difference of the rows before the forecast."""
    found = evaluated(data, LastValue(window=window_shape(data)), protocol=Protocol(stride=P, mase_scale="window"))
    period, mase, rmsse = season(data), [], []
    for start in found.windows.start:
        origin = start + L
        before, truth = data.frame.values[:origin], data.frame.values[origin : origin + P]
        difference = before[period:] - before[:-period]
        error = truth - before[-1]
        mase.append(np.abs(error).mean(0) / np.abs(difference).mean(0))
        rmsse.append(np.sqrt((error**2).mean(0) / (difference**2).mean(0)))
    metrics = split_metrics(found, data, "test")
    assert metrics["mase"] == pytest.approx(np.mean(mase), rel=1e-5)
    assert metrics["rmsse"] == pytest.approx(np.mean(rmsse), rel=1e-5)
    assert metrics["columns"]["b"]["mase"] == pytest.approx(np.mean(mase, axis=0)[1], rel=1e-5)
