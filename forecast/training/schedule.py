"""Learning-rate schedules: the factor on `optim.lr` in each epoch."""


def halve_each_epoch(epoch: int) -> float:
    """The authors' type1: full rate in the first two epochs, then half of the last one's. epoch counts from 0.

    Informer2020 at 29f2a73, utils/tools.py, adjusts the rate *after* each epoch, hence the second full one.
    """
    return float(0.5 ** max(epoch - 1, 0))


def decay_90(epoch: int) -> float:
    """PatchTST's type3: full rate in the first four epochs, then 0.9 of the last one's. epoch counts from 0.

    0.9^(n - 3) from n = 3 on, set *after* the n-th epoch, hence the fourth full one.
    Written from memory of the authors' code, which was not at hand.
    """
    return float(0.9 ** max(epoch - 3, 0))


def constant(epoch: int) -> float:
    """The full rate in every epoch."""
    del epoch
    return 1.0
