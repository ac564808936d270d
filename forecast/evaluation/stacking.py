"""The weights of an ensemble's members, from their errors on the validation windows."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import nnls
from torch import Tensor

from forecast.data.prepare import Prepared
from forecast.evaluation.calibrate import MOST_FITS, block_count
from forecast.evaluation.evaluate import check_finite, chunk_on, exact_float32, in_chunks
from forecast.models.weighted_ensemble import WeightedEnsemble, blocks_of, numbers_of_series

Loss = Literal["mse", "mae"]

MOST_CELLS = 4_000_000  # errors of a member looked at together; of more windows every k-th counts
TOLERANCE = 0.1  # a member whose error is so much above the least, in times of that, has 1 / e of its prior share,
BY_CHANCE = 0.3  # and so much more over the root of the windows of their own
MOST_BLOCKS = 4  # of steps with weights of their own
DOUBT = 3  # windows of its own that the weight of one member is worth: docs/experiments.md, "Weights of an ensemble"
ENOUGH = 10  # windows of their own: fewer cannot tell whether the mean or the best member errs less
ORIGINS_APART, FEW_ORIGINS = 4, 3  # of weights by series: so many in a horizon, and in a series at least
SPREAD, DRAWN = 0.2, 0.3  # of factors by series: docs/experiments.md, "Weights by series"
HARDLY = 0.01  # of the weight, over all blocks
REPEATS = 20  # of least squares, until the weighted ones are least absolute errors
LEAST_ERROR = 1e-6  # in scaled units: an absolute error below it weighs no more


class MemberErrors(NamedTuple):
    """errors (N, P, T, M) of the forecasts of M members, scaled, NaN where no truth was measured. windows: how many
    there are, of which these are every k-th. independent: how many of them have targets that no other one has.
    flexible (M,): whether a member is, as `ForecastModel` has it. series (N,): the number of each window's; None: there
    is one, or all have the same weights.
    """

    errors: Tensor
    windows: int
    independent: int
    flexible: Sequence[bool]
    series: Tensor | None = None

    def some(self, rows: slice) -> "MemberErrors":
        """Those of some of the N windows."""
        errors = self.errors[rows]
        share = len(errors) / max(1, len(self.errors))
        return self._replace(
            errors=errors,
            windows=math.ceil(self.windows * share),
            independent=math.ceil(self.independent * share),
            series=None if self.series is None else self.series[rows],
        )


@torch.inference_mode()
def member_errors(model: WeightedEnsemble, data: Prepared, *, batch_size: int, device: torch.device) -> MemberErrors:
    """The errors of an ensemble's members on the validation windows."""
    data = data.on(device)
    windows = data.windows("val", look_back=max(data.seq_len, model.look_back))
    cells = len(windows) * data.pred_len * len(data.targets)
    stride = max(1, -(-cells // MOST_CELLS))
    if model.by_series:  # neighbours say the same
        of_each = len(windows) // max(1, int(np.count_nonzero(windows.counts)))
        stride = max(stride, min(data.pred_len // ORIGINS_APART, of_each // FEW_ORIGINS))
    if model.fits_each_window:
        stride = max(stride, -(-len(windows) // MOST_FITS))
    by_batch, series = [], []
    with exact_float32():
        for batch in in_chunks(windows, np.arange(0, len(windows), stride), batch_size, chunk_on(device)):
            rows = model.look_back
            forecasts = model.forecasts(batch.past[:, -rows:], batch.past_known[:, -rows:], batch.future_known)
            for forecast in forecasts:
                check_finite(forecast, batch.past)
            errors = torch.stack(forecasts, dim=-1) - batch.target.unsqueeze(-1)
            if batch.measured is not None:
                errors = torch.where(batch.measured.unsqueeze(-1), errors, math.nan)
            by_batch.append(errors.cpu())
            if model.by_series:
                series.append(numbers_of_series(batch.future_known).cpu())
    flexible = [member.flexible for member in model.each]
    numbers = torch.cat(series) if series else None
    return MemberErrors(torch.cat(by_batch), len(windows), block_count(windows, data.pred_len), flexible, numbers)


def mean_loss(members: MemberErrors, weights: Float[Tensor, "P M"], loss: Loss) -> float:
    """The error of the weighted mean of the members, by step, scaled units."""
    errors = (members.errors * weights[:, None, :].to(members.errors)).sum(-1)
    errors = errors[torch.isfinite(errors)].double()
    return float(errors.square().mean() if loss == "mse" else errors.abs().mean())


def member_losses(members: MemberErrors, loss: Loss) -> list[float]:
    """The error of each member."""
    steps, count = members.errors.shape[1], members.errors.shape[-1]
    return [mean_loss(members, torch.eye(count)[member].expand(steps, -1), loss) for member in range(count)]


def stacked(members: MemberErrors, loss: Loss) -> Float[Tensor, "K M"]:
    """The weights of the members by block of steps, each row not negative and summing to one.

    What the validation windows say of the weights, least squares or least absolute errors, is shrunk twice as they are
    few: the weights of a block towards those of all steps, and these towards `prior`. Each counts as `independent`
    windows do against DOUBT for every member.
    """
    losses, (_, steps, _, count) = member_losses(members, loss), members.errors.shape
    trust = members.independent / (members.independent + DOUBT * count)
    shares = prior(losses, members.flexible, windows=members.independent)
    overall = trust * least_weights(members.errors, loss) + (1 - trust) * shares
    blocks = min(MOST_BLOCKS, steps)
    member_of = blocks_of(steps, blocks)
    own = torch.stack([least_weights(members.errors[:, member_of == block], loss) for block in range(blocks)])
    share = trust / blocks
    weights = share * own + (1 - share) * overall
    weights = weights * (weights.mean(0) >= HARDLY)  # a member that is hardly heard costs as much as any other
    return weights / weights.sum(1, keepdim=True)


def factors_by_series(
    members: MemberErrors, weights: Float[Tensor, "K M"], loss: Loss, count: int
) -> Float[Tensor, "S M"]:
    """By what the weights are multiplied in each of `count` series by its number, 1 where it has no window.

    exp(-(E - least E) / SPREAD), E (S, M) what a member errs in a series beside the best one there, a part of it DRAWN
    to the same over all series, as few windows of one series say little of it. Only of members that have a weight.
    """
    assert members.series is not None
    sizes = members.errors.square() if loss == "mse" else members.errors.abs()
    of_windows = sizes.nanmean((1, 2)).double()  # (N, M)
    held = torch.isfinite(of_windows).all(-1)
    sums = torch.zeros(count, of_windows.shape[1] + 1, dtype=torch.float64)
    counted = torch.cat([of_windows, torch.ones(len(of_windows), 1)], dim=1)[held]
    sums.index_add_(0, members.series[held], counted)
    errors, used = sums[:, :-1] / sums[:, -1:], weights.sum(0) > 0
    errors = (errors.sqrt() if loss == "mse" else errors).clamp_min(LEAST_ERROR)
    overall = errors[sums[:, -1] > 0].mean(0)
    excess = (1 - DRAWN) * errors / errors[:, used].amin(1, keepdim=True) + DRAWN * overall / overall[used].min()
    factors = torch.exp(-(excess - excess[:, used].amin(1, keepdim=True)) / SPREAD)
    return torch.where((sums[:, -1:] > 0) & used, factors, 1.0)


def by_step(weights: Float[Tensor, "K M"], members: MemberErrors) -> Float[Tensor, "P M"]:
    """The weights of each step."""
    return weights[blocks_of(members.errors.shape[1], len(weights))]


def prior(losses: Sequence[float], flexible: Sequence[bool], *, windows: int) -> Float[Tensor, "M"]:
    """Equal weights for members that so many windows can hardly tell apart, the less the larger an error is.

    A flexible member, which may have learned those few windows' past by heart, has so much less of them as the windows
    are fewer than ENOUGH to judge it by.
    """
    least = max(min(losses), torch.finfo(torch.float64).tiny)
    tolerance = (TOLERANCE + BY_CHANCE / math.sqrt(max(1, windows))) * least
    trust = windows / (windows + ENOUGH)
    shares = torch.tensor(
        [
            math.exp(-(loss - least) / tolerance) * (trust if of else 1)
            for loss, of in zip(losses, flexible, strict=True)
        ],
        dtype=torch.float64,
    )
    return shares / shares.sum()


def least_weights(errors: Float[Tensor, "N P T M"], loss: Loss) -> Float[Tensor, "M"]:
    """The weights on the simplex whose mean forecast errs least. Of least absolute errors by reweighted squares."""
    flat = errors.flatten(0, 2)
    flat = flat[torch.isfinite(flat).all(-1)].double()
    weights = least_squares(flat.T @ flat)
    for _ in range(REPEATS if loss == "mae" else 0):
        size = (flat @ weights).abs().clamp_min(LEAST_ERROR)
        weights = least_squares(flat.T @ (flat / size[:, None]))
    return weights


def least_squares(gram: Float[Tensor, "M M"]) -> Float[Tensor, "M"]:
    """The weights w on the simplex with the least w' G w.

    By one problem without the sum: of all multiples t w the one with the least t^2 w'Gw + (t - 1)^2 has the value
    q / (1 + q), q = w'Gw, which grows with q; so its direction is that of the least q.
    """
    scale = float(gram.diagonal().mean())
    if not scale > 0:
        return torch.full((len(gram),), 1 / len(gram), dtype=torch.float64)
    values, vectors = np.linalg.eigh((gram / scale).numpy())
    root = np.sqrt(values.clip(0))[:, None] * vectors.T
    ones, wanted = np.ones((1, len(gram))), np.zeros(len(gram) + 1)
    wanted[-1] = 1.0
    solution, _ = nnls(np.concatenate([root, ones]), wanted)
    return torch.from_numpy(solution / solution.sum())
