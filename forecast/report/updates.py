"""What an update says: how the forecasts of its rows did, and whether the model has grown old."""

from collections.abc import Mapping, Sequence
from typing import Literal

from typing_extensions import NotRequired, TypedDict

from forecast.documents import NotNegative
from forecast.report.forecasters import baseline_name
from forecast.report.tables import short_number

Chart = Literal["errors", "coverage", "baseline"]
Figure = Literal["mae", "baseline_mae", "expected_mae", "coverage", "expected_coverage"]


class WatchedDay(TypedDict):
    """Of a day that is watched: errors and coverage of the forecast, and what validation leads to expect."""

    mae: NotNegative
    baseline_mae: NotNegative
    expected_mae: NotNegative
    coverage: NotRequired[NotNegative]
    expected_coverage: NotRequired[NotNegative]


class WatchedLine(TypedDict):
    """What is read of a line of the log."""

    time: str
    day: WatchedDay | None
    totals: dict[Chart, NotNegative]
    alarms: list[Chart]


def figures_sentence(figures: Mapping[str, float | None], *, baseline: str, where: str) -> str:
    """MAE beside that of the baseline, and the coverage of each level. where: of which forecasts, in words."""
    shares = {name.removeprefix("coverage_"): share for name, share in figures.items() if name.startswith("coverage_")}
    held = [f"the {level} % intervals held {100 * share:.0f} %" for level, share in shares.items() if share is not None]
    errors = f"MAE {short_number(figures['mae'])} standard deviations"
    beside = f"{baseline_name(baseline)} {short_number(figures['baseline_mae'])}"
    return "; ".join([f"{where}: {errors} ({beside})", *([", ".join(held)] if held else [])]) + "."


def alarm_sentences(log: Sequence[WatchedLine], *, baseline: str, level: float | None) -> list[str]:
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


def since(log: Sequence[WatchedLine], chart: Chart) -> list[tuple[str, WatchedDay]]:
    """The watched days of a log, and when they were, from which on the sum of a chart has been above 0."""
    days: list[tuple[str, WatchedDay]] = []
    for line in reversed(log):
        if not line["totals"].get(chart):
            break
        if line["day"] is not None:
            days.append((line["time"], line["day"]))
    return days[::-1]


def mean(days: Sequence[tuple[str, WatchedDay]], key: Figure) -> str:
    """The mean over watched days."""
    return short_number(sum(day[key] for _, day in days) / len(days))
