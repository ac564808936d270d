"""What other programs make something of: Markdown, the HTML that comes of it, and tables in spreadsheets."""

import re

from forecast.text.terminal import harmless, label

LONGEST = 1000  # characters, of a name or of a whole reason
# Signs that mean nothing in Markdown, wherever they stand: no HTML, link, picture, emphasis, mention or reference.
_PLAIN = re.compile(r"(?!.*(://|www\.|\b_|_\b))[\w .,:;=+/()%'\"?-]*", re.IGNORECASE)
# Where a spreadsheet, whatever separator it expects, would see a cell begin with a formula.
_FORMULA = re.compile(r"(?:^|(?<=[,;|\t\r\n]))(?=[\t\r\n]|\s*[=+\-@＝＋－＠])")


def as_markdown(text: str) -> str:
    """Foreign words in Markdown, on one line: as they are where they are plain, else as code, in which nothing acts."""
    shown = label(text, LONGEST)
    return shown if _PLAIN.fullmatch(shown) else as_code(shown)


def as_code(text: str) -> str:
    """Foreign words, on one line, as code in Markdown; backticks in them do not end it."""
    shown = harmless(text).replace("\n", r"\n")
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def as_cell(text: str) -> str:
    """A cell of text for spreadsheets: what would be a formula, or a command, there gets an apostrophe before it."""
    return _FORMULA.sub("'", text)
