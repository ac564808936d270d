"""Ridge with columns that are known in advance: what it reads of them, what it solves, and that it finds a truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from models.fitting import fitting_rows

from forecast.models.base import WindowShape
from forecast.models.covariates import MOST_REGRESSORS, CovariateRegressors, joint_sums
from forecast.models.ridge import Candidate, Ridge
from forecast.ops.joint_ridge import joint_map, joint_squared_error, joint_system
from forecast.ops.ridge import LinearMap, naive_forecast

C, L, P, F, N, TRAIN, VAL = 3, 7, 5, 2, 431, 301, 381
GENERATOR = torch.Generator().manual_seed(0)


def window(covariates=(0, 4, 0), **sizes):
    known = F + len(covariates)
    given = {"n_columns": C, "targets": (2, 0), "n_known": known, "seq_len": L, "label_len": 0, "pred_len": P}
    return WindowShape(**{**given, "covariates": covariates, **sizes})


def known_features(shape, rows):
    known = torch.randn(rows, shape.n_known, generator=GENERATOR)
    for i, size in enumerate(shape.covariates):
        if size:
            known[:, i - len(shape.covariates)] = torch.randint(size, (rows,), generator=GENERATOR).float()
    return known


def rows(series, known, **more):
    """Of one series, (N, T) float64 and (N, F)."""

    def origins(split, look_back):
        first, end = {"train": (look_back, TRAIN), "val": (max(TRAIN, look_back), VAL)}[split]
        return np.arange(first, end - P + 1)

    return fitting_rows(series, origins, P, known=known, **{"period": None, **more})


def error(model, series, known):
    """MSE over the rows after val."""
    begins = range(VAL, N - P + 1)
    past, of_past = (torch.stack([part[b - model.look_back : b] for b in begins]) for part in (series, known))
    truth, of_future = (torch.stack([part[b : b + P] for b in begins]) for part in (series, known))
    return (model(past.float(), of_past, of_future) - truth).square().mean().item()


def test_with_asinh_known_columns_explain_what_lies_behind_the_spikes():
    shape, own = window((0,), n_columns=1, targets=(0,)), torch.Generator().manual_seed(1)
    known = torch.randn(N, shape.n_known, generator=own)
    level = torch.cumsum(torch.randn(N, generator=own), 0) * 0.01
    series = torch.sinh(2.0 * known[:, -1] + level).double()[:, None]
    errors = {}
    for transform in ("asinh", None):
        model = Ridge(window=shape, strength=1e-3, transform=transform)
        model.fit(rows(series, known))
        errors[transform] = error(model, series, known)
    assert errors["asinh"] < 0.3 * errors[None]


@pytest.mark.parametrize(("covariates", "share"), [((), 30 / 40), ((0,), 1 / 2)])
def test_of_level_maps_the_longer_look_back_has_more_of_the_mean_unless_columns_are_known(covariates, share):
    model, series = Ridge(window=window(covariates)), torch.zeros(N, 2, dtype=torch.float64)
    maps = [LinearMap(torch.zeros(P, length), torch.full((P,), float(length == 30))) for length in (10, 30)]
    mean = model.mean(rows(series, torch.zeros(N, model.window.n_known)), [Candidate(linear, 0.5) for linear in maps])
    torch.testing.assert_close(mean.linear.bias, torch.full((P,), share))


def test_of_a_number_and_of_each_category_a_map_reads_every_step_of_the_horizon_and_as_many_before_it():
    regressors = CovariateRegressors(window())
    past, future = torch.zeros(1, L, F + 3), torch.zeros(1, P, F + 3)
    past[..., F + 1] = torch.tensor([3, 3, 0, 1, 2, 3, 0])
    future[..., F + 1] = torch.tensor([1, 2, 3, 0, 1])
    future[0, 0, F] = 0.5
    read = regressors.of(past, future)
    assert read.shape == (1, regressors.count) == (1, 2 * P * 5)
    categories = read.view(2 * P, 5)[:, 1:4]
    expected = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [int(row.argmax()) + 1 if row.any() else 0 for row in categories] == expected
    assert read.view(2 * P, 5)[P, 0] == 0.5


def test_a_fact_is_read_once():
    regressors = CovariateRegressors(window(facts=(1,)))
    known = torch.zeros(1, L, F + 3)
    known[..., F + 1] = 2
    read = regressors.of(known, known[:, :P])
    assert regressors.count == read.shape[1] == 2 * P * 2 + 3
    assert read[0, -3:].tolist() == [0, 1, 0]


@pytest.mark.parametrize("covariates, pred_len", [((0,) * 7, 720), ((400, 0), 96), ((0, 3, 70), 33)])
def test_many_regressors_become_means_of_steps(covariates, pred_len):
    shape = window(covariates, pred_len=pred_len, seq_len=pred_len - 3)
    regressors = CovariateRegressors(shape)
    past, future = (known_features(shape, rows)[None] for rows in (shape.seq_len, pred_len))
    read = regressors.of(past, future)
    assert regressors.step > 1 and read.shape[1] == regressors.count <= MOST_REGRESSORS
    future[:, 0] += 10  # no mean holds known and forecast steps
    changed = regressors.of(past, future) != read
    of_past = (
        regressors.rows // regressors.step * (regressors.count // -(-(regressors.rows + pred_len) // regressors.step))
    )
    assert changed.any() and not changed[:, :of_past].any()


@pytest.mark.parametrize("naive, period, share", [("last", None, 1.0), ("mean", None, 0.4), ("season", 3, 0.0)])
def test_its_map_is_the_ridge_over_all_windows(naive, period, share):
    """share: of the intercept; the regressors of the covariates are always less their means."""
    shape = window(targets=(0,))
    regressors, known = CovariateRegressors(shape), known_features(shape, N)
    series = torch.randn(N, 1, generator=GENERATOR, dtype=torch.float64).cumsum(0)
    windows = rows(series, known).windows("train", L)
    (sums,) = joint_sums(windows, regressors, L, shared=False)
    sums = sums._replace(intercept=share)
    system = joint_system(sums, look_back=L, pred_len=P, naive=naive, period=period)
    found = joint_map(system, strength=0.1, effect_strength=0.3)

    past, past_known, future_known, target = windows.gather(windows.numbers)
    numbers = regressors.of(past_known, future_known).double()
    forecast, level = naive_forecast(naive, L, P, period or 1)
    x = past[..., 0].double()
    left, right = x - (x @ level)[:, None], target[..., 0].double() - x @ forecast.T
    right = right - share * right.mean(0)
    joined = torch.cat([left - share * left.mean(0), numbers - numbers.mean(0)], 1)
    variances = joined.square().mean(0)
    ridge = torch.cat([(0.1 * variances[:L].mean()).expand(L), (0.3 * variances[L:].mean()).expand(regressors.count)])
    solved = torch.linalg.solve(joined.T @ joined / len(x) + torch.diag(ridge), joined.T @ right / len(x))
    residual = right - joined @ solved
    torch.testing.assert_close(found.effect, solved[L:].T, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(joint_squared_error(sums, found), residual.square().mean().item(), rtol=1e-5, atol=0)
    mine = x @ found.weight.T + numbers @ found.effect.T + found.bias
    torch.testing.assert_close(target[..., 0].double() - mine, residual, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_series_that_is_its_known_column_shifted_is_found(n_targets):
    shape = window((0, 0), targets=tuple(range(n_targets)), n_columns=n_targets)
    known = known_features(shape, N)
    columns = [known[:, F + i].roll(2 + i).double() for i in range(n_targets)]  # another column for each target
    series = torch.stack(columns, 1) + 0.1 * torch.randn(N, n_targets, generator=GENERATOR, dtype=torch.float64)
    with_known, without = Ridge(window=shape), Ridge(window=window((), targets=shape.targets, n_columns=n_targets))
    options = with_known.fit(rows(series, known))
    without.fit(rows(series, known[:, :F]))
    assert options["columns"] == ("each" if n_targets > 1 else "shared")
    assert error(with_known, series, known) < error(without, series, known[:, :F]) / 10
    again = Ridge(window=shape, **options)
    again.load_state_dict(with_known.state_dict())
    assert error(again, series, known) == error(with_known, series, known)
    given, refitted = rows(series, known), Ridge(window=shape)
    assert refitted.refit(given, given, {}) == options and torch.equal(refitted.effect, with_known.effect)
    noise = replace(given, windows=rows(torch.randn_like(series), known).windows)
    refitted.refit(given, noise, {})  # chosen by what the known columns say, fitted to noise
    assert refitted.effect.abs().max() < 0.3 < with_known.effect.abs().max()


def test_a_column_without_a_say_costs_hardly_anything():
    shape = window((0, 0), targets=(0,), n_columns=1)
    known = known_features(shape, N)
    series = torch.sin(torch.arange(N, dtype=torch.float64) / 5)[:, None]
    series = series + 0.3 * torch.randn(N, 1, generator=GENERATOR, dtype=torch.float64)
    with_noise, without = Ridge(window=shape), Ridge(window=window((), targets=(0,), n_columns=1))
    with_noise.fit(rows(series, known))
    without.fit(rows(series, known[:, :F]))
    assert error(with_noise, series, known) < 1.05 * error(without, series, known[:, :F])


def test_its_forecast_depends_on_each_covariate_at_the_steps_that_it_reads_and_on_no_other_known_feature():
    shape = window((0, 4, 0))
    known = known_features(shape, N)
    series = torch.randn(N, 2, generator=GENERATOR, dtype=torch.float64)
    model = Ridge(window=shape, look_back=3)
    model.fit(rows(series, known))
    assert model.look_back == P
    past = torch.randn(1, L, C, generator=GENERATOR)
    of_past, of_future = known[None, :L].clone().requires_grad_(), known[None, L : L + P].clone().requires_grad_()
    before = model(past, of_past, of_future)
    before.square().sum().backward()
    assert not of_future.grad[..., :F].any() and not of_past.grad[..., :F].any()
    assert of_future.grad[..., [F, F + 2]].all() and of_past.grad[0, -P:, [F, F + 2]].all()
    assert not of_past.grad[:, :-P].any()
    for step in range(P):
        other = of_future.detach().clone()
        other[0, step, F + 1] = (other[0, step, F + 1] + 1) % 4
        assert not torch.equal(model(past, of_past, other), before)


def test_windows_that_are_not_whole_have_no_part_in_it():
    shape = window((0,), targets=(0,), n_columns=1)
    known = known_features(shape, N)
    series = torch.randn(N, 1, generator=GENERATOR, dtype=torch.float64)
    spoilt = series.clone()
    spoilt[[150, 333]] = 1e4
    one, other = Ridge(window=shape, look_back=4), Ridge(window=shape, look_back=4)
    one.fit(rows(series, known, made_up=(150, 333)))
    other.fit(rows(spoilt, known, made_up=(150, 333)))
    assert torch.equal(one.weight, other.weight) and torch.equal(one.effect, other.effect)
