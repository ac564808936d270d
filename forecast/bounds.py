"""Which values a parameter takes, written beside its type in the signature: `d_model: Positive`.

forecast.config reads it there and refuses others before any data is read.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple


class Bound(NamedTuple):
    """`Annotated[int, Bound(...)]`: `holds` for the numbers that a parameter takes; `message`: what they must be."""

    holds: Callable[[float], bool]
    message: str

    def check(self, value: object) -> object:
        """Raises ValueError for a number, or a list with one, for which it does not hold."""
        numbers = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(n, int | float) and not isinstance(n, bool) and not self.holds(n) for n in numbers):
            raise ValueError(self.message)
        return value

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], object]) -> object:
        """Has pydantic call `check`."""
        from pydantic_core import core_schema  # which `--help` does not wait for

        return core_schema.no_info_after_validator_function(self.check, handler(source))  # type: ignore[arg-type]

    def __get_pydantic_json_schema__(self, source: object, handler: Callable[[object], dict[str, object]]) -> object:
        """Says it to editors."""
        return handler(source) | {"description": self.message}


def at_least(least: int) -> Bound:
    """The numbers from `least` on."""
    return Bound(lambda number: number >= least, f"must be at least {least}")


def between(least: int, most: int) -> Bound:
    """The numbers from `least` to `most`."""
    return Bound(lambda number: least <= number <= most, f"must be between {least} and {most}")


MOST_LAYERS = MOST_NETWORKS = 1000  # of a model; of a training
LARGEST_SEED = 2**32 - 1  # numpy takes no larger one
LEVEL = Bound(lambda number: 0 < number < 1, "must be above 0 and below 1: 0.9 for 90 %")  # of a quantile
ASCENDING = "two levels or more, each above the one before: [0.1,0.5,0.9]"
SHARE = Bound(lambda number: 0 <= number < 1, "must be at least 0 and less than 1")

ABOVE_0 = Bound(lambda number: number > 0, "must be above 0")
SHARE_ABOVE_0 = Bound(lambda number: 0 < number < 1, "must be above 0 and below 1")


def are_ascending(levels: Sequence[float]) -> bool:
    """Whether numbers are what ASCENDING says."""
    return len(levels) > 1 and all(lower < upper for lower, upper in itertools.pairwise(levels))


class Digits(NamedTuple):
    """`Annotated[str, Digits()]`: a text that may be written in digits alone, which YAML takes for a number."""

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], object]) -> object:
        """Has pydantic make a text of a number."""
        from pydantic_core import core_schema

        def as_text(value: object) -> object:
            return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

        return core_schema.no_info_before_validator_function(as_text, handler(source))  # type: ignore[arg-type]


Text = Annotated[str, Digits()]  # names of columns and the like
PER_CENT = Bound(lambda level: 1 <= level < 100, "must be at least 1 and less than 100: per cent, as in level=[80,95]")
Level = Annotated[float, PER_CENT]  # of intervals
Positive = Annotated[int, at_least(1)]
Layers = Annotated[int, between(1, MOST_LAYERS)]  # each is made, whatever its size
Networks = Annotated[int, between(1, MOST_NETWORKS)]
Share = Annotated[float, SHARE]  # of dropped activations: with all dropped nothing is left
Finite = Annotated[float, Bound(math.isfinite, "must be a finite number")]
FromZero = Annotated[float, Bound(lambda number: 0 <= number < math.inf, "must be at least 0")]
Scale = Annotated[float, ABOVE_0]  # of the scores of an attention
Seed = Annotated[int, Bound(lambda number: 0 <= number <= LARGEST_SEED, f"must be between 0 and {LARGEST_SEED}")]
Sampling = Literal["windows", "series"]
CalendarEncoding = Literal["timeF", "fixed"]  # see data/values/time_features.py
