"""Contenders in turns, and what their times say of each other."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Seconds = dict[str, list[float]]
LEAST_ROUNDS = 3
LOW, HIGH = 10, 90  # per cent: a spread is between these two
LEAST_SECONDS, LEAST_REPEATS, LONG = 0.5, 3, 10.0


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


def repeated(run: Callable[[], object], synchronise: Callable[[], None]) -> float:
    """Median seconds of a call: of LEAST_REPEATS for LEAST_SECONDS, or of a single one that takes LONG."""
    seconds: list[float] = []
    while len(seconds) < LEAST_REPEATS or sum(seconds) < LEAST_SECONDS:
        synchronise()
        start = time.perf_counter()
        run()
        synchronise()
        seconds.append(time.perf_counter() - start)
        if seconds[0] > LONG:
            break
    return statistics.median(seconds)


def compared(seconds: Seconds, references: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each contender the median seconds, their spread, and its ratios to the references; above 1 it is faster.

    A ratio is the median of the ratios of single rounds, with their spread.
    """
    figures: dict[str, dict[str, Any]] = {}
    for name, ours in seconds.items():
        ratios = {other: spread(np.divide(seconds[other], ours).tolist()) for other in references if other != name}
        times = spread(ours)
        figures[name] = {"seconds": times.pop("median"), **times, "rounds": len(ours), "ratios": ratios}
    return figures


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, and the percentiles LOW and HIGH."""
    low, median, high = np.percentile(values, (LOW, 50, HIGH)).tolist()
    return {"median": median, "low": low, "high": high}
