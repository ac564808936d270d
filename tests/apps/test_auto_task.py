"""What `forecast auto` makes of a file and a few words, before it trains anything."""

import argparse

import numpy as np
import pandas as pd
import pytest

from forecast.apps.auto.task import AutoTask, check_known, find_task
from forecast.errors import UserError

ROWS = 601


def asked(file, *settings, horizon=None, target=None):
    return argparse.Namespace(file=str(file), settings=list(settings), horizon=horizon, target=target)


@pytest.fixture
def csv(tmp_path):
    steps, noise = np.arange(ROWS), np.random.default_rng(0).normal(size=(ROWS, 3))
    values = np.sin(2 * np.pi * steps / 24)[:, None] + 0.1 * noise
    table = pd.DataFrame(values.round(3), columns=["load", "heat", "wind"])
    table.insert(0, "when", pd.date_range("2022-01-01", periods=ROWS, freq="h"))
    path = tmp_path / "own.csv"
    table.to_csv(path, index=False, sep=";", decimal=",")
    return path


def test_a_file_is_read_as_check_data_reads_it_for_the_horizon_that_was_asked_for(csv):
    task = find_task(asked(csv, horizon=36))
    assert {"data=csv", f"data.path={csv}", "data.separator=';'", "data.time_column=when"} <= set(task.words)
    assert "pred_len=36" in task.words and task.period == 24 and task.patch_len == 12


def test_the_model_that_check_data_advises_is_no_word_of_the_task(csv):
    """Of a short horizon val holds forecasts enough for boosted trees, whose keys the other members lack."""
    task = find_task(asked(csv, horizon=4))
    assert not [word for word in task.words if word.startswith("model")]


def test_a_split_of_ones_own_may_be_another_than_the_one_that_fits(csv):
    words = find_task(asked(csv, "data/split=last", "data.split.val=1", "data.split.test=2", horizon=90)).words
    assert "pred_len=90" in words and "data.separator=';'" in words
    cut = {word for word in words if word.startswith(("data/split", "data.split"))}
    assert cut == {"data/split=last", "data.split.val=1", "data.split.test=2"}


def rows_of(name, count, freq, season):
    steps, noise = np.arange(count), np.random.default_rng(count).normal(size=count)
    dates = pd.date_range("2015-01-01", periods=count, freq=freq)
    values = 100 + 0.3 * steps + 10 * np.sin(2 * np.pi * steps / season) + 2 * noise
    return pd.DataFrame({"series": name, "date": dates, "value": values.round(2)})


SHORT = {  # rows, frequency, season and horizon of a series: horizons of validation and of the test, seq_len
    "36 months": (36, "MS", 12, 12, "1 0", 12),
    "48 months": (48, "MS", 12, 12, "1 1", 12),
    "72 months": (72, "MS", 12, 12, "1 1", 12),
    "20 months": (20, "MS", 12, 6, "1 0", 8),
    "104 weeks": (104, "W", 52, 13, "1 1", 52),
    "90 days": (90, "D", 7, 14, "1 1", 21),
    "30 years": (30, "YS", 8, 5, "1 1", 7),
    "672 quarter-hours": (672, "15min", 96, 96, "1 1", 192),
    "20 months, a year ahead": (20, "MS", 12, 12, "0 0", 8),
    "3 rows": (3, "MS", 12, 12, "0 0", 1),
}


@pytest.mark.parametrize("case", SHORT)
def test_a_horizon_that_was_typed_is_kept_however_few_the_rows_are(tmp_path, case):
    rows, freq, season, horizon, horizons, seq_len = SHORT[case]
    rows_of("a", rows, freq, season).drop(columns="series").to_csv(tmp_path / "short.csv", index=False)
    words = find_task(asked(tmp_path / "short.csv", horizon=horizon)).words
    val, test = horizons.split()
    assert {f"pred_len={horizon}", f"data.split.val={val}", f"data.split.test={test}", f"seq_len={seq_len}"} <= {*words}


def test_of_a_panel_every_series_has_a_forecast_and_all_that_have_the_rows_are_judged(tmp_path):
    days = [rows_of(f"s{i}", 400 if i < 18 else 60, "D", 7) for i in range(24)]
    pd.concat(days).to_csv(tmp_path / "days.csv", index=False)
    words = find_task(asked(tmp_path / "days.csv", horizon=14)).words
    assert {"data/split=last", "data.split.val=1", "data.split.test=1", "pred_len=14"} <= {*words}
    months = [rows_of(name, count, "MS", 12) for name, count in zip("abcdef", (40, 40, 40, 15, 4, 1), strict=True)]
    pd.concat(months).to_csv(tmp_path / "months.csv", index=False)
    words = find_task(asked(tmp_path / "months.csv", horizon=12)).words
    assert {"data.short=pad", "seq_len=12", "data.split.val=1", "data.split.test=0"} <= {*words}


def test_validation_holds_the_four_horizons_that_intervals_need_unless_a_split_is_typed(tmp_path):
    """A tenth of three years of days holds three and a bit."""
    days = pd.date_range("2021-01-01", periods=1100, freq="D")
    table = pd.DataFrame({"date": days, "sold": np.random.default_rng(0).normal(size=1100).round(3)})
    table.to_csv(tmp_path / "days.csv", index=False)
    task = find_task(asked(tmp_path / "days.csv", horizon=28))
    assert {"data/split=last", "data.split.val=4", "data.split.test=7", "pred_len=28"} <= set(task.words)
    assert any("data/split=last data.split.val=4 data.split.test=7" in note for note in task.notes)
    typed = ("data/split=shares", "data.split.val=0.1")
    for words, horizon in ((typed, 28), ((), 27)):
        assert "data/split=last" not in find_task(asked(tmp_path / "days.csv", *words, horizon=horizon)).words


def test_of_a_panel_validation_holds_the_horizons_that_weights_by_series_need(tmp_path):
    pd.concat([rows_of(f"s{i}", 140, "D", 7) for i in range(30)]).to_csv(tmp_path / "days.csv", index=False)
    for horizon, typed, val in ((14, (), "3"), (14, ("data.split.val=2",), "2"), (21, (), None)):
        words = find_task(asked(tmp_path / "days.csv", "data/split=last", *typed, horizon=horizon)).words
        assert [word[-1] for word in words if word.startswith("data.split.val=")] == [val] * (val is not None)
        assert words.count("data/split=last") == 1


def test_a_column_that_says_nothing_is_dropped_unless_the_words_give_it_a_role(csv):
    table = pd.read_csv(csv, sep=";", decimal=",")
    table.assign(site=7, again=table["load"]).to_csv(csv, index=False)
    assert "data.drop=[site, again]" in find_task(asked(csv, horizon=36)).words
    assert "data.drop=[site]" in find_task(asked(csv, "data.past=[again]", target="load", horizon=36)).words
    words = find_task(asked(csv, "data.past=[again]", "data.known=[site]", target="load", horizon=36)).words
    assert not [word for word in words if word.startswith("data.drop")]


LATE = ("data/split=shares", "data.split.train=0.5", "data.split.val=0.1", "data.split.test=0.4")


@pytest.fixture(params=["a series", "a panel"])
def changing(request, tmp_path):
    """The words of a file of hours whose first half repeats every day, and whose end every week alone."""
    steps, noise = np.arange(2400), np.random.default_rng(0)
    week = np.tile(noise.normal(size=168), 15)[: len(steps)]
    day = np.tile(noise.normal(size=24), 100)
    values = np.where(steps < 1680, day, 3 * week) + 0.1 * noise.normal(size=len(steps))
    table = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=len(steps), freq="h"), "load": values.round(3)})
    if request.param == "a panel":
        table = pd.concat([table.assign(park="a"), table.iloc[:500].assign(park="b")])
    table.to_csv(tmp_path / "changing.csv", index=False)
    words = ["data.id_column=park"] if request.param == "a panel" else []
    return [tmp_path / "changing.csv", *words]


@pytest.mark.parametrize("words", [(), LATE, ("data/split=last", "data.split.val=9", "data.split.test=21")])
def test_no_row_after_those_of_the_training_chooses_the_season(changing, words):
    assert find_task(asked(*changing, *words, horizon=24)).period == 24


def test_the_season_is_that_of_the_rows_of_a_training_however_many_they_are(changing):
    most = ("data/split=shares", "data.split.train=0.95", "data.split.val=0.02", "data.split.test=0.03")
    assert find_task(asked(*changing, *most, horizon=24)).period == 168


@pytest.fixture(params=["a series", "a panel"])
def two_seasons(request, tmp_path):
    """The words of a file of hours whose column load repeats every day, heat every week alone."""
    steps, noise = np.arange(2400), np.random.default_rng(0)
    day, week = noise.normal(size=24), noise.normal(size=168)
    columns = {"load": day[steps % 24], "heat": week[steps % 168]}
    table = pd.DataFrame({name: (values + 0.1 * noise.normal(size=2400)).round(3) for name, values in columns.items()})
    table.insert(0, "date", pd.date_range("2022-01-01", periods=2400, freq="h"))
    if request.param == "a panel":
        table = pd.concat([table.assign(park="a"), table.iloc[:500].assign(park="b")])
    table.to_csv(tmp_path / "two.csv", index=False)
    words = ["data.id_column=park"] if request.param == "a panel" else []
    return [tmp_path / "two.csv", *words]


@pytest.mark.parametrize("words", [(), LATE])
@pytest.mark.parametrize(("target", "period"), [("load", 24), ("heat", 168)])
def test_a_target_has_its_own_season_however_the_file_is_cut(two_seasons, words, target, period):
    assert find_task(asked(*two_seasons, *words, horizon=24, target=target)).period == period
    assert find_task(asked(*two_seasons, *words, f"data.target={target}", horizon=24)).period == period


def test_the_target_of_columns_with_roles_has_its_own_season(two_seasons):
    known = find_task(asked(*two_seasons, *LATE, "data.known=[heat]", horizon=24, target="load"))
    assert known.period == 24


@pytest.mark.parametrize("words", [(), LATE])
def test_a_season_that_is_typed_is_that_of_the_patches(two_seasons, words):
    task = find_task(asked(*two_seasons, *words, "data.season=40", horizon=24))
    assert task.patch_len == 20 and "data.season=40" in task.words
    assert "model.patch_len=20" in task.of({"model": "informer_plus", "model.patch_len": "season"})
    found = find_task(asked(*two_seasons, *words, "data.season=null", horizon=24, target="load"))
    assert found.period == 24


@pytest.mark.parametrize("changing", ["a series"], indirect=True)
@pytest.mark.parametrize("words", [(), ("data/split=shares",)])
def test_the_lengths_are_those_that_check_data_prints_for_an_informer(changing, words):
    found = find_task(asked(*changing, *words, horizon=72)).words
    assert {"seq_len=336", "label_len=72", "pred_len=72"} <= set(found)


def test_a_members_own_words_come_last_and_a_season_becomes_a_patch(csv):
    words = find_task(asked(csv)).of({"model": "informer_plus", "model.patch_len": "season"})
    assert words[-2:] == ["model=informer_plus", "model.patch_len=12"]


@pytest.mark.parametrize(
    ("period", "words"), [(24, ["pred_len=12", "seq_len=168"]), (365, ["seq_len=29", "pred_len=12"]), (None, None)]
)
def test_a_length_in_seasons_takes_the_place_of_the_tasks_own_where_there_is_one(period, words):
    task = AutoTask(["seq_len=29", "pred_len=12"], [], None, [], period)
    assert task.of({"seq_len": "7 seasons"}) == (words or task.words)
    assert task.of({"model.look_back": "window"})[-1] == "model.look_back=29"


def test_a_model_without_roles_gets_the_target_alone(csv):
    task = find_task(asked(csv, "data.known=[wind]", target="load"))
    words = task.of({"model": "ridge"})
    assert "data.known=[wind]" in words and not any(word.startswith("data.features") for word in words)
    split = find_task(asked(csv, "data.known=[wind]", "data/split=last", "data.split.val=3", target="load", horizon=7))
    assert "pred_len=7" in split.words and not any(word.startswith("data.features") for word in split.words)
    alone = task.of({"model": "seasonal_naive"}, roles=False)
    assert not any(word.startswith("data.known") for word in alone)
    assert {"data.features=S", "data.target=load"} <= set(alone)


def test_what_is_typed_wins_over_what_was_found(csv):
    words = find_task(asked(csv, "data.time_column=when", "data/split=last", "data.split.val=3", "seed=7")).words
    assert words.count("data.time_column=when") == 1 and {"data/split=last", "data.split.val=3", "seed=7"} <= set(words)


HORIZON = 5


def plan_of(path, rows=HORIZON, **columns):
    """What is known of the hours after `csv`."""
    table = pd.DataFrame({"when": pd.date_range("2022-01-26 01:00", periods=rows, freq="h"), **columns})
    table.to_csv(path, index=False, sep=";", decimal=",")
    return f"future={path}"


def test_a_file_with_values_to_come_is_for_the_forecast_and_no_training(csv, tmp_path):
    plan = plan_of(tmp_path / "plan.csv", wind=0.5)
    task = find_task(asked(csv, "data.known=[wind]", plan, target="load", horizon=HORIZON))
    assert f"future={task.future}" == plan and not any(word.startswith("future") for word in task.words)


def test_what_the_forecast_will_lack_is_said_before_the_training(csv, tmp_path):
    known = {"horizon": HORIZON, "target": "load"}
    with pytest.raises(UserError, match=r"wind at the 5 steps from 2022-01-26 01:00.*future=FILE"):
        check_known(find_task(asked(csv, "data.known=[wind]", **known)))
    with pytest.raises(UserError, match="has no value at 2022-01-26 05:00"):
        check_known(
            find_task(asked(csv, "data.known=[wind]", plan_of(tmp_path / "plan.csv", rows=4, wind=0.5), **known))
        )
    with pytest.raises(UserError, match="no column is known in advance"):
        check_known(find_task(asked(csv, plan_of(tmp_path / "plan.csv", wind=0.5), **known)))
    task = find_task(asked(csv, **known))
    check_known(task)
    assert task.future is None  # without data.known, as is advised


def test_of_a_panel_too(tmp_path):
    times = pd.date_range("2022-01-01", periods=97, freq="D")
    parts = [pd.DataFrame({"shop": name, "day": times, "sales": np.arange(97.0) % 7, "promo": 1.0}) for name in "ab"]
    pd.concat(parts).to_csv(tmp_path / "long.csv", index=False)
    words = ("data.id_column=shop", "data.time_column=day", "data.target=sales", "data.known=[promo]")
    with pytest.raises(UserError, match=r"promo at the 7 steps from 2022-04-08.*future=FILE"):
        check_known(find_task(asked(tmp_path / "long.csv", *words, horizon=7)))
    after = pd.date_range(times[-1], periods=8, freq="D")[1:]
    plan = pd.concat([pd.DataFrame({"shop": name, "day": after, "promo": 0.0}) for name in "ab"])
    plan.to_csv(tmp_path / "plan.csv", index=False)
    words = (*words, f"future={tmp_path / 'plan.csv'}")
    check_known(find_task(asked(tmp_path / "long.csv", *words, horizon=7)))


def test_series_below_one_another_are_a_panel(tmp_path):
    times = pd.date_range("2022-01-01", periods=97, freq="D")
    parts = [
        pd.DataFrame({"shop": name, "day": times, "sales": np.arange(97.0) % 7 + i}) for i, name in enumerate("abc")
    ]
    pd.concat(parts).to_csv(tmp_path / "long.csv", index=False)
    task = find_task(asked(tmp_path / "long.csv", horizon=7))
    assert task.is_panel and "data.id_column=shop" in task.words and "pred_len=7" in task.words and task.period == 7
    assert task.of({"model.smoothed": "panel"})[-1] == "model.smoothed=true"
    typed = find_task(asked(tmp_path / "long.csv", "data.id_column=shop", "data.time_column=day", horizon=7))
    assert typed.is_panel and "pred_len=7" in typed.words and typed.patch_len == 7


@pytest.mark.parametrize(
    ("period", "steps"), [(None, 16), (24, 12), (12, 6), (7, 7), (4, 4), (52, 26), (168, 16), (365, 16)]
)
def test_a_patch_is_half_a_season_where_that_is_of_some_length(period, steps):
    assert AutoTask([], [], None, [], period).patch_len == steps


def test_a_refusal_names_the_words_that_choose(tmp_path):
    times, path = pd.date_range("2022-01-01", periods=400, freq="h"), tmp_path / "cars.csv"
    pd.DataFrame({"when": [*times, *times[:9]], "cars": np.arange(409.0) % 41}).to_csv(
        tmp_path / "cars.csv", index=False
    )
    with pytest.raises(UserError, match=r"9 of 409 rows repeat a time.* Set data\.duplicates=last"):
        find_task(asked(path))


def test_no_floor_is_set_unasked_and_planned_columns_are_said(tmp_path):
    days, sold = pd.date_range("2022-01-01", periods=397, freq="D"), np.maximum(0, np.arange(397) % 17 - 5)
    table = pd.DataFrame({"day": days, "promo": np.arange(397) % 9 == 0, "sold": sold})
    table.to_csv(tmp_path / "own.csv", index=False)
    task = find_task(asked(tmp_path / "own.csv", horizon=7))
    assert not [word for word in task.words if word.startswith("data.floor")] and "data.drop=[promo]" in task.words
    assert "Not used: promo. Known in advance?" in task.proposal and task.proposal in task.notes
    words = ("data.known=[promo]", f"future={tmp_path / 'own.csv'}", "data.floor=0")
    told = find_task(asked(tmp_path / "own.csv", *words, target="sold", horizon=7))
    assert {"data.known=[promo]", "data.floor=0", "data.target=sold"} <= set(told.words) and not told.proposal
    assert not [word for word in told.words if word.startswith("data.drop")]
