"""The page of a run as a file: what is in it, how large it is, and that nothing of others acts in it."""

import base64
import hashlib
import json
import re
import time

import numpy as np
import pytest
from report.pages import HOSTILE, made_page, made_windows

from forecast.report.page.charts import MOST_CHOICES, forecasts_chart, steps_chart
from forecast.report.page.document import script_json

LIMIT = 3_000_000


def charts_of(page):
    return json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])["charts"]


def words_of(page):
    """What is read without JavaScript."""
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL))


def test_the_verdict_comes_first_and_every_section_follows():
    page = made_page(covariates=("price",), series=[f"s{i}" for i in range(30)], columns=("load",))
    anchors = re.findall(r'<(?:div|section)[^>]* id="([a-z]+)"', page)
    sections = ["forecasts", "errors", "steps", "reliability", "series", "covariates", "data", "run"]
    assert anchors == ["verdict", *sections]
    assert re.findall(r'<a href="#(\w+)"', page) == sections
    words = words_of(page)
    assert "The model beats all baselines: its MSE is 25 % below the best of them, ridge." in words
    assert "7 rows added, 3 cells without a value, at most 4 rows in succession; interpolated" in words
    assert "2 of train" in words and "informer on my.csv" in words
    assert "secret" not in page and "my.csv" in words  # whose machine it was is nobody's business


def cards_of(page):
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page.split('class="tiles"')[1].split("</dl>")[0]))


def test_the_first_card_is_the_error_in_the_units_of_the_file_beside_the_best_baseline():
    page = made_page()
    assert [*cards_of(page)][:3] == ["mean error of load", "MASE", "skill"]
    assert cards_of(page)["mean error of load"] == "2.0000"
    words = " ".join(words_of(page).split())
    assert "mean absolute error in the units of the file; 2.0000 of ridge, the best baseline" in words
    assert "80 % intervals held 81.0 % of the truths; 80 % would be right" in words


def test_what_a_run_has_not_is_no_empty_section():
    page = made_page()
    assert "covariates" not in page.split("<main>")[1].split("<script")[0] and 'id="series"' not in page


def test_the_page_allows_its_own_script_and_style_and_nothing_else():
    page = made_page()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    style, script = (re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1] for tag in ("style", "script"))
    digests = (hashlib.sha256(part.encode()).digest() for part in (style, script))
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    directives = f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}"
    assert policy == f"{directives}; base-uri 'none'; form-action 'none'"
    assert "innerHTML" not in script and "eval(" not in script and "fetch" not in script
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which is not loaded
    assert not re.findall(r"\b(src|href)\s*=\s*[\"'](?!#)", page)


@pytest.mark.parametrize("where", ["columns", "series", "covariates"])
def test_names_of_others_are_text_wherever_they_stand(where):
    page = made_page(**{"columns": ("y",), where: HOSTILE})
    body = page.split("<main>")[1]
    assert len(re.findall(r"<script", page)) == 2 and len(re.findall(r"</script", page)) == 2
    assert "<img" not in page and "<!--" not in body
    assert not {"\x00", "\x1b"} & {*page}
    assert "&lt;img src=x onerror=alert(1)&gt;" in body and "__proto__" in body


def test_json_for_a_script_block_is_the_same_value():
    value = {"a": ["</script>", "<!--", "&amp;", "\u2028\u2029", 1.5, None]}
    assert json.loads(script_json(value)) == value and not {"<", ">", "&", "\u2028", "\u2029"} & {*script_json(value)}


def test_the_same_figures_are_the_same_bytes():
    assert made_page() == made_page()


def test_a_chart_holds_what_was_stored_to_what_a_picture_shows():
    windows = made_windows(("a", "b"), count=3)
    windows["truth"][1, 5, 0] = np.nan  # a cell that no file held
    chart, left_out = forecasts_chart(windows, None, "b")
    assert left_out == "" and len(chart["panels"]) == 6
    assert chart["picks"][1]["names"] == ["b", "a"] and chart["picks"][0]["names"][0] == "2020-02-02 23:00"
    panel = chart["panels"][2]  # the second window, column b
    truth, forecast = (panel["lines"][i] for i in (1, 2))
    assert truth["from"] == 48 == len(panel["lines"][0])
    np.testing.assert_allclose(forecast["values"], windows["forecast"][1, :, 1], atol=2e-3)
    np.testing.assert_allclose(panel["bands"][0][0]["values"], windows["lower"][1, :, 1, 1], atol=2e-3)  # 95 % first
    assert [band["name"] for band in chart["bands"]] == ["95 %", "80 %"]
    assert chart["panels"][3]["lines"][1]["values"][5] is None
    start = windows["timestamps"][1, 48].astype("datetime64[ms]").astype(int)
    assert panel["x"] == {"start": start, "step": 3_600_000, "count": 72} and panel["mark"] == start + 47 * 3_600_000


def test_rows_that_no_clock_has_counted_have_numbers():
    windows = made_windows(("a",), count=2)
    windows["timestamps"] = np.arange(2)[:, None] * 7 + np.arange(120) + np.datetime64(0, "ms")
    chart, _ = forecasts_chart(windows, None, "a")
    assert chart["x"]["kind"] == "number" and chart["picks"][0]["names"] == ["96", "103"]
    assert chart["panels"][1]["x"]["start"] == 7 + 48 + 1


def test_errors_by_step_are_those_of_the_table_in_the_order_of_rank():
    bound = {"best_reachable_mse_scaled": [0.1, 0.1]}
    own = {"mse_scaled": [0.25, 0.5], "mae_scaled": [0.3, 0.4], "ridge_mse_scaled": [0.1, 0.2]}
    chart = steps_chart({**own, **bound}, "ridge")
    assert [line["name"] for line in chart["lines"]] == ["the model", "ridge", "best reachable"]
    assert chart["panels"][0]["lines"][:2] == [[0.25, 0.5], [0.1, 0.2]]
    assert chart["panels"][1]["lines"] == [[0.3, 0.4], None, None]


LARGE = {
    "1,000 series": {"series": [f"shop {i}" for i in range(1000)], "columns": ("y",), "past": 720, "pred_len": 96},
    "321 columns": {"columns": tuple(f"MT_{i:03}" for i in range(321)), "count": 5, "past": 720, "pred_len": 720},
    "long steps": {"columns": ("y",), "past": 20_000, "pred_len": 20_000, "freq": "min"},
    "many windows": {"columns": ("y", "z"), "count": 500, "past": 8, "pred_len": 4},
    "huge values": {"columns": ("y",), "count": 25, "past": 336, "pred_len": 336, "size": 1e12},
    "long names": {"columns": tuple(f"{i}{'é' * 3000}" for i in range(100)), "count": 5},
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_page_stays_small_and_is_soon_made_whatever_the_run(kind):
    started = time.process_time()
    page = made_page(**LARGE[kind])
    assert time.process_time() - started < 3.0
    assert len(page.encode()) < LIMIT
    assert len(charts_of(page)[0]["panels"]) >= 1


def test_what_is_left_out_is_said():
    page = made_page(**LARGE["321 columns"])
    (shown,) = (len(chart["picks"][1]["names"]) for chart in charts_of(page) if len(chart.get("picks", ())) == 2)
    assert shown < MOST_CHOICES and f"To keep the page small: {shown} of 321 target columns." in page
