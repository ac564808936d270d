"""Learning-rate schedules: each takes an optimizer, as torch's own do, and scales the rate that it has.

What takes `total_steps`, here or in torch, changes the rate after every step, all else after every epoch.
"""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from forecast.bounds import Share


def halve_each_epoch(optimizer: Optimizer) -> LambdaLR:
    """The authors' type1: full rate in the first two epochs, then half of the last one's.

    Informer2020 at 29f2a73, utils/tools.py, adjusts the rate *after* each epoch, hence the second full one.
    """
    return LambdaLR(optimizer, lambda epoch: float(0.5 ** max(epoch - 1, 0)))


def decay_90(optimizer: Optimizer) -> LambdaLR:
    """PatchTST's type3: full rate in the first four epochs, then 0.9 of the last one's.

    0.9^(n - 3) from n = 3 on, set *after* the n-th epoch, hence the fourth full one.
    Written from memory of the authors' code, which was not at hand.
    """
    return LambdaLR(optimizer, lambda epoch: float(0.9 ** max(epoch - 3, 0)))


def constant(optimizer: Optimizer) -> LambdaLR:
    """The full rate in every epoch."""
    return LambdaLR(optimizer, lambda _: 1.0)


def cosine(optimizer: Optimizer, *, total_steps: int, warmup: Share = 0.0, floor: Share = 0.0) -> LambdaLR:
    """Half a cosine from the full rate to `floor` of it, after a rise over the share `warmup` of all steps.

    total_steps: of the whole training, which the program knows. The rise is linear and its first step has a rate above
    0. Steps beyond total_steps keep the last rate.
    """
    rising = round(warmup * total_steps)

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        share = min(1.0, (step - rising) / max(1, total_steps - rising))
        return floor + (1 - floor) * (1 + math.cos(math.pi * share)) / 2

    return LambdaLR(optimizer, factor)
