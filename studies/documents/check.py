"""Does a document show what was recorded? A sentence for each difference: file, line, what it has, what it should."""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from forecast.errors import UserError, closest
from studies.documents.blocks import MARK, Block, blocks
from studies.documents.records import Record

CUT = "..."  # on a line of its own in an excerpt: lines are left out here
# 0.2634, unless a setting (optim.lr=0.001), a version or part of a name; and times and sizes: 4.7 s, 746 MB
DECIMALS = r"(?<![\w.=/^-])[-+]?\d{1,3}\.\d{%d,}(?![\w.]*\w)"
WITH_UNIT = r"(?<![\w.=/-])\d+(?:\.\d+)?(?= (?:s|ms|us|MB|GB|samples/s)\b)"
FIGURES = {
    "table": re.compile(DECIMALS % 1),
    "code": re.compile(f"{DECIMALS % 2}|{WITH_UNIT}"),
    "paragraph": re.compile(f"{DECIMALS % 3}|{WITH_UNIT}"),
}
# What this program prints and no source text has.
OUTPUT = {
    "a prompt": re.compile(r"^\$ "),
    "a table's rule": re.compile("─{4,}"),
    "a log line": re.compile(r"\[(INFO|WARNING|ERROR)\]|^Traceback"),
    "a time stamp": re.compile(r"(?<![='\"])\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d"),
    "a key of metrics.json": re.compile(r'"[\w/ ]+": -?\d+\.\d'),
    "an error message": re.compile(r"Did you mean|^[Uu]sage: |^\w+Error: "),
}
SOURCE = {"python", "yaml", "toml", "ini"}  # languages of blocks in which a decimal number is a setting
# Unmarked, csv is a user's file; a session of Python is a doctest, which tests/attention/test_tutorial.py runs.
NO_OUTPUT = {"csv", "pycon"}
HISTORY = (
    *("docs/experiments.md", "docs/diary.md", "docs/performance.md", "docs/limits.md"),
    "docs/decisions/",
)
DATED = re.compile(r"\b20\d\d-\d\d-\d\d\b|\bcommit [0-9a-f]{7,}\b")


def unused(names: Iterable[str], paths: Iterable[Path]) -> list[str]:
    """The recorded outputs of these names that no document shows."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    shown = {name for _, name in MARK.findall(texts)}
    return [f"results/excerpts.yaml: no document shows {name}; remove it" for name in names if name not in shown]


def problems(path: Path, root: Path, records: Mapping[str, Record]) -> list[str]:
    """What is wrong in one document."""
    name = path.relative_to(root).as_posix()
    found: list[str] = []
    try:
        content = blocks(path.read_text(encoding="utf-8"), name)
    except UserError as error:
        return [str(error)]
    for block in content:
        if block.mark is None:
            found += unmarked(block, name)
        elif block.mark.kind == "excerpt" and block.kind == "code":
            found += unlike_record(block, name, records)
        elif block.mark.kind == "figures" and block.kind != "code":
            found += unlike_figures(block, name, root, records)
        else:
            fix = "figures" if block.mark.kind == "excerpt" else "excerpt"
            found.append(f"{name}:{block.line}: a {block.kind} block has the mark {fix}: NAME, not {block.mark.kind}:")
    return found


def unmarked(block: Block, name: str) -> list[str]:
    """Output and figures without a mark; in HISTORY figures may stand in a section with a date or commit."""
    if block.kind == "code":
        return unmarked_output(block, name)
    history = name.startswith(HISTORY)
    found = figures(block)
    if not found or (history and DATED.search(block.section)):
        return []
    fix = "write <!-- figures: NAME --> above it" + (", or its date or commit in its section" if history else "")
    return [f"{name}:{block.line}: the figure {found[0]} of this {block.kind} is checked by nothing: {fix}"]


def unmarked_output(block: Block, name: str) -> list[str]:
    """The first line of an unmarked code block that looks like output."""
    kinds = OUTPUT if block.language in SOURCE else OUTPUT | {"a figure": FIGURES["code"]}
    for number, line in enumerate([] if block.language in NO_OUTPUT else block.lines, block.line):
        kind = next((kind for kind, pattern in kinds.items() if pattern.search(line)), None)
        if kind:
            fix = "record its commands in results/excerpts.yaml and write <!-- excerpt: NAME --> above the block"
            return [f"{name}:{number}: {line.strip()!r} looks like output ({kind}), and nothing checks it: {fix}"]
    return []


def figures(block: Block) -> list[str]:
    """The measured numbers of a table or paragraph; those of `code` are settings, unless it is nothing but a number."""
    text = re.sub(r"`([^`]*)`", lambda code: "" if re.search("[A-Za-z]", code[1]) else code[1], "\n".join(block.lines))
    return FIGURES[block.kind].findall(text)


def unlike_figures(block: Block, name: str, root: Path, records: Mapping[str, Record]) -> list[str]:
    """The figures that do not stand in what the mark names."""
    source = block.mark.name if block.mark else ""
    if source in records:
        text = "\n".join(records[source].lines)
    elif (root / source).is_file():
        text = (root / source).read_text(encoding="utf-8")
    else:
        return [f"{name}:{block.line - 1}: {source} is no recorded output and no file.{closest(source, records)}"]
    shown = {number: re.search(rf"(?<![\d.]){re.escape(number.lstrip('+-'))}(?!\d)", text) for number in figures(block)}
    missing = [number for number, place in shown.items() if not place]
    return [f"{name}:{block.line}: the figure {number} does not stand in {source}" for number in missing]


def unlike_record(block: Block, name: str, records: Mapping[str, Record]) -> list[str]:
    """The first line of a block that does not follow in the recorded output; `...` stands for any lines."""
    source = block.mark.name if block.mark else ""
    if source not in records:
        return [f"{name}:{block.line - 2}: {source} is no excerpt of results/excerpts.yaml.{closest(source, records)}"]
    recorded, position = records[source].lines, 0
    piece: list[str] = []
    for number, line in enumerate([*block.lines, CUT], block.line):
        if line.strip() != CUT:
            piece.append(line.rstrip())
            continue
        starts = range(position, len(recorded) - len(piece) + 1)
        start = next((start for start in starts if recorded[start : start + len(piece)] == piece), None)
        if start is None:
            same, expected = nearest(piece, recorded[position:])
            at = f"{name}:{number - len(piece) + same}: {piece[same]!r} does not follow in the output of {source}"
            return [f"{at}, which has {expected!r}; paste it again, or record it: --run {source}"]
        position, piece = start + len(piece), []
    return []


def nearest(piece: list[str], recorded: list[str]) -> tuple[int, str]:
    """How many of the piece's first lines stand together in the record at most, and what it has instead of the next."""
    ended = [*recorded, "nothing more"]
    same, start = max(
        (next((i for i, (a, b) in enumerate(zip(piece, ended[at:], strict=False)) if a != b), 0), -at)
        for at in range(len(ended))
    )
    if same:
        return same, ended[same - start]
    return 0, next(iter(difflib.get_close_matches(piece[0], recorded, 1, cutoff=0.3)), "no such line")
