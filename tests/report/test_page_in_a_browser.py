"""The page of a run as a browser shows it: its pictures, what a reader does with them, and names that would act."""

import pytest
from browser import CHROMIUM, browser
from report.pages import HOSTILE, made_attention, made_page, made_windows
from shown_pages import shown as in_a_tab

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
CHART = "document.querySelector('#forecasts .chart')"
FORECAST = f"{CHART}.querySelector('path.line.forecast[data-line]').getAttribute('d')"
TICKS = f"[...{CHART}.querySelectorAll('svg[role=img] text')].map(node => node.textContent).join('|')"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def shown(page, tmp_path):
    """A function that writes a page and opens it; nothing may have gone wrong at the end."""
    with in_a_tab(page, tmp_path) as show:
        yield show


def choose(page, label, number):
    """Chooses from the list that is called so, and returns how long it is."""
    return page.evaluate(f"""(() => {{
      const labels = [...{CHART}.querySelectorAll('label')];
      const select = labels.find((node) => node.textContent.startsWith('{label}')).querySelector('select');
      select.selectedIndex = {number};
      select.dispatchEvent(new Event('change'));
      return select.length;
    }})()""")


def press(page, title):
    page.evaluate(f"{CHART}.querySelector('button[title=\"{title}\"]').click()")


def place(page, share):
    """A place in the picture of the forecasts, a share of its width from the left."""
    page.evaluate(f"{CHART}.scrollIntoView({{behavior: 'instant'}})")  # a place must not move any more
    svg = f"{CHART}.querySelector('svg[role=img]')"
    box = page.evaluate(f"(({{x, y, width, height}}) => [x, y, width, height])({svg}.getBoundingClientRect())")
    return box[0] + share * box[2], box[1] + 0.4 * box[3]


@pytest.mark.parametrize("options", [{}, {"width": 390, "height": 800}, {"dark": True}], ids=["wide", "narrow", "dark"])
def test_every_chart_is_drawn_within_the_page(shown, options):
    series = [f"s{i}" for i in range(30)]
    text = made_page(("load",), series=series, covariates=("price", "holiday"), attention=made_attention())
    page = shown(text, **options)
    charts = page.evaluate("""[...document.querySelectorAll('[data-chart]')].map((node) =>
      [...node.querySelectorAll("svg[role=img] :is(path.line, rect.bar, path.cell)")]
        .filter((mark) => mark.getBBox().width > 5).length
    )""")
    assert len(charts) == 9 and all(charts), charts
    assert page.evaluate("document.documentElement.scrollWidth") == options.get("width", 1280)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(22, 24, 27)" if options.get("dark") else "rgb(255, 255, 255)")
    assert page.evaluate("getComputedStyle(document.querySelector('.drawless')).display") == "none"


def test_no_two_labels_of_an_axis_lie_on_one_another(shown):
    page = shown(made_page(count=9, attention=made_attention(queries=24, keys=40)), width=390)
    overlaps = page.evaluate("""
      [...document.querySelectorAll('svg[role=img]')].flatMap((svg) => {
        const boxes = [...svg.querySelectorAll('text')].map((node) => [node.textContent, node.getBoundingClientRect()]);
        return boxes.flatMap(([a, one], i) => boxes.slice(i + 1).filter(([, two]) =>
          one.left < two.right - 1 && two.left < one.right - 1 && one.top < two.bottom - 2 && two.top < one.bottom - 2)
          .map(([b]) => `${a} on ${b}`));
      })""")
    assert overlaps == []


def test_another_window_and_another_column_draw_other_lines(shown):
    page = shown(made_page(("load", "wind"), count=4))
    first = page.evaluate(FORECAST)
    assert choose(page, "Known until", 2) == 4
    second = page.evaluate(FORECAST)
    assert choose(page, "Column", 1) == 2
    third = page.evaluate(FORECAST)
    assert len({first, second, third}) == 3 and "wind, original units" in page.evaluate(TICKS)
    choose(page, "Column", 0)
    press(page, "previous: Known until")
    press(page, "previous: Known until")
    assert page.evaluate(FORECAST) == first


def test_a_window_is_drawn_where_its_numbers_are(shown):
    """The ends of the picture's lines against the y axis, by an independent reading of two of its labels."""
    page = shown(made_page(("load",), count=4))
    found = page.evaluate(f"""(() => {{
      const svg = {CHART}.querySelector('svg[role=img]');
      const ticks = [...svg.querySelectorAll('text[text-anchor=end]')].filter((node) => node.hasAttribute('dy'))
        .map((node) => [Number(node.textContent), Number(node.getAttribute('y'))]);
      const points = {FORECAST}.slice(1).split('L').map((point) => Number(point.split(' ')[1]));
      const [[a, top], [b, bottom]] = [ticks[0], ticks[ticks.length - 1]];
      return points.map((y) => a + (y - top) / (bottom - top) * (b - a));
    }})()""")
    assert found == pytest.approx(made_windows(("load",), count=4)["forecast"][0, :, 0].tolist(), abs=0.1)


def test_a_drag_zooms_and_the_button_shows_all_again(shown):
    page = shown(made_page())
    before = page.evaluate(FORECAST), page.evaluate(TICKS)
    page.drag(place(page, 0.75), place(page, 0.9))
    zoomed = page.evaluate(FORECAST), page.evaluate(TICKS)
    assert zoomed[0] != before[0] and zoomed[1] != before[1]
    assert page.evaluate(f"{CHART}.querySelector('.readout').textContent").startswith("2020-02-03 ")
    press(page, "zoom in")
    assert page.evaluate(FORECAST) != zoomed[0]
    press(page, "the whole range")
    assert (page.evaluate(FORECAST), page.evaluate(TICKS)) == before
    press(page, "zoom out")
    assert page.evaluate(FORECAST) == before[0]


def test_a_line_is_hidden_by_its_name_in_the_legend(shown):
    page = shown(made_page())
    press(page, "show or hide: forecast")
    assert page.evaluate(f"{CHART}.querySelector('path.line.forecast[data-line]')") is None
    press(page, "show or hide: forecast")
    assert page.evaluate(FORECAST)


@pytest.mark.parametrize("where", ["columns", "series", "covariates"])
def test_names_of_others_do_nothing(shown, where):
    page = shown(made_page(**{"columns": ("y",), where: HOSTILE}))
    assert page.evaluate("document.title") == "informer on my.csv"
    assert page.evaluate("document.scripts.length") == 2 and page.evaluate("document.images.length") == 0
    assert page.evaluate("Object.keys(Object.prototype).length") == 0
    names = page.evaluate("[...document.querySelectorAll('option')].map(node => node.textContent).join('\\n')")
    shown_names = names if where != "covariates" else page.evaluate("document.body.textContent")
    for name in HOSTILE[:3]:
        assert name in shown_names


def test_without_javascript_the_verdict_and_the_tables_are_read(shown):
    page = shown(made_page(), script=False)
    words = page("Runtime.evaluate", expression="document.body.innerText", returnByValue=True)["result"]["value"]
    assert "The model beats all baselines" in words and "The pictures need JavaScript" in words
    assert "seasonal naive (24 steps)" in words and "cells without a value" in words


def test_a_horizon_of_one_step_and_a_hole_are_seen(shown):
    page = shown(made_page(pred_len=1, count=3))
    dots = page.evaluate(f"{CHART}.querySelectorAll('circle.dot.forecast').length")
    assert dots == 1 and page.evaluate(f"{CHART}.querySelectorAll('path.band.band0').length") == 1


def test_attention_is_drawn_by_layer_and_head_and_a_cell_says_what_it_is(shown):
    places = ("encoder/0", "cross/0")
    page = shown(made_page(attention=made_attention(places, queries=5, keys=4)))
    chart = "document.querySelector('#attention .chart')"

    def picked(number, option):
        page.evaluate(
            f"(() => {{ const select = {chart}.querySelectorAll('select')[{number}];"
            f"select.selectedIndex = {option}; select.dispatchEvent(new Event('change')); }})()"
        )
        return page.evaluate(f"[...{chart}.querySelectorAll('path.cell')].map((node) => node.getAttribute('d')).join()")

    drawn = {picked(1, head) for head in range(4)} | {picked(0, 0)}
    assert len(drawn) == 4 and all(drawn)  # both layers have the same weights
    assert page.evaluate(f"{chart}.querySelectorAll('rect.active').length") == 2
    page.evaluate(f"{chart}.scrollIntoView({{behavior: 'instant'}})")
    box = page.evaluate(
        f"(({{x, y, width, height}}) => [x, y, width, height])"
        f"({chart}.querySelector('svg[role=img] > rect.axis').getBoundingClientRect())"
    )
    at = box[0] + box[2] * 3.5 / 4, box[1] + box[3] * 1.5 / 5
    page("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
    said = page.evaluate(f"{chart}.querySelector('.readout').textContent")
    weight = made_attention(places, queries=5, keys=4)["encoder/0"][0, 2, 1, 3]
    words = "query 2020-01-30 19:00 · key 2020-01-31 00:00 to 2020-01-31 01:00 · weight "
    assert said.startswith(words) and said.endswith(" · active · M 0.25")
    assert float(said.removeprefix(words).split(" ")[0]) == pytest.approx(weight, rel=0.1)
    press = "new KeyboardEvent('keydown', {key: 'ArrowDown'})"
    page.evaluate(f"{chart}.querySelector('svg[role=img]').dispatchEvent({press})")
    assert page.evaluate(f"{chart}.querySelector('.readout').textContent").startswith(
        "query 2020-01-30 20:00 · key 2020-01-31 00"
    )
