"""Writes docs/results.md, and a table in README.md and which_model.md. Usage: python scripts/results.py [--check]

From results/runs.jsonl (forecast reproduce), results/published.csv, results/notes.yaml, results/wins.yaml, and the
comparisons in results/NAME/report.md (forecast report FOLDER --to results/NAME). Nothing in docs/results.md, or
between the two marks in the other two, is written by hand.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
DOCUMENT = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
WHICH_MODEL = ROOT / "docs" / "which_model.md"
INTRODUCTION = """# Results

Made by `python scripts/results.py` from results/; not written by hand.

Errors are in scaled units (the columns of the train rows have mean 0 and variance 1): mean ± standard deviation (number
of seeds). In brackets after a model's name: what its command had beside its row in published.yaml. The baselines are
computed on the same windows, closed-form NLinear with the row's own look-back.
"""
WINS = """Test errors beside the best that is known of others ([from where](experiments.md#what-others-reach)): bold
where ours are lower, the commit in brackets. Settings were chosen on validation rows; those of the prices on NP and PJM
alone, so that DE, BE and FR [chose nothing](experiments.md#three-markets-that-chose-nothing). The figure of
`forecast auto` is of what it hands over, which has learned
[up to its origin](experiments.md#what-the-forecast-of-auto-errs-learned-up-to-its-origin); for ETT, BE and FR of what
it judges, held out from the validation rows on. NN5 is not yet scaled as in others' tables."""
COMMANDS = """Their commands. FOLDER has the files, X_before.csv is the file of X without the rows to be forecast (20
days of prices, 56 of NN5, 48 hours of M4, a row an hour), DAY.csv has the forecasts that are known of the day after
the file; the files of BE and FR are not in our data. ETT: the mean of the four lengths. Commands are typed as of
today."""
ON_FIRST_SCREEN = 5  # rows of wins.yaml that README.md shows


def main() -> None:
    """Writes the document; with --check says only whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].split(" Usage")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when it is out of date")
    arguments = parser.parse_args()

    from forecast.errors import UserError
    from forecast.files import write_text
    from studies.documents.blocks import fill_made_part

    try:
        rows, maker = read_wins(RESULTS), "scripts/results.py"
        texts = {
            DOCUMENT: document(RESULTS),
            README: fill_made_part(README, maker, where_it_wins(rows, ON_FIRST_SCREEN)),
            WHICH_MODEL: fill_made_part(WHICH_MODEL, maker, where_it_wins(rows)),
        }
    except UserError as error:
        sys.exit(str(error))
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} is not there: it is part of the repository, or made as results/README.md says")
    for path, text in texts.items():
        if not arguments.check:
            write_text(path, text)
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is not what results/ gives: run python scripts/results.py")


def document(results: Path) -> str:
    """The whole text. Raises UserError for files that are not ours."""
    from studies.documents.blocks import wrapped
    from studies.published import records
    from studies.published.document import CODE, read_notes, table_lines
    from studies.published.outcome import RULE
    from studies.published.panels import panel_lines
    from studies.published.published import read_published
    from studies.published.tables import TABLES

    lines = records.read(results / "runs.jsonl")
    printed, notes = read_published(results / "published.csv"), read_notes(results / "notes.yaml")
    parts = [INTRODUCTION, RULE, "", CODE, "", made_with(lines), ""]
    for table in TABLES.values():
        parts += table_lines(table, lines, printed, notes)
    parts += ["## Panels", "", *panel_lines(lines), *section_of_wins(read_wins(results))]
    for report in sorted(results.glob("*/report.md")):
        parts.append(comparison(report))
    return wrapped("\n".join(parts)).rstrip() + "\n"


def comparison(report: Path) -> str:
    """A sweep's report, headings one deeper, pictures by their place; its code and note.md stand below the heading."""
    from studies.published.document import codes_of

    folder = report.parent
    lines = map(json.loads, (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines())
    note = folder / "note.md"
    made_by = [f"Code: {codes_of(lines)}.", *([note.read_text(encoding="utf-8").strip()] if note.is_file() else [])]
    text = re.sub(r"^#", "##", report.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"!\[\]\((.*)\)", rf"![](../results/{folder.name}/\1)", text)
    heading, rest = text.split("\n", 1)
    return "\n\n".join([heading, " ".join(made_by), rest.lstrip("\n")])


def made_with(lines: list[dict]) -> str:  # type: ignore[type-arg]
    """One sentence on how many trainings there are, and on what."""
    if not lines:
        return "No training has been run yet."
    torch = sorted({line["versions"]["torch"] for line in lines})
    devices = sorted({line["cost"]["device"] for line in lines})
    hours = sum(line["cost"]["train_seconds"] for line in lines) / 3600
    trainings = "1 training" if len(lines) == 1 else f"{len(lines)} trainings"
    return f"{trainings}, {hours:.1f} hours on {', '.join(devices)}, torch {', '.join(torch)}."


def read_wins(results: Path) -> list[dict[str, Any]]:
    """The rows of wins.yaml, which says what they are, with the means that it names."""
    rows: list[dict[str, Any]] = yaml.safe_load((results / "wins.yaml").read_text(encoding="utf-8"))
    for row in rows:
        parts = [part for part in rows if part["data"] in row.get("mean_of", ())]
        for who in ("recipe", "auto") if parts else ():
            mean = geometric_mean(float(part[who]["figure"]) for part in parts)
            row[who] = {"figure": f"{mean:.3f}", "named": short(parts[0]["recipe"])}
    return rows


def where_it_wins(rows: list[dict[str, Any]], shown: int | None = None) -> list[str]:
    """The table as Markdown, ours in bold where it errs less than the best of others, and what is behind of all rows.

    shown: how many of the rows are in the table; None: all.
    """
    from forecast.comparison.tables import markdown

    table, behind = [["data, error", "recipe", "`forecast auto`", "best of others"]], []
    for row in rows:
        best = row.get("best", [])
        ours = {who: row[who] for who in ("recipe", "auto") if who in row}
        ahead = [who for who, run in ours.items() if best and float(run["figure"]) < float(best[0])]
        bold = {who: "**" if who in ahead else "" for who in ours}
        commits = {who: f" ({run['commit']})" if "commit" in run else "" for who, run in ours.items()}
        cells = {who: f"{bold[who]}{run['figure']}{bold[who]}{commits[who]}" for who, run in ours.items()}
        recipe = f"`{short(row['recipe'])}` {cells['recipe']}"
        table.append([f"{row['data']}, {row['error']}", recipe, cells.get("auto", "-"), ", ".join(best) or "-"])
        behind += [row["data"]] if best and not ahead else []
    return [
        *markdown(table if shown is None else table[: 1 + shown], left=2),
        "",
        f"Behind in every run: {', '.join(behind)}.",
    ]


def short(run: dict[str, str]) -> str:
    """What names the recipe in its command: `experiment=epf_plus`."""
    return run.get("named") or next(word for word in run["command"].split() if re.match("(experiment|model)=", word))


def section_of_wins(rows: list[dict[str, Any]]) -> list[str]:
    """All rows, and their whole commands, as Markdown."""
    from forecast.comparison.tables import markdown

    table = [["data", "error", "commit", "command"]]
    for row in rows:
        runs = [row[who] for who in ("recipe", "auto") if "command" in row.get(who, ())]
        table += [
            [row["data"], f"{run['figure']} {row['error']}", run["commit"], f"`{run['command']}`"] for run in runs
        ]
    return [
        "## Where it wins, where it loses",
        "",
        WINS,
        "",
        *where_it_wins(rows),
        "",
        COMMANDS,
        "",
        *markdown(table, left=4),
        "",
    ]


if __name__ == "__main__":
    main()
