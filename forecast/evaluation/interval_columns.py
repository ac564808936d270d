"""The ends of intervals as further columns of a forecast."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.evaluation.conformal import own_interval
from forecast.evaluation.interval_errors import name_of
from forecast.evaluation.scored_intervals import Intervals

V = TypeVar("V")


def column_names(targets: Sequence[str], levels: Sequence[float]) -> list[str]:
    """The targets, then of each at each level TARGET-lo-LEVEL and TARGET-hi-LEVEL, as Nixtla's libraries call them.

    UserError where a target is called so itself.
    """
    ends = [f"{name}-{end}-{name_of(level)}" for name in targets for level in levels for end in ("lo", "hi")]
    if taken := next((name for name in ends if name in targets), None):
        raise UserError(f"level={list(levels)}: a target is called '{taken}' itself. Rename it in the file.")
    return [*targets, *ends]


def of_each(values: Sequence[V], levels: Sequence[float]) -> list[V]:
    """What belongs to each target (T), for each of its columns in the order of `column_names`."""
    return [*values, *(value for value in values for _ in range(2 * len(levels)))]


def split_ends(
    values: npt.NDArray[np.float64], n_targets: int, levels: Sequence[float]
) -> list[tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Of values (W, P, N) in the order of `column_names`: each level with its ends (W, P, T), the widest first."""
    ends = values[..., n_targets:].reshape(*values.shape[:-1], n_targets, len(levels), 2)
    return [(level, ends[..., i, 0], ends[..., i, 1]) for i, level in enumerate(levels)][::-1]


def with_ends(
    model: nn.Module,
    past: Float[Tensor, "B L C"],
    past_known: Float[Tensor, "B L F"],
    future_known: Float[Tensor, "B P F"],
    intervals: Intervals | None,
) -> Float[Tensor, "B P N"]:
    """The forecast (B, P, T), scaled, and the calibrated ends of its intervals, in the order of `column_names`."""
    if intervals is None:
        forecast: Tensor = model(past, past_known, future_known)
        return forecast
    calibration = intervals.calibration
    nothing = past.new_zeros(0)
    batch = Batch(past, past_known, future_known, nothing, nothing)
    point, lower, upper = own_interval(model, batch, past.shape[1], calibration.levels)
    places = [calibration.levels.index(level) for level in intervals.wanted_levels]
    ends = [part[..., places] for part in calibration.widened(past, point, lower, upper)]
    return torch.cat([point, torch.stack(ends, dim=-1).flatten(2)], dim=2)
