"""Sums over windows against the windows themselves."""

import numpy as np
import pytest
import torch

from forecast.ops.window_sums import runs, window_sums

N, T = 211, 3
SERIES = 5 + torch.randn(N, T, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)


@pytest.mark.parametrize("length", [1, 7, 23])
@pytest.mark.parametrize(
    "starts",
    [range(188), range(17, 151), range(5), [188], [*range(61), *range(70, 139), 141, *range(150, 158)], []],
    ids=["from the first", "inside", "fewer than rows in a window", "one", "with gaps", "none"],
)
def test_they_are_those_of_the_windows_one_by_one(starts, length):
    starts = np.array(starts, dtype=np.int64)
    windows = [SERIES[s : s + length, column] for s in starts for column in range(T)]
    stacked = torch.stack(windows) if windows else SERIES.new_empty(0, length)
    gram, total, n, _ = window_sums(SERIES, starts, length)
    torch.testing.assert_close(gram, stacked.T @ stacked, rtol=1e-11, atol=1e-9)
    torch.testing.assert_close(total, stacked.sum(0), rtol=1e-11, atol=1e-9)
    assert n == len(starts) * T


def test_rows_outside_the_windows_have_no_part_in_them():
    noisy = SERIES.clone()
    noisy[:30], noisy[159:] = 1e9, -1e9
    starts = np.arange(30, 159 - 11 + 1)
    for clean, other in zip(window_sums(SERIES, starts, 11), window_sums(noisy, starts, 11), strict=True):
        assert torch.equal(torch.as_tensor(clean), torch.as_tensor(other))


def test_sums_of_longer_windows_are_a_part_of_those_of_shorter_ones():
    long, short = np.arange(40, 150), np.arange(17, 150)  # where forecasts may begin
    more = window_sums(SERIES, np.setdiff1d(short, long) - 7, 7 + 5)
    whole = window_sums(SERIES, long - 29, 29 + 5).last(7 + 5).plus(more)
    expected = window_sums(SERIES, short - 7, 7 + 5)
    torch.testing.assert_close(whole.gram, expected.gram, rtol=1e-11, atol=1e-9)
    torch.testing.assert_close(whole.total, expected.total, rtol=1e-11, atol=1e-9)
    assert whole.n == expected.n == 133 * T


@pytest.mark.parametrize(
    "numbers, expected",
    [([], []), ([0], [(0, 1)]), ([4, 5, 6], [(4, 3)]), ([0, 1, 3, 7, 8], [(0, 2), (3, 1), (7, 2)])],
)
def test_runs_of_consecutive_numbers(numbers, expected):
    assert list(runs(np.array(numbers, dtype=np.int64))) == expected
