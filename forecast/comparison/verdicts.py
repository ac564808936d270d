"""What came of a comparison in plain words: which row has the lowest error, and how sure that is."""

from collections.abc import Sequence

from forecast.comparison.rows import Comparison, Row, mse_difference
from forecast.comparison.tables import baselines, heading
from forecast.report.forecasters import baseline_name
from forecast.report.tables import short_number
from forecast.run_folder import Run
from forecast.text.terminal import label


def verdicts(comparisons: Sequence[Comparison], runs: Sequence[Run]) -> list[str]:
    """The sentences, those of each comparison one after the other; last how many runs have no results."""
    lines = []
    for comparison in comparisons:
        where = f"{label(heading(comparison))}: " if len(comparisons) > 1 else ""
        first, *more = sentences(comparison)
        lines += [f"{where}{first}", *more]
    if not lines:
        lines = ["No run has finished: there is nothing to compare."]
    own = [run for run in runs if run.state != "foreign"]
    if lost := sum(run.state != "finished" for run in own):
        ending = "has no results and does not count" if lost == 1 else "have no results and do not count"
        lines.append(f"{lost} of {len(own)} runs {ending}.")
    return lines


def by_mse(rows: Sequence[Row]) -> list[Row]:
    """The rows that have finished, the lowest MSE first."""
    return sorted((row for row in rows if row.finished), key=mse_of)


def mse_of(row: Row) -> float:
    """The mean of a finished row's MSE over its seeds."""
    mse = row.spread("test", "scaled", "mse")
    assert mse is not None, "a finished run has an error"
    return mse.mean


def sentences(comparison: Comparison) -> list[str]:
    """Of one comparison: the best row, whether it is surely the best, and the best baseline beside it."""
    rows = by_mse(comparison.rows)
    best, name = rows[0], label(rows[0].name)
    if len(rows) == 1:
        lines = [f"{name} has a test MSE of {short_number(mse_of(best))}; no other row stands beside it."]
    else:
        lines = [f"{name} has the lowest test MSE of {len(rows)} rows, {short_number(mse_of(best))}."]
        # each row is compared with the best alone: of many, some are apart by chance
        unsure = [label(row.name) for row in rows[1:] if not _apart(row, best)]
        if not unsure:
            others = "the other row" if len(rows) == 2 else f"each of the other {len(rows) - 1}"
            lines.append(f"Its lead over {others} is sure: the 95 % interval of the difference leaves 0 out.")
        elif len(unsure) == len(rows) - 1:
            lines.append("No other row is surely worse: the 95 % intervals of all differences to it hold 0.")
        else:
            named = ", ".join(unsure[:4]) + (f" and {len(unsure) - 4} more" if len(unsure) > 4 else "")
            lines.append(f"Not surely worse, by the 95 % interval of the difference: {named}.")
    errors = {key: best.first("baselines", key, "scaled", "mse") for key in baselines(rows)}
    known = {key: float(error) for key, error in errors.items() if error is not None}
    if known:
        key = min(known, key=lambda baseline: known[baseline])
        side = "above" if known[key] > mse_of(best) else "not above"
        lines.append(f"The best baseline, {label(baseline_name(key))}, is {side} it: {short_number(known[key])}.")
    return lines


def _apart(row: Row, best: Row) -> bool:
    difference = mse_difference(row, best)
    return difference is not None and difference.excludes_zero()
