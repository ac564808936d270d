"""A Markdown document as its blocks: code, tables and paragraphs, each with its mark and its place.

A mark is a comment on the line before a block:

    <!-- excerpt: NAME -->   a fenced block of lines of results/excerpts/NAME.txt
    <!-- figures: NAME -->   a table, list or paragraph whose figures stand there, or in docs/results.md

What stands between `<!-- made by SCRIPT -->` and `<!-- until here -->` is checked by that script.
"""

import re
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from forecast.errors import UserError

MARK = re.compile(r"<!-- (excerpt|figures): (\S+) -->\s*")
BEGIN, END = "<!-- made by ", "<!-- until here -->"
MADE_PARTS = {
    "README.md": "scripts/results.py",
    "docs/performance.md": "scripts/performance.py",
    "docs/which_model.md": "scripts/results.py",
    "docs/wild.md": "scripts/wild_files.py",
    "docs/intervals.md": "scripts/intervals.py",
}
WIDTH = 120  # of a line that is no table, no code and no heading
TEXT = {"table_open": "table", "paragraph_open": "paragraph", "html_block": "paragraph"}


@dataclass(frozen=True)
class Mark:
    """kind: excerpt or figures. name: of a record, or of a document."""

    kind: str
    name: str


@dataclass(frozen=True)
class Block:
    """kind: code, table or paragraph. line: the number of its first, from 1. section: the text under its ## heading."""

    kind: str
    language: str
    line: int
    lines: list[str]
    mark: Mark | None
    section: str


def blocks(text: str, name: str) -> list[Block]:
    """The blocks of a document, less what scripts make. Raises UserError for a mark that is wrong or misplaced."""
    source = text.splitlines()
    sections = section_of_each_line(source)
    found: list[Block] = []
    mark: Mark | None = None
    marked_list: int | None = None  # the level of a list whose items all have the mark
    made = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "html_block" and token.content.startswith("<!--"):
            made = begins_made_part(token, name) or (made and END not in token.content)
            mark = read_mark(token, mark, name)
        elif token.type.endswith("list_open") and mark and marked_list is None:
            marked_list = token.level
        elif token.type.endswith("list_close") and token.level == marked_list:
            mark = marked_list = None
        elif not made and (kind := "code" if token.type in ("fence", "code_block") else TEXT.get(token.type)):
            first, lines = content(token, source)
            found.append(Block(kind, token.info.strip(), first, lines, mark, sections[first - 1]))
            mark = mark if marked_list is not None else None
    if mark:
        raise UserError(f"{name}: nothing follows the mark {mark.kind}: {mark.name} at its end; remove it")
    if made:
        raise UserError(f"{name}: {END} is missing after what {MADE_PARTS[name]} makes")
    return found


def fill_made_part(document: Path, maker: str, lines: list[str]) -> str:
    """The document's text with lines between the two marks of a script. Raises UserError when it has not both."""
    mark = f"{BEGIN}{maker} -->"
    text = document.read_text(encoding="utf-8") if document.is_file() else ""
    before, begin, rest = text.partition(f"{mark}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{document.name} needs the two lines {mark} and {END}: what {maker} makes stands between them")
    return "\n".join([f"{before}{mark}", "", wrapped("\n".join(lines)), "", f"{END}{after}"])


def wrapped(text: str) -> str:
    """The same Markdown, its paragraphs and the items of its lists in lines of WIDTH characters at most.

    A line stays longer where what follows would mean something at the beginning of one.
    """
    lines, fenced = [], False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if fenced or len(line) <= WIDTH or line.startswith(("|", "#", "    ", "![", "<")):
            lines.append(line)
            continue
        item = re.match(r" *([-*] |\d+\. )?", line)
        parts = textwrap.wrap(
            line,
            WIDTH,
            subsequent_indent=" " * len(item[0] if item else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )
        marks = [part for part in parts[1:] if re.match(r"\s*([-+*]\s|[>|=#<]|\d+[.)]\s|```)", part)]
        lines += [line] if marks else parts
    return "\n".join(lines)


def begins_made_part(comment: Token, name: str) -> bool:
    """Whether a script's part of this document begins here. Raises UserError where no script makes one."""
    if not comment.content.startswith(BEGIN):
        return False
    if comment.content.strip() != f"{BEGIN}{MADE_PARTS.get(name)} -->":
        parts = ", ".join(f"{script} in {document}" for document, script in MADE_PARTS.items())
        raise UserError(
            f"{name}: {comment.content.strip()!r}: only {parts} makes and checks such a part; remove the mark"
        )
    return True


def read_mark(comment: Token, before: Mark | None, name: str) -> Mark | None:
    """The mark that a comment is. Raises UserError for one that is misspelt, or follows another."""
    line = comment.map[0] + 1 if comment.map else 0
    match = MARK.fullmatch(comment.content)
    if before and match:
        raise UserError(f"{name}:{line}: two marks for one block; leave one of them")
    if not match and re.match(r"<!--\s*(excerpt|figures)", comment.content):
        raise UserError(
            f"{name}:{line}: {comment.content.strip()!r} is no mark; write <!-- excerpt: NAME --> or "
            "<!-- figures: NAME --> on a line of its own"
        )
    return Mark(*match.groups()) if match else before


def content(token: Token, source: list[str]) -> tuple[int, list[str]]:
    """The number of a block's first line, and its lines; a fenced block's without the fences."""
    first, end = token.map or (0, 0)
    if token.type == "fence":
        return first + 2, token.content.splitlines()
    return first + 1, token.content.splitlines() if token.type == "code_block" else source[first:end]


def section_of_each_line(source: list[str]) -> list[str]:
    """For each line the text from the ## heading above it to the next one; before the first, the document's opening."""
    starts = [0, *(number for number, line in enumerate(source) if line.startswith("## ")), len(source)]
    return [text for start, end in pairwise(starts) for text in ["\n".join(source[start:end])] * (end - start)]
