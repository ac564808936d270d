"""Sums over the windows of many series: what one run after the other gives, and never a window over two series."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.ops import window_sums as module
from forecast.ops.window_sums import run_sums, window_sums


def drawn(rows, columns=2):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 150), min_size=0, max_size=9),
    length=st.sampled_from([1, 2, 13, 40]),
    columns=st.sampled_from([1, 3]),
)
def test_they_are_the_sums_of_the_windows(counts, length, columns):
    """Each series holds `count` windows and the rows that these reach; the next one begins right after."""
    sizes = np.array([count + length - 1 if count else 3 for count in counts], dtype=np.int64)
    begin = np.cumsum(sizes) - sizes
    starts = np.concatenate([np.arange(0), *(b + np.arange(c) for b, c in zip(begin, counts, strict=True))])
    series = drawn(int(sizes.sum()) + 1, columns)
    found = run_sums(series, starts.astype(np.int64), length)
    windows = torch.cat([series[s : s + length].T for s in starts]) if len(starts) else torch.zeros(0, length).double()
    torch.testing.assert_close(found.gram, windows.T @ windows, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.total, windows.sum(0), rtol=1e-9, atol=1e-9)
    assert found.n == len(windows)


def test_they_are_the_same_in_pieces_of_memory(monkeypatch):
    series, starts = drawn(997), np.r_[0:300, 350:433, 500:950]
    whole = run_sums(series, starts, 29)
    monkeypatch.setattr(module, "CELLS", 500)
    parts = run_sums(series, starts, 29)
    torch.testing.assert_close(whole.gram, parts.gram, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("length", [5, 31])
def test_they_are_those_of_one_run_after_the_other(length):
    series, starts = drawn(499), np.r_[3:90, 150:151, 200:460]
    ours, theirs = run_sums(series, starts, length), window_sums(series, starts, length)
    torch.testing.assert_close(ours.gram, theirs.gram, rtol=1e-10, atol=1e-9)
    torch.testing.assert_close(ours.total, theirs.total, rtol=1e-10, atol=1e-9)
