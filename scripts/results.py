"""Writes docs/results.md and an excerpt in README.md. Usage: python scripts/results.py [--check] [--help]

From results/runs.jsonl (forecast reproduce), results/published.csv, results/notes.yaml, and the comparisons in
results/NAME/report.md (forecast report FOLDER --to results/NAME). Nothing in docs/results.md, or between the two
marks in README.md, is written by hand.
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
DOCUMENT = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
# The excerpt stands between these two lines of README.md.
BEGIN, END = "<!-- made by scripts/results.py -->", "<!-- until here -->"
# The rows that it shows: table, row, model.
EXCERPT = (
    ("etth1_m", "24", "informer2020"),
    ("dlinear", "etth1_m_96", "dlinear"),
    ("dlinear", "etth1_m_96", "nlinear"),
)
INTRODUCTION = """# Results

Made by `python scripts/results.py` from results/; not written by hand.

Errors are in scaled units (the columns of the train rows have mean 0 and variance 1): mean ± standard deviation (number
of seeds). In brackets after a model's name: what its command had beside its row in published.yaml. The baselines are
computed on the same windows, closed-form NLinear with the row's own look-back.
"""


def main() -> None:
    """Writes the document; with --check says only whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].split(" Usage")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when it is out of date")
    arguments = parser.parse_args()

    from forecast.errors import UserError
    from forecast.files import write_text

    try:
        before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        texts = {
            DOCUMENT: document(RESULTS),
            README: "\n".join([f"{before}{BEGIN}", *excerpt(RESULTS), f"{END}{after}"]),
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
    parts += ["## Panels", "", *panel_lines(lines)]
    for report in sorted(results.glob("*/report.md")):
        parts.append(comparison(report))
    return "\n".join(parts).rstrip() + "\n"


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


def excerpt(results: Path) -> list[str]:
    """Three published rows beside ours and the baselines, as Markdown. Raises UserError for a row without a result."""
    from forecast.comparison.tables import markdown, plus_minus
    from forecast.errors import UserError
    from forecast.report.forecasters import BASELINES
    from studies.published import records
    from studies.published.document import table_results
    from studies.published.published import read_published
    from studies.published.tables import TABLES

    lines, printed = records.read(results / "runs.jsonl"), read_published(results / "published.csv")
    rows = [["`experiment=`", "`model=`", "published", "ours", *BASELINES.values()]]
    for table, row, model in EXCERPT:
        found = [r for r in table_results(TABLES[table], lines, printed) if (r.row, r.name) == (row, model)]
        if not found or found[0].published is None:
            raise UserError(f"{results / 'runs.jsonl'} has no {model} of {table}/{row}, which README.md shows")
        line = next(line for line in lines if (line["table"], line["row"]) == (table, row))
        baselines = [f"{line['baselines'][name]['scaled']['mse']:.3f}" for name in BASELINES]
        ours = [f"{found[0].published.mse:.3f}", plus_minus(found[0].spread("mse"))]
        rows.append([f"`{table}/{row}`", f"`{model}`", *ours, *baselines])
    return ["", *markdown(rows, left=2), ""]


if __name__ == "__main__":
    main()
