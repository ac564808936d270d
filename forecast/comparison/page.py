"""report.html of a comparison: which row is best and how sure that is, then the tables and pictures of report.md."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

from forecast.comparison.bootstrap import LEVEL
from forecast.comparison.pictures import step_errors
from forecast.comparison.rows import Comparison, Row, mse_difference
from forecast.comparison.tables import Markup, common_overrides, counts, heading, parts, reference
from forecast.comparison.verdicts import by_mse, mse_of, verdicts
from forecast.report.forecasters import baseline_name, best_baseline
from forecast.report.page.charts import MOST_BARS, bars_chart, lines_by_step, points_chart
from forecast.report.page.document import Section, document, facts, paragraph
from forecast.report.page.origin import PATHS
from forecast.report.page.parts import NO_SCRIPT, ZOOM, Drawing, far_note, verdict_box
from forecast.report.page.tables import Strong, plain_table
from forecast.run_folder import NOT_IDENTITY, Run
from forecast.text.terminal import label

MOST_LINES = 6  # rows whose errors by step are drawn
STYLES = ("forecast", "other1", "other2", "other3", "other4", "other5")
HTML = Markup(label, Strong, str, str, reasons=False)


def comparison_page(tables: Sequence[Comparison], runs: Sequence[Run], against: str | None) -> str:
    """The page. against: the row to compare with, None: each table's first; it is there.

    Of where and when the runs were made it says nothing: the same results are the same page.
    """
    draw = Drawing()
    own = [run for run in runs if run.state != "foreign"]
    names = [heading(comparison) for comparison in tables]
    lost = [[_typed(run.overrides), run.state] for run in own if run.state != "finished"]
    sections = [
        Section(f"table{number}", name, _section(comparison, reference(comparison, against), draw))
        for number, (name, comparison) in enumerate(zip(names, tables, strict=True), start=1)
    ]
    return document(
        title=f"{len(own)} runs compared" if len(names) != 1 else f"{len(own)} runs on {label(names[0])}",
        subtitle=[counts(runs)],
        lead=[verdict_box(verdicts(tables, runs)), paragraph(NO_SCRIPT, "note drawless")],
        sections=[
            *sections,
            Section("lost", "Not finished", [plain_table(["run", "state"], lost, ["", ""]) if lost else ""]),
            Section("run", "How the runs came about", _origin(runs)),
        ],
        charts=draw.charts,
    )


def _section(comparison: Comparison, against: Row, draw: Drawing) -> list[str]:
    said, table, *more = [_html(part) for part in parts(comparison, against, HTML)]
    rows = by_mse(comparison.rows)
    return [
        said,
        *_differences(rows, against, draw),
        table,
        *more,
        *_errors(rows, draw),
        *_steps(rows, draw),
    ]


def _html(part: str | list[list[str]]) -> str:
    if isinstance(part, str):
        return paragraph(part)
    heads, *rows = part
    return plain_table(heads, rows, ["", *["number"] * (len(heads) - 1)])


def _differences(rows: Sequence[Row], against: Row, draw: Drawing) -> list[str]:
    """The MSE of each row less that of the one compared with, in per cent of the latter."""
    points: list[tuple[str, float, float, float]] = []
    for row in rows:
        found = None if row is against else mse_difference(row, against)
        if found is not None and found.low is not None and found.high is not None:
            unit = 100 / mse_of(against)
            points.append((row.name, unit * found.difference, unit * found.low, unit * found.high))
    if not points:
        return []
    says = (
        f"By how many per cent of its MSE a row lies below {label(against.name)} (left of the line) or above, with the "
        f"{100 * LEVEL:.0f} % interval, paired over windows and seeds. A filled point: the interval leaves 0 out."
    )
    left = f" The {MOST_BARS} lowest of {len(points)}." if len(points) > MOST_BARS else ""
    return [paragraph(says + left), draw(points_chart("Differences in MSE", points[:MOST_BARS]))]


def _errors(rows: Sequence[Row], draw: Drawing) -> list[str]:
    bars = []
    for row in rows:
        mse = row.spread("test", "scaled", "mse")
        assert mse is not None
        bars.append((row.name, mse.mean, mse.sd))
    says = "Mean over the seeds, with their standard deviation."
    return ["<h3>MSE, scaled</h3>", paragraph(says), draw(bars_chart("MSE of the rows", bars))]


def _steps(rows: Sequence[Row], draw: Drawing) -> list[str]:
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
        lines[baseline_name(best.key)], styles[baseline_name(best.key)] = curve, "baseline"
    if not lines:
        return []
    made = lines_by_step(lines, styles)
    which = f"The {MOST_LINES} rows with the lowest MSE. " if len(rows) > MOST_LINES else ""
    return ["<h3>MSE by step of the forecast</h3>", paragraph(f"{which}{ZOOM}"), far_note(made), draw(made)]


def _origin(runs: Sequence[Run]) -> list[str]:
    """What all runs have in common, and by which versions they were made."""
    common = [(key, value) for key, value in common_overrides(runs).items() if not _left_out(key)]
    versions: dict[str, set[str]] = {}
    for run in runs:
        for package, version in (run.run_info.get("versions") or {}).items():
            versions.setdefault(str(package), set()).add(str(version))
    rows = [(package, ", ".join(sorted(found))) for package, found in versions.items()]
    shared = [(label(key), label(_named(key, value))) for key, value in common]
    return [
        "<h3>Versions</h3>" if rows else "",
        facts([(label(package), label(found)) for package, found in rows]),
        "<h3>Overrides of all runs</h3>" if shared else "",
        facts(shared),
    ]


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
