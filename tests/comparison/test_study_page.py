"""The page of a study as a file: its figures, its pictures, and what a study of other states shows."""

import json
import re

import pytest
from comparison.pages import charts_of, made_study, made_study_page, words_of

from forecast.comparison.study_page import study_page


def points(chart, panel=0):
    """Name in the legend -> the points that are drawn."""
    found = chart["panels"][panel]
    places = {}
    for line, values in zip(chart["lines"], found["lines"], strict=True):
        places[line["name"]] = [(x, y) for x, y in zip(found["x"], values, strict=True) if y is not None]
    return places


def test_every_trial_is_in_the_table_by_its_error_with_its_state_values_and_the_reason():
    found, page = made_study(11), made_study_page(11)
    section = page.split('id="trials"')[1].split("</section>")[0]
    rows, reasons = (re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)[1:] for part in section.split("</table>")[:2])
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    by_error = sorted(found["trials"], key=lambda trial: (trial["error"] is None, trial["error"] or 0.0))
    assert [int(row[0]) for row in cells] == [trial["trial"] for trial in by_error]
    assert [row[2] for row in cells] == [trial["state"].replace("cut", "cut off") for trial in by_error]
    assert [re.sub("<[^>]*>", "", row) for row in reasons] == ["3, 8a loss of mse does not fit"]
    assert [row[5] for row in cells] == [f"{trial['config']['optim.lr']:.4g}" for trial in by_error]


def test_the_verdict_comes_first_then_the_sections_with_budget_asked_and_taken():
    page = made_study_page()
    assert re.findall(r'<(?:div|section)[^>]* id="([a-z]+)"', page) == [
        "verdict", "errors", "best", "trials", "study",
    ]  # fmt: skip
    words = " ".join(words_of(page).split())
    assert "asked for 10 minutes, 40 trials at most taken 9.7 minutes, 12 trials" in words
    assert "forecast train model=dlinear optim.lr=0.01" in words
    assert "asked for 3 trials at most taken" in " ".join(
        words_of(made_study_page(minutes=None, most_trials=3)).split()
    )


def test_the_lowest_so_far_falls_and_heeds_no_pruned_trial():
    found = made_study(12)
    found["trials"][1]["error"] = 0.001  # pruned
    drawn = points(charts_of(study_page(found))["Error by trial"])
    so_far = drawn["lowest so far"]
    by_hand, lowest = [], float("inf")
    for trial in found["trials"]:
        if trial["error"] is None:
            continue
        lowest = min(lowest, trial["error"] if trial["state"] != "pruned" else lowest)
        by_hand.append((trial["trial"], pytest.approx(lowest, abs=1e-3)))
    assert len(so_far) == len(by_hand) and so_far == by_hand and so_far[-1][1] < so_far[0][1]
    assert drawn["pruned"][0] == (1, pytest.approx(0.001, abs=1e-3))
    counted = sum(len(places) for name, places in drawn.items() if name != "lowest so far")
    assert counted == sum(trial["error"] is not None for trial in found["trials"])


def test_an_error_far_above_the_others_is_in_the_table_alone():
    found = made_study(12)
    found["trials"][2]["error"] = 1e4
    page = study_page(found)
    drawn = points(charts_of(page)["Error by trial"])
    assert max(y for places in drawn.values() for _, y in places) < 1 and "10000.0000" in page


def test_thousands_of_trials_leave_a_page_that_opens():
    page = made_study_page(5000)
    chart = charts_of(page)["Error by trial"]
    assert len(page) < 3_000_000 and len(chart["panels"][0]["x"]) <= 1003
    best = made_study(5000)["best"]["trial"]
    assert best in chart["panels"][0]["x"] and json.dumps(chart)
