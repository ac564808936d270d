"""Epochs of windows that are drawn: without bias, by seed and epoch alone."""

import numpy as np
import pytest
import torch

from forecast.training.datamodule import DrawnOrder, TrainBatches

COUNTS = np.array([700, 0, 20, 280])  # of four series
ENDS = np.cumsum(COUNTS)
DRAWS = 20_000


def drawn(order, epochs):
    """The window numbers of some epochs, one after another."""
    numbers = []
    for epoch in range(epochs):
        order.set_epoch(epoch)
        numbers.append(order.permutation())
    return torch.cat(numbers).numpy()


def test_an_epoch_holds_each_window_once_at_most_and_another_choice_each_time():
    """113 of 1,000."""
    order = DrawnOrder(1000, drawn=113, seed=1)
    one, other = order.permutation(), (order.set_epoch(1), order.permutation())[1]
    assert order.count == len(one) == len(set(one.tolist())) == 113
    assert set(one.tolist()) != set(other.tolist())
    order.set_epoch(0)
    assert torch.equal(order.permutation(), one)


def test_more_windows_than_there_are_is_all_of_them():
    """No window comes twice."""
    order = DrawnOrder(17, drawn=1000, seed=1)
    assert sorted(order.permutation().tolist()) == list(range(17))


def test_each_window_is_as_likely_as_any_other():
    """A chi-squared test of 1,000 cells; the bound is passed once in ten thousand."""
    numbers = drawn(DrawnOrder(1000, drawn=100, seed=3), DRAWS // 100)
    expected = DRAWS / 1000
    assert ((np.bincount(numbers, minlength=1000) - expected) ** 2 / expected).sum() < 1170


def test_each_series_is_as_likely_as_any_other_and_so_is_each_window_in_it():
    """However many windows a series has; one without any never comes."""
    numbers = drawn(DrawnOrder(1000, drawn=1000, seed=3, ends=ENDS), DRAWS // 1000)
    series = np.searchsorted(ENDS, numbers, side="right")
    shares = np.bincount(series, minlength=4) / DRAWS
    np.testing.assert_allclose(shares, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.015)
    within = np.bincount(numbers[series == 2] - 700, minlength=20)
    assert within.min() > 0.7 * within.mean() and within.max() < 1.3 * within.mean()


@pytest.mark.parametrize("ends", [None, ENDS])
def test_a_million_windows_cost_what_is_drawn(ends):
    """Of a billion windows a hundred are drawn without a list of them."""
    windows = 10**9
    ends = None if ends is None else np.array([windows // 2, windows])
    numbers = DrawnOrder(windows, drawn=100, seed=1, ends=ends).permutation()
    assert len(numbers) == 100 and int(numbers.max()) < windows and int(numbers.min()) >= 0


def test_the_batches_of_an_epoch_are_those_drawn():
    """In their order, the last batch with the rest."""
    order = DrawnOrder(1000, drawn=113, seed=1)
    batches = TrainBatches(order, batch_size=32).batch_indices(torch.device("cpu"))
    assert [len(batch) for batch in batches] == [32, 32, 32, 17]
    assert torch.equal(torch.cat(batches), order.permutation())
