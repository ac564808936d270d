"""Ridge regression of a window's last rows on those before them and on further regressors, which have a strength of
their own.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from forecast.ops.ridge import LinearMap, Naive, naive_forecast
from forecast.ops.window_sums import WindowSums


class JointSystem(NamedTuple):
    """The normal equations of a joint ridge, but for its strengths.

    regressors (L + M, L + M): the covariance of the past less its level, and of the M further ones. across
    (P, L + M): theirs with what the naive forecast (P, L) leaves of the future. level (L,), mean (L + P + M,).
    tiny: what is added to the variances whatever the strength, so that there is a solution.
    """

    regressors: Tensor
    across: Tensor
    forecast: Tensor
    level: Tensor
    mean: Tensor
    tiny: Tensor


def joint_system(sums: WindowSums, *, look_back: int, pred_len: int, naive: Naive, period: int | None) -> JointSystem:
    """Of least squares over windows [past L | future P | regressors M] with these `sums`, less a naive forecast.

    The share of the intercept is of the column's own step: the regressors are always less their means.
    """
    n, past, future = sums.n, slice(0, look_back), slice(look_back, look_back + pred_len)
    more = slice(look_back + pred_len, None)
    forecast, level = naive_forecast(naive, look_back, pred_len, period or 1)
    share = torch.ones_like(sums.total)
    share[: look_back + pred_len] = sums.intercept
    mean = share * sums.total / n
    covariance = sums.covariance(mean)
    # Rows of the past, and what the naive forecast leaves of the future: first as rows of one matrix, then as columns.
    left = covariance[future] - forecast @ covariance[past]
    weighed = covariance[past] - level @ covariance[past]
    own = weighed[:, past] - (weighed[:, past] @ level)[:, None]
    beside = weighed[:, more]
    regressors = torch.cat([torch.cat([own, beside], 1), torch.cat([beside.T, covariance[more, more]], 1)])
    across = torch.cat([left[:, past] - (left[:, past] @ level)[:, None], left[:, more]], 1)
    # The round-off of a covariance goes by the squares that it is a difference of: a constant column has no other.
    limits = torch.finfo(mean.dtype)
    tiny = 10 * limits.eps * sums.gram.diagonal().max() / n + limits.tiny
    return JointSystem(regressors, across, forecast, level, mean, len(regressors) * tiny)


def joint_map(system: JointSystem, *, strength: float, effect_strength: float) -> LinearMap | None:
    """The map at these strengths, shares of the mean variance of their regressors; None where they are too small."""
    (pred_len, look_back), mean = system.forecast.shape, system.mean
    variances = system.regressors.diagonal()
    ridge = torch.cat(
        [
            # a variance is a difference of large sums: round-off can make that of a constant column negative
            part.mean().clamp_min(0.0) * share * torch.ones_like(part)
            for part, share in ((variances[:look_back], strength), (variances[look_back:], effect_strength))
        ]
    )
    # cholesky_ex reports a failure as a number: too small a strength is an answer here, not an error
    factor, failed = torch.linalg.cholesky_ex(system.regressors + torch.diag(ridge + system.tiny))
    if failed:
        return None
    solved = torch.cholesky_solve(system.across.T, factor).T
    weight, effect = solved[:, :look_back], solved[:, look_back:]
    # from the past less its level back to the past itself; each row sums to one, so a shift of the column is kept
    weight = system.forecast + weight - weight.sum(1, keepdim=True) * system.level
    end = look_back + pred_len
    return LinearMap(weight, mean[look_back:end] - weight @ mean[:look_back] - effect @ mean[end:], effect)


def joint_squared_error(sums: WindowSums, linear: LinearMap) -> float:
    """The error of a map over the windows of `sums`, as `joint_system` has them, mean over windows and steps."""
    weight, bias, effect = linear
    assert effect is not None
    residual = torch.cat([-weight, torch.eye(len(weight), dtype=weight.dtype), -effect], 1)  # a window's, less the bias
    squares = ((residual @ sums.gram) * residual).sum() + bias @ (sums.n * bias - 2 * (residual @ sums.total))
    # large sums nearly cancel for a good map: round-off can leave less than nothing
    return max(0.0, float(squares)) / (sums.n * len(weight))
