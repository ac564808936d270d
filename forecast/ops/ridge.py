"""Ridge regression of a window's last rows on those before them, from sums over windows alone."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.ops.window_sums import WindowSums, running_sum

Naive = Literal["last", "mean", "season"]
# As shares of the regressors' mean variance. The maps that are near in strength are near in error, so decades will do.
STRENGTHS = tuple(10.0**k for k in range(-4, 3))
BLOCKS = 8  # of train windows, by which an intercept is told from chance


class LinearMap(NamedTuple):
    """weight (P, L), bias (P,): from L rows of a column to the P after them. Each row of the weight sums to one.

    effect (P, M): of M further regressors, from their values to the P rows; None without any.
    """

    weight: Tensor
    bias: Tensor
    effect: Tensor | None = None


def naive_forecast(
    naive: Naive, look_back: int, pred_len: int, period: int
) -> tuple[Float[Tensor, "P L"], Float[Tensor, "L"]]:
    """A naive forecast of L rows as a map (P, L), and its level, their weighted mean, as weights (L,); float64.

    last: the last value. mean: the mean of all. season: the last `period` values, over again, and their mean.
    """
    level = torch.zeros(look_back, dtype=torch.float64)
    level[-{"last": 1, "mean": look_back, "season": period}[naive] :] = 1.0
    level /= level.sum()
    forecast = level.repeat(pred_len, 1)
    if naive == "season":
        steps = torch.arange(pred_len)
        forecast.zero_()[steps, look_back - period + steps % period] = 1.0
    return forecast, level


def intercept_share(
    series: Float[Tensor, "N T"], origins: npt.NDArray[np.int64], *, look_back: int, pred_len: int
) -> float:
    """How much of its intercept a map fitted to the windows at `origins` (W,) is to keep: from 0 to 1.

    An intercept is the step from the past of a window to its future that is the same in all windows: a trend, or how
    the train rows happened to end, which later rows do not repeat. Of that step, the mean over BLOCKS of successive
    windows, 1 - 1 / t^2 is kept (James and Stein 1961, "Estimation with Quadratic Loss"), t being its size in standard
    errors: nothing where it is no larger than one. 1 where the windows are too few to say.
    """
    apart = min(BLOCKS, 1 + len(origins) // (look_back + pred_len))  # windows of other rows than one another's
    if apart < 2 or len(origins) < BLOCKS:
        return 1.0
    before = np.concatenate([[0.0], running_sum(series.mean(1).reshape(1, 1, -1, 1)).flatten().numpy()])
    step = (before[origins + pred_len] - before[origins]) / pred_len
    step -= (before[origins] - before[origins - look_back]) / look_back
    blocks = np.array([block.mean() for block in np.array_split(step, BLOCKS)])
    mean, variance = float(blocks.mean()), float(blocks.var(ddof=1)) / apart
    return 1 - variance / mean**2 if mean**2 > variance else 0.0


def ridge_maps(
    sums: WindowSums, look_back: int, *, naive: Naive, period: int = 1, strengths: Sequence[float] = STRENGTHS
) -> list[LinearMap]:
    """The maps of `maps_by_strength`, in the order of their strengths."""
    return list(maps_by_strength(sums, look_back, naive=naive, period=period, strengths=strengths).values())


def maps_by_strength(
    sums: WindowSums, look_back: int, *, naive: Naive, period: int = 1, strengths: Sequence[float] = STRENGTHS
) -> dict[float, LinearMap]:
    """One map a strength: least squares over the windows of `sums`, shrunk towards a naive forecast.

    The regressors are the `look_back` rows before the last P of a window less their level, the regressands those P less
    the naive forecast, both less the share `sums.intercept` of their means; strength times the mean variance of a
    regressor is the ridge. A column that is shifted is forecast the same, shifted. A strength that is too small for
    these windows has no map.
    """
    n_rows, n = look_back, sums.n
    forecast, level = naive_forecast(naive, n_rows, len(sums.total) - n_rows, period)
    mean = sums.intercept * sums.total / n
    covariance = sums.covariance(mean)
    past, across = covariance[:n_rows, :n_rows], covariance[n_rows:, :n_rows]
    weighed = past @ level
    regressors = past - weighed - weighed[:, None] + level @ weighed  # (L, L): of x - level'x
    across = across - forecast @ past
    across = across - (across @ level)[:, None]  # (P, L): of y - forecast x with those
    variance, identity = regressors.diagonal().mean().clamp_min(0.0), torch.eye(n_rows, dtype=past.dtype)
    # The round-off of a covariance goes by the squares that it is a difference of: a constant column has no other.
    tiny = 10 * torch.finfo(past.dtype).eps * sums.gram.diagonal().max() / n + torch.finfo(past.dtype).tiny
    maps = {}
    for strength in strengths:
        factor, failed = torch.linalg.cholesky_ex(regressors + (strength * variance + n_rows * tiny) * identity)
        if failed:
            continue  # rows that hardly differ: a stronger one is solvable
        weight = torch.cholesky_solve(across.T, factor).T
        # from the past less its level back to the past itself
        weight = forecast + weight - weight.sum(1, keepdim=True) * level
        maps[strength] = LinearMap(weight, mean[n_rows:] - weight @ mean[:n_rows])
    return maps


def mean_squared_error(sums: WindowSums, linear: LinearMap) -> float:
    """The error of a map over the windows of `sums`, mean over windows and steps: as if it had forecast each."""
    weight, bias, _ = linear
    n_steps, n_rows = weight.shape
    past, future = slice(-n_rows - n_steps, -n_steps), slice(-n_steps, None)
    gram, total, n = sums.gram, sums.total, sums.n
    squares = gram.diagonal()[future].sum() + ((weight @ gram[past, past] - 2 * gram[future, past]) * weight).sum()
    squares += bias @ (2 * (weight @ total[past] - total[future]) + n * bias)
    # large sums nearly cancel for a good map: round-off can leave less than nothing
    return max(0.0, float(squares)) / (n * n_steps)


def mean_map(maps: Sequence[LinearMap], shares: Sequence[float]) -> LinearMap:
    """The map whose forecast is the mean of theirs, each with its share; rows that one does not read add nothing."""
    longest = max(linear.weight.shape[1] for linear in maps)
    weight = maps[0].weight.new_zeros(len(maps[0].weight), longest)
    bias = torch.zeros_like(maps[0].bias)
    for linear, share in zip(maps, shares, strict=True):
        # aligned at the end: all look-backs end where the forecast begins
        weight[:, longest - linear.weight.shape[1] :] += share / sum(shares) * linear.weight
        bias += share / sum(shares) * linear.bias
    effects = [
        share / sum(shares) * linear.effect
        for linear, share in zip(maps, shares, strict=True)
        if linear.effect is not None
    ]
    return LinearMap(weight, bias, torch.stack(effects).sum(0) if effects else None)
