"""How sure a difference between two models is: a block bootstrap over the windows, and the spread over seeds."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from forecast.run_folder.shapes import Block

RESAMPLES = 10_000
LEVEL = 0.95
# Fewer blocks than these say next to nothing about how the next months would go.
LEAST_BLOCKS = 5
MOST_BLOCKS = 200  # of all windows of a run: more tell no more, and take memory


class Interval(NamedTuple):
    """A mean difference, the interval that holds it with LEVEL, and the blocks that this rests on.

    low, high: None when there are fewer than LEAST_BLOCKS blocks.
    """

    difference: float
    low: float | None
    high: float | None
    blocks: int

    def excludes_zero(self) -> bool:
        """Whether the sign of the difference is sure."""
        return self.low is not None and self.high is not None and not self.low <= 0.0 <= self.high

    def figures(self) -> Block:
        """As plain values, for a document of a difference in MSE."""
        return {"mse": self.difference, "low": self.low, "high": self.high, "blocks": self.blocks}


def model_less(
    model: Float[np.ndarray, "N"], baselines: Mapping[str, Float[np.ndarray, "N"]], *, block: int
) -> dict[str, Block]:
    """The figures of a model's errors less those of each baseline, by its name.

    model, baselines (N,): squared errors of the same windows in the order of time, or of the series of a panel. block:
    so many neighbours hang together; where MOST_BLOCKS of them do not reach, more.
    """
    block = max(block, -(-len(model) // MOST_BLOCKS))
    return {
        name: paired_interval(model[None], errors[None], block=block).figures() for name, errors in baselines.items()
    }


def paired_interval(
    errors: Float[np.ndarray, "S N"], reference: Float[np.ndarray, "R N"], *, block: int, seed: int = 0
) -> Interval:
    """The mean of errors - reference, with an interval.

    errors (S, N), reference (R, N): one row a seed, one column a window, the same windows in the order of time.

    Windows overlap, so neighbours err alike: the variance over the choice of windows comes from resamples of blocks of
    `block` windows in a circle (Politis and Romano 1992), the same ones for both sides. The variance over the seeds is
    added for each side that has two or more. Few blocks and few seeds estimate their variance badly: Student's t with
    Satterthwaite's degrees of freedom widens the interval for it (plain percentiles contained the true difference in
    70 % of the cases for two seeds; tests/comparison/test_bootstrap.py).

    block: at least seq_len + pred_len, from where on two windows share no row.
    """
    n_windows = errors.shape[1]
    difference = float(errors.mean() - reference.mean())
    n_blocks = n_windows // block
    if n_blocks < LEAST_BLOCKS:
        return Interval(difference, None, None, n_blocks)
    # sources of chance, each with its variance and degrees of freedom: the windows, then the seeds of either side
    variances = [_block_variance(errors.mean(0) - reference.mean(0), block=block, seed=seed)]
    freedoms = [n_blocks - 1]
    for side in (errors, reference):
        if len(side) > 1:
            variances.append(float(side.mean(1).var(ddof=1)) / len(side))
            freedoms.append(len(side) - 1)
    total, half = sum(variances), 0.0
    if total != 0.0:
        freedom = total**2 / sum(variance**2 / n for variance, n in zip(variances, freedoms, strict=True))
        half = float(special.stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(total)
    return Interval(difference, difference - half, difference + half, n_blocks)


def _block_variance(values: np.ndarray, *, block: int, seed: int) -> float:
    """The variance of the mean of N values (N,) that hang together over less than `block`."""
    n_windows = len(values)
    n_draws = -(-n_windows // block)
    starts = np.random.default_rng(seed).integers(n_windows, size=(RESAMPLES, n_draws))
    last = n_windows - block * (n_draws - 1)  # the last block is cut, so that N windows are drawn
    total = _circular_sums(values, block)[starts[:, :-1]].sum(1) + _circular_sums(values, last)[starts[:, -1]]
    n_blocks = n_windows // block
    # as with a sample variance: blocks around their own mean lie too close by one in n
    return float((total / n_windows).var() * n_blocks / (n_blocks - 1))


def _circular_sums(values: np.ndarray, length: int) -> np.ndarray:
    """Sums (N,) of `length` values from each one on, past the end from the beginning again."""
    around = np.concatenate([[0.0], values, values[: length - 1]]).cumsum()
    return around[length:] - around[:-length]
