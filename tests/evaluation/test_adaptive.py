"""Widths that follow a drift, by what was known before each forecast and by nothing else."""

import pytest
import torch

from forecast.evaluation.scored_intervals import RATE, WidthTracker

P, T, K = 5, 2, 3
LEVELS = (50.0, 80.0, 95.0)


def run(missed, *, stride=1, measured=None):
    """The factors (N, K, P, T) before each of the windows whose misses (N, P, T, K) are given."""
    tracker = WidthTracker(LEVELS, pred_len=P, n_targets=T, stride=stride)
    factors = []
    for i, one in enumerate(missed):
        factors.append(tracker.factor())
        tracker.add(one, None if measured is None else measured[i])
    return torch.stack(factors)


def slowly(missed, *, stride=1):
    """The same window by window and step by step: what became of step h of window j counts once its row is past."""
    found, log_width, seen = [], torch.zeros(K, P, T, dtype=torch.float64), set()
    share = 1 - torch.tensor(LEVELS, dtype=torch.float64) / 100
    for i in range(len(missed)):
        for j in range(i):
            for h in range(P):
                if (j, h) not in seen and j * stride + h < i * stride:
                    seen.add((j, h))
                    log_width[:, h] += RATE * (missed[j, h].double().T - share[:, None])
        found.append(log_width.exp())
    return torch.stack(found)


def draws(n, seed=0):
    return torch.rand(n, P, T, K, generator=torch.Generator().manual_seed(seed)) < 0.3


@pytest.mark.parametrize("stride", [1, 2, 5, 7])
def test_the_factors_are_those_of_the_slow_way(stride):
    missed = draws(23)
    torch.testing.assert_close(run(missed, stride=stride), slowly(missed, stride=stride), rtol=1e-12, atol=0)


@pytest.mark.parametrize("stride", [1, 3])
def test_nothing_that_comes_later_has_a_part(stride):
    missed, at = draws(31), 17
    changed = missed.clone()
    for j in range(31):
        for h in range(P):
            if j * stride + h >= at * stride:  # on or after the first row that window `at` forecasts
                changed[j, h] = ~changed[j, h]
    before, after = run(missed, stride=stride), run(changed, stride=stride)
    assert torch.equal(before[: at + 1], after[: at + 1]) and not torch.equal(before[at + P + 1], after[at + P + 1])


def test_a_step_without_truth_moves_nothing():
    measured = torch.zeros(19, P, T, dtype=torch.bool)
    assert (run(draws(19), measured=measured) == 1).all()


def test_a_series_begins_anew():
    tracker = WidthTracker(LEVELS, pred_len=P, n_targets=T, stride=1)
    for one in draws(13):
        tracker.factor()
        tracker.add(one)
    tracker.reset()
    assert (tracker.factor() == 1).all()


def test_coverage_comes_back_after_a_drift():
    """Noise of size 1, then of size 3: margins of the first hold 49 % at 95 until they have grown."""
    generator = torch.Generator().manual_seed(0)
    errors = torch.randn(900, P, T, generator=generator).abs()
    errors[300:] *= 3
    margin = 1.96
    tracker = WidthTracker((95.0,), pred_len=P, n_targets=T, stride=1)
    held = []
    for one in errors:
        width = margin * tracker.factor()[0]
        missed = one > width
        tracker.add(missed.unsqueeze(-1))
        held.append((~missed).double().mean())
    held = torch.stack(held)
    static = (errors <= margin).double().mean((1, 2))
    assert abs(held[:300].mean() - 0.95) < 0.01
    assert static[300:].mean() < 0.55 and held[500:].mean() > 0.94
    assert abs(held[600:].mean() - 0.95) < 0.01
