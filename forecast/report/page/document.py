"""A page: declared sections (a verdict, cards, charts, tables, text) set by page.html into one file that loads nothing.

`render` is the one place that makes HTML. Words of others come in as plain text: the template's environment escapes
every value and makes visible what would act or hide. Charts go into the one block of JSON, of which the script shows
words by textContent alone. A Content-Security-Policy allows the page's own style and script, by their hashes, and
nothing else.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from forecast.report.drawn import STYLES
from forecast.report.page.charts import Chart
from forecast.text.terminal import harmless

FOLDER = Path(__file__).parent
SCRIPTS = ("scales.js", "chart.js", "draw.js", "map.js", "page.js")
# What would end a script block, or a line in older scripts, as JSON has it too.
ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
# Of the palette what a dark page needs lighter: its black, and its dark blue.
DARK = {"truth": "#f2f2f2", "forecast": "#56b4e9"}
NAMES = {"past": "past-colour", "truth": "truth-colour"}
FAR = "A name that is struck out is drawn when it is pressed; its line would squeeze the others."
# What a page says of a term below the first table of a section that has it in a heading.
TERMS = {
    "MSE": "mean squared error",
    "MAE": "mean absolute error",
    "original": "in the units of the file",
    "RMSE": "root of the mean squared error",
    "bias": "mean of forecast less truth: above 0 forecasts are too high",
    "MASE": "mean absolute error, as a multiple of that of the value one season before",
    "RMSSE": "as MASE, of squared errors, and the root of it",
    "sMAPE": "mean of 200 |forecast - truth| / (|forecast| + |truth|), from 0 to 200 %",
    "WAPE": "sum of all absolute errors by that of all absolute values",
    "skill": "1 - MSE / MSE of the seasonal naive forecast: 1 is perfect, below 0 is worse than it",
    "coverage": "the share of truths inside the interval, which should be its level",
    "pinball": "mean loss of both ends of the interval: the less, the narrower for what it holds",
    "MSIS": "width of the interval and a penalty for each truth outside, as a multiple of what MASE is scaled by",
}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a section. title: its heading; folded: where the part is seen on request alone, the words to press."""

    kind: ClassVar[str] = "text"
    title: str = ""
    folded: str = ""


@dataclass(frozen=True)
class Text(Piece):
    """A paragraph."""

    words: str


@dataclass(frozen=True)
class Verdict(Piece):
    """What the page comes to: sentences, each with a command to type, or "" without one."""

    kind: ClassVar[str] = "verdict"
    sentences: Sequence[tuple[str, str]]


class Card(NamedTuple):
    """A figure by its name, and what it means."""

    name: str
    value: str
    meaning: str = ""


@dataclass(frozen=True)
class Cards(Piece):
    """Figures to be seen first, those in the reader's own units before the others."""

    kind: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Drawn(Piece):
    """A chart of `charts`, and what stands above it."""

    kind: ClassVar[str] = "chart"
    drawn: Chart
    says: str = ""

    @property
    def words(self) -> str:
        """What stands above it, with a word on the lines that are not drawn at first."""
        far = any(line.get("far") for line in self.drawn.get("lines", ()))
        return f"{self.says} {FAR * far}".strip()


def chart(drawn: Chart | None, says: str = "", *, title: str = "") -> Drawn | None:
    """A chart with what stands above it; None for None."""
    return None if drawn is None else Drawn(drawn, says, title=title)


class Strong(str):
    """The words of a cell that are set in bold."""


@dataclass(frozen=True)
class PageTable(Piece):
    """Rows, the first cell of each its name. headings: none of a list of facts. words: columns that are no numbers."""

    kind: ClassVar[str] = "table"
    rows: Sequence[Sequence[str]]
    headings: Sequence[str] = ()
    words: Sequence[int] = (0,)
    caption: str = ""


def facts(rows: Sequence[tuple[str, str]], **options: str) -> PageTable | None:
    """A table of terms and what they are; None without rows."""
    return PageTable(rows, words=(0, 1), **options) if rows else None


class Section(NamedTuple):
    """A heading with an anchor, and the parts below it, of which None is left out."""

    anchor: str
    heading: str
    parts: Sequence[Piece | None]

    def shown(self, meanings: Mapping[str, str]) -> Iterator[tuple[Piece, list[tuple[str, str]]]]:
        """Its parts that are there, each with the terms, and their meanings, that its headings are the first to name.

        A term that a caption of the section explains is left to it.
        """
        tables = [part for part in self.parts if isinstance(part, PageTable)]
        explained = {term for term in meanings if any(f"{term}: " in part.caption for part in tables)}
        for part in filter(None, self.parts):
            words = " ".join([part.title, *part.headings]) if isinstance(part, PageTable) and part.headings else ""
            terms = [term for term in meanings if term not in explained and re.search(rf"\b{term}\b", words)]
            explained |= {*terms}
            yield part, [(term, meanings[term]) for term in terms]


def render(
    *, title: str, subtitle: Sequence[str], sections: Sequence[Section], terms: Mapping[str, str] | None = None
) -> str:
    """The page as HTML, with a link to each section that has a heading; one without parts is left out.

    terms: those of this page with their meanings, beside TERMS.
    """
    filled = [section for section in sections if any(section.parts)]
    charts = [part.drawn for section in filled for part in section.parts if isinstance(part, Drawn)]
    data = script_json({"charts": charts})
    values = {
        "title": title,
        "subtitle": subtitle,
        "sections": filled,
        "terms": TERMS | {**(terms or {})},
        "data": data,
    }
    return page_template()(values)


@cache
def page_template() -> Callable[[Mapping[str, object]], str]:
    """page.html, in whose values nothing acts: each is escaped and made harmless, but for what it marks as safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if hasattr(value, "__html__") else harmless(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["strong"] = lambda cell: isinstance(cell, Strong)
    script = "\n".join(['"use strict";', *((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)])
    style = _style()
    allowed = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return environment.get_template("page.html", globals={"style": style, "script": script, "policy": policy}).render


def script_json(value: object) -> str:
    """JSON that can stand in a script block, whatever it holds."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _hash(content: str) -> str:
    """As a Content-Security-Policy names what it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _style() -> str:
    light = {key: style["color"] for key, style in STYLES.items()}
    rules = [
        f":root {{ {_colours(light)} }}",
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_colours(DARK)} }} }}",
    ]
    printed = f"@media print {{ :root {{ {_colours(light)} }} }}"
    return "\n".join([*rules, (FOLDER / "page.css").read_text(encoding="utf-8"), printed])


def _colours(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{NAMES.get(key, key)}: {colour};" for key, colour in colours.items())
