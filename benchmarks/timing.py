"""Contenders in turns, and what their times say of each other."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Seconds = dict[str, list[float]]
LEAST_ROUNDS = 3
# A ratio's spread is between these two of its deciles, over single rounds.
LOW, HIGH = 10, 90


def turns(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    budget: float,
    warm_up: int = 1,
    synchronise: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Seconds:
    """Seconds of each call, A B A B ...: what disturbs the machine for a while disturbs all contenders.

    `warm_up` rounds come first and do not count. Ends after `rounds` rounds, or after `budget` seconds of them, but not
    before LEAST_ROUNDS or, when that is fewer, `rounds`. synchronise: waits for a GPU, before and after each call.
    """
    seconds: Seconds = {name: [] for name in contenders}
    for _ in range(warm_up):
        for run in contenders.values():
            run()
    begun = clock()
    for done in range(rounds):
        if done >= LEAST_ROUNDS and clock() - begun >= budget:
            break
        for name, run in contenders.items():
            synchronise()
            start = clock()
            run()
            synchronise()
            seconds[name].append(clock() - start)
    return seconds


def compared(seconds: Seconds, references: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each contender the median seconds, their spread, and its ratios to the references; above 1 it is faster."""
    return {
        name: {
            "seconds": statistics.median(each),
            "low": quantile(each, LOW),
            "high": quantile(each, HIGH),
            "rounds": len(each),
            "ratios": {other: ratio(seconds[other], each) for other in references if other != name},
        }
        for name, each in seconds.items()
    }


def ratio(reference: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """How many times faster than the reference: median, and LOW to HIGH per cent of the ratios of single rounds."""
    each = [theirs / mine for theirs, mine in zip(reference, ours, strict=True)]
    return {"median": statistics.median(each), "low": quantile(each, LOW), "high": quantile(each, HIGH)}


def quantile(values: Sequence[float], per_cent: float) -> float:
    """Between the two nearest of the sorted values, in proportion."""
    ordered, place = sorted(values), (len(values) - 1) * per_cent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
