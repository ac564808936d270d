"""Evaluating: every window once, in fixed chunks, whatever the batch size or the training before has set."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from models.small import WINDOW, informer

from forecast.data.frame import SeriesFrame
from forecast.data.prepare import prepare
from forecast.errors import UserError
from forecast.evaluation.baselines import LastValue
from forecast.evaluation.evaluate import (
    CHUNK,
    Protocol,
    counted_windows,
    evaluate,
    exact_float32,
    fit_baselines,
    make_baselines,
    split_metrics,
    spread,
    usable_period,
)

N, C, L, P = 211, WINDOW["n_columns"], WINDOW["seq_len"], WINDOW["pred_len"]
CPU = torch.device("cpu")
SPLITS = {"train": range(101), "val": range(101, 131), "test": range(131, N)}
WINDOWS = N - 131 - P + 1


@pytest.fixture(scope="module")
def data():
    values = 1e4 * np.random.default_rng(0).normal(size=(N, C)).cumsum(0)
    stamps = pd.date_range("2020-01-01", periods=N, freq="h")
    return prepared(SeriesFrame(values, stamps, ("a", "b", "c"), "h", "test"), L)


def prepared(frame, seq_len):
    return prepare(frame, splits=SPLITS, targets=(0, 1, 2), seq_len=seq_len, pred_len=P, encoding="timeF")


class Watched(torch.nn.Module):
    """Gives what another model gives, and notes how many windows it was called with."""

    def __init__(self, model):
        super().__init__()
        self.model, self.sizes = model, []

    def forward(self, past, past_known, future_known):
        self.sizes.append(len(past))
        return self.model(past, past_known, future_known)


def evaluated(data, model, *, batch_size=32, protocol=None, split="test"):
    return evaluate(
        model,
        data,
        split=split,
        protocol=protocol or Protocol(),
        nlinear_weight=fit_baselines(data),
        batch_size=batch_size,
        device=CPU,
    )


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return informer().eval()


def test_figures_are_equal_to_the_last_bit_for_any_batch_size(data, model):
    first = evaluated(data, model, batch_size=32)
    for batch_size in (1, 7, 64, 1000):
        other = evaluated(data, model, batch_size=batch_size)
        assert np.array_equal(other.errors.squared, first.errors.squared)
        assert np.array_equal(other.squared, first.squared)
        assert np.array_equal(other.forecasts["model"], first.forecasts["model"])


@pytest.mark.parametrize("batch_size", [1, 1000])
def test_a_model_is_called_on_fixed_chunks(data, model, batch_size):
    watched = Watched(model)
    evaluated(data, watched, batch_size=batch_size)
    assert watched.sizes == [CHUNK, CHUNK, WINDOWS - 2 * CHUNK]


def test_every_window_counts_once_and_in_order(data, model):
    found = evaluated(data, model)
    assert found.errors.windows == WINDOWS == len(data.windows("test"))
    assert found.starts.tolist() == list(range(131 - L, 131 - L + WINDOWS))
    with torch.inference_mode():
        last = data.windows("test").__getitems__([WINDOWS - 1])
        error = (model(*last[:3]) - last.target).double()
    np.testing.assert_allclose(found.squared[-1], error.square().mean(1)[0].numpy(), rtol=1e-4)


def test_the_kept_forecasts_are_those_of_windows_spread_over_the_split(data, model):
    found = evaluated(data, model)
    assert found.examples.tolist() == [0, 19, 38, 56, 75]
    windows = data.windows("test").__getitems__(found.examples.tolist())
    last = windows.past[:, -1:].expand(-1, P, -1)
    assert np.array_equal(found.forecasts["last_value"], last.numpy())
    with torch.inference_mode():
        alone = model(*windows[:3])
    np.testing.assert_allclose(found.forecasts["model"], alone.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seq_len, period", [(23, None), (24, 24), (25, 24)])
def test_a_season_is_repeated_when_it_fits_into_the_window_else_the_last_value(data, seq_len, period):
    data = prepared(data.frame, seq_len)
    assert usable_period(data) == period
    past = torch.randn(2, seq_len, C)
    baseline = make_baselines(data)["seasonal_naive"]
    expected = past[:, -1:].expand(-1, P, -1) if period is None else past[:, seq_len - 24 : seq_len - 24 + P]
    assert torch.equal(baseline.extend(past), expected)


def test_skill_is_the_share_of_the_seasonal_naives_error_that_the_model_avoids(data):
    data = prepared(data.frame, 29)  # a season of 24 fits: the two naive baselines differ
    found = evaluated(data, LastValue(data.targets, P))
    own, naive = (found.baselines[name].squared.mean() for name in ("last_value", "seasonal_naive"))
    assert own != naive
    assert split_metrics(found, data)["skill"] == pytest.approx(1 - own / naive, rel=1e-12)


def test_flat_columns_are_those_of_the_model_and_not_of_a_baseline(data):
    class FirstSteps(torch.nn.Module):
        def forward(self, past, past_known, future_known):
            return past[:, :P]

    assert split_metrics(evaluated(data, FirstSteps()), data)["flat"] == []
    assert split_metrics(evaluated(data, LastValue(data.targets, P)), data)["flat"] == ["a", "b", "c"]


def test_the_closed_form_baseline_is_fitted_on_train_windows_alone(data):
    values = data.frame.values.copy()
    values[101:] = 0.0
    assert torch.equal(fit_baselines(prepared(replace(data.frame, values=values), L)), fit_baselines(data))
    values[100] = 0.0
    assert not torch.equal(fit_baselines(prepared(replace(data.frame, values=values), L)), fit_baselines(data))


def test_a_model_is_evaluated_in_exact_float32_whatever_a_training_has_set(data, model):
    seen = set()
    hook = model.register_forward_pre_hook(lambda *_: seen.add(torch.get_float32_matmul_precision()))
    torch.set_float32_matmul_precision("medium")
    try:
        evaluated(data, model)
    finally:
        hook.remove()
        torch.set_float32_matmul_precision("highest")
    assert seen == {"highest"}


def test_the_authors_protocol_counts_full_batches_of_32(data, model):
    watched = Watched(model)
    found = evaluated(data, watched, protocol=Protocol(drop_last_of=32))
    assert found.errors.windows == 64
    assert sum(watched.sizes) == 64


def test_a_protocol_that_counts_no_window_is_refused(data):
    with pytest.raises(UserError, match="the split val has 26 windows, of which the protocol counts none"):
        counted_windows(data, "val", Protocol(drop_last_of=32))
    short = replace(data, splits={**SPLITS, "test": range(131, 131 + P - 1)})
    with pytest.raises(UserError, match="the split test has 0 windows, of which the protocol counts none"):
        counted_windows(short, "test", Protocol())


def test_a_forecast_that_is_not_finite_is_refused(data, model):
    class Diverged(torch.nn.Module):
        def forward(self, past, past_known, future_known):
            return past[:, :P] * float("nan")

    with pytest.raises(UserError, match=r"not finite.*optim\.lr"):
        evaluated(data, Diverged())


def test_the_best_possible_model_has_no_error(data):
    class Oracle(torch.nn.Module):
        """Knows where it is from the first value of the window."""

        def forward(self, past, past_known, future_known):
            series = data.series[:, :C]
            starts = [int((series == row[0]).all(1).nonzero()[0]) for row in past]
            return torch.stack([series[s + L : s + L + P] for s in starts])

    assert evaluated(data, Oracle()).errors.squared.sum() == 0


def test_exact_float32_takes_back_what_a_training_has_set_and_restores_it():
    torch.set_float32_matmul_precision("medium")
    try:
        with exact_float32():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cudnn.allow_tf32
            assert torch.backends.cudnn.deterministic
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    "count, most, expected", [(1, 5, [0]), (2, 5, [0, 1]), (9, 3, [0, 4, 8]), (5, 5, [0, 1, 2, 3, 4])]
)
def test_spread_takes_both_ends(count, most, expected):
    assert spread(count, most) == expected
