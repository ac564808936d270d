"""Heads that say how sure a forecast is: several numbers for each target and step in place of one."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from jaxtyping import Float
from scipy import special
from torch import Tensor, nn

from forecast.bounds import ASCENDING, LEVEL, are_ascending
from forecast.ops.columns import take_columns

MEDIAN = 0.5
LEAST_SCALE = 1e-3  # in units of the model's forecast: a likelihood of rows that repeat would grow without end
LEAST_FREEDOM = 2.01  # degrees of freedom: from 2 down a Student's t has no variance
FIRST_FREEDOM = 4.0  # above LEAST_FREEDOM, before the training


class Spread(nn.Module):
    """What the O numbers of a target and step mean, and the loss that they are trained on.

    A model gives raw numbers, `from_raw` the parameters of as many, which are constrained. raw[..., 0] is the point
    forecast as it is: a decoder feeds it back, and what a model adds to its forecast it adds to this one alone.

    Called with parameters (B, R, N, O) and the truth (B, R, N) it gives the loss of each cell (B, R, N), in the units
    of the parameters: cells may be left out of the mean.
    """

    def __init__(self) -> None:  # without arguments: those of nn.Module would let any key of a config through
        super().__init__()

    @property
    def n_outputs(self) -> int:
        """O."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """What the O parameters are, in words."""
        raise NotImplementedError

    def for_columns(self, n_columns: int, targets: Sequence[int]) -> None:
        """The model that takes it says which columns it learns: how many, N, and which T of them are the targets."""

    def from_raw(self, raw: Float[Tensor, "B P T O"]) -> Float[Tensor, "B P T O"]:
        """Raw numbers of any size -> parameters, in float32 at least."""
        raise NotImplementedError

    def moved(
        self, parameters: Float[Tensor, "B P T O"], mean: Float[Tensor, "B #P T"], std: Float[Tensor, "B 1 T"]
    ) -> Float[Tensor, "B P T O"]:
        """The parameters of x * std + mean, x having these: (B, P, T, O); mean (B, 1, T) or (B, P, T),
        std (B, 1, T) above 0.
        """
        raise NotImplementedError

    def point(self, parameters: Float[Tensor, "B P T O"]) -> Float[Tensor, "B P T"]:
        """The point forecast: the median, of a distribution its mean too. (B, P, T, O) -> (B, P, T)."""
        raise NotImplementedError

    def interval(
        self, parameters: Float[Tensor, "B P T O"], levels: Sequence[int | float]
    ) -> tuple[Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """Lower and upper ends of the K central intervals of these levels, in per cent: (B, P, T, O) -> (B, P, T, K).

        Neither end is beyond the point. Raises ValueError for a level that is not above 0 and below 100.
        """
        raise NotImplementedError

    def forward(self, parameters: Float[Tensor, "B R N O"], truth: Float[Tensor, "B R N"]) -> Float[Tensor, "B R N"]:
        """The loss of each cell (B, R, N), in the units of the parameters."""
        raise NotImplementedError


class Quantiles(Spread):
    """The quantiles at `levels`, which cannot cross, and the median among them, the point forecast.

    A raw number is the median; each of the others is how far a quantile is from its neighbour on the median's side,
    made positive by softplus. Loss: the mean over the levels of the pinball loss, Koenker and Bassett 1978, "Regression
    Quantiles", times 2: that of the median alone is the absolute error.

    levels: shares above 0 and below 1, two or more, ascending; 0.5 joins them where it is not there.
    Raises ValueError for other levels.
    """

    def __init__(self, *, levels: Sequence[Annotated[float, LEVEL]]) -> None:
        super().__init__()
        if not all(LEVEL.holds(level) for level in levels) or not are_ascending(levels):
            each = LEVEL.message.removeprefix("must be ")
            raise ValueError(f"levels={list(levels)} must be {ASCENDING}, each {each}")
        self.levels = tuple(sorted({*map(float, levels), MEDIAN}))
        self.centre = self.levels.index(MEDIAN)

    @property
    def n_outputs(self) -> int:
        """One for each level."""
        return len(self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """The quantiles by their levels."""
        return tuple(f"quantile {level:g}" for level in self.levels)

    def from_raw(self, raw: Float[Tensor, "B P T O"]) -> Float[Tensor, "B P T O"]:
        """The median and distances -> quantiles in ascending order.

        Distances are added one by one, from the median outwards: no rounding puts a sum below the one before.
        """
        raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
        median, distances = raw[..., 0], F.softplus(raw[..., 1:]).unbind(-1)
        below, above = distances[: self.centre], distances[self.centre :]
        lower = [median - distance for distance in itertools.accumulate(reversed(below))]
        upper = [median + distance for distance in itertools.accumulate(above)]
        return torch.stack([*reversed(lower), median, *upper], dim=-1)

    def moved(
        self, parameters: Float[Tensor, "B P T O"], mean: Float[Tensor, "B #P T"], std: Float[Tensor, "B 1 T"]
    ) -> Float[Tensor, "B P T O"]:
        """Each quantile * std + mean: (B, P, T, O)."""
        return parameters * std.unsqueeze(-1) + mean.unsqueeze(-1)

    def point(self, parameters: Float[Tensor, "B P T O"]) -> Float[Tensor, "B P T"]:
        """The median: (B, P, T, O) -> (B, P, T)."""
        return parameters[..., self.centre]

    def interval(
        self, parameters: Float[Tensor, "B P T O"], levels: Sequence[int | float]
    ) -> tuple[Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """Lower and upper ends of the K central intervals of these levels, in per cent: (B, P, T, O) -> (B, P, T, K).

        A share between two of the levels is interpolated between their quantiles; one beyond the outermost level gets
        the outermost quantile, so that such an interval is too narrow.
        """
        tails = lower_tails(levels)
        if not tails:
            return parameters[..., :0], parameters[..., :0]
        lower = [self.quantile(parameters, tail) for tail in tails]
        upper = [self.quantile(parameters, 1 - tail) for tail in tails]
        return torch.stack(lower, dim=-1), torch.stack(upper, dim=-1)

    def quantile(self, parameters: Float[Tensor, "B P T O"], share: float) -> Float[Tensor, "B P T"]:
        """The quantile of any share, between two of the levels interpolated: (B, P, T, O) -> (B, P, T)."""
        place = float(np.interp(share, self.levels, range(len(self.levels))))
        left = min(int(place), len(self.levels) - 2)
        return torch.lerp(parameters[..., left], parameters[..., left + 1], place - left)

    def forward(self, parameters: Float[Tensor, "B R N O"], truth: Float[Tensor, "B R N"]) -> Float[Tensor, "B R N"]:
        """Twice the mean pinball loss of each cell: (B, R, N)."""
        levels = parameters.new_tensor(self.levels)
        error = truth.unsqueeze(-1) - parameters
        return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(-1)


class Located(Spread):
    """A symmetric distribution by two numbers, location and scale: the first is its mean, median and point forecast."""

    @property
    def n_outputs(self) -> int:
        """Location and scale."""
        return 2

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the parameters."""
        return ("location", "scale")

    def from_raw(self, raw: Float[Tensor, "B P T O"]) -> Float[Tensor, "B P T O"]:
        """The location as it is, the scale made positive by softplus; at least LEAST_SCALE."""
        raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
        location, scale = raw.unbind(-1)
        return torch.stack([location, LEAST_SCALE + F.softplus(scale)], dim=-1)

    def moved(
        self, parameters: Float[Tensor, "B P T O"], mean: Float[Tensor, "B #P T"], std: Float[Tensor, "B 1 T"]
    ) -> Float[Tensor, "B P T O"]:
        """Location * std + mean, scale * std: (B, P, T, O)."""
        location, scale = parameters.unbind(-1)
        return torch.stack([location * std + mean, scale * std], dim=-1)

    def point(self, parameters: Float[Tensor, "B P T O"]) -> Float[Tensor, "B P T"]:
        """The location: (B, P, T, O) -> (B, P, T)."""
        return parameters[..., 0]

    def interval(
        self, parameters: Float[Tensor, "B P T O"], levels: Sequence[int | float]
    ) -> tuple[Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """Lower and upper ends (B, P, T, K): location less, and plus, scale times a number for target and level."""
        location, scale = parameters.unsqueeze(-2).unbind(-1)  # (B, P, T, 1)
        reach = scale * parameters.new_tensor(-self.standard_quantiles(lower_tails(levels)))
        return location - reach, location + reach

    def standard_quantiles(self, shares: Sequence[float]) -> npt.NDArray[np.float64]:
        """The quantiles at location 0 and scale 1, of all targets (K,) or of each (T, K)."""
        raise NotImplementedError

    def forward(self, parameters: Float[Tensor, "B R N O"], truth: Float[Tensor, "B R N"]) -> Float[Tensor, "B R N"]:
        """The negative logarithm of the density at the truth: (B, R, N)."""
        location, scale = parameters.unbind(-1)
        return scale.log() - self.log_density((truth - location) / scale)

    def log_density(self, z: Float[Tensor, "B R N"]) -> Float[Tensor, "B R N"]:
        """Of each cell at location 0 and scale 1: (B, R, N)."""
        raise NotImplementedError


class Normal(Located):
    """A normal distribution: mean and standard deviation. Loss: the negative log-likelihood."""

    def standard_quantiles(self, shares: Sequence[float]) -> npt.NDArray[np.float64]:
        """Of all targets: (K,)."""
        return special.ndtri(np.asarray(shares, dtype=np.float64))

    def log_density(self, z: Float[Tensor, "B R N"]) -> Float[Tensor, "B R N"]:
        """Of each cell at mean 0 and deviation 1: (B, R, N)."""
        return -0.5 * z.square() - 0.5 * math.log(2 * math.pi)


class StudentT(Located):
    """Student's t distribution, for noise with outliers: location, scale and degrees of freedom.

    Each column that the model learns has one number of degrees of freedom, learned with the weights, the same for all
    windows and steps; it stays above LEAST_FREEDOM, so that there is a variance. The scale is not the standard
    deviation, which is sqrt(freedom / (freedom - 2)) times as large. Loss: the negative log-likelihood.
    """

    targets: Sequence[int] | None = None  # of the columns learned; None: one number for all

    def __init__(self) -> None:
        super().__init__()
        self.raw_freedom = first_freedom(1)

    def for_columns(self, n_columns: int, targets: Sequence[int]) -> None:
        """A number for each of the N columns."""
        self.raw_freedom, self.targets = first_freedom(n_columns), list(targets)

    @property
    def freedom(self) -> Float[Tensor, " N"]:
        """Degrees of freedom of each column (N,)."""
        return LEAST_FREEDOM + F.softplus(self.raw_freedom)

    @property
    def target_freedom(self) -> Float[Tensor, " T"]:
        """Degrees of freedom of each target (T,)."""
        return self.freedom if self.targets is None else take_columns(self.freedom, self.targets, 0)

    def standard_quantiles(self, shares: Sequence[float]) -> npt.NDArray[np.float64]:
        """Of each target: (T, K)."""
        freedom = self.target_freedom.detach().double().cpu().numpy()
        return special.stdtrit(freedom[:, None], np.asarray(shares, dtype=np.float64))

    def log_density(self, z: Float[Tensor, "B R N"]) -> Float[Tensor, "B R N"]:
        """Of each cell at location 0 and scale 1: (B, R, N)."""
        v = self.freedom
        constant = torch.lgamma((v + 1) / 2) - torch.lgamma(v / 2) - 0.5 * torch.log(v * math.pi)
        return constant - (v + 1) / 2 * torch.log1p(z.square() / v)


def first_freedom(n_columns: int) -> nn.Parameter:
    """What `StudentT.freedom` begins with: (N,)."""
    return nn.Parameter(torch.full((n_columns,), math.log(math.expm1(FIRST_FREEDOM))))


def lower_tails(levels: Sequence[int | float]) -> list[float]:
    """The share below each central interval. Raises ValueError for a level that is not above 0 and below 100."""
    for level in levels:
        if not 0 < level < 100:
            raise ValueError(f"the level {level} of an interval must be above 0 and below 100, in per cent: 95")
    return [(100 - level) / 200 for level in levels]
