"""Auto-correlation on numbers that a reader can follow."""

import pytest
import torch

from forecast.attention.autocorrelation import AutoCorrelation, n_delays


@pytest.mark.parametrize(
    "length, factor, kept", [(1, 1, 1), (2, 1, 1), (96, 1, 4), (96, 3, 13), (720, 1, 6), (4, 9, 4)]
)
def test_so_many_delays_are_kept(length, factor, kept):
    assert n_delays(length, factor) == kept


def test_queries_that_repeat_the_keys_a_step_later_shift_the_values_by_a_step():
    """Of six steps one delay is kept; the values move the other way round, as in the paper."""
    keys = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).view(1, 1, 6, 1)
    values = torch.arange(6.0).view(1, 1, 6, 1)
    out = AutoCorrelation(causal=False, layer=0)(keys.roll(1, dims=2), keys, values)
    assert out.flatten().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 0.0]


def test_what_repeats_every_four_steps_is_seen_at_delays_of_whole_periods_alone():
    x = torch.tensor([3.0, 0.0, 0.0, 0.0] * 3).view(1, 1, 12, 1)
    values = torch.tensor([5.0, 6.0, 7.0, 8.0] * 3).view(1, 1, 12, 1)
    torch.testing.assert_close(AutoCorrelation(causal=False, layer=0)(x, x, values), values)


def test_the_first_keys_are_taken_of_many_and_zeros_beside_few():
    q, k, v = (torch.randn(1, 2, n, 3, generator=torch.Generator().manual_seed(n)) for n in (6, 9, 9))
    mechanism = AutoCorrelation(causal=False, layer=0)
    assert torch.equal(mechanism(q, k, v), mechanism(q, k[:, :, :6], v[:, :, :6]))
    few = [torch.cat([x[:, :, :4], torch.zeros(1, 2, 2, 3)], dim=2) for x in (k, v)]
    assert torch.equal(mechanism(q, k[:, :, :4], v[:, :, :4]), mechanism(q, *few))
