"""The page of a backtest as a file: its figures, its pictures, its size, and names of others in it."""

import re
import time

import numpy as np
import pandas as pd
import pytest
from comparison.pages import charts_of, made_backtest, made_backtest_page, made_table, words_of
from report.pages import HOSTILE, made_record

from forecast.comparison.backtest_page import backtest_page, fold_forecasts_chart
from forecast.comparison.backtests import cell_errors

LIMIT = 3_000_000


def values(line, count):
    """As chart.js reads a line: from its beginning, None where it has nothing."""
    begin, known = (line["from"], line["values"]) if isinstance(line, dict) else (0, line)
    return [None] * begin + known + [None] * (count - begin - len(known))


def test_the_verdict_comes_first_and_every_section_follows():
    page = made_backtest_page(ids=[f"s{i}" for i in range(5)])
    sections = ["forecasts", "baselines", "folds", "steps", "intervals", "series", "data", "run"]
    assert re.findall(r'<(?:div|section)[^>]* id="([a-z]+)"', page) == ["verdict", *sections]
    words = words_of(page)
    assert "Over 6 forecasts of 4 steps" in words and "best baseline, ridge" in words
    assert "Backtest of informer on my.csv" in words and "a training before each forecast" in words
    assert "secret" not in page and 'id="series"' not in made_backtest_page()


def test_a_window_shows_what_the_table_has_and_what_earlier_forecasts_knew():
    chart = charts_of(made_backtest_page(targets=("load", "wind")))["Forecasts beside the truth"]
    names = [line["name"] for line in chart["lines"]]
    assert names == ["past", "truth", "ridge", "forecast"] and [band["name"] for band in chart["bands"]] == [
        "95 %",
        "80 %",
    ]
    made, columns = (pick["names"] for pick in chart["picks"])
    assert made[:2] == ["2024-01-01 23:00", "2024-01-02 03:00"] and columns == ["load", "wind"]
    assert chart["picks"][0]["first"] == 5  # the last one is seen first
    panel = chart["panels"][2 * 2 + 1]  # the third fold, wind
    x, rows = panel["x"], made_table(targets=("load", "wind"))
    rows = rows[(rows["fold"] == 2) & (rows["target"] == "wind")]
    past, truth, ridge, forecast = (values(line, x["count"]) for line in panel["lines"])
    assert past[:9] == [None, *range(1001, 1009)] and past[9:] == [None] * 4  # the first cutoff is forecast by no fold
    np.testing.assert_allclose(truth[9:], rows["y"])
    np.testing.assert_allclose(forecast[9:], rows["forecast"])
    np.testing.assert_allclose(ridge[9:], rows["ridge"])
    np.testing.assert_allclose(values(panel["bands"][0][0], x["count"])[9:], rows["lo-95"])
    assert panel["mark"] == pd.Timestamp("2024-01-02 07:00").value // 10**6 == x["start"] + 8 * x["step"]


def test_between_forecasts_that_do_not_touch_there_is_no_line():
    chart = charts_of(made_backtest_page(step=7))["Forecasts beside the truth"]
    panel = chart["panels"][2]
    past = values(panel["lines"][0], len(panel["x"]))
    assert past[:11] == [None, 1, 2, 3, 4, None, 8, 9, 10, 11, None]


def test_errors_by_step_and_series_are_those_of_a_slow_loop_whatever_the_parts():
    _, sums, tables, _ = made_backtest(ids=["a", "b"], parts=3)
    for table in tables:
        table.loc[table["id"] == "b", "forecast"] += 0.5
    sums = type(sums)(sums.scales, pred_len=4)
    tables[0].loc[tables[0].index[:2], "y"] = np.nan
    for table in tables:
        sums.add(table, cell_errors(table, sums.scales))
    whole = pd.concat(tables)
    for step in range(4):
        rows = whole[np.tile(np.arange(4) == step, len(whole) // 4)]
        expected = (((rows["ridge"] - rows["y"]) / 2) ** 2).mean()
        assert sums.by_step(["ridge"])["ridge_mse_scaled"][step] == pytest.approx(expected)
    for place, name in enumerate("ab"):
        rows = whole[whole["id"] == name]
        assert sums.by_series()["mase"][place] == pytest.approx((rows["forecast"] - rows["y"]).abs().mean() / 0.5)


def test_the_picture_of_intervals_is_in_per_cent_of_each_baseline():
    found, *_ = made_backtest(12)
    (ridge, last) = charts_of(made_backtest_page(12))["The model beside each baseline"]["rows"]
    difference, mse = found["differences"]["ridge"], found["overall"]["ridge"]["mse"]
    assert ridge["name"] == "ridge" and ridge["value"] == pytest.approx(100 * difference["mse"] / mse)
    assert ridge["low"] == pytest.approx(100 * difference["low"] / mse)
    assert last["name"] == "last value" and last["sure"] is True
    assert "The model beside each baseline" not in charts_of(made_backtest_page(3))  # too few for an interval


def test_the_error_in_the_units_of_the_file_is_that_of_a_slow_loop_and_comes_first():
    _, sums, (table,), scales = made_backtest(ids=["a", "b"])
    scales["std"] = sums.scales["std"] = [2.0, 5.0]
    table.loc[table["id"] == "b", "forecast"] += 1.0
    table.loc[table.index[:7], "y"] = np.nan
    sums = type(sums)(scales, pred_len=4)
    sums.add(table, cell_errors(table, scales))
    assert sums.original_mae("load") == pytest.approx((table["forecast"] - table["y"]).abs().mean())
    cards = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", made_backtest_page())
    assert cards[:2] == [("mean error of load", "0.5000"), ("better in", "5 of 6")]


def test_a_ridge_stands_beside_the_baseline_of_its_name():
    found, sums, tables, _ = made_backtest()
    page = backtest_page({**found, "model": "ridge"}, sums, lambda: iter(tables), made_record(["load"]))
    chart = charts_of(page)["Error by fold"]
    assert [line["name"] for line in chart["lines"]][:2] == ["ridge (the model)", "the ridge baseline"]
    model, ridge = chart["panels"][0]["lines"][:2]
    assert model == pytest.approx([fold["model"]["mse"] for fold in found["by_fold"]], abs=1e-4) and model != ridge


def test_a_line_far_above_the_others_waits_until_it_is_pressed():
    page = made_backtest_page()
    lines = charts_of(page)["Error by fold"]["lines"]
    assert [(line["name"], line.get("far", False)) for line in lines][2] == ("last value", True)
    assert "A name that is struck out is drawn when it is pressed" in words_of(page)


def test_folds_of_series_that_end_apart_go_by_number():
    starts = {"a": "2024-01-01", "b": "2024-02-01"}
    charts = charts_of(made_backtest_page(ids=list(starts), start=starts))
    assert charts["Forecasts beside the truth"]["picks"][0]["names"][1] == "2: 2024-01-01 04:00 on"
    assert charts["Error by fold"]["x"] == {"kind": "number", "label": "fold"}


def test_a_series_without_a_forecast_in_a_fold_has_an_empty_picture():
    _, sums, (table,), _ = made_backtest(ids=["a", "b"])
    table = table[~((table["fold"] == 1) & (table["id"] == "b"))]
    options = {
        "made_from": dict(enumerate("012345")),
        "pred_len": 4,
        "ranked": [0, 1],
        "best": "ridge",
        "levels": [],
        "counted": False,
    }
    chart, count = fold_forecasts_chart([table], sums.scales, **options)
    assert count == 2 and chart["panels"][3]["lines"] == [None] * 4
    assert chart["panels"][3]["label"] == "no forecast of it from here"


def test_a_fold_that_lies_in_a_gap_is_no_choice_and_shifts_no_other():
    found, sums, (table,), _ = made_backtest()
    found["by_fold"] = [fold for fold in found["by_fold"] if fold["fold"] != 1]
    tables = [table[table["fold"] != 1]]
    chart = charts_of(backtest_page(found, sums, lambda: iter(tables), made_record(["load"])))[
        "Forecasts beside the truth"
    ]
    assert [len(chart["panels"]), *chart["picks"][0]["names"][:2]] == [5, "2024-01-01 23:00", "2024-01-02 07:00"]
    assert chart["panels"][1]["lines"][1]["values"] == [9, 10, 11, 12]


def test_rows_that_no_clock_has_counted_have_numbers():
    page = made_backtest_page(start="1970-01-01 00:00:00.100", freq="ms")
    charts = charts_of(page)
    assert "made from step 101 to step 121," in words_of(page) and "made from 1970" not in page
    forecasts = charts["Forecasts beside the truth"]
    assert forecasts["x"]["kind"] == "number" and forecasts["picks"][0]["names"][:2] == ["101", "105"]
    assert charts["Error by fold"]["panels"][0]["x"][:2] == [101, 105]


@pytest.mark.parametrize("where", ["ids", "targets"])
def test_names_of_others_are_text_wherever_they_stand(where):
    page = made_backtest_page(**{where: list(HOSTILE)})
    assert len(re.findall(r"<script", page)) == 2 and len(re.findall(r"</script", page)) == 2
    assert "<img" not in page and not {"\x00", "\x1b"} & {*page}


LARGE = {
    "1,000 series": {"folds": 20, "ids": [f"shop {i}" for i in range(1000)], "pred_len": 24},
    "a year of days": {"folds": 365, "pred_len": 24, "targets": ("y", "z")},
    "long steps": {"folds": 12, "pred_len": 5000},
    "321 columns": {"folds": 5, "pred_len": 96, "targets": tuple(f"MT_{i:03}" for i in range(321))},
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_page_stays_small_and_is_soon_made_whatever_the_backtest(kind):
    found, sums, tables, _ = made_backtest(**LARGE[kind])

    record, started = made_record(["y"]), time.process_time()
    page = backtest_page(found, sums, lambda: iter(tables), record)
    assert time.process_time() - started < 3.0
    assert len(page.encode()) < LIMIT and charts_of(page)["Forecasts beside the truth"]["panels"]
    assert page == backtest_page(found, sums, lambda: iter(tables), record)
