"""Facts of series in the units of a model."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from forecast.data.panel import Facts

_FLAT = 1e-12  # of the mean: a deviation that is nothing but rounding


def fitted_facts(facts: Facts) -> npt.NDArray[np.float64]:
    """Mean and deviation (2, G) of the facts over the series; 0 and 1 of those that are categories."""
    mean, std = facts.values.mean(0), facts.values.std(0)
    coded = np.array([name in facts.categories for name in facts.names], dtype=np.bool_)
    return np.stack([np.where(coded, 0.0, mean), np.where(coded | (std <= _FLAT * np.abs(mean)), 1.0, std)])


def scaled_facts(facts: Facts | None, scale: npt.NDArray[np.float64] | None) -> Tensor | None:
    """The facts (S, G) of a panel as a model takes them; None where it has none."""
    if facts is None or scale is None:
        return None
    return torch.from_numpy(((facts.values - scale[0]) / scale[1]).astype(np.float32))
