"""docs/intervals.md from results/intervals.json, intervals_simulated.json and intervals_peer.json."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forecast.comparison.tables import markdown
from forecast.errors import UserError
from forecast.files import write_text
from studies.documents.blocks import fill_made_part
from studies.intervals.goals import FORMS, LEVELS, best_of, goal_lines, points
from studies.intervals.rows import interval_rows, models_of, read

MAKER = "scripts/intervals.py"
ERRORS = 3.0  # standard errors within which a simulated coverage is nominal


def write(document: Path, record: Path, simulated: Path, peer: Path, *, check: bool) -> None:
    """Fills the page. Raises UserError, with `check`, when it is not what the records give."""
    results, others = read(record), [read_json(path) for path in (simulated, peer)]
    text = fill_made_part(document, MAKER, lines(results, *others))
    if not check:
        write_text(document, text)
    elif document.read_text(encoding="utf-8") != text:
        raise UserError(f"{document.name} is not what results/{record.name} gives: run python {MAKER}")


def read_json(path: Path) -> dict[str, Any]:
    """A record, empty where there is none yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def lines(results: Mapping[str, Any], simulated: Mapping[str, Any], peer: Mapping[str, Any]) -> list[str]:
    """The made part of the page."""
    text = ["## Goals", "", *goal_lines(results), ""]
    text += ["## Rows", "", *rows_text(results)]
    text += crossed_lines(results)
    text += simulated_lines(simulated) if simulated else []
    text += peer_lines(peer, results) if peer else []
    made = {one["made_by"] for models in results.values() for one in models.values()}
    made |= {other["made_by"] for other in (simulated, peer) if other}
    return [*text, f"Made by: {'; '.join(sorted(made))}."]


def rows_text(results: Mapping[str, Any]) -> list[str]:
    """The coverage and the widths of each row: its models, each in every form."""
    text = []
    for name, row in interval_rows().items():
        if name not in results:
            text += [f"### {row['title']}", "", f"Not run yet: `python {MAKER} --root FOLDER --rows {name}`", ""]
            continue
        models = results[name]
        best = best_of(models)
        counts = models[best]["calibration"]
        text += [f"### {row['title']}", ""]
        text.append(
            f"`{name}`. {models[best]['test']['windows']:,} test windows; {counts['windows']:,} validation windows, "
            f"of which {counts['blocks']:,} do not overlap. Chosen on the validation rows: {best}."
        )
        text += [
            "",
            *markdown([HEADER, *(line for model in models_of(row) for line in form_rows(models, model))], left=2),
        ]
        text.append("")
    return text


HEADER = ["model", "intervals", "80 %", "95 %", "worst step, 80 %", "worst step, 95 %", "width 80 %", "width 95 %"]
HEADER += ["MSIS 95 %", "SQL", "MASE"]


def form_rows(models: Mapping[str, Any], model: str) -> Iterator[list[str]]:
    """The lines of a model in the table of its row."""
    if model not in models:
        return
    one = models[model]
    for form in FORMS:
        if (block := one["intervals"].get(form)) is None:
            continue
        cover = [with_points(block["coverage"].get(level), level) for level in LEVELS]
        steps = [worst_words(block["worst"].get(level), level) for level in LEVELS]
        widths = [figure(block["width"].get(level)) for level in LEVELS]
        scores = [figure(block["msis"].get(LEVELS[-1])), figure(block["sql"]), figure(one["test"]["mase"])]
        yield [model, form, *cover, *steps, *widths, *scores]


def figure(value: float | None) -> str:
    """Three decimals; - for none."""
    return "-" if value is None else f"{value:.3f}"


def with_points(coverage: float | None, level: str) -> str:
    """`79.1 (-0.9)`: per cent, and points from the level."""
    return "-" if coverage is None else f"{100 * coverage:.1f} ({points(coverage, level):+.1f})"


def worst_words(worst: Mapping[str, float] | None, level: str) -> str:
    """`-3.2, step 17`: the step whose coverage is farthest from the level, in points."""
    return "-" if worst is None else f"{points(worst['coverage'], level):+.1f}, step {worst['step']}"


def crossed_lines(results: Mapping[str, Any]) -> list[str]:
    """What the halves of the validation windows that choose for one another change."""
    table = [["row", "model", "margins of", "margin 80 %", "margin 95 %", "80 % held", "95 % held"]]
    names = {"uncrossed": "best.ckpt, on the windows that chose it", "static": "the other half's choice"}
    for name, models in results.items():
        for model, one in models.items():
            if "uncrossed" not in one["intervals"]:
                continue
            for form, words in names.items():
                block = one["intervals"][form]
                margins = [figure(block["margin"].get(level)) for level in LEVELS]
                held = [with_points(block["coverage"].get(level), level) for level in LEVELS]
                table.append([interval_rows()[name]["title"], model, words, *margins, *held])
    if len(table) == 1:
        return []
    return [
        "## What cross-fitting changes",
        "",
        "The same trained model, calibrated by best.ckpt itself on all validation windows, which chose its epoch, and "
        "as the program does it: each half of them is forecast with the epoch that the other half chose. Margins are "
        "means over steps and columns, scaled units; of quantiles they are added to the model's own interval. Where "
        "both halves choose the epoch that all choose, the lines are equal. " + gain_of_crossing(results),
        "",
        *markdown(table, left=3),
        "",
    ]


def gain_of_crossing(results: Mapping[str, Any]) -> str:
    """By how much more is held, at least, at most and on average over models and levels, in points."""
    forms = [one["intervals"] for models in results.values() for one in models.values()]
    gains = [
        100 * (one["static"]["coverage"][level] - one["uncrossed"]["coverage"][level])
        for one in forms
        if "uncrossed" in one
        for level in one["static"]["coverage"]
    ]
    mean = sum(gains) / len(gains)
    return f"Coverage moves by {min(gains):+.1f} to {max(gains):+.1f} points, {mean:+.2f} on average."


def simulated_lines(record: Mapping[str, Any]) -> list[str]:
    """The coverage on made-up series."""
    table = [["noise", "intervals", "80 % held", "95 % held", "the calmest quarter of a day", "the wildest"]]
    beyond = []
    for kind in record["kinds"].values():
        for form, block in kind["forms"].items():
            held = [f"{100 * one['coverage']:.2f} ± {100 * one['error']:.2f}" for one in block.values()]
            hours = [
                ", ".join(f"{100 * one[key]:.0f}" for one in block.values() if key in one) or "-"
                for key in ("calm", "wild")
            ]
            table.append([kind["title"], form, *held, *hours])
            for level, one in block.items():
                if abs(points(one["coverage"], level)) > 100 * ERRORS * one["error"]:
                    beyond.append(f"{kind['title']}, {form}, {level} %: {points(one['coverage'], level):+.2f} points")
    said = f"More than three standard errors from a level: {'; '.join(beyond) or 'none'}."
    return [
        "## Made-up series",
        "",
        f"{record['series']} series of each kind, each calibrated by itself on {record['windows']} windows and judged "
        f"on as many, {record['steps']} steps ahead; the point forecast is the true mean, so that the intervals alone "
        f"can err. Per cent, ± the standard error over the series. {said} Neighbouring windows of an AR(1) are not "
        "exchangeable, but its memory is short beside their number, and the level is kept on average. Noise that "
        "follows the hour is held on average too, and at no hour: one margin for all is too wide in calm hours and too "
        "narrow in wild ones (80 %, 95 %), which the average does not show.",
        "",
        *markdown(table, left=2),
        "",
    ]


def peer_lines(record: Mapping[str, Any], results: Mapping[str, Any]) -> list[str]:
    """The conformal intervals of neuralforecast beside ours on the same windows."""
    table = [["row", "model", "intervals", "80 % held", "95 % held", "width 80 %", "width 95 %", "MSIS 95 %"]]
    for name, one in record["rows"].items():
        title = interval_rows()[name]["title"]
        ours = [
            (model, "ours, static", models["intervals"]["static"])
            for model, models in results.get(name, {}).items()
            if model != "seasonal naive"
        ]
        for model, words, block in [*ours, (f"neuralforecast {one['model']}", one["intervals"], one)]:
            held = [with_points(block["coverage"].get(level), level) for level in LEVELS]
            widths = [figure(block["width"].get(level)) for level in LEVELS]
            table.append([title, model, words, *held, *widths, figure(block["msis"].get(LEVELS[-1]))])
    return [
        "## neuralforecast's intervals",
        "",
        "`PredictionIntervals()` with its defaults, on the same test windows. Of two windows the larger residual "
        "bounds the next one with a probability of two thirds, whatever the level. Widths in units of each series' "
        "mean absolute seasonal difference.",
        "",
        *markdown(table, left=3),
        "",
    ]
