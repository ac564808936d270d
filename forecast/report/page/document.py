"""A page of sections in one HTML file: its style and script lie in it, and it loads nothing.

Words of others come in as text that is escaped for the place where they stand: `text` for HTML, JSON for the one block
of data, which the script shows by textContent alone. A Content-Security-Policy allows the page's own style and script,
by their hashes, and nothing else.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from forecast.report.drawn import STYLES
from forecast.text.terminal import harmless

FOLDER = Path(__file__).parent
SCRIPTS = ("scales.js", "chart.js", "draw.js", "page.js")
# What would end a script block, or a line in older scripts, as JSON has it too.
ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
# Of the palette what a dark page needs lighter: its black, and its dark blue.
DARK = {"truth": "#f2f2f2", "forecast": "#56b4e9"}
NAMES = {"past": "past-colour", "truth": "truth-colour"}
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{subtitle}
</header>
<main>
{main}
</main>
<script type="application/json" id="page-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


class Section(NamedTuple):
    """A heading with an anchor, and the HTML below it."""

    anchor: str
    heading: str
    parts: Sequence[str]


def document(
    *,
    title: str,
    subtitle: Sequence[str],
    lead: Sequence[str],
    sections: Sequence[Section],
    charts: Sequence[Mapping[str, object]],
) -> str:
    """The page. lead: HTML before the first section. charts: what the places made by `chart` draw, in their order.

    A section without parts is left out, with its link.
    """
    filled = [section for section in sections if any(section.parts)]
    links = "".join(f'<a href="#{section.anchor}">{text(section.heading)}</a>' for section in filled)
    main = [*lead[:1], f"<nav>{links}</nav>", *lead[1:]]
    for section in filled:
        parts = "\n".join(filter(None, section.parts))
        main.append(f'<section id="{section.anchor}">\n<h2>{text(section.heading)}</h2>\n{parts}\n</section>')
    style, script = _style(), _script()
    return PAGE.format(
        title=text(title),
        subtitle="\n".join(f"<p>{text(line)}</p>" for line in subtitle),
        main="\n".join(main),
        allowed=f"style-src '{_hash(style)}'; script-src '{_hash(script)}'",
        style=style,
        script=script,
        data=script_json({"charts": list(charts)}),
    )


def text(words: str) -> str:
    """Words of anyone as HTML shows them, in a text or an attribute; what would act or hide is visible."""
    return html.escape(harmless(words))


def script_json(value: object) -> str:
    """JSON that can stand in a script block, whatever it holds."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def paragraph(words: str, kind: str = "note") -> str:
    """A paragraph of text."""
    return f'<p class="{kind}">{text(words)}</p>'


def chart(number: int, *, square: bool = False) -> str:
    """The place of a chart, which the script draws."""
    return f'<div class="chart{" square" * square}" id="chart{number}" data-chart="{number}"></div>'


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """A table of terms and what they are; nothing without rows."""
    if not rows:
        return ""
    lines = "".join(f'<tr><th scope="row">{text(term)}</th><td>{text(words)}</td></tr>\n' for term, words in rows)
    return f'<div class="wide"><table class="facts"><tbody>\n{lines}</tbody></table></div>'


def folded(summary: str, part: str) -> str:
    """HTML that is seen on request."""
    return f"<details><summary>{text(summary)}</summary>\n{part}\n</details>" if part else ""


def _hash(content: str) -> str:
    """As a Content-Security-Policy names what it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


@cache
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


@cache
def _script() -> str:
    return "\n".join(['"use strict";', *((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)])
