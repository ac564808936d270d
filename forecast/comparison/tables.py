"""The comparison in words and figures: report.md for people, report.csv for programs."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from forecast.comparison.bootstrap import LEAST_BLOCKS, Interval
from forecast.comparison.rows import Row, Setting, Spread, block_length, check_reference, compare, shared_windows
from forecast.run_folder import Run, State

BASELINES = {
    "last_value": "last value",
    "seasonal_naive": "seasonal naive",
    "closed_form_nlinear": "closed-form NLinear",
}
# name in report.csv: where it stands in metrics.json
FIGURES = {
    "mse_scaled": ("test", "scaled", "mse"),
    "mae_scaled": ("test", "scaled", "mae"),
    "mse_original": ("test", "original", "mse"),
    "mae_original": ("test", "original", "mae"),
    "skill": ("test", "skill"),
    "best_epoch": ("best_epoch",),
    "train_seconds": ("cost", "train_seconds"),
    "train_samples_per_second": ("cost", "train_samples_per_second"),
    "peak_memory_mb": ("cost", "peak_memory_mb"),
    "parameters": ("parameters",),
}

COMMON = "All runs:"
# Characters of a reason that a cell holds; the list below the tables has all.
REASON = 80
COSTS = ("train_seconds", "train_samples_per_second", "peak_memory_mb", "parameters")


def markdown(table: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """The lines of a table, the first row its heading; all but the first `left` columns are set right."""
    heading, *rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in table]
    rule = ["---" if i < left else "---:" for i in range(len(heading))]
    return [f"| {' | '.join(row)} |" for row in (heading, rule, *rows)]


def plus_minus(spread: Spread | None, digits: int = 4) -> str:
    """`0.5180 ± 0.0060 (3)`; without a deviation for a single run; `-` for nothing."""
    if spread is None:
        return "-"
    deviation = "" if spread.sd is None else f" ± {spread.sd:.{digits}f}"
    return f"{spread.mean:.{digits}f}{deviation} ({spread.runs})"


def interval_words(interval: Interval | None) -> str:
    """`**-0.0120 [-0.0200, -0.0040]**`: bold only when the interval leaves zero out."""
    if interval is None:
        return "no shared windows"
    if interval.low is None or interval.high is None:
        return f"{interval.difference:+.4f} (only {interval.blocks} blocks)"
    text = f"{interval.difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"
    return f"**{text}**" if interval.excludes_zero() else text


def report(name: str, setting_list: Sequence[Setting], runs: Sequence[Run], against: str | None) -> str:
    """report.md: a table a setting, then what is in none. against: the row to compare with, None: each table's first.

    Raises UserError when there is no such row.
    """
    check_reference(setting_list, against)
    lines = [f"# {name}", "", counts(runs), ""]
    if common := common_overrides(runs):
        lines += [f"{COMMON} `{' '.join(common)}`.", ""]
    for setting in setting_list:
        lines += section(setting, reference(setting, against))
    lines += absent(runs)
    return "\n".join(lines).rstrip() + "\n"


def reference(setting: Setting, against: str | None) -> Row:
    """The row of that name; without it, or without results for it here, the first one that has a finished run."""
    named = None if against is None else setting.row(against)
    return named if named and named.finished else next(row for row in setting.rows if row.finished)


def common_overrides(runs: Sequence[Run]) -> list[str]:
    """What the command line said of all runs alike."""
    ours = [run.overrides.items() for run in runs if run.state != "foreign"]
    shared = set.intersection(*map(set, ours)) if len(ours) > 1 else set()
    return [f"{key}={value}" for key, value in ours[0] if (key, value) in shared] if shared else []


def counts(runs: Sequence[Run]) -> str:
    """`33 runs: 31 finished, 1 failed, 1 unfinished.`, and the versions where they differ."""
    ours = [run for run in runs if run.state != "foreign"]
    parts = states(ours)
    text = f"{len(ours)} run{'s' * (len(ours) != 1)}{': ' * bool(parts)}{parts}."
    versions: dict[str, set[str]] = {}
    for run in runs:
        for package, version in (run.run_info.get("versions") or {}).items():
            versions.setdefault(package, set()).add(str(version))
    mixed = [f"{package} {', '.join(sorted(found))}" for package, found in versions.items() if len(found) > 1]
    return f"{text} They were made with different versions: {'; '.join(mixed)}." if mixed else text


def section(setting: Setting, against: Row) -> list[str]:
    """The table of a setting with the sentences that it needs."""
    rows = [row for row in setting.rows if row.finished]
    windows = {row.one("test", "windows") for row in rows}
    lines = [
        f"## {heading(setting)}",
        "",
        f"Protocol {setting.protocol}, {_range(windows)} test windows. "
        "Errors in scaled units, mean ± standard deviation (seeds).",
        "",
        *markdown([_heading(against), *(_cells(row, against) for row in setting.rows), *_baseline_rows(rows)]),
        "",
    ]
    lines += _offsets(rows)
    if older := sum(len(row.superseded) for row in setting.rows):
        lines += [f"Left out: {older} older run{'s' * (older != 1)} of a row and seed that a newer one has.", ""]
    if len(rows) > 1:
        lines += [_explanation(rows, against), ""]
    else:
        lines += ["One row: there is nothing to compare it with.", ""]
    return lines


def heading(setting: Setting) -> str:
    """`ETTh1, features M, 24 steps ahead`, with the target where there is but one."""
    target = f" ({setting.targets[0]})" if len(setting.targets) == 1 else ""
    return f"{setting.data}, features {setting.features}{target}, {setting.pred_len} steps ahead"


def _heading(against: Row) -> list[str]:
    return ["", "MSE", "MAE", f"MSE minus {against.name}", "skill", "seconds", "samples/s", "MB", "parameters"]


def _cells(row: Row, against: Row) -> list[str]:
    if not row.finished:
        return [row.name, without_results(row), *[""] * 7]
    mse, mae = (plus_minus(row.spread(*FIGURES[key])) for key in ("mse_scaled", "mae_scaled"))
    lost = f", {states(row.lost)}" if row.lost else ""
    difference = "the row compared with" if row is against else interval_words(compare(row, against))
    costs = [_mean(row, key, 0) for key in COSTS]
    return [row.name, f"{mse}{lost}", mae, difference, _mean(row, "skill", 3), *costs]


def states(runs: Sequence[Run]) -> str:
    """`1 failed, 2 interrupted`."""
    found = [run.state for run in runs]
    return ", ".join(f"{found.count(state)} {state}" for state in get_args(State) if state in found)


def without_results(row: Row) -> str:
    """`3 failed: the loss is not finite`, with the reason of the first one."""
    return f"{states(row.lost)}: {_first_line(row.lost[0].reason)[:REASON]}"


def _baseline_rows(rows: Sequence[Row]) -> list[list[str]]:
    """The baselines, which have no seed; once for each look-back, since the closed form and the season depend on it."""
    by_look_back = {row.one("seq_len"): row for row in reversed(rows)}
    cells = []
    for key, name in BASELINES.items():
        for seq_len, row in sorted(by_look_back.items()):
            mse, mae = (row.one("baselines", key, "scaled", error) for error in ("mse", "mae"))
            said = f"{name}, look-back {seq_len}" if len(by_look_back) > 1 and key != "last_value" else name
            line = [f"*{said}*", f"{mse:.4f}" if mse is not None else "", f"{mae:.4f}" if mae is not None else ""]
            if mse is not None and line not in cells:
                cells.append(line)
    return [[*line, *[""] * 6] for line in cells]


def _explanation(rows: Sequence[Row], against: Row) -> str:
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


def _offsets(rows: Sequence[Row]) -> list[str]:
    """The MSE of forecasts that begin later, where the protocol asked for them."""
    offsets = list(dict.fromkeys(offset for row in rows for offset in row.one("offsets") or ()))
    if not offsets:
        return []
    table = [["MSE at offset", "0", *offsets]]
    for row in rows:
        later = (row.spread("offsets", offset, "scaled", "mse") for offset in offsets)
        table.append([row.name, *map(plus_minus, (row.spread(*FIGURES["mse_scaled"]), *later))])
    return [*markdown(table), "", "`-`: a model that goes step by step cannot begin later.", ""]


def absent(runs: Iterable[Run]) -> list[str]:
    """What is in no table, or in one without a figure, and why."""
    others = [run for run in runs if run.state != "finished"]
    if not others:
        return []
    lines = ["## Not finished", ""]
    for run in others:
        asked = " ".join(f"{key}={value}" for key, value in run.overrides.items())
        lines.append(f"- {run.path.name}{f' ({asked})' if asked else ''}: {run.state}: {_first_line(run.reason)}")
    return [*lines, ""]


def csv_text(setting_list: Sequence[Setting], against: str | None) -> str:
    """report.csv: a line a row, figures unrounded."""
    text = io.StringIO()
    names = [f"{key}_{part}" for key in FIGURES for part in ("mean", "sd")]
    comparison = ["compared_with", "mse_difference", "low", "high", "blocks"]
    where = ["data", "features", "pred_len", "protocol", "windows", "row"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*where, "seeds", "not_finished", *names, *comparison])
    for setting in setting_list:
        chosen = reference(setting, against)
        for row in setting.rows:
            spreads = [row.spread(*path) for path in FIGURES.values()]
            figures: list[Any] = [value for s in spreads for value in ((s.mean, s.sd) if s else (None, None))]
            interval = None if row is chosen else compare(row, chosen)
            place = [setting.data, setting.features, setting.pred_len, setting.protocol, row.one("test", "windows")]
            compared = [chosen.name, *interval] if interval else [None] * len(comparison)
            writer.writerow([*place, row.name, len(row.finished), len(row.lost), *figures, *compared])
    return text.getvalue()


def _mean(row: Row, key: str, digits: int) -> str:
    spread = row.spread(*FIGURES[key])
    return "-" if spread is None else f"{spread.mean:,.{digits}f}"


def _range(values: set[Any]) -> str:
    return " or ".join(f"{value:,}" for value in sorted(values))


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
