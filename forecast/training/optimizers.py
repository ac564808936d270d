"""The form of an optimizer of torch that changes all weights in one pass."""

import inspect
from collections.abc import Callable

from torch.optim import Optimizer


def fused_keyword(make: Callable[..., Optimizer], *, may: bool) -> dict[str, bool]:
    """The keyword by which an optimizer of torch changes all weights in one pass over them, where it has one.

    may: not, where Lightning clips gradients in mixed precision, which it refuses to do beside a fused optimizer. A
    partial function whose keywords name `fused` keeps its own.
    """
    keywords = getattr(make, "keywords", {})
    has = "fused" in inspect.signature(getattr(make, "func", make)).parameters
    return {"fused": True} if may and has and keywords.get("fused") is None else {}
