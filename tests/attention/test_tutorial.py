"""docs/tutorials/attention.md: what it shows is what comes out, number by number."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/tutorials/attention.md"


def test_every_line_of_the_tutorial_gives_what_stands_below_it():
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.failed == 0 and result.attempted > 60


def test_the_toy_examples_are_there():
    text = PAGE.read_text(encoding="utf-8")
    for shown in ("[[7.55, 5.79]]", "[[7.55, 5.8]]", "B, L, H, E = 3, 10, 4, 2", "n_active(10, 1)\n3\n"):
        assert shown in text
