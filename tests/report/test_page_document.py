"""What is declared as sections, as the one template sets it."""

import re
import subprocess
import sys

import pytest
from report.pages import HOSTILE

from forecast.report.page.charts import bars_chart
from forecast.report.page.document import (
    TERMS,
    Card,
    Cards,
    Drawn,
    PageTable,
    Section,
    Strong,
    Text,
    Verdict,
    facts,
    render,
)


def page_of(*parts, title="t", subtitle=()):
    return render(title=title, subtitle=subtitle, sections=[Section("a", "A", parts), Section("b", "B", [None])])


def words_of(page):
    main = page.split("<main>")[1].split("</main>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", main).split())


KINDS = {
    "text": lambda word: Text(word, title=word, folded=word),
    "verdict": lambda word: Verdict([(word, word)], title=word),
    "cards": lambda word: Cards([Card(word, word, word)]),
    "table": lambda word: PageTable([[word, Strong(word)]], [word, word], caption=word, title=word, folded=word),
    "facts": lambda word: facts([(word, word)]),
    "chart": lambda word: Drawn(bars_chart("b", [(word, 1.0, None)]), word, title=word),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_declared_word_is_escaped_wherever_it_stands(kind):
    safe, hostile = (page_of(*map(KINDS[kind], words), title=words[0], subtitle=words) for words in (["x"], HOSTILE))
    assert len(re.findall(r"<script", hostile)) == 2 and len(re.findall(r"</script", hostile)) == 2
    assert {*re.findall(r"<[a-z0-9]+", hostile)} == {*re.findall(r"<[a-z0-9]+", safe)}
    assert not {"\x00", "\x1b"} & {*hostile}


def test_a_section_without_parts_is_left_out_with_its_link():
    page = page_of(None, Text("here"))
    assert re.findall(r'<section id="(\w+)"', page) == ["a"] and re.findall(r'href="#(\w+)"', page) == ["a"]


def test_a_term_is_explained_below_the_first_table_that_names_it_unless_a_caption_does():
    first, second = PageTable([["x", "1"]], ["", "MASE"]), PageTable([["x", "1", "2"]], ["", "MASE", "WAPE"])
    words = words_of(page_of(Text("MSIS"), first, second))
    assert (
        words
        == f"A MSIS MASE x 1 MASE {TERMS['MASE']} MASE WAPE x 1 2 WAPE {TERMS['WAPE']} A The pictures need "
        + ("JavaScript; all else on this page does not.")
    )
    own = render(title="t", subtitle=[], sections=[Section("a", "A", [second])], terms={"WAPE": "of this page"})
    assert "WAPE of this page" in words_of(own) and TERMS["WAPE"] not in words_of(own)
    captioned = PageTable([["x", "1"]], ["", "MASE"], caption="MASE: by the season")
    assert TERMS["MASE"] not in words_of(page_of(first, captioned))


def test_numbers_are_set_right_and_a_bold_cell_is_bold():
    page = page_of(PageTable([["a", "b", Strong("1")]], ["", "of", "n"], words=(0, 1)))
    assert (
        '<td>b</td><td class="number"><strong>1</strong></td>' in page
        and '<th scope="col" class="number">n</th>' in page
    )


def test_the_template_engine_is_loaded_when_a_page_is_written():
    code = "import sys, forecast.report.page.run; print('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
