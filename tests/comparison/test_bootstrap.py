"""The interval of a paired difference: where it lies, what widens it, and how often it holds the truth."""

import numpy as np
import pytest
from scipy import stats

from forecast.comparison import bootstrap
from forecast.comparison.bootstrap import LEAST_BLOCKS, MOST_BLOCKS, model_less, paired_interval


def noise(seed, shape):
    return np.random.default_rng(seed).normal(size=shape)


def overlapping(random, n, width):
    """(n,) values of which neighbours closer than `width` share noise, as the errors of overlapping windows do."""
    return np.convolve(random.normal(size=n + width - 1), np.ones(width) / width, "valid")


def test_the_difference_is_that_of_the_means():
    errors, reference = noise(1, (3, 401)) + 0.5, noise(2, (2, 401))
    interval = paired_interval(errors, reference, block=7)
    assert interval.difference == pytest.approx(errors.mean() - reference.mean())
    assert interval.low < interval.difference < interval.high
    assert interval.high - interval.difference == pytest.approx(interval.difference - interval.low)


@pytest.mark.parametrize(
    ("n", "block", "used"), [(401, 7, 7), (MOST_BLOCKS * 30, 7, 30), (MOST_BLOCKS * 30 - 1, 1, 30)]
)
def test_a_model_is_compared_with_each_baseline_in_blocks_that_are_not_too_many(n, block, used):
    model, baselines = noise(1, n), {"ridge": noise(2, n), "last_value": noise(3, n) + 2}
    found = model_less(model, baselines, block=block)
    for name, errors in baselines.items():
        expected = paired_interval(model[None], errors[None], block=used)
        assert found[name] == dict(zip(("mse", "low", "high", "blocks"), expected, strict=True))


def test_what_both_err_alike_does_not_count():
    shared = 100 * noise(1, 401)
    interval = paired_interval(shared[None] + 0.01, shared[None], block=7)
    assert (interval.low, interval.high) == pytest.approx((0.01, 0.01))
    assert interval.excludes_zero()


def test_equal_models_differ_by_nothing_and_that_is_never_sure():
    same = noise(1, (1, 401))
    assert not paired_interval(same, same, block=7).excludes_zero()


@pytest.mark.parametrize("n", [997, LEAST_BLOCKS])
def test_without_overlap_a_block_of_one_gives_the_textbook_interval(n):
    difference = noise(3, n)
    interval = paired_interval(difference[None], np.zeros((1, n)), block=1)
    textbook = stats.ttest_1samp(difference, 0.0).confidence_interval(0.95)
    tolerance = 0.03 * (textbook.high - textbook.low)
    assert (interval.low, interval.high) == pytest.approx((textbook.low, textbook.high), abs=tolerance)


def test_overlap_widens_the_interval():
    values = overlapping(np.random.default_rng(4), 997, 24)
    short, long = (paired_interval(values[None], np.zeros((1, 997)), block=block) for block in (1, 48))
    assert long.high - long.low > 3 * (short.high - short.low)


def test_seeds_that_disagree_widen_the_interval():
    level = noise(5, (1, 401)) * 0.01
    agree, disagree = level + np.zeros((3, 1)), level + np.array([[-1.0], [0.0], [1.0]])
    assert paired_interval(agree, level, block=7).high < 0.01
    interval = paired_interval(disagree, level, block=7)
    # the spread over three seeds: t(2) * sd / sqrt(3) = 4.303 * 1 / 1.732
    assert interval.high == pytest.approx(2.484, abs=0.01)


def test_too_few_blocks_give_no_interval():
    values = noise(6, (1, 5 * LEAST_BLOCKS - 1))
    interval = paired_interval(values, values - 1, block=5)
    assert (interval.low, interval.high, interval.blocks) == (None, None, LEAST_BLOCKS - 1)
    assert not interval.excludes_zero()
    assert paired_interval(noise(6, (1, 5 * LEAST_BLOCKS)), np.zeros((1, 5 * LEAST_BLOCKS)), block=5).low is not None


def test_the_same_call_gives_the_same_interval():
    values = noise(7, (2, 401))
    assert paired_interval(values, values[::-1] * 2, block=7) == paired_interval(values, values[::-1] * 2, block=7)


@pytest.mark.parametrize(("n", "block", "width", "seeds"), [(2857, 120, 24, 1), (2857, 120, 24, 3), (2161, 432, 96, 2)])
def test_the_interval_holds_the_true_difference_about_nineteen_times_in_twenty(monkeypatch, n, block, width, seeds):
    """Windows of test size, errors that hang together over the horizon, seeds that scatter as much as they."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 400)
    random, hits, trials = np.random.default_rng(8), 0, 200
    for trial in range(trials):
        sides = [overlapping(random, n, width) + 0.05 * random.normal(size=(seeds, 1)) for _ in range(2)]
        if seeds == 1:
            sides = [overlapping(random, n, width)[None] for _ in range(2)]
        hits += not paired_interval(*sides, block=block, seed=trial).excludes_zero()
    assert 0.90 <= hits / trials <= 0.99
