"""The page of a comparison: its verdict, its tables and pictures, and what it keeps to itself."""

import json
import re

import pytest
from comparison.folders import edit_json, make_run, make_runs, wave
from report.pages import HOSTILE

from forecast.comparison.page import comparison_page, verdicts
from forecast.comparison.rows import comparisons, mse_difference, read_folder


@pytest.fixture
def sweep(tmp_path):
    """prob errs as full does, give or take noise; lsh errs 0.02 more, surely."""
    noise = wave(0.0, seed=5)
    extra = {"full": 0.0, "prob": noise - noise.mean() + 1e-5, "lsh": 0.02}
    for seed in (1, 2, 3):
        make_runs(tmp_path, {name: wave(0.3 + 1e-4 * seed) + more for name, more in extra.items()}, seed=seed)
    return tmp_path


def read(folder):
    runs = read_folder(folder)
    return comparisons(runs), runs


def page_of(folder, against=None):
    return comparison_page(*read(folder), against)


def charts_of(page):
    charts = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])["charts"]
    return {chart["title"]: chart for chart in charts}


def words_of(page):
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL))


def test_the_verdict_comes_first_with_what_is_not_sure(sweep):
    page = page_of(sweep)
    assert re.findall(r'<(?:div|section)[^>]* id="(\w+)"', page)[:2] == ["verdict", "table1"]
    assert verdicts(*read(sweep)) == [
        "full has the lowest test MSE of 3 rows, 0.3007.",
        "Not surely worse, by the 95 % interval of the difference: prob.",
        "The best baseline, ridge, is above it: 0.3500.",
    ]
    words = words_of(page)
    assert words.index("full has the lowest") < words.index("MSE minus full") < words.index("Differences are paired")
    assert "<strong>+0.0200 [+0.01" in page and "0.3007 ± 0.0001 (3)" in words


def test_the_cards_are_of_the_row_with_the_lowest_error_in_the_units_of_the_file_first(sweep):
    def with_original(metrics):
        columns = {"OT": {"original": {"mae": 7}}}
        return metrics | {"target": "OT", "test": metrics["test"] | {"columns": columns}}

    for run in sweep.iterdir():
        edit_json(run / "metrics.json", with_original)
    cards = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page_of(sweep))
    assert cards[:2] == [("lowest MSE", "full"), ("mean error of OT", "7.0000 ± 0.0000")]
    assert ("MSE, scaled", "0.3007 ± 0.0001") in cards


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ({"full": 0.3, "prob": 0.4, "lsh": 0.5}, "Its lead over each of the other 2 is sure"),
        ({"full": 0.3, "prob": 0.4}, "Its lead over the other row is sure"),
        ({"full": 0.3}, "no other row stands beside it"),
        ({"full": 0.5, "prob": 0.6}, "The best baseline, ridge, is below it: 0.3500."),
        ({"full": 0.349474, "prob": 0.6}, "The best baseline, ridge, equals it: 0.3500."),
        (
            {"full": 0.3, "prob": 0.6, "lsh": 4},
            "lose to this baseline, by their MSE: prob (72 % above it), lsh",
        ),
    ],
)
def test_the_verdict_says_how_sure_the_lead_is(levels, says, tmp_path):
    make_runs(tmp_path, {name: wave(level) for name, level in levels.items()})
    assert says in " ".join(verdicts(*read(tmp_path)))


def test_two_rows_that_chance_tells_apart_are_not_called_sure(tmp_path):
    make_runs(tmp_path, {"full": wave(0.3, seed=1), "prob": wave(0.3, seed=2)})
    assert "No other row is surely worse" in " ".join(verdicts(*read(tmp_path)))


def test_a_row_without_an_interval_is_not_said_to_be_level(tmp_path):
    make_runs(tmp_path, {"full": wave(0.3, seed=1)[:40], "prob": wave(0.9, seed=2)[:40]})
    words = " ".join(verdicts(*read(tmp_path)))
    assert "Not known whether worse, as fewer than 5 blocks" in words and "hold 0" not in words


def test_the_picture_shows_the_differences_to_the_row_compared_with(sweep):
    (comparison,), _ = read(sweep)
    rows = {row.name: row for row in comparison.rows}
    points = charts_of(page_of(sweep, "lsh"))["Differences in MSE"]["rows"]
    assert [(point["name"], point["sure"]) for point in points] == [("full", True), ("prob", True)]
    expected = mse_difference(rows["full"], rows["lsh"])
    unit = 100 / rows["lsh"].spread("test", "scaled", "mse").mean
    assert (points[0]["value"], points[0]["low"]) == pytest.approx((unit * expected.difference, unit * expected.low))
    steps = charts_of(page_of(sweep))["Error by step of the forecast"]
    assert [line["name"] for line in steps["lines"]] == ["full", "prob", "lsh", "ridge"]
    assert steps["panels"][0]["lines"][3] == pytest.approx([0.05, 0.1, 0.15])


def test_several_tables_are_sections_of_their_own(sweep):
    make_run(sweep / "other", errors=wave(0.4), data="ETTh2", number=9)
    page = page_of(sweep)
    assert re.findall(r'<section id="(\w+)"', page) == ["table1", "table2", "run"]
    assert "ETTh2, features M, 3 steps ahead: all runs has a test MSE of" in words_of(page)


def test_what_has_not_finished_is_named_without_a_folder(sweep):
    make_run(sweep / "bad", errors=wave(0.3), number=99, attention="auto", data__path="/home/somebody/my.csv")
    edit_json(sweep / "bad/run.json", lambda info: info | {"status": "failed", "error": "/home/somebody is full"})
    page = page_of(sweep)
    assert "attention=auto seed=1" in words_of(page) and "1 of 10 runs has no results and does not count." in page
    assert "somebody" not in page and str(sweep) not in page


def test_where_nothing_has_finished_the_page_says_so(tmp_path):
    make_run(tmp_path / "bad", errors=wave(0.3))
    edit_json(tmp_path / "bad/run.json", lambda info: info | {"status": "failed", "error": "no room"})
    assert "No run has finished: there is nothing to compare." in words_of(page_of(tmp_path))


def test_names_of_others_are_text_wherever_they_stand(tmp_path):
    for number, name in enumerate(HOSTILE):
        options = {"attention": json.dumps(name), "optim__lr": json.dumps(name), "number": number}
        make_run(tmp_path / f"run{number}", errors=wave(0.3 + 0.01 * number), data=HOSTILE[0], **options)
    page = page_of(tmp_path)
    assert len(re.findall(r"<script", page)) == 2 and len(re.findall(r"</script", page)) == 2
    assert "<img" not in page and not {"\x00", "\x1b"} & {*page}


def test_a_large_sweep_has_a_small_page(tmp_path):
    make_runs(tmp_path, {f"{i:03}": wave(0.3 + 0.001 * i) for i in range(80)})
    page = page_of(tmp_path)
    assert len(page.encode()) < 200_000 and "The 20 lowest of 79." in words_of(page)
    assert len(charts_of(page)["Error by step of the forecast"]["lines"]) == 7
