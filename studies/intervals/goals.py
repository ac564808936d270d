"""The goals for intervals, and which rows reach them."""

from collections.abc import Iterator, Mapping
from typing import Any

from forecast.comparison.tables import markdown
from studies.intervals.rows import interval_rows

LEVELS = ("80", "95")
FORMS = ("static", "adaptive", "plain")
WITHIN = {"static": 5.0, "adaptive": 2.0}  # points from the level
BY_STEP = 5.0
MSIS, MSIS_ROW = 7.5, "m4_hourly"
BELOW, PRICE_ROWS, REFERENCE = 0.30, ("epf_np", "epf_pjm"), "seasonal naive"


def points(coverage: float, level: str) -> float:
    """By how many points a coverage lies above its level."""
    return 100.0 * coverage - float(level)


def best_of(models: Mapping[str, Any]) -> str:
    """The model of a row with the least MASE on the validation windows."""
    return min(models, key=lambda name: float(models[name]["val"]["mase"]))


def goal_lines(results: Mapping[str, Any]) -> list[str]:
    """Each goal, what was reached by the model that the validation rows choose, and what missed it."""
    table = [["goal", "reached", "missed by"]]
    chosen = {name: results[name][best_of(results[name])] for name in results}
    for form, most in WITHIN.items():
        found = list(differences(chosen, form))
        missed = [f"`{name}` {level} %: {by:+.1f}" for name, level, by in found if abs(by) > most]
        words = f"coverage, {form}: within {most:g} points"
        table.append([words, f"{len(found) - len(missed)} of {len(found)}", ", ".join(missed) or "-"])
    for form in WITHIN:
        steps = list(step_differences(chosen, form))
        missed = [
            f"`{name}` {level} %: {by:+.1f} (step {step})" for name, level, by, step in steps if abs(by) > BY_STEP
        ]
        words = f"coverage by step, {form}: within {BY_STEP:g} points"
        table.append([words, f"{len(steps) - len(missed)} of {len(steps)}", ", ".join(missed) or "-"])
    if MSIS_ROW in chosen:
        msis = chosen[MSIS_ROW]["intervals"]["static"]["msis"]["95"]
        words = f"{interval_rows()[MSIS_ROW]['title']}: MSIS of 95 % at most {MSIS}"
        table.append([words, f"{msis:.2f}", "-" if msis <= MSIS else f"{msis - MSIS:.2f}"])
    for name in PRICE_ROWS:
        if REFERENCE not in results.get(name, {}):
            continue
        naive = results[name][REFERENCE]["intervals"]["static"]["sql"]
        gain = 1.0 - chosen[name]["intervals"]["static"]["sql"] / naive
        words = f"{interval_rows()[name]['title']}: SQL {BELOW:.0%} below the seasonal naive's".replace("%", " %")
        table.append([words, f"{100 * gain:.1f} %", "-" if gain >= BELOW else f"{100 * (BELOW - gain):.1f} points"])
    return markdown(table, left=1)


def differences(chosen: Mapping[str, Any], form: str) -> Iterator[tuple[str, str, float]]:
    """Of each row and level the name, the level and the points from it."""
    for name, one in chosen.items():
        for level, coverage in one["intervals"][form]["coverage"].items():
            yield name, level, points(coverage, level)


def step_differences(chosen: Mapping[str, Any], form: str) -> Iterator[tuple[str, str, float, int]]:
    """The same of the step that is farthest from the level, and which it is."""
    for name, one in chosen.items():
        for level, worst in one["intervals"][form]["worst"].items():
            yield name, level, points(worst["coverage"], level), worst["step"]
