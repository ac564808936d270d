"""The weights of an ensemble: on the simplex, of the least error there, and near to equal where little is known."""

import pytest
import torch

from forecast.evaluation.stacking import (
    MemberErrors,
    by_step,
    factors_by_series,
    least_weights,
    mean_loss,
    member_losses,
    prior,
    stacked,
)

N, P, T, M = 211, 5, 3, 4
LOSSES = pytest.mark.parametrize("loss", ["mse", "mae"])


def errors(seed=0, sizes=(1.0, 1.3, 2.0, 0.9)):
    """Of members that err independently, but the last, which has much in common with the first."""
    noise = torch.randn(N, P, T, M, generator=torch.Generator().manual_seed(seed)) * torch.tensor(sizes)
    noise[..., -1] += 0.5 * noise[..., 0]
    return noise


def found(noise, independent=97):
    return MemberErrors(noise, len(noise), independent, [False] * M)


def on_the_simplex(count, seed=1):
    shares = torch.rand(count, M, generator=torch.Generator().manual_seed(seed)) ** 3
    return shares / shares.sum(1, keepdim=True)


@LOSSES
def test_no_other_weights_on_the_simplex_err_less(loss):
    noise = errors()
    weights = least_weights(noise, loss)
    assert weights.min() >= 0 and weights.sum() == pytest.approx(1)
    least = mean_loss(found(noise), weights.expand(P, M), loss)
    corners = torch.eye(M)
    others = [mean_loss(found(noise), one.expand(P, M), loss) for one in (*on_the_simplex(400), *corners)]
    assert least <= min(others) * (1 + 1e-6)


def test_members_that_err_independently_have_weights_by_the_inverse_of_their_variance():
    sizes = torch.tensor([1.0, 2.0, 3.0, 1.5]) / 1000  # so small that all squares are below one in the sum
    noise = torch.randn(20011, 2, 1, M, generator=torch.Generator().manual_seed(2)) * sizes
    expected = sizes**-2 / (sizes**-2).sum()
    torch.testing.assert_close(least_weights(noise, "mse").float(), expected, atol=0.02, rtol=0)


@LOSSES
def test_two_members_alike_share_what_one_of_them_would_have(loss):
    noise = errors()
    twice = torch.cat([noise, noise[..., :1]], dim=-1)
    weights = least_weights(twice, loss)
    torch.testing.assert_close(weights[0] + weights[-1], least_weights(noise, loss)[0], atol=1e-4, rtol=0)


def test_members_that_never_err_share_evenly():
    assert least_weights(torch.zeros(N, P, T, M), "mse").tolist() == [0.25] * 4


def test_cells_that_nobody_measured_count_for_nothing():
    noise = errors()
    holed = noise.clone()
    holed[::2] = torch.nan
    torch.testing.assert_close(least_weights(holed, "mse"), least_weights(noise[1::2], "mse"))
    assert member_losses(found(holed), "mse") == pytest.approx(member_losses(found(noise[1::2]), "mse"))


@LOSSES
def test_the_fewer_the_windows_the_less_they_move_the_weights_from_what_the_errors_alone_say(loss):
    noise = errors()
    expected = {
        1: prior(member_losses(found(noise), loss), [False] * M, windows=1),
        100_000: least_weights(noise, loss),
    }
    for independent, wanted in expected.items():
        weights = stacked(found(noise, independent=independent), loss)
        assert weights.shape == (4, M) and weights.min() >= 0
        torch.testing.assert_close(weights.sum(1), torch.ones(4, dtype=torch.float64))
        torch.testing.assert_close(weights.mean(0), wanted, atol=0.06, rtol=0)
    assert (expected[1] - expected[100_000]).abs().max() > 0.09


def test_members_that_can_hardly_be_told_apart_have_equal_shares_before_their_windows_are_weighed():
    assert prior([1.0, 1.001, 1.002], [False] * 3, windows=100).tolist() == pytest.approx([1 / 3] * 3, abs=0.005)
    assert prior([1.0, 2.0], [False] * 2, windows=100_000).tolist() == pytest.approx([1, 0], abs=1e-4)


def test_few_windows_tell_members_apart_less():
    shares = [prior([1.0, 1.2], [False] * 2, windows=windows)[1].item() for windows in (1, 3, 30, 3_000)]
    assert shares == sorted(shares, reverse=True) and shares[0] > 0.35 and shares[-1] < 0.15


def test_a_member_that_errs_much_more_has_hardly_a_weight_however_few_the_windows_are():
    assert stacked(found(errors(sizes=(1.0, 1.0, 9.0, 1.0)), independent=1), "mse")[:, 2].max() < 0.01


def test_each_block_of_steps_has_weights_of_its_own():
    noise = errors(sizes=(1.0, 1.0, 1.0, 1.0))
    noise[:, :2, :, 1] *= 0.01  # of the first block alone
    weights = by_step(stacked(found(noise, independent=10_000), "mse"), found(noise))
    assert weights[0, 1] == weights[1, 1] > weights[-1, 1] + 0.1


def test_few_windows_lean_to_members_that_learn_little():
    shares = {windows: prior([1.0, 1.0], [False, True], windows=windows).tolist() for windows in (1, 10, 10_000)}
    assert shares[1] == pytest.approx([11 / 12, 1 / 12])
    assert shares[10] == pytest.approx([2 / 3, 1 / 3])
    assert shares[10_000] == pytest.approx([0.5, 0.5], abs=1e-3)
    better = prior([1.3, 1.0], [False, True], windows=1)
    assert better[1] > shares[1][1]  # and yet an error says what it says


@LOSSES
def test_series_of_two_kinds_have_the_weights_of_their_kind_and_any_other_those_of_all(loss):
    """The first member errs a third in the even series, the second in the odd ones; of new windows, too."""
    numbers = torch.arange(1, 41).repeat_interleave(3)  # three windows each, from 1 on
    kinds = torch.stack([numbers % 2 == 0, numbers % 2 == 1], dim=1)[:, None, None]

    def drawn(seed):
        noise = torch.randn(len(numbers), P, T, 2, generator=torch.Generator().manual_seed(seed))
        return noise * torch.where(kinds, 0.33, 1.0)

    members = MemberErrors(drawn(0), len(numbers), len(numbers), [False, False], numbers)
    weights = stacked(members, loss)
    factors = factors_by_series(members, weights, loss, 42)
    assert factors[0].tolist() == factors[41].tolist() == [1.0, 1.0]  # of any other, and of one without a window
    of_windows = weights.mean(0) * factors[numbers]
    of_windows = of_windows / of_windows.sum(1, keepdim=True)
    assert (of_windows > 0.75)[kinds[:, 0, 0]].all()
    later = drawn(1)
    alike, apart = ((later * w[:, None, None]).sum(-1).abs().mean() for w in (weights.mean(0)[None], of_windows))
    assert apart < 0.7 * alike
