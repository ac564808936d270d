"""Optimizers and schedules as the training needs them."""

from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler

from forecast.config.schema import parameters

# torch.optim.lr_scheduler has one class whose steps are batches though it does not ask for their number.
BY_STEP = (CyclicLR,)
TOTAL = "total_steps"


def fused_keyword(make: Callable[..., Optimizer], *, may: bool) -> dict[str, bool]:
    """The keyword by which an optimizer of torch changes all weights in one pass over them, where it has one.

    may: not, where Lightning clips gradients in mixed precision, which it refuses to do beside a fused optimizer. A
    partial function whose keywords name `fused` keeps its own.
    """
    return {"fused": True} if may and takes(make, "fused") else {}


def takes(make: Callable[..., object], name: str) -> bool:
    """Whether a class or function has a parameter `name`; not where a partial function's keywords give it a value."""
    keywords = getattr(make, "keywords", {})
    return name in parameters(getattr(make, "func", make)) and keywords.get(name) is None


def is_stepwise(make: Callable[..., LRScheduler]) -> bool:
    """Whether a schedule changes the rate after every step: of all others a step is an epoch."""
    target = getattr(make, "func", make)
    return TOTAL in parameters(target) or target in BY_STEP
