"""Writes docs/performance.md and its picture. Usage: python scripts/performance.py [--check]

From results/performance/cpu.json and cuda.json, which scripts/benchmark.py --json writes. The text outside the two
marks is written by hand.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is no part of the installed package

from benchmarks import document, picture, record
from forecast.errors import UserError
from forecast.files import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "performance"
DOCUMENT = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.png"
# The tables stand between these two lines.
BEGIN, END = "<!-- made by scripts/performance.py -->", "<!-- until here -->"


def main() -> None:
    """Writes the files; with --check says only whether they are up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0].split(" Usage")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when one is out of date")
    try:
        work(check=parser.parse_args().check)
    except UserError as error:
        sys.exit(str(error))


def work(*, check: bool) -> None:
    """Writes or checks. Raises UserError for a file that is not ours and for what is out of date."""
    paths = {kind: RESULTS / f"{kind}.json" for kind in document.KINDS}
    files = {kind: record.read(path) for kind, path in paths.items() if path.is_file()}
    if not DOCUMENT.is_file():
        raise UserError(f"{DOCUMENT} is not there: it is part of the repository, with the lines {BEGIN} and {END}")
    sweeps = picture.sweeps(files)
    image = [f"![time and memory against length]({PICTURE.name})", ""] if sweeps else []
    text = between(DOCUMENT, [*image, *document.document_lines(files)])
    if check:
        stale = [DOCUMENT] if DOCUMENT.read_text(encoding="utf-8") != text else []
        stale += [PICTURE] if sweeps and not picture.is_of(sweeps, PICTURE) else []
        if stale:
            raise UserError(f"{stale[0].name} is not what results/performance gives: run python scripts/performance.py")
        return
    write_text(DOCUMENT, text)
    if sweeps:
        picture.write(sweeps, PICTURE)


def between(path: Path, lines: list[str]) -> str:
    """The file's text with lines between its two marks. Raises UserError when it has not both."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{path.name} needs the two lines {BEGIN} and {END}: the tables stand between them")
    return "\n".join([f"{before}{BEGIN}", "", *lines, "", f"{END}{after}"])


if __name__ == "__main__":
    main()
