"""Heads that say how sure a forecast is: no quantiles that cross, scipy's likelihoods, planted noise."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models.small import window_shape
from scipy import stats

from forecast.models.dlinear import DLinear
from forecast.models.spread import LEAST_FREEDOM, LEAST_SCALE, Normal, Quantiles, StudentT

B, P, T = 2, 5, 3
LEVELS = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
SPREADS = {
    "quantile": lambda: Quantiles(levels=LEVELS),
    "low half": lambda: Quantiles(levels=(0.01, 0.2)),
    "high half": lambda: Quantiles(levels=(0.6, 0.9, 0.99)),
    "normal": Normal,
    "student_t": StudentT,
}
CENTRAL = (11.0, 50.0, 80.0, 95.0, 99.9)


@pytest.fixture(params=SPREADS)
def spread(request):
    return SPREADS[request.param]()


def raw_numbers(spread, seed=0, size=1.0):
    return torch.randn(B, P, T, spread.n_outputs, generator=torch.Generator().manual_seed(seed)) * size


def two_moments(seed=1):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(B, 1, T, generator=draws) * 100, torch.rand(B, 1, T, generator=draws) * 10 + 0.01


@given(
    numbers=st.tuples(*[st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)] * len(LEVELS)),
    mean=st.floats(-1e6, 1e6, width=32),
    std=st.floats(2**-10, 1e6, width=32),
)
@settings(max_examples=300, deadline=None)
def test_quantiles_of_any_raw_numbers_never_cross_moved_or_not(numbers, mean, std):
    spread = Quantiles(levels=LEVELS)
    parameters = spread.from_raw(torch.tensor(numbers).reshape(1, 1, 1, -1))
    moved = spread.moved(parameters, torch.full((1, 1, 1), mean), torch.full((1, 1, 1), std))
    for quantiles in (parameters, moved):
        assert (quantiles.diff(dim=-1) >= 0).all()
        lower, upper = spread.interval(quantiles, CENTRAL)
        point = spread.point(quantiles).unsqueeze(-1)
        assert (lower <= point).all() and (point <= upper).all()


@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_the_first_raw_number_is_the_point_and_lies_in_every_interval_a_wider_one_around(spread, size):
    raw = raw_numbers(spread, size=size)
    parameters = spread.from_raw(raw)
    assert parameters.shape == raw.shape == (B, P, T, len(spread.names))
    point = spread.point(parameters)
    assert torch.equal(point, raw[..., 0])
    lower, upper = spread.interval(parameters, CENTRAL)
    assert lower.shape == upper.shape == (B, P, T, len(CENTRAL))
    assert (lower <= point.unsqueeze(-1)).all() and (point.unsqueeze(-1) <= upper).all()
    slack = 1e-6 * (1 + size)
    assert (lower.diff(dim=-1) <= slack).all() and (upper.diff(dim=-1) >= -slack).all()
    assert [end.shape for end in spread.interval(parameters, ())] == [(B, P, T, 0)] * 2


def test_what_is_moved_has_moved_points_and_moved_intervals(spread):
    mean, std = two_moments()
    parameters = spread.from_raw(raw_numbers(spread))
    moved = spread.moved(parameters, mean, std)
    torch.testing.assert_close(spread.point(moved), spread.point(parameters) * std + mean)
    for end, before in zip(spread.interval(moved, CENTRAL), spread.interval(parameters, CENTRAL), strict=True):
        torch.testing.assert_close(end, before * std.unsqueeze(-1) + mean.unsqueeze(-1), rtol=1e-5, atol=1e-3)


def test_a_spread_is_float32_at_least(spread):
    raw = raw_numbers(spread)
    assert spread.from_raw(raw.bfloat16()).dtype == torch.float32
    assert spread.from_raw(raw.double()).dtype == torch.float64


def test_the_loss_of_the_median_alone_is_the_absolute_error_and_of_all_the_mean_pinball_loss_twice():
    spread = Quantiles(levels=LEVELS)
    truth = raw_numbers(spread, seed=3)[..., 0]
    parameters = spread.from_raw(raw_numbers(spread))
    losses = spread(parameters, truth)
    assert losses.shape == (B, P, T)
    for b, p, t in np.ndindex(B, P, T):
        y, pinball = float(truth[b, p, t]), []
        for level, q in zip(spread.levels, parameters[b, p, t].tolist(), strict=True):
            pinball.append((y - q) * level if y > q else (q - y) * (1 - level))
        assert float(losses[b, p, t]) == pytest.approx(2 * np.mean(pinball), rel=1e-5)
    alone = Quantiles(levels=LEVELS)
    alone.levels = (0.5,)
    median = parameters[..., 3:4]
    torch.testing.assert_close(alone(median, truth), (truth - median[..., 0]).abs())


def scipys(spread, location, scale):
    """The same distributions (B, P, T) by scipy."""
    if isinstance(spread, Normal):
        return stats.norm(location, scale)
    return stats.t(spread.freedom.detach().double().numpy(), location, scale)


def student_t_of(freedom):
    spread = StudentT()
    spread.for_columns(len(freedom), range(len(freedom)))
    spread.raw_freedom.data = torch.log(torch.expm1(torch.tensor(freedom, dtype=torch.float64) - LEAST_FREEDOM))
    return spread


DISTRIBUTIONS = {"normal": Normal, "student_t": lambda: student_t_of([2.2, 5.0, 31.0])}


@pytest.mark.parametrize("make", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_likelihoods_and_quantiles_are_scipys(make):
    spread = make()
    parameters = spread.from_raw(raw_numbers(spread, size=3.0).double())
    location, scale = parameters.numpy()[..., 0], parameters.numpy()[..., 1]
    assert scale.min() >= LEAST_SCALE
    oracle = scipys(spread, location, scale)
    truth = raw_numbers(spread, seed=5, size=4.0)[..., 0].double()
    np.testing.assert_allclose(spread(parameters, truth).detach().numpy(), -oracle.logpdf(truth.numpy()), rtol=1e-9)
    lower, upper = spread.interval(parameters, CENTRAL)
    for k, level in enumerate(CENTRAL):
        np.testing.assert_allclose(lower[..., k].numpy(), oracle.ppf(0.5 - level / 200), rtol=1e-9)
        np.testing.assert_allclose(upper[..., k].numpy(), oracle.ppf(0.5 + level / 200), rtol=1e-9)


def test_degrees_of_freedom_are_those_of_the_column_and_never_leave_the_variance_infinite():
    spread = StudentT()
    spread.for_columns(5, [3, 1])
    assert (spread.freedom > 2).all()
    spread.raw_freedom.data = torch.tensor([-1e9, 8.0, 1.0, 3.0, 0.0])
    assert float(spread.freedom.detach().min()) == pytest.approx(LEAST_FREEDOM)
    torch.testing.assert_close(spread.target_freedom, spread.freedom[[3, 1]])
    parameters = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])  # of the two targets
    _, upper = spread.interval(parameters, (95.0,))
    expected = [stats.t.ppf(0.975, float(freedom)) for freedom in spread.freedom[[3, 1]].detach()]
    np.testing.assert_allclose(upper[0, 0, :, 0].numpy(), expected, rtol=1e-6)


def test_an_interval_between_the_levels_is_interpolated_and_one_beyond_them_is_the_outermost():
    spread = Quantiles(levels=LEVELS)
    parameters = torch.tensor([-4.0, -3.0, -1.0, 0.0, 2.0, 5.0, 9.0]).reshape(1, 1, 1, -1)
    lower, upper = (ends[0, 0, 0].tolist() for ends in spread.interval(parameters, (80, 90, 60, 99, 20)))
    assert lower == pytest.approx([-3.0, -4.0, -2.0, -4.0, -0.5])
    assert upper == pytest.approx([5.0, 9.0, 3.5, 9.0, 1.0])


def test_the_median_joins_levels_without_it():
    assert Quantiles(levels=[0.1, 0.9]).levels == (0.1, 0.5, 0.9)
    assert Quantiles(levels=[0.1, 0.5]).n_outputs == 2


@pytest.mark.parametrize("levels", [[], [0.5], [0.1, 0.1, 0.9], [0.9, 0.1], [0.0, 0.5], [0.5, 1.0], [10.0, 90.0]])
def test_other_levels_are_refused(levels):
    with pytest.raises(ValueError, match=r"must be two levels or more, each above the one before.* 0\.9 for 90 %"):
        Quantiles(levels=levels)


@pytest.mark.parametrize("level", [0, 100, -5, float("nan")])
def test_an_interval_of_no_level_is_refused(spread, level):
    with pytest.raises(ValueError, match=r"of an interval must be above 0 and below 100, in per cent: 95"):
        spread.interval(spread.from_raw(raw_numbers(spread)), (80, level))


N, L = 6000, 3


def planted(noise, seed):
    """Windows (N, L, 1) and what follows (N, 2, 1): where their last value is 1 the noise is 4 times as large."""
    draws = np.random.default_rng(seed)
    past = draws.normal(size=(N, L, 1))
    past[:, -1, 0] = draws.integers(2, size=N)
    scale = np.where(past[:, -1:] == 1, 2.0, 0.5) * np.array([[1.0], [1.5]])
    future = 1.5 * past[:, :1] + scale * noise.rvs(size=(N, 2, 1), random_state=draws)
    return torch.tensor(past).float(), torch.tensor(future).float(), 1.5 * past[:, :1], scale


@pytest.mark.parametrize(
    ("make", "noise"),
    [
        (lambda: Quantiles(levels=(0.025, 0.1, 0.5, 0.9, 0.975)), stats.norm()),
        (Normal, stats.norm()),
        (StudentT, stats.t(4)),
    ],
    ids=["quantile", "normal", "student_t"],
)
def test_noise_of_a_scale_that_the_window_tells_is_learned(make, noise):
    """As near as so many windows allow: the ends of an interval to a tenth of the scale."""
    spread = make()
    torch.manual_seed(7)
    sizes = {"n_columns": 1, "targets": (0,), "n_known": 0, "seq_len": L, "pred_len": 2, "label_len": 0}
    model = DLinear(window=window_shape(**sizes, outputs=spread.n_outputs), kernel_size=1)
    model.add_spread(spread)
    past, future, _, _ = planted(noise, seed=11)
    nothing = (torch.zeros(N, L, 0), torch.zeros(N, 2, 0))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, history_size=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = spread(*model.training_outputs(past, *nothing, future)).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    if isinstance(spread, StudentT):
        assert float(spread.freedom.detach()) == pytest.approx(4, abs=0.5)
    past, future, centre, scale = planted(noise, seed=13)
    with torch.no_grad():
        point, lower, upper = model.interval(past, *nothing, (80, 95))
    assert np.abs((point.numpy() - centre) / scale).max() < 0.3  # at the outermost of the windows
    for k, level in enumerate((80, 95)):
        reach = float(noise.ppf(0.5 + level / 200))
        for end, sign in ((lower, -1), (upper, 1)):
            off = (end[..., k].numpy() - centre) / scale - sign * reach
            for calm in (False, True):
                here = off[(past[:, -1, 0].numpy() == 0) == calm]
                assert np.abs(np.mean(here, axis=0)).max() < 0.1 * reach
        held = ((lower[..., k] <= future) & (future <= upper[..., k])).float().mean((0, 2)).numpy() * 100
        assert np.abs(held - level).max() < 2
