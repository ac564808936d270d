"""Writes docs/performance.md, its picture and README.md's table. Usage: python scripts/performance.py [--check]

From results/performance/cpu.json and cuda.json, which scripts/benchmark.py --json writes. The text outside the two
marks is written by hand.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "performance"
DOCUMENT = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.png"
README = ROOT / "README.md"
# The tables stand between these two lines.
BEGIN, END = "<!-- made by scripts/performance.py -->", "<!-- until here -->"


def main() -> None:
    """Writes both files; with --check says only whether they are up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0].split(" Usage")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when one is out of date")
    check = parser.parse_args().check

    from forecast.errors import UserError

    try:
        work(check=check)
    except UserError as error:
        sys.exit(str(error))


def work(*, check: bool) -> None:
    """Writes or checks. Raises UserError for a file that is not ours and for what is out of date."""
    from benchmarks import picture
    from benchmarks.document import summary_lines
    from forecast.errors import UserError
    from forecast.files import write_text

    files = read_files()
    if not DOCUMENT.is_file():
        raise UserError(f"{DOCUMENT} is not there: it is part of the repository, with the lines {BEGIN} and {END}")
    short = summary_lines(files["cpu"]["parts"], "cpu")[4:-1] if "cpu" in files else []
    texts = {DOCUMENT: with_tables(DOCUMENT.read_text(encoding="utf-8"), files)}
    if README.is_file():
        texts[README] = between(README, README.read_text(encoding="utf-8"), short)
    source, figure = picture.source_of(files), picture.growth_figure(files)
    if not check:
        for path, text in texts.items():
            write_text(path, text)
        if figure is not None:
            picture.write(figure, PICTURE, source)
        return
    good = {path: path.read_text(encoding="utf-8") == text for path, text in texts.items()}
    good[PICTURE] = figure is None or picture.is_of(PICTURE, source)
    for path in (path for path, same in good.items() if not same):
        raise UserError(f"{path.name} is not what results/performance gives: run python scripts/performance.py")


def read_files() -> dict[str, Any]:
    """Kind -> content of what was measured. Raises UserError for a file that is not ours."""
    from benchmarks import record
    from benchmarks.document import KINDS

    paths = {kind: RESULTS / f"{kind}.json" for kind in KINDS}
    return {kind: record.read(path) for kind, path in paths.items() if path.is_file()}


def with_tables(document: str, files: dict[str, Any]) -> str:
    """The document with the tables between its two marks. Raises UserError when it has not both."""
    from benchmarks import document as tables
    from benchmarks.picture import has_sweep

    shown = ["![time and memory against length](performance.png)", ""] if any(map(has_sweep, files.values())) else []
    return between(DOCUMENT, document, [*shown, *tables.document_lines(files)])


def between(path: Path, text: str, lines: list[str]) -> str:
    """The text with lines between its two marks. Raises UserError when it has not both."""
    from forecast.errors import UserError

    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{path.name} needs the two lines {BEGIN} and {END}: the tables stand between them")
    return "\n".join([f"{before}{BEGIN}", "", *lines, "", f"{END}{after}"])


if __name__ == "__main__":
    main()
