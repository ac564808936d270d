"""Sessions of Python in the documents, docs/tutorials/attention.md: what they show is what comes out."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "tutorials/attention.md"
SESSIONS = [page for page in DOCS.rglob("*.md") if "```pycon" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_every_line_of_a_session_gives_what_stands_below_it(page):
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.failed == 0 and result.attempted > (60 if page == PAGE else 0)


def test_the_toy_examples_are_there():
    text = PAGE.read_text(encoding="utf-8")
    for shown in ("[[7.55, 5.79]]", "[[7.55, 5.8]]", "B, L, H, E = 3, 10, 4, 2", "n_active(10, 1)\n3\n"):
        assert shown in text
