"""When a printed error counts as reproduced."""

import numpy as np
import pytest

from forecast.comparison.rows import SeedSpread
from studies.published.outcome import RULE, difference, interval, outcome

# Within 3 % of it: 0.485 to 0.515.
PRINTED = 0.5


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([0.5, 0.501, 0.499], "reproduced"),
        ([0.488, 0.489, 0.488], "reproduced"),
        ([0.486, 0.486, 0.486], "reproduced"),
        ([0.484, 0.484, 0.484], "missed"),  # a better forecast, but not the printed one
        ([0.516, 0.516, 0.516], "missed"),
        ([0.4, 0.401, 0.399], "missed"),
        ([0.6, 0.601, 0.599], "missed"),
        ([0.49, 0.51, 0.5], "not decided, within"),  # ± 0.0248
        ([0.514, 0.515, 0.513], "not decided, within"),
        ([0.53, 0.51, 0.52], "not decided, outside"),
        ([0.47, 0.49, 0.48], "not decided, outside"),
        ([0.2, 0.8, 0.5], "not decided, within"),  # noise makes nothing reproduced
        ([0.2, 1.1, 0.7], "not decided, outside"),
        ([0.49, 0.51, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "reproduced"),  # more seeds decide
        ([0.5], "one seed, within"),
        ([0.4849], "one seed, outside"),
        ([0.5, 0.5], "two seeds, within"),
        ([0.52, 0.52], "two seeds, outside"),
    ],
)
def test_reproduced_needs_three_seeds_and_the_whole_interval_within_three_percent(errors, expected):
    assert outcome(PRINTED, SeedSpread.over(errors)) == expected


def test_the_tolerance_is_a_share_of_the_printed_error():
    """0.02 was 38 % of 0.053."""
    seeds = [0.060, 0.0601, 0.0599]
    assert outcome(0.053, SeedSpread.over(seeds)) == "missed"
    assert outcome(0.0601, SeedSpread.over(seeds)) == "reproduced"


def test_what_has_no_seeds_is_called_exact_and_reproduces_nothing():
    assert outcome(PRINTED, SeedSpread(0.51, None, 1), exact=True) == "exact, within"
    assert outcome(PRINTED, SeedSpread(0.52, None, 1), exact=True) == "exact, outside"


def test_the_difference_is_in_percent_of_the_printed_error_with_the_interval_that_decides():
    assert difference(0.5, SeedSpread(0.519, None, 1)) == "+3.8 %"
    assert difference(0.5, SeedSpread(0.49999, None, 1)) == "+0.0 %"
    assert difference(0.5, SeedSpread(0.45, 0.1, 2)) == "-10.0 %"  # two seeds decide nothing
    assert difference(0.5, SeedSpread.over([0.49, 0.51, 0.5])) == "+0.0 % [-5.0, +5.0]"


def test_the_interval_holds_the_mean_over_all_seeds_in_95_of_100_trials():
    draws = np.random.default_rng(0).normal(0.7, 0.1, size=(2000, 3))
    ends = np.array([interval(SeedSpread.over(list(seeds))) for seeds in draws])
    held = (ends[:, 0] <= 0.7) & (ends[:, 1] >= 0.7)
    assert held.mean() == pytest.approx(0.95, abs=0.015)


def test_the_rule_is_told_with_the_numbers_that_decide():
    for words in ("3 seeds or more", "95 % interval", "whole interval within 3 %"):
        assert words in " ".join(RULE.split())
