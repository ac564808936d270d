"""The comparison in words and figures: report.md for people, report.csv for programs."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, get_args

from forecast.comparison.bootstrap import LEAST_BLOCKS, Interval
from forecast.comparison.rows import Comparison, Row, SeedSpread, block_length, mse_difference, shared_windows
from forecast.errors import UserError
from forecast.report.forecasters import BOUND, baseline_name
from forecast.run_folder import Run, State
from forecast.text.documents import as_cell, as_code, as_markdown
from forecast.text.terminal import label

# name in report.csv: where it stands in metrics.json
FIGURES = {
    "mse_scaled": ("test", "scaled", "mse"),
    "mae_scaled": ("test", "scaled", "mae"),
    "mse_original": ("test", "original", "mse"),
    "mae_original": ("test", "original", "mae"),
    **{key: ("test", key) for key in ("mase", "rmsse", "smape")},
    "skill": ("test", "skill"),
    "best_epoch": ("best_epoch",),
    "train_seconds": ("cost", "train_seconds"),
    "train_samples_per_second": ("cost", "train_samples_per_second"),
    "peak_memory_mb": ("cost", "peak_memory_mb"),
    "parameters": ("parameters",),
}
# Where those of a baseline's row stand in its block.
BASELINE_FIGURES = (("scaled", "mse"), ("scaled", "mae"), ("mase",))
WINDOWLESS = ("last_value", "train_mean")  # baselines that are the same whatever seq_len is
# The columns of report.csv.
TASK = ("data", "features", "pred_len", "protocol")
DIFFERENCE = ("compared_with", "mse_difference", "low", "high", "blocks")
COLUMNS = (
    *(*TASK, "windows", "row", "seeds"),
    *(f"{key}_{part}" for key in FIGURES for part in ("mean", "sd")),
    *(*DIFFERENCE, "code"),
)


class Markup(NamedTuple):
    """How words of others, sure differences, names of baselines and a sign are set."""

    words: Callable[[str], str]
    strong: Callable[[str], str]
    aside: Callable[[str], str]
    code: Callable[[str], str]


MARKDOWN = Markup(as_markdown, "**{}**".format, "*{}*".format, "`{}`".format)
COMMON = "All runs:"
# Figure: digits after the point in the table.
DIGITS = {"skill": 3, "train_seconds": 0, "train_samples_per_second": 0, "peak_memory_mb": 0, "parameters": 0}


def markdown(table: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """The lines of a table, the first row its heading; all but the first `left` columns are set right."""
    # "\\|" would be a backslash and the end of the cell to some readers, and a bar to others
    header, *rows = [
        [cell.replace("\\|", "\\ |").replace("|", "\\|").replace("\n", " ") for cell in row] for row in table
    ]
    rule = ["---" if i < left else "---:" for i in range(len(header))]
    return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)]


def plus_minus(spread: SeedSpread | None) -> str:
    """`0.5180 ± 0.0060 (3)`; without a deviation for a single run; `-` for nothing."""
    if spread is None:
        return "-"
    deviation = "" if spread.sd is None else f" ± {spread.sd:.4f}"
    return f"{spread.mean:.4f}{deviation} ({spread.runs})"


def report(name: str, comparisons: Sequence[Comparison], runs: Sequence[Run], against: str | None) -> str:
    """report.md: each comparison as a table, then the runs without results and why.

    against: the row to compare with, None: each table's first. Raises UserError when no such row has results.
    """
    rows = [row for comparison in comparisons for row in comparison.rows]
    if against is not None and not any(row.name == against for row in rows):
        choices = ", ".join(dict.fromkeys(row.name for row in rows))
        raise UserError(f"--against={against}: that is no row. Rows with results: {choices}")
    lines = [f"# {as_markdown(name)}", "", counts(runs), ""]
    if common := [f"{key}={value}" for key, value in common_overrides(runs).items()]:
        lines += [f"{COMMON} {as_code(' '.join(common))}.", ""]
    for comparison in comparisons:
        lines += _section(comparison, reference(comparison, against))
    without_results = [run for run in runs if run.state != "finished"]
    lines += ["## Not finished", ""] if without_results else []
    for run in without_results:
        overrides = " ".join(f"{key}={value}" for key, value in run.overrides.items())
        subject = f"{as_markdown(run.path.name)}{f' ({as_markdown(overrides)})' if overrides else ''}"
        reason = next(iter(run.reason.strip().splitlines()), "")
        lines.append(f"- {subject}: {run.state}: {as_markdown(reason)}")
    return "\n".join(lines).rstrip() + "\n"


def common_overrides(runs: Sequence[Run]) -> dict[str, str]:
    """What was typed for each of several runs alike; nothing of a single one."""
    first, *others = [run.overrides for run in runs if run.state != "foreign"]
    if not others:
        return {}
    return {key: value for key, value in first.items() if all(run.get(key) == value for run in others)}


def reference(comparison: Comparison, against: str | None) -> Row:
    """The row of that name; without it here the first one."""
    return next((row for row in comparison.rows if row.name == against), comparison.rows[0])


def heading(comparison: Comparison) -> str:
    """`ETTh1, features M, 24 steps ahead`, with the target where there is but one."""
    target = f" ({label(comparison.targets[0])})" if len(comparison.targets) == 1 else ""
    return f"{comparison.data}, features {comparison.features}{target}, {comparison.pred_len} steps ahead"


def csv_text(comparisons: Sequence[Comparison], against: str | None, *, safe: bool = False) -> str:
    """report.csv: a line a row, figures unrounded. safe: its words are no formulas to a spreadsheet."""
    text, rows = io.StringIO(), csv_rows(comparisons, against)
    if safe:
        rows = [{key: as_cell(cell) if isinstance(cell, str) else cell for key, cell in row.items()} for row in rows]
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def csv_rows(comparisons: Sequence[Comparison], against: str | None) -> list[dict[str, object]]:
    """The rows of report.csv, each with its COLUMNS; None is an empty cell."""
    rows = []
    for comparison in comparisons:
        chosen = reference(comparison, against)
        for row in comparison.rows:
            cells = {key: getattr(comparison, key) for key in TASK}
            cells |= {"windows": row.first("test", "windows"), "row": row.name, "seeds": len(row.finished)}
            for key, path in FIGURES.items():
                spread = row.spread(*path)
                cells |= {f"{key}_mean": spread and spread.mean, f"{key}_sd": spread and spread.sd}
            interval = None if row is chosen else mse_difference(row, chosen)
            difference = [chosen.name, *interval] if interval else [None] * 5
            cells |= dict(zip(DIFFERENCE, difference, strict=True)) | {"code": " ".join(codes([row]))}
            rows.append(cells)
    return rows


def counts(runs: Sequence[Run]) -> str:
    """`33 runs: 31 finished, 1 failed, 1 unfinished.`, and the versions where they differ."""
    own = [run for run in runs if run.state != "foreign"]
    states = [run.state for run in own]
    named = ", ".join(f"{states.count(state)} {state}" for state in get_args(State) if state in states)
    text = f"{len(own)} run{'s' * (len(own) != 1)}: {named}."
    versions: dict[str, set[str]] = {}
    for run in runs:
        for package, version in (run.run_info.get("versions") or {}).items():
            versions.setdefault(package, set()).add(str(version))
    mixed = [as_markdown(f"{package} {', '.join(sorted(used))}") for package, used in versions.items() if len(used) > 1]
    return f"{text} They were made with different versions: {'; '.join(mixed)}." if mixed else text


def _section(comparison: Comparison, against: Row) -> list[str]:
    """The table of a comparison with the sentences that it needs."""
    lines = [f"## {as_markdown(heading(comparison))}", ""]
    for part in parts(comparison, against, MARKDOWN):
        lines += [*([part] if isinstance(part, str) else markdown(part)), ""]
    return lines


def parts(comparison: Comparison, against: Row, markup: Markup) -> Iterator[str | list[list[str]]]:
    """What is said of a comparison below its heading, in this order: sentences, and tables with a row of headings."""
    rows, words = comparison.rows, markup.words
    windows = " or ".join(f"{n:,}" for n in sorted({row.finished[0].metrics["test"]["windows"] for row in rows}))
    yield (
        f"Protocol {words(comparison.protocol)}, {windows} test windows. "
        "MSE and MAE in scaled units, mean ± standard deviation (seeds)."
    )
    costs = ["seconds", "samples/s", "MB", "parameters"]
    header = ["", "MSE", "MAE", "MASE", f"MSE minus {words(against.name)}", "skill", *costs]
    yield [header, *(_cells(row, against, markup) for row in comparison.rows), *_baseline_rows(rows, markup)]
    if offsets := list(
        dict.fromkeys(offset for row in rows for offset in row.finished[0].metrics.get("offsets") or ())
    ):
        places = [FIGURES["mse_scaled"], *(("offsets", offset, "scaled", "mse") for offset in offsets)]
        later = [[words(row.name), *(plus_minus(row.spread(*place)) for place in places)] for row in rows]
        yield [["MSE at offset", "0", *map(words, offsets)], *later]
        yield f"{markup.code('-')}: a model that goes step by step cannot begin later."
    if len(codes(rows)) > 1:
        by_code = "; ".join(f"{words(code)}: {', '.join(map(words, names))}" for code, names in codes(rows).items())
        yield f"Made by different code, so that a difference may be the code's. {by_code}."
    yield _explanation(rows) if len(rows) > 1 else "One row: there is nothing to compare it with."


def codes(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The commit of the code -> what it has made, of the finished runs: {"22359db": ["full seed 1", ...], ...}."""
    by_code: dict[str, list[str]] = {}
    for row in rows:
        for run in row.finished:
            code = str((run.run_info.get("versions") or {}).get("commit", "unknown code"))
            by_code.setdefault(code, []).append(f"{row.name} seed {run.metrics['seed']}")
    return by_code


def _cells(row: Row, against: Row, markup: Markup) -> list[str]:
    mse, mae, mase = (plus_minus(row.spread(*FIGURES[key])) for key in ("mse_scaled", "mae_scaled", "mase"))
    difference = "the row compared with" if row is against else interval_text(mse_difference(row, against), markup)
    spreads = ((row.spread(*FIGURES[key]), digits) for key, digits in DIGITS.items())
    means = ["-" if spread is None else f"{spread.mean:,.{digits}f}" for spread, digits in spreads]
    return [markup.words(row.name), mse, mae, mase, difference, *means]


def interval_text(interval: Interval | None, markup: Markup) -> str:
    """`**-0.0120 [-0.0200, -0.0040]**`: strong only when the interval leaves zero out."""
    if interval is None:
        return "no shared windows"
    if interval.low is None or interval.high is None:
        return f"{interval.difference:+.4f} (only {interval.blocks} blocks)"
    text = f"{interval.difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"
    return markup.strong(text) if interval.excludes_zero() else text


def _baseline_rows(rows: Sequence[Row], markup: Markup) -> list[list[str]]:
    """The baselines, which have no seed; once for each look-back, since the closed form and the season depend on it."""
    by_look_back = {row.first("seq_len"): row for row in reversed(rows)}
    cells = []
    for key in baselines(rows):
        name = markup.words(baseline_name(key))
        for seq_len, row in sorted(by_look_back.items()):
            figures = [row.first("baselines", key, *place) for place in BASELINE_FIGURES]
            label = f"{name}, look-back {seq_len}" if len(by_look_back) > 1 and key not in WINDOWLESS else name
            line = [markup.aside(label), *("" if figure is None else f"{figure:.4f}" for figure in figures)]
            if figures[0] is not None and line not in cells:
                cells.append(line)
    return [[*line, *[""] * 6] for line in cells]


def baselines(rows: Sequence[Row]) -> list[str]:
    """The keys of the baselines that any of the rows was compared with, in the order in which they stand there."""
    blocks = [run.metrics["baselines"] for row in rows for run in row.finished]
    return [key for key in dict.fromkeys(key for block in blocks for key in block) if key != BOUND]


def _explanation(rows: Sequence[Row]) -> str:
    block, shared = block_length(*rows), shared_windows(rows)
    few = f" Fewer than {LEAST_BLOCKS} blocks give no interval." if shared // block < LEAST_BLOCKS else ""
    alone = " A row of one seed knows nothing of the spread over seeds: its interval is that of the windows alone."
    single = alone if any(len(row.finished) == 1 for row in rows) else ""
    return (
        f"Differences are paired: on the windows that both rows have forecast ({shared:,} in all rows), with a 95 % "
        f"interval from a block bootstrap over the windows (blocks of seq_len + pred_len, at most {block}) and from "
        f"the spread over seeds. Bold: the interval leaves zero out. Each interval stands for itself; of twenty, one "
        f"misses by chance.{few}{single} Seconds are those of the training, comparable only where nothing else ran "
        "beside it."
    )
