"""What mkdocs calls while it builds the site: files outside docs/, links to them, and the text made from the code.

README.md becomes the first page, CONTRIBUTING.md and data/README.md pages of their own. docs/reference/config.md gets
its tables from config_reference.py, docs/reference/commands.md from the --help of each command.
"""

import argparse
import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # studies/ is no part of the installed package

from config_reference import config_lines

from forecast.__main__ import COMMANDS, CONFIGURED
from forecast.apps.options import OPTIONS
from forecast.config.entry import help_text
from studies.published import reproduce

ROOT = Path(__file__).parents[1]
# Files outside docs/ that are pages of the site: path in the repository -> page.
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "data/README.md": "data.md"}
# Notebooks become pages too.
NOTEBOOKS = {"docs/tutorials/python.ipynb": "tutorials/python.md"}
CONFIG_MARK, COMMANDS_MARK = "<!-- the keys, made by docs/hooks.py -->", "<!-- the commands, made by docs/hooks.py -->"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages and pictures that lie outside docs/."""
    from mkdocs.structure.files import File

    pictures = {path: path for file in ROOT.glob("results/*/*.png") if (path := file.relative_to(ROOT).as_posix())}
    for source, target in {**PAGES, **pictures}.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for source, target in NOTEBOOKS.items():
        files.append(File.generated(config, target, content=notebook_text(ROOT / source)))
    return files


def notebook_text(path: Path) -> str:
    """A notebook as Markdown: its texts, and its code in fences."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in sources)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A page's text with the made tables in it, and its links as the site needs them."""
    for mark, made in ((CONFIG_MARK, config_lines), (COMMANDS_MARK, command_lines)):
        if mark in markdown:
            markdown = markdown.replace(mark, "\n".join(made()))
    return site_links(markdown, page.file.src_uri)


def site_links(markdown: str, page: str) -> str:
    """Relative links of the repository as links between pages; `page` is relative to docs/, as mkdocs names it."""
    pages = PAGES | NOTEBOOKS
    source = next((path for path, target in pages.items() if target == page), f"docs/{page}")

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        return posixpath.relpath(pages.get(path, path.removeprefix("docs/")), posixpath.dirname(page) or ".")

    return LINK.sub(link, markdown)


def command_lines() -> list[str]:
    """Every command that has options of its own, with its --help."""
    lines = []
    for name, what in COMMANDS.items():
        lines += ["", f"## forecast {name} {{#{name}}}", "", f"{what[0].upper()}{what[1:]}.", ""]
        parser = argparse.ArgumentParser(prog=f"forecast {name}")
        if name not in CONFIGURED:
            OPTIONS.get(name, reproduce.options)(parser)
        text = help_text(name) if name in CONFIGURED else parser.format_help()
        lines += ["```text", text.strip(), "```"]
    return lines
