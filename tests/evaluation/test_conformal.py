"""Conformal margins: the rank against brute force, what is too few, and coverage where windows are exchangeable."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.apps.common.intervals import calibration_of
from forecast.data.windows import Batch
from forecast.evaluation.conformal import (
    Calibration,
    Unrest,
    blocks_needed,
    calibrated_interval,
    conformal_margins,
)

P, T, C, K = 5, 2, 3, 7  # steps, targets, columns, levels
LEVELS = (10.0, 20.0, 50.0, 80.0, 90.0, 95.0, 99.0)


def brute_force(scores, level):
    """The smallest score that at least ceil((n + 1) level) of n do not exceed; the largest where there is none."""
    scores = sorted(score for score in scores if not math.isnan(score))
    needed = -(-(len(scores) + 1) * round(level * 10) // 1000)
    return next((s for s in scores if sum(other <= s for other in scores) >= needed), scores[-1])


@settings(deadline=None, max_examples=80)
@given(
    scores=st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=60),
    level=st.sampled_from([1.0, 10.0, 50.0, 80.0, 90.0, 95.0, 97.5, 99.0]),
    missing=st.integers(0, 3),
)
def test_the_margin_is_that_of_brute_force(scores, level, missing):
    with_gaps = torch.tensor([*scores, *[math.nan] * missing])[:, None, None]
    assert conformal_margins(with_gaps, level).item() == np.float32(brute_force(scores, level))


# with those at which level / (100 - level) is no whole number
BLOCKS = [(30, 1), (50, 1), (60, 2), (70, 3), (80, 4), (90, 9), (95, 19), (97.5, 39), (98.5, 66), (99, 99)]


@pytest.mark.parametrize(("level", "least"), BLOCKS)
def test_a_level_needs_so_many_scores(level, least):
    assert blocks_needed(level) == least


def test_a_cell_without_scores_has_the_largest_margin_of_its_column():
    scores = torch.arange(3.0 * P * T).view(3, P, T)
    scores[:, 1, 0] = math.nan
    margins = conformal_margins(scores, 95)
    assert margins[1, 0] == scores[2, P - 1, 0] and margins[1, 1] == scores[2, 1, 1]
    assert (conformal_margins(torch.full((3, P, T), math.nan), 95) == 0).all()


def test_coverage_of_exchangeable_scores_is_what_it_says():
    """Over many draws of 29 scores: each level lies between its promise and that plus 1 / (n + 1)."""
    draws = torch.randn(30, 4001, 1, generator=torch.Generator().manual_seed(0)).abs()
    for level in (50.0, 80.0, 95.0):
        held = (draws[29] <= conformal_margins(draws[:29], level)).double().mean().item()
        error = 3 * math.sqrt(level / 100 * (1 - level / 100) / 4001)
        assert level / 100 - error <= held <= level / 100 + 1 / 30 + error


def calibration(margins, **changes):
    unrest = Unrest(rows=11, period=3, targets=(2, 0), typical=torch.ones(T))
    kept = {"levels": LEVELS, "unrest": unrest, "windows": 41, "blocks": 13, "crossed": True}
    return Calibration(margins=margins, **kept | changes)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**16))
def test_an_interval_holds_its_point_and_those_of_lower_levels(seed):
    draws = torch.Generator().manual_seed(seed)
    point = torch.randn(4, P, T, generator=draws)
    own = torch.randn(2, 4, P, T, K, generator=draws)
    margins = torch.randn(K, P, T, generator=draws)  # some below zero, none in order
    low, high = calibration(margins).widened(torch.randn(4, 13, C, generator=draws), point, own[0], own[1])
    assert (low <= point.unsqueeze(-1)).all() and (point.unsqueeze(-1) <= high).all()
    assert (low.diff(dim=-1) <= 0).all() and (high.diff(dim=-1) >= 0).all()


def test_no_end_of_an_interval_is_below_the_floor_of_its_window():
    past, floor = torch.randn(4, 13, C), torch.tensor([-0.5, 0.25]).expand(4, 1, T)
    batch = Batch(past, past, past, past, past, floor=floor)
    cut = calibration(2 * torch.ones(K, P, T))
    point, low, high = calibrated_interval(cut, lambda past, *_: past[:, :P, :T], batch, rows=13)
    assert torch.equal(point, past[:, :P, :T].maximum(floor))
    for ends in (low, high):
        assert (ends >= floor.unsqueeze(-1)).all()
    free_low, free_high = cut.widened(past, point, point.unsqueeze(-1), point.unsqueeze(-1))
    assert (free_low < floor.unsqueeze(-1)).any() and torch.equal(low, free_low.maximum(floor.unsqueeze(-1)))
    assert torch.equal(high, free_high)


def test_half_of_a_margin_follows_the_unrest_of_the_past():
    past = torch.zeros(2, 13, C)
    past[1, :, 2] = torch.arange(13.0)  # goes 3 up in 3 rows, the target 0; the target 1 rests
    factors = calibration(torch.zeros(K, P, T)).unrest.factors(past)
    assert factors.shape == (2, 1, T) and factors[0].tolist() == [[0.5, 0.5]] and factors[1].tolist() == [[2.0, 0.5]]


def test_a_column_that_never_moves_keeps_its_margins():
    still = Unrest(rows=11, period=3, targets=(2, 0), typical=torch.zeros(T))
    assert (still.factors(torch.ones(2, 13, C)) == 1).all()


def test_the_state_gives_the_same_calibration():
    one = calibration(torch.rand(K, P, T))
    again = calibration_of(one.state(), (2, 0))
    assert torch.equal(again.margins, one.margins) and again.levels == LEVELS and again.crossed
    past, point = torch.rand(4, 13, C), torch.rand(4, P, T)
    ends = point.unsqueeze(-1).expand(4, P, T, K)
    for ours, theirs in zip(one.widened(past, point, ends, ends), again.widened(past, point, ends, ends), strict=True):
        assert torch.equal(ours, theirs)
