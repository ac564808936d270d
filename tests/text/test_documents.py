"""Foreign words in Markdown, in the HTML made of it, and in a spreadsheet."""

import pytest
from markdown_it import MarkdownIt

from forecast.text.documents import as_cell, as_code, as_markdown

ACTING = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://e.vil/track.png)",
    "[load](javascript:alert(1))",
    "[load]: http://e.vil",
    "http://e.vil",
    "WWW.e.vil",
    "a@e.vil",
    "**-0.5 [-0.6, -0.4]**",
    "_load_",
    "~~gone~~",
    "&lt;b&gt;",
    "#12",
    "a\\*b",
    "`a` <b>",
    "``",
    "$x$",
    "a\n\n# heading",
    "\x1b[2J",
]


@pytest.mark.parametrize("text", ACTING)
@pytest.mark.parametrize("around", ["- {}: failed", "## {}, 24 steps", "| {} |\n|---|\n| {} |"])
def test_what_means_something_in_markdown_becomes_code(text, around):
    document = around.replace("{}", as_markdown(text))
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(document)
    inline = [child for token in tokens for child in token.children or ()]
    code = [child.content for child in inline if child.type == "code_inline"]
    assert {token.type for token in inline} <= {"text", "code_inline"}
    assert "html_block" not in {token.type for token in tokens}
    assert code and set(code) == {text.replace("\n", r"\n").replace("\x1b", r"\x1b")}


@pytest.mark.parametrize(
    "text",
    [
        "full",
        "model.d_model=64, seed=1",
        "ETTh1, features M (OT), 24 steps ahead",
        "温度",
        "data.path='a b.csv': gone.",
    ],
)
def test_plain_words_stay_as_they_are(text):
    assert as_markdown(text) == text


def test_a_long_name_is_cut():
    assert as_markdown("n" * 6000).endswith("n... (6000 characters)")
    assert as_code("k=v " * 600) == f"`{'k=v ' * 600}`"


@pytest.mark.parametrize(
    "name, cell",
    [
        ("=cmd|'/c calc'!A0", "'=cmd|'/c calc'!A0"),
        ("+1", "'+1"),
        ("-1.5", "'-1.5"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1+1", "'＝1+1"),
        ("\tload", "'\tload"),
        ("\r=1", "'\r'=1"),
        (" =1", "' =1"),
        ("a;=1+1", "a;'=1+1"),
        ("a,@x|-y", "a,'@x|'-y"),
        ("a\n=1", "a\n'=1"),
    ],
)
def test_a_cell_that_begins_as_a_formula_gets_an_apostrophe(name, cell):
    assert as_cell(name) == cell


@pytest.mark.parametrize("name", ["load", "a=b", "kW-h", "a@b", "温度", "2021-03-01 00:00:00", "", "a; b"])
def test_another_cell_stays(name):
    assert as_cell(name) == name
