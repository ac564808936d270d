"""Learning-rate schedules: the factor on `optim.lr` in each epoch."""


def type1(epoch: int) -> float:
    """The authors' schedule: full rate in the first two epochs, then half of the last one's. epoch counts from 0.

    Informer2020 at 29f2a73, utils/tools.py, adjusts the rate *after* each epoch, hence the second full one.
    """
    return float(0.5 ** max(epoch - 1, 0))


def constant(epoch: int) -> float:
    """The full rate in every epoch."""
    del epoch
    return 1.0
