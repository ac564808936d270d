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
from studies.documents.blocks import fill_made_part

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "performance"
DOCUMENT = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.png"


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
    sweeps = picture.sweeps(files)
    image = [f"![time and memory against length]({PICTURE.name})", ""] if sweeps else []
    text = fill_made_part(DOCUMENT, "scripts/performance.py", [*image, *document.document_lines(files)])
    if check:
        stale = [DOCUMENT] if DOCUMENT.read_text(encoding="utf-8") != text else []
        stale += [PICTURE] if sweeps and not picture.is_of(sweeps, PICTURE) else []
        if stale:
            raise UserError(f"{stale[0].name} is not what results/performance gives: run python scripts/performance.py")
        return
    write_text(DOCUMENT, text)
    if sweeps:
        picture.write(sweeps, PICTURE)


if __name__ == "__main__":
    main()
