"""What an update says: how the forecasts of its rows did, and whether the model has grown old."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.report.forecasters import baseline_name
from forecast.report.tables import short_number

# A line of an update's log: `values` and errors of the forecasts that have met their truth, `day` that is watched,
# `totals` of the charts, `alarms` of those above their limits.
Line = dict[str, Any]


def figures_sentence(figures: Mapping[str, float | None], *, baseline: str, where: str) -> str:
    """MAE beside that of the baseline, and the coverage of each level. where: of which forecasts, in words."""
    shares = {name.removeprefix("coverage_"): share for name, share in figures.items() if name.startswith("coverage_")}
    held = [f"the {level} % intervals held {100 * share:.0f} %" for level, share in shares.items() if share is not None]
    errors = f"MAE {short_number(figures['mae'])} standard deviations"
    beside = f"{baseline_name(baseline)} {short_number(figures['baseline_mae'])}"
    return "; ".join([f"{where}: {errors} ({beside})", *([", ".join(held)] if held else [])]) + "."


def alarm_sentences(log: Sequence[Line], *, baseline: str, level: float | None) -> list[str]:
    """One sentence for each chart that is above its limit after the last line of a log.

    Each speaks of the days since its sum was last 0, by Page's scheme the likeliest beginning. level: that is watched.
    """
    sentences = []
    for name in log[-1]["alarms"]:
        days = since(log, name)
        (first, _), n = days[0], len(days)
        often = f"since the update of {first} ({n} {'update' if n == 1 else 'updates'})"
        if name == "errors":
            sentences.append(
                f"The model's errors have broken from what its validation rows showed: {often} its MAE was "
                f"{mean(days, 'mae')} standard deviations, and {mean(days, 'expected_mae')} there."
            )
        elif name == "coverage":
            held, before = 100 * float(mean(days, "coverage")), 100 * float(mean(days, "expected_coverage"))
            sentences.append(
                f"The model's intervals no longer hold: {often} those of {level:g} % held {held:.0f} % of the truths, "
                f"and {before:.0f} % on its validation rows."
            )
        else:
            sentences.append(
                f"The model has become worse than its baseline: {often} its MAE was {mean(days, 'mae')} standard "
                f"deviations, that of {baseline_name(baseline)} {mean(days, 'baseline_mae')}."
            )
    return sentences


def since(log: Sequence[Line], chart: str) -> list[tuple[str, Line]]:
    """The watched days of a log, and when they were, from which on the sum of a chart has been above 0."""
    days: list[tuple[str, Line]] = []
    for line in reversed(log):
        if not line["totals"].get(chart):
            break
        if line["day"] is not None:
            days.append((line["time"], line["day"]))
    return days[::-1]


def mean(days: Sequence[tuple[str, Line]], key: str) -> str:
    """The mean over watched days."""
    return short_number(sum(day[key] for _, day in days) / len(days))
