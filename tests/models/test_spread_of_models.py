"""Every trained model with every spread: it learns from it, and its intervals are in order, by one pass."""

import itertools
from unittest import mock

import pytest
import torch
from models.inputs import batch
from models.small import window_shape
from models.test_model_laws import ATTENDING, MODELS, inputs, small_model, with_normed_windows
from models.test_spread import SPREADS

from forecast.models.base import ForecastModel
from forecast.models.nlinear import NLinear
from forecast.models.ridge import Ridge

HEADS = ("quantile", "normal", "student_t")
WINDOW = {"n_columns": 5, "targets": (3, 1)}
B, P, T = 3, 5, 2
STEPWISE = ("attention=full", "model.decode=autoregressive", "model.mix=false")


def with_spread(model, head, *overrides, **sizes):
    spread = SPREADS[head]()
    made = small_model(model, *overrides, window={**WINDOW, "outputs": spread.n_outputs}, **sizes)
    made.add_spread(spread)
    return made


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        *((name, ()) for name in MODELS),
        ("informer", STEPWISE),
        *((name, with_normed_windows(name)) for name in ATTENDING),
    ],
    ids=lambda part: part if isinstance(part, str) else part[-1].split(".")[-1] if part else "",
)
def test_a_step_is_trained_and_the_intervals_are_in_order(name, overrides, head):
    model = with_spread(name, head, *overrides)
    *known, future = inputs(model)
    parameters, truth = model.train().training_outputs(*known, future)
    learned = len(model.learned_columns)
    assert parameters.shape == (B, truth.shape[1], learned, model.window.outputs)
    losses = model.spread(parameters, truth)
    assert losses.shape == truth.shape == (B, truth.shape[1], learned)
    losses.mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    with torch.no_grad():
        torch.optim.SGD(model.parameters(), lr=0.01).step()
        passes = mock.Mock(wraps=model.eval().forecast)
        with mock.patch.object(model, "forecast", passes):
            point, lower, upper = model.interval(*known, (80, 95))
        assert passes.call_count == 1
        assert torch.equal(point, model(*known))
    assert point.shape == (B, P, T) and lower.shape == upper.shape == (B, P, T, 2)
    assert point.isfinite().all() and lower.isfinite().all() and upper.isfinite().all()
    in_order = [lower[..., 1], lower[..., 0], point, upper[..., 0], upper[..., 1]]
    for one, other in itertools.pairwise(in_order):
        assert (one <= other + 1e-5).all()
    assert (lower[..., 1] < upper[..., 0]).all()


@pytest.mark.parametrize("name", [*MODELS, "stepwise"])
def test_the_truth_of_a_training_step_is_of_the_columns_that_the_model_says_it_learns(name):
    model = with_spread("informer", "normal", *STEPWISE) if name == "stepwise" else with_spread(name, "normal")
    *known, future = inputs(model)
    _, truth = model.training_outputs(*known, future)
    assert torch.equal(truth[:, -P:], future[:, :, list(model.learned_columns)])


STEP_BY_STEP = ("gpt", "logtrans", "sparse_transformer", "stepwise")


def step_by_step(name, window):
    """A model that feeds its steps back, with drawn weights: the first forecast of a Sparse Transformer is zero."""
    choices = ("informer", *STEPWISE) if name == "stepwise" else (name,)
    model = small_model(*choices, window={**window, "outputs": 2}, dropout=0.0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.add_spread(SPREADS["normal"]())
    return model.eval()


@pytest.mark.parametrize("name", STEP_BY_STEP)
def test_the_point_is_what_is_fed_back(name):
    """So a pass over the forecast as if it were the true future says the same of its steps."""
    model = step_by_step(name, {"n_columns": 5, "targets": tuple(range(5))})
    *known, _ = inputs(model)
    with torch.no_grad():
        parameters = model.predicted(*known)
        again, _ = model.training_outputs(*known, model.spread.point(parameters))
    torch.testing.assert_close(again[:, -P:], parameters, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", STEP_BY_STEP)
def test_of_all_columns_forecast_each_target_gets_the_numbers_of_its_own(name):
    *known, _ = inputs(small_model("nlinear", window=WINDOW))
    everything, some = (step_by_step(name, {**WINDOW, "targets": targets}) for targets in (tuple(range(5)), (3, 1)))
    some.load_state_dict(everything.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(some.predicted(*known), everything.predicted(*known)[:, :, [3, 1]])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("model", ATTENDING)
def test_instance_normalisation_makes_an_interval_follow_level_and_scale(model, head):
    normed = with_spread(model, head, *with_normed_windows(model)).eval()
    past, past_known, future_known, _ = inputs(normed)
    past = past * 10  # far above what is added to the variance
    with torch.no_grad():
        before = normed.interval(past, past_known, future_known, (90,))
        after = normed.interval(past * 3 + 50, past_known, future_known, (90,))
    for end, end_before in zip(after, before, strict=True):
        torch.testing.assert_close(end, end_before * 3 + 50, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("head", HEADS)
def test_the_last_value_of_an_nlinear_is_added_to_the_point_and_not_to_what_is_around_it(head):
    spread = SPREADS[head]()
    torch.manual_seed(5)
    model = NLinear(window=window_shape(outputs=spread.n_outputs))
    model.add_spread(spread)
    past, *known = batch()
    before, after = (model.interval(past + level, *known, (90,)) for level in (0, 1000))
    for end, end_before in zip(after, before, strict=True):
        torch.testing.assert_close(end, end_before + 1000, rtol=0, atol=1e-3)


def test_without_a_spread_both_ends_are_the_forecast():
    model = small_model("nlinear").eval()
    *known, _ = inputs(model)
    point, lower, upper = model.interval(*known, (50, 80))
    assert torch.equal(point, model(*known))
    assert lower.shape == (*point.shape, 2)
    assert torch.equal(lower, upper) and torch.equal(lower[..., 0], point) and torch.equal(lower[..., 1], point)


class Unaware(ForecastModel):
    """Gives one number for a target whatever the window says."""

    def forecast(self, past, past_known, future_known):
        return past[:, -1:, list(self.window.targets)].expand(-1, self.window.pred_len, -1)


@pytest.mark.parametrize("targets", [(0,), (0, 1)])  # as many numbers as two: they are not taken for one column's
def test_a_model_that_knows_nothing_of_a_spread_is_refused(targets):
    model = Unaware(window_shape(targets=targets, outputs=2))
    model.add_spread(SPREADS["normal"]())
    with pytest.raises(ValueError, match=r"Unaware gives \d numbers for a step, and this loss needs \d, 2 for a"):
        model(*batch())
    fitted = Ridge(window=window_shape(targets=targets, outputs=2))
    fitted.add_spread(SPREADS["normal"]())
    with pytest.raises(ValueError, match="or choose loss=mse"):
        fitted(*batch())
