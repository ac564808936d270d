"""Methods that build what a config of one's own names."""

import functools
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from forecast.config.trust import trusting


class Trusting(Protocol):
    """What trusts modules."""

    trust: Sequence[str]


S = TypeVar("S", bound=Trusting)
P = ParamSpec("P")
R = TypeVar("R")


def with_own_classes(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, inside which the modules that its object trusts are trusted."""

    @functools.wraps(method)
    def trusted(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with trusting(self.trust):
            return method(self, *args, **kwargs)

    return trusted
