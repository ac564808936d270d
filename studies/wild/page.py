"""docs/wild.md from results/wild.json and the reasons in results/wild_notes.yaml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from forecast.comparison.tables import markdown
from forecast.errors import UserError
from forecast.files import write_text
from forecast.report.forecasters import baseline_name
from forecast.text.documents import as_markdown
from studies.documents.blocks import fill_made_part

MAKER = "scripts/wild_files.py"
# The goal: the model's MASE, in times that of the baseline that is best on the test rows.
NEAR, MOST = 1.02, 1.15
COMPARED = ("last_value", "seasonal_naive", "closed_form_nlinear", "ridge")
ROWS, SECONDS = 50_000, 180  # up to so many rows the Informer's command takes so many seconds at most
SHARE_NEAR = 11 / 14  # of the files; MOST is for all


def write(document: Path, results: Mapping[str, Any], notes: Mapping[str, str], *, check: bool) -> None:
    """Fills the page. Raises UserError, with `check`, when it is not what the record gives."""
    text = fill_made_part(document, MAKER, lines(results, notes))
    if not check:
        write_text(document, text)
    elif document.read_text(encoding="utf-8") != text:
        raise UserError(f"{document.name} is not what results/wild.json gives: run python {MAKER}")


def read_notes(path: Path) -> dict[str, str]:
    """The reasons of the misses, by file name."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def ratio(result: Mapping[str, Any]) -> float | None:
    """The model's MASE in times that of the best baseline; None without figures, as of a failed run."""
    baselines = [mase for mase in result.get("baselines", {}).values() if mase is not None]
    mase = result.get("mase")
    return None if mase is None or not baselines else mase / min(baselines)


def lines(results: Mapping[str, Any], notes: Mapping[str, str]) -> list[str]:
    """The made part. Raises UserError for a miss without a reason, and for a reason that no miss has."""
    ratios = {name: ratio(result) for name, result in results.items()}
    misses = [name for name, times in ratios.items() if times is None or times > NEAR]
    for name in set(misses) ^ notes.keys():
        what = "misses the goal: say why" if name in misses else "misses nothing: remove it"
        raise UserError(f"results/wild_notes.yaml: {name} {what}")
    near = len(results) - len(misses)
    within = sum(times is not None and times <= MOST for times in ratios.values())
    goal = f"goal: {round(SHARE_NEAR * len(results))}"
    table = [
        [
            "file",
            "rows",
            "columns",
            "season",
            "seq_len",
            "pred_len",
            "model",
            *map(baseline_name, COMPARED),
            "times best",
            "Informer",
        ]
    ]
    table += [row(name, result, ratios[name]) for name, result in results.items()]
    made = sorted({result["made_by"] for result in results.values()})
    found = [
        f"At most {NEAR} times the best baseline: {near} of {len(results)} files ({goal}).",
        f"At most {MOST} times: {within} of {len(results)} (goal: all).",
        *informer_line(results),
        "Rows are those after gaps were filled and rows resampled.",
        f"Made by: {'; '.join(made)}.",
    ]
    sections = [line for name, result in results.items() for line in section(name, result, notes.get(name))]
    return [*found, "", *markdown(table), "", *sections][:-1]


def informer_line(results: Mapping[str, Any]) -> list[str]:
    """The longest training of an Informer by check-data's command, on files of at most ROWS rows."""
    seconds = [
        one["informer"]["seconds"] for one in results.values() if "informer" in one and one.get("rows", 0) <= ROWS
    ]
    if not seconds:
        return []
    return [f"The Informer's command, files of at most {ROWS:,} rows: {max(seconds):.0f} s at most (goal: {SECONDS})."]


def row(name: str, result: Mapping[str, Any], times: float | None) -> list[str]:
    """A file's line of the table."""
    sizes = [result.get(key) for key in ("rows", "columns", "season")] + result.get("lengths", [None, None])
    errors = [result.get("mase"), *(result.get("baselines", {}).get(baseline) for baseline in COMPARED), times]
    errors.append(result.get("informer", {}).get("mase"))
    cells = ["-" if size is None else f"{size:,}" for size in sizes]
    return [f"`{name}`", *cells, *("-" if error is None else f"{error:.3f}" for error in errors)]


def informer_words(informer: Mapping[str, Any]) -> str:
    """What came of the Informer's command."""
    if informer["mase"] is None:
        return as_markdown(informer["verdict"].rstrip("."))
    return f"MASE {informer['mase']:.3f}"


def section(name: str, result: Mapping[str, Any], note: str | None) -> list[str]:
    """The commands of a file, what they said and how long they took."""
    text = [f"### {name}", "", "```", result["check"], *([result["train"]] if result["train"] else []), "```", ""]
    said = (result.get("said") if "train_seconds" in result else result["verdict"]) or "nothing to choose"
    text.append(f"- check-data, {result['check_seconds']} s: {as_markdown(said.rstrip('.'))}.")
    if "train_seconds" in result:
        text.append(f"- train, {result['train_seconds']} s: {as_markdown(result['verdict'])}")
    if informer := result.get("informer"):
        text.append(f"- the Informer's command, {informer['seconds']} s: {informer_words(informer)}.")
    return [*text, *([f"- A miss. {note}"] if note else []), ""]
