"""Intervals that follow a drift: wider after misses, narrower after hits, with no look at what comes."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# How far one outcome moves the logarithm of a width. Misses move it by RATE times the level, hits by RATE times what is
# left: so over N windows the share of misses lies within (range of the logarithm) / (RATE N) of what it should be.
RATE = 0.05
MOST = 3.0  # of that logarithm, either way: twenty times as wide


class WidthTracker:
    """By what factor intervals are stretched about their point forecast, for each level, step and column.

    As adaptive conformal inference (Gibbs and Candes 2021), on the logarithm of the width in place of the level.
    Windows are asked for in the order of time; when one is forecast, those outcomes alone have had a part that lie
    before it: the miss of an earlier window at step h is known `ceil(h / stride)` windows later. levels (K,): per cent.
    stride: rows from a window to the next one.
    """

    def __init__(self, levels: Sequence[float], *, pred_len: int, n_targets: int, stride: int) -> None:
        self.share = 1.0 - torch.tensor(levels, dtype=torch.float64).view(-1, 1, 1) / 100.0  # of misses (K, 1, 1)
        steps = torch.arange(pred_len)
        self.delay = torch.div(steps + stride, stride, rounding_mode="floor")  # ceil((h + 1) / stride), h from 0
        self.steps, self.memory = steps, int(self.delay.max()) + 1
        self.log_width = torch.zeros(len(levels), pred_len, n_targets, dtype=torch.float64)
        self.missed = torch.zeros(self.memory, len(levels), pred_len, n_targets, dtype=torch.float64)
        self.counted = torch.zeros(self.memory, pred_len, n_targets, dtype=torch.float64)
        self.count = 0

    def reset(self) -> None:
        """For the first window of another series."""
        self.log_width.zero_()
        self.counted.zero_()
        self.count = 0

    def factor(self) -> Float[Tensor, "K P T"]:
        """For the window that comes next."""
        places = (self.count - self.delay) % self.memory
        known = (self.count >= self.delay).double().unsqueeze(-1)
        missed = self.missed[places, :, self.steps].transpose(0, 1)
        counted = self.counted[places, self.steps] * known
        self.log_width += RATE * (missed - self.share) * counted
        self.log_width.clamp_(-MOST, MOST)
        return self.log_width.exp()

    def add(self, missed: Bool[Tensor, "P T K"], measured: Bool[Tensor, "P T"] | None = None) -> None:
        """What became of the window that `factor` was for. measured: False where there is no truth."""
        place = self.count % self.memory
        self.missed[place] = missed.permute(2, 0, 1).double()
        self.counted[place] = 1.0 if measured is None else measured.double()
        self.count += 1
