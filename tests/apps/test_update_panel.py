"""`forecast update` of many series: one state, one log; a series that does not continue is refused alone."""

import functools
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from apps.updates import DAY, TRAINED, broken, files_of, series, trained, updated, words
from program import refusal

from forecast import Forecaster
from forecast.apps.update import state as update_state

SHOPS = {name: series(seed=seed) for seed, name in enumerate("abc")}
AS_PANEL = ["data.id_column=shop", "data.target=load"]


def panel(last, *, first=0, change=None, shops=SHOPS):
    """The rows of some days of each shop, one after another, with a change."""
    parts = [table.iloc[first * DAY : last * DAY].assign(shop=name) for name, table in shops.items()]
    rows = pd.concat(parts, ignore_index=True)[["shop", "date", "load"]]
    return rows if change is None else change(rows)


def write(path, rows):
    rows.to_csv(path, index=False)
    return path


def trained_panel(folder, shops=SHOPS, *words):
    """The run of a ridge on the first days of all shops."""
    rows = panel(TRAINED, shops=shops)
    return trained(folder, rows, *AS_PANEL, *words, days=len(rows) // DAY)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained_panel(tmp_path_factory.mktemp("panel"))


@pytest.fixture(scope="module")
def seen(run, tmp_path_factory):
    """The folder of the updates of two days."""
    folder = tmp_path_factory.mktemp("seen")
    for day in (TRAINED, TRAINED + 1):
        updated(run, write(folder / "h.csv", panel(day)), folder / "u")
    return folder / "u"


@pytest.fixture(scope="module")
def third_and_fourth(run, seen, tmp_path_factory):
    """The folders after the updates of two more days."""
    place = tmp_path_factory.mktemp("more")
    for before, day in ((seen, TRAINED + 2), (place / str(TRAINED + 2), TRAINED + 3)):
        updated(run, write(place / "h.csv", panel(day)), shutil.copytree(before, place / str(day)))
    return place / str(TRAINED + 2), place / str(TRAINED + 3)


@pytest.fixture
def folder(seen, tmp_path):
    """A copy of it, to go on in."""
    return shutil.copytree(seen, tmp_path / "u")


def log_of(folder):
    return pd.read_csv(folder / "log.csv")


def latest_of(folder):
    return pd.read_csv(folder / "latest.csv", parse_dates=["date"])


def test_each_morning_it_forecasts_what_predict_would_and_compares_yesterdays_with_what_came(run, tmp_path):
    folder, path, forecaster = tmp_path / "u", tmp_path / "h.csv", Forecaster.load(run / "checkpoints/best.ckpt")
    std = {name: table["load"][: int(0.4 * TRAINED * DAY)].std(ddof=0) for name, table in SHOPS.items()}
    for day in range(TRAINED, TRAINED + 3):
        before = latest_of(folder) if day > TRAINED else None
        document = updated(run, write(path, panel(day)), folder)
        latest, expected = latest_of(folder), forecaster.predict(path, level=[80, 90])
        pd.testing.assert_frame_equal(latest, expected, check_dtype=False, rtol=1e-6)
        if before is not None:
            came = panel(day, first=day - 1)
            errors = (before["load"] - came["load"]).abs() / came["shop"].map(std)
            inside = (before["load-lo-80"] <= came["load"]) & (came["load"] <= before["load-hi-80"])
            last = log_of(folder).iloc[-1]
            assert (last["rows"], last["values"]) == (3 * DAY, 3 * DAY)
            assert last["mae"] == pytest.approx(errors.mean(), rel=1e-3)
            assert last["coverage_80"] == pytest.approx(inside.mean(), rel=1e-3)
    assert document["series"] == {"count": 3, "refused": 0, "unseen": 0}
    assert f"{3 * DAY} new rows of 3 series, up to" in document["sentences"][0]
    assert len(log_of(folder)) == 3


def test_the_next_row_of_each_series_alone_goes_on(run, folder, tmp_path):
    rows = panel(TRAINED + 2, first=TRAINED + 1)
    some = rows.groupby("shop", sort=False).head(1)
    assert len(some) == some["shop"].nunique() == 3
    document = updated(run, write(tmp_path / "next.csv", some), folder)
    assert "3 new rows of 3 series" in document["sentences"][0]


def test_a_panel_of_one_is_the_series_but_for_the_id(daily_run, tmp_path):
    """With a break, so that all charts are above 0."""
    table = broken(series(), "noise", TRAINED + 3)
    one = trained_panel(tmp_path, {"a": series()})
    for day in range(TRAINED, TRAINED + 9):
        rows = panel(day, shops={"a": table})
        write(tmp_path / "s.csv", rows[["date", "load"]])
        write(tmp_path / "p.csv", rows)
        alone = updated(daily_run, tmp_path / "s.csv", tmp_path / "s")
        together = updated(one, tmp_path / "p.csv", tmp_path / "p")
        assert (alone["alarms"], alone["rows_new"]) == (together["alarms"], together["rows_new"])
    assert alone["alarms"] == ["errors", "coverage"]
    pd.testing.assert_frame_equal(log_of(tmp_path / "p"), log_of(tmp_path / "s"), check_dtype=False, rtol=1e-3)
    pd.testing.assert_frame_equal(
        latest_of(tmp_path / "p").drop(columns="shop"), latest_of(tmp_path / "s"), check_dtype=False, rtol=1e-4
    )


def drop_hours(rows, *, shop, first, count):
    at = pd.date_range(first, periods=count, freq="h")
    return rows[~((rows["shop"] == shop) & rows["date"].isin(at))]


def other_past(rows, *, shop):
    rows.loc[(rows["shop"] == shop) & (rows["date"] == "2025-03-01 05:00"), "load"] += 5
    return rows


def without(rows, *, shop):
    return rows[rows["shop"] != shop]


def until(rows, *, shop, time):
    return rows[(rows["shop"] != shop) | (rows["date"] < time)]


REFUSED = {
    "a hole": (
        functools.partial(drop_hours, first="2025-03-03 05:00", count=3),
        "series 'b' has a hole, and data.gaps",
    ),
    "a hole before its rows": (
        lambda rows, shop: rows[
            (rows["date"] >= "2025-03-02") & ((rows["shop"] != shop) | (rows["date"] >= "2025-03-03 06:00"))
        ],
        "series 'b' begins at 2025-03-03 06:00:00, and rows up to 2025-03-02 23:00:00 have been seen: a hole of 6 rows",
    ),
    "a changed past": (
        other_past,
        r"series 'b' overlaps with rows seen before and holds other values: column 'load' is",
    ),
    "a series that has vanished": (without, "series 'b' is not there. Give a file that holds it too"),
    "earlier rows": (
        functools.partial(until, time="2025-03-02 12:00"),
        "series 'b' ends at 2025-03-02 11:00:00, and rows up",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_series_that_does_not_continue_is_refused_and_the_others_go_on(case, run, folder, third_and_fourth, tmp_path):
    (change, says), path, (third, clean) = REFUSED[case], tmp_path / "h.csv", third_and_fourth
    document = updated(run, write(path, panel(TRAINED + 2, change=functools.partial(change, shop="b"))), folder)
    assert document["series"]["refused"] == 1 and document["rows_new"] == 2 * DAY
    (sentence,) = [one for one in document["sentences"] if "refused" in one]
    assert sentence.startswith("1 of 3 series are refused and not forecast: ") and re.search(says, sentence)
    assert [*document["refused"]] == ["b"] and re.search(says, document["refused"]["b"])
    others = latest_of(third)
    pd.testing.assert_frame_equal(latest_of(folder), others[others["shop"] != "b"].reset_index(drop=True))
    again = files_of(folder)
    assert updated(run, path, folder)["status"] == "nothing_new" and files_of(folder) == again
    updated(run, write(path, panel(TRAINED + 3)), folder)  # the right file goes on
    assert latest_of(folder)["shop"].unique().tolist() == ["a", "b", "c"]
    pd.testing.assert_frame_equal(latest_of(folder), latest_of(clean))
    assert log_of(folder)["values"].sum() == log_of(clean)["values"].sum() - DAY  # one forecast of one series


def test_where_no_series_continues_the_update_is_refused(run, folder, tmp_path, capsys):
    before = files_of(folder)
    path = write(tmp_path / "h.csv", panel(TRAINED))
    text = refusal(capsys, "update", *words(run, path, folder))
    assert "h.csv, series 'a' ends at 2025-03-01 23:00:00" in text and len(text.splitlines()) == 1
    assert files_of(folder) == before


def test_of_the_first_update_too_the_others_go_on(run, tmp_path):
    path, change = tmp_path / "h.csv", functools.partial(other_past, shop="b")
    rows = panel(TRAINED, change=lambda rows: without(rows, shop="c"))
    rows.loc[(rows["shop"] == "b").idxmax() + 7, "load"] += 5  # of its train rows
    document = updated(run, write(path, rows), tmp_path / "u")
    assert document["series"]["refused"] == 2 and latest_of(tmp_path / "u")["shop"].unique().tolist() == ["a"]
    text = " ".join(document["sentences"])
    assert "series 'b' lacks rows of those trained on, or holds other values" in text
    assert sorted(document["refused"]) == ["b", "c"]
    updated(run, write(path, panel(TRAINED + 1, change=change)), tmp_path / "u")  # behind the rows that are compared
    assert latest_of(tmp_path / "u")["shop"].unique().tolist() == ["a", "b", "c"]


def test_a_series_that_was_trained_on_and_comes_later_must_be_as_it_was(run, tmp_path):
    path, folder = tmp_path / "h.csv", tmp_path / "u"
    updated(run, write(path, panel(TRAINED, change=functools.partial(without, shop="c"))), folder)
    rows = panel(TRAINED + 1)
    rows.loc[(rows["shop"] == "c").idxmax() + 7, "load"] += 5
    document = updated(run, write(path, rows), folder)
    assert (document["series"]["unseen"], document["series"]["refused"], document["rows_new"]) == (0, 1, 2 * DAY)
    assert "series 'c' lacks rows of those trained on, or holds other values" in document["sentences"][0]
    document = updated(run, write(path, panel(TRAINED + 2)), folder)
    assert (document["series"]["unseen"], document["rows_new"]) == (1, 2 * DAY)


def test_a_new_series_is_forecast_told_and_compared_from_then_on(run, folder, tmp_path):
    shops = {**SHOPS, "=new": series(seed=9)}
    path = tmp_path / "h.csv"
    document = updated(run, write(path, panel(TRAINED + 2, shops=shops)), folder)
    assert document["series"]["unseen"] == 1 and document["rows_new"] == 3 * DAY
    assert "1 of 4 series are new, the first is '=new': scaled by their own history" in "\n".join(document["sentences"])
    expected = Forecaster.load(run / "checkpoints/best.ckpt").predict(path, level=[80, 90])
    pd.testing.assert_frame_equal(latest_of(folder), expected, check_dtype=False, rtol=1e-6)
    document = updated(run, write(path, panel(TRAINED + 3, shops=shops)), folder)
    assert document["series"]["unseen"] == 0 and document["last"]["values"] == 4 * DAY


def test_a_break_of_all_series_is_said(run, folder, tmp_path):
    every = {name: broken(table, "swing", TRAINED + 1) for name, table in SHOPS.items()}
    for day in range(TRAINED + 2, TRAINED + 8):
        document = updated(run, write(tmp_path / "h.csv", panel(day, shops=every)), folder)
    assert "errors" in document["alarms"] and "data.id_column=shop" in document["train_again"]
    assert "The model's errors have broken from what its validation rows showed" in "\n".join(document["sentences"])


def test_series_that_end_at_other_times_are_watched_when_half_of_them_have_met_a_day(run, folder, tmp_path):
    path = tmp_path / "h.csv"
    for day, shop in ((TRAINED + 2, "a"), (TRAINED + 2, "abc")):
        rows = panel(day)
        late = ~rows["shop"].isin(list(shop)) & (rows["date"] >= "2025-03-03")
        document = updated(run, write(path, rows[~late]), folder)
    days = [line["day"] is not None for line in update_state.read_state(folder).log]
    assert days == [False, True, False, True] and document["last"]["values"] == 2 * DAY


def test_steps_are_kept_up_too(tmp_path):
    rows = panel(TRAINED).drop(columns="date").assign(step=np.tile(np.arange(TRAINED * DAY), 3) + 7)
    run = trained(tmp_path, rows, *AS_PANEL, "data.time_column=step", days=len(rows) // DAY)
    after = panel(TRAINED + 1).drop(columns="date").assign(step=np.tile(np.arange((TRAINED + 1) * DAY), 3) + 7)
    updated(run, tmp_path / "trained.csv", tmp_path / "u")
    document = updated(run, write(tmp_path / "late.csv", after[after["step"] >= TRAINED * DAY + 7]), tmp_path / "u")
    assert document["time"] == f"step {(TRAINED + 1) * DAY + 6}" and document["rows_new"] == 3 * DAY
