"""The pages of a backtest, a comparison and a study as a browser shows them, with names that would act."""

import json

import pytest
from browser import CHROMIUM, browser
from comparison.folders import make_run, wave
from comparison.pages import made_backtest_page, made_study_page
from report.pages import HOSTILE
from shown_pages import shown as in_a_tab

from forecast.comparison.page import comparison_page
from forecast.comparison.rows import comparisons, read_folder

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
CHART = "document.querySelector('#forecasts .chart')"
FORECAST = f"{CHART}.querySelector('path.line.forecast[data-line]').getAttribute('d')"


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def shown(tab, tmp_path):
    with in_a_tab(tab, tmp_path) as show:
        yield show


def comparison_of(folder, names):
    for number, name in enumerate(names):
        options = {"attention": json.dumps(name), "number": number}
        make_run(folder / f"run{number}", errors=wave(0.3 + 0.01 * number), **options)
    runs = read_folder(folder)
    return comparison_page(comparisons(runs), runs, None)


def made(kind, folder, names):
    if kind == "comparison":
        return comparison_of(folder / "sweep", names)
    if kind == "study":
        return made_study_page(names=list(names), data=names[0])
    return made_backtest_page(12, ids=list(names))


KINDS = ["backtest", "comparison", "study"]
SCREENS = {"wide": {}, "narrow": {"width": 390, "height": 800}, "dark": {"dark": True}}


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_drawn_within_the_page(shown, kind, screen, tmp_path):
    page = shown(made(kind, tmp_path, ["full", "prob", "lsh"]), **SCREENS[screen])
    charts = page.evaluate("""[...document.querySelectorAll('[data-chart]')].map((node) =>
      [...node.querySelectorAll("svg[role=img] :is(path.line, rect.bar, circle.point, circle.dot)")]
        .filter((mark) => mark.getBBox().width > 5).length
    )""")
    assert len(charts) == {"backtest": 8, "comparison": 3, "study": 2}[kind] and all(charts), charts
    assert page.evaluate("document.documentElement.scrollWidth") == SCREENS[screen].get("width", 1280)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(22, 24, 27)" if screen == "dark" else "rgb(255, 255, 255)")


def test_another_fold_and_another_series_draw_other_lines_and_the_last_fold_is_the_first_seen(shown):
    page = shown(made_backtest_page(ids=["a", "b"]))

    def choose(label, number):
        page.evaluate(f"""(() => {{
          const labels = [...{CHART}.querySelectorAll('label')];
          const select = labels.find((node) => node.textContent.startsWith('{label}')).querySelector('select');
          select.selectedIndex = {number};
          select.dispatchEvent(new Event('change'));
        }})()""")
        return page.evaluate(f"[...{CHART}.querySelectorAll('svg[role=img] text')].map((n) => n.textContent).join()")

    seen = page.evaluate(f"[...{CHART}.querySelectorAll('select')].map((select) => select.selectedIndex)")
    assert seen == [5, 0]
    last, first = page.evaluate(FORECAST), choose("Made from", 0)
    assert page.evaluate(FORECAST) != last
    assert choose("Series", 1) != first and choose("Made from", 5) != first
    choose("Series", 0)
    assert page.evaluate(FORECAST) == last


def test_a_far_line_is_drawn_when_its_name_is_pressed(shown):
    page = shown(made_backtest_page())
    far = "document.querySelector('#folds path.line.other1[data-line]')"
    assert page.evaluate(f"{far} === null")
    button = "document.querySelector('#folds .legend button[title=\"show or hide: last value\"]')"
    assert page.evaluate(f"{button}.getAttribute('aria-pressed')") == "false"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{far} !== null") and page.evaluate(f"{button}.getAttribute('aria-pressed')") == "true"


def test_an_interval_is_drawn_where_its_numbers_are(shown):
    """Point and ends from the left edge to the line at 0, by an independent reading of the page's data."""
    page = shown(made_backtest_page(12))
    rows, seen = page.evaluate("""(() => {
      const spec = JSON.parse(document.getElementById('page-data').textContent).charts.find((one) => one.points);
      const svg = document.querySelector('#baselines svg');
      const points = [...svg.querySelectorAll('circle.point')].map((node) => Number(node.getAttribute('cx')));
      const zero = Number(svg.querySelector('path.mark').getAttribute('d').slice(1).split(' ')[0]);
      return [spec.rows, [zero, ...points]];
    })()""")
    zero, *points = seen
    scale = (points[0] - points[1]) / (rows[0]["value"] - rows[1]["value"])
    assert points[0] - zero == pytest.approx(scale * rows[0]["value"], abs=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_others_do_nothing(shown, kind, tmp_path):
    page = shown(made(kind, tmp_path, HOSTILE))
    assert page.evaluate("document.scripts.length") == 2 and page.evaluate("document.images.length") == 0
    assert page.evaluate("Object.keys(Object.prototype).length") == 0
    words = page.evaluate("document.body.textContent")
    assert all(name in words for name in HOSTILE[:3] if kind == "backtest") and "onerror" in words


@pytest.mark.parametrize("kind", KINDS)
def test_without_javascript_the_verdict_and_the_tables_are_read(shown, kind, tmp_path):
    page = shown(made(kind, tmp_path, ["full", "prob"]), script=False)
    words = page("Runtime.evaluate", expression="document.body.innerText", returnByValue=True)["result"]["value"]
    said = {
        "backtest": ["last value", "Over 12 forecasts of 4 steps"],
        "comparison": ["last value", "has the lowest test MSE of 2 rows"],
        "study": ["The lowest error (val mse, scaled) is", "a loss of full does not fit"],
    }
    assert all(one in words for one in ["The pictures need JavaScript", *said[kind]])
