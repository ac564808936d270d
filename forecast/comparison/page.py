"""report.html of a comparison: which row is best and how sure that is, then the tables of report.md and charts.

The verdict in plain words is that of report.md too.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

from forecast.comparison.bootstrap import LEAST_BLOCKS, LEVEL
from forecast.comparison.rows import Comparison, Row, mse_difference
from forecast.comparison.tables import (
    FIGURES,
    Markup,
    common_overrides,
    counts,
    heading,
    parts,
    plus_minus,
    reference,
)
from forecast.report.forecasters import SAME, baseline_name, best_baseline
from forecast.report.page.charts import MOST_BARS, bars_chart, by_step_chart, points_chart
from forecast.report.page.document import Card, Cards, Drawn, PageTable, Piece, Section, Strong, Text, facts, render
from forecast.report.page.parts import PATHS, ZOOM, verdict
from forecast.report.tables import short_number
from forecast.report.verdict import beyond
from forecast.run_folder import NOT_IDENTITY, STEP_ERRORS, Run
from forecast.text.terminal import label

MOST_LINES = 6  # rows whose errors by step are drawn
STYLES = ("forecast", "other1", "other2", "other3", "other4", "other5")
HTML = Markup(label, Strong, str, str)


def comparison_page(tables: Sequence[Comparison], runs: Sequence[Run], against: str | None) -> str:
    """The page. against: the row to compare with, None: each table's first; it is there.

    Of where and when the runs were made it says nothing: the same results are the same page.
    """
    own = [run for run in runs if run.state != "foreign"]
    names = [heading(comparison) for comparison in tables]
    lost = [[_typed(run.overrides), run.state] for run in own if run.state != "finished"]
    return render(
        title=f"{len(own)} runs compared" if len(names) != 1 else f"{len(own)} runs on {label(names[0])}",
        subtitle=[counts(runs)],
        sections=[
            Section("", "", [verdict(verdicts(tables, runs)), _cards(tables[0]) if len(tables) == 1 else None]),
            *(
                Section(f"table{number}", name, _parts(comparison, reference(comparison, against)))
                for number, (name, comparison) in enumerate(zip(names, tables, strict=True), start=1)
            ),
            Section("lost", "Not finished", [PageTable(lost, ["run", "state"], words=(0, 1)) if lost else None]),
            Section("run", "How the runs came about", _origin(runs)),
        ],
    )


def _cards(comparison: Comparison) -> Cards:
    """Of the row with the lowest MSE: its error in the file's own units first, of the target where one is named."""
    best = by_mse(comparison.rows)[0]
    target = str(best.first("target") or "".join(comparison.targets[:1]))
    places = {
        f"mean error of {label(target, 30)}": ("test", "columns", target, "original", "mae"),
        "MASE": FIGURES["mase"],
        "skill": FIGURES["skill"],
        "MSE, scaled": FIGURES["mse_scaled"],
    }
    meanings = (
        "mean absolute error in the units of the file",
        "mean absolute error, as a multiple of that of the value one season before",
        "by how much its MSE lies below that of seasonal naive: 1 is perfect, 0 no better",
        "mean squared error of scaled values",
    )
    cards = [
        Card(
            "lowest MSE",
            label(best.name, 60),
            f"of {len(comparison.rows)} rows; its figures are means over seeds: {len(best.finished)}",
        )
    ]
    for (name, place), meaning in zip(places.items(), meanings, strict=True):
        if spread := best.spread(*place):
            cards.append(Card(name, plus_minus(spread).rpartition(" (")[0], meaning))
    return Cards(cards)


def _parts(comparison: Comparison, against: Row) -> list[Piece | None]:
    """What report.md says of it, with charts below its first sentence and at the end."""
    first, *more = [
        Text(part) if isinstance(part, str) else PageTable(part[1:], part[0])
        for part in parts(comparison, against, HTML)
    ]
    rows = by_mse(comparison.rows)
    spreads = [(row.name, mse_of(row), row.spread(*FIGURES["mse_scaled"])) for row in rows]
    bars = bars_chart("MSE of the rows", [(name, mse, spread and spread.sd) for name, mse, spread in spreads])
    says = "Mean over the seeds, with their standard deviation."
    return [first, _differences(rows, against), *more, Drawn(bars, says, title="MSE, scaled"), _steps(rows)]


def _differences(rows: Sequence[Row], against: Row) -> Piece | None:
    """The MSE of each row less that of the one compared with, in per cent of the latter."""
    points: list[tuple[str, float, float, float]] = []
    for row in rows:
        apart = None if row is against else mse_difference(row, against)
        if apart is not None and apart.low is not None and apart.high is not None:
            unit = 100 / mse_of(against)
            points.append((row.name, unit * apart.difference, unit * apart.low, unit * apart.high))
    says = (
        f"By how many per cent of its MSE a row lies below {label(against.name)} (left of the line) or above, with the "
        f"{100 * LEVEL:.0f} % interval, paired over windows and seeds. A filled point: the interval leaves 0 out."
    )
    left = f" The {MOST_BARS} lowest of {len(points)}." * (len(points) > MOST_BARS)
    return Drawn(points_chart("Differences in MSE", points[:MOST_BARS]), says + left) if points else None


def _steps(rows: Sequence[Row]) -> Piece | None:
    """The mean over seeds of the MSE at each step, of the best rows and of the best baseline."""
    lines: dict[str, list[float]] = {}
    styles: dict[str, str] = {}
    for row in rows[:MOST_LINES]:
        curves = [curve for run in row.finished if (curve := step_errors(run, "mse_scaled"))]
        if curves and len({len(curve) for curve in curves}) == 1:
            name = label(row.name)
            styles[name] = STYLES[len(styles)]
            lines[name] = np.mean(curves, axis=0).tolist()
    best = best_baseline(rows[0].finished[0].metrics)
    if best is not None and (curve := step_errors(rows[0].finished[0], f"{best.key}_mse_scaled")):
        name = baseline_name(best.key, {row.name for row in rows})
        lines[name], styles[name] = curve, "baseline"
    which = f"The {MOST_LINES} rows with the lowest MSE. " * (len(rows) > MOST_LINES)
    return (
        Drawn(by_step_chart({"MSE, scaled": lines}, styles), f"{which}{ZOOM}", title="MSE by step of the forecast")
        if lines
        else None
    )


def step_errors(run: Run, column: str) -> list[float]:
    """A column of metrics_by_step.csv; empty when it is not there."""
    path = run.path / STEP_ERRORS
    lines = csv.DictReader(path.read_text().splitlines()) if path.is_file() else []
    return [float(line[column]) for line in lines if column in line]


def _origin(runs: Sequence[Run]) -> list[Piece | None]:
    """What all runs have in common, and by which versions they were made."""
    versions: dict[str, set[str]] = {}
    for run in runs:
        for package, version in (run.run_info.get("versions") or {}).items():
            versions.setdefault(str(package), set()).add(str(version))
    rows = [(label(package), label(", ".join(sorted(used)))) for package, used in versions.items()]
    common = common_overrides(runs).items()
    shared = [(label(key), label(_named(key, value))) for key, value in common if not _left_out(key)]
    return [facts(rows, title="Versions"), facts(shared, title="Overrides of all runs")]


def _typed(overrides: Mapping[str, str]) -> str:
    """The overrides of a run on one line, without where its data and outputs lie."""
    return label(
        " ".join(f"{key}={_named(key, value)}" for key, value in overrides.items() if not _left_out(key)) or "-"
    )


def _named(key: str, value: str) -> str:
    """Of a path its last name."""
    return PurePath(value).name if key.rpartition(".")[2] in PATHS else value


def _left_out(key: str) -> bool:
    return any(f"{key}.".startswith(f"{other}.") for other in NOT_IDENTITY)


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
    """The rows, the lowest MSE first."""
    return sorted(rows, key=mse_of)


def mse_of(row: Row) -> float:
    """The mean of a row's MSE over its seeds."""
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
        lines += _lead(rows)
    return lines + _beside_baselines(rows)


def _lead(rows: Sequence[Row]) -> list[str]:
    """How sure the lead of the first row is. Each is compared with it alone: of many, some are apart by chance."""
    level, unknown = list[str](), list[str]()
    for row in rows[1:]:
        interval = mse_difference(row, rows[0])
        if interval is None or interval.low is None:
            unknown.append(label(row.name))
        elif not interval.excludes_zero():
            level.append(label(row.name))
    lines = []
    if len(level) == len(rows) - 1:
        lines.append("No other row is surely worse: the 95 % intervals of all differences to it hold 0.")
    elif level:
        lines.append(f"Not surely worse, by the 95 % interval of the difference: {_listed(level, 4)}.")
    if unknown:
        why = f"fewer than {LEAST_BLOCKS} blocks of windows that both have forecast give no interval"
        lines.append(f"Not known whether worse, as {why}: {_listed(unknown, 4)}.")
    if not lines:
        named = "the other row" if len(rows) == 2 else f"each of the other {len(rows) - 1}"
        lines.append(f"Its lead over {named} is sure: the 95 % interval of the difference leaves 0 out.")
    return lines


def _beside_baselines(rows: Sequence[Row]) -> list[str]:
    """The best baseline that any row was compared with, and how far the rows that lose to it are above it."""
    rivals = [baseline for row in rows if (baseline := best_baseline(row.finished[0].metrics)) is not None]
    if not rivals:
        return []
    least, key = min((baseline.mse or 0.0, baseline.key) for baseline in rivals)
    name = baseline_name(key, {row.name for row in rows})
    mse = mse_of(rows[0])
    side = "equals" if math.isclose(least, mse, rel_tol=SAME) else "is above" if least > mse else "is below"
    lines = [f"The best baseline, {name}, {side} it: {short_number(least)}."]
    losers = [
        f"{label(row.name)} ({beyond(mse_of(row), least, 'it') if least else 'above it'})"
        for row in rows
        if mse_of(row) > least * (1 + SAME)
    ]
    if losers:
        lines.append(f"Rows that lose to this baseline, by their MSE: {_listed(losers, MOST_BARS)}.")
    return lines


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
