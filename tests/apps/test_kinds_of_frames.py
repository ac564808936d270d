"""Forecaster takes tables of many kinds, with the values of the plain one, and gives back what it was given."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from forecast import Forecaster, UserError
from forecast.apps.common.frame_kinds import frame_of

N, P = 120, 3  # rows, of which the last lie behind the change of the clock in Berlin; steps forecast
DAYS = pd.date_range("2023-08-01", periods=N, freq="D")
WORDS = ["callbacks.figures=null", "calibration=none", "logger=none", "checks.leakage=false", "trainer.accelerator=cpu"]
BERLIN = "Europe/Berlin"


def values(seed):
    return (10 * np.sin(np.arange(N) * 2 * np.pi / 7) + np.random.default_rng(seed).normal(size=N)).round(3)


ALONE = pd.DataFrame({"y": values(1)}, index=DAYS)
PLAIN = ALONE.rename_axis("ds").reset_index()
PANEL = pd.concat([PLAIN.assign(y=values(seed)).assign(unique_id=f"shop{seed}") for seed in (1, 2)], ignore_index=True)
PANEL = PANEL[["unique_id", "ds", "y"]]


def fit(table, folder, **settings):
    keys = {"seq_len": 14, "horizon": P, "overrides": [*WORDS, f"hydra.run.dir={folder}/run"], **settings}
    return Forecaster("ridge", **keys).fit(table)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The steps after the plain tables, one series and several: their values, from files."""

    def steps(table, *words):
        folder = tmp_path_factory.mktemp("plain")
        table.to_csv(folder / "t.csv", index=False)
        data = ["data=csv", f"data.path={folder}/t.csv", "data.time_column=ds", *words]
        overrides = [*WORDS, f"hydra.run.dir={folder}/run", *data]
        return Forecaster("ridge", seq_len=14, pred_len=P, overrides=overrides).fit().predict()["y"].to_numpy()

    others = {kind: steps(PLAIN.assign(ds=ONE[kind][0].index.to_timestamp())) for kind in ("months", "weeks")}
    return {"one": steps(PLAIN), "many": steps(PANEL, "data.id_column=unique_id"), **others}


NEXT = pd.date_range(DAYS[-1], periods=P + 1, freq="D")[1:]
MONTHS = pd.period_range("2001-01", periods=N, freq="M")
IN_BERLIN, NEXT_IN_BERLIN = (times.tz_localize(BERLIN) for times in (DAYS, NEXT))
TEXTS = DAYS.strftime("%d.%m.%Y")
DATES = [day.date() for day in DAYS]
MULTI = PANEL.set_index(["unique_id", "ds"])


POLARS = pl.from_pandas(PLAIN)
POLARS_IN_BERLIN = POLARS.with_columns(pl.col("ds").dt.replace_time_zone(BERLIN))


ONE = {
    # a table; what comes back: its type, its index or its column of time, and its name
    "DatetimeIndex": (ALONE, pd.DataFrame, NEXT, None),
    "named DatetimeIndex": (ALONE.rename_axis("when"), pd.DataFrame, NEXT, "when"),
    "PeriodIndex": (ALONE.set_axis(DAYS.to_period("D")), pd.DataFrame, NEXT.to_period("D"), None),
    "months": (
        ALONE.set_axis(MONTHS.rename("month")),
        pd.DataFrame,
        pd.period_range(MONTHS[-1], periods=P + 1, freq="M")[1:],
        "month",
    ),
    "weeks": (
        ALONE.set_axis(pd.period_range("2001-01-03", periods=N, freq="W-TUE")),
        pd.DataFrame,
        pd.period_range("2001-01-03", periods=N + P, freq="W-TUE")[N:],
        None,
    ),
    "Series": (ALONE["y"].rename("sales"), pd.Series, NEXT, None),
    "Series without a name": (ALONE["y"].rename(None), pd.Series, NEXT, None),
    "Series of periods": (ALONE["y"].set_axis(DAYS.to_period("D")), pd.Series, NEXT.to_period("D"), None),
    "index of text dates": (ALONE.set_axis(TEXTS), pd.DataFrame, NEXT, None),
    "index of dates": (ALONE.set_axis(DATES), pd.DataFrame, NEXT, None),
    "days in Berlin": (ALONE.set_axis(IN_BERLIN), pd.DataFrame, NEXT_IN_BERLIN, None),
    "Series in Berlin": (ALONE["y"].set_axis(IN_BERLIN), pd.Series, NEXT_IN_BERLIN, None),
    "column": (PLAIN, pd.DataFrame, NEXT, "ds"),
    "column found by its values": (PLAIN.rename(columns={"ds": "Messung"}), pd.DataFrame, NEXT, "Messung"),
    "column of text dates": (PLAIN.assign(ds=TEXTS).rename(columns={"ds": "tag"}), pd.DataFrame, NEXT, "tag"),
    "column behind others": (PLAIN[["y", "ds"]], pd.DataFrame, NEXT, "ds"),
    "column of dates": (PLAIN.assign(ds=DATES), pd.DataFrame, NEXT, "ds"),
    "column of periods": (PLAIN.assign(ds=DAYS.to_period("D")), pd.DataFrame, NEXT.to_period("D"), "ds"),
    "column in Berlin": (PLAIN.assign(ds=IN_BERLIN), pd.DataFrame, NEXT_IN_BERLIN, "ds"),
    "rows in another order": (ALONE.iloc[::-1], pd.DataFrame, NEXT, None),
    "column beside names of rows": (PLAIN.set_axis([f"row {i}" for i in range(N)]), pd.DataFrame, NEXT, "ds"),
    "objects": (ALONE.astype(object), pd.DataFrame, NEXT, None),
    "polars": (POLARS, pl.DataFrame, NEXT, "ds"),
    "polars dates": (pl.DataFrame({"ds": DATES, "y": ALONE["y"].tolist()}), pl.DataFrame, NEXT, "ds"),
    "polars in Berlin": (POLARS_IN_BERLIN, pl.DataFrame, NEXT_IN_BERLIN, "ds"),
    "pyarrow": (pa.Table.from_pandas(PLAIN, preserve_index=False), pa.Table, NEXT, "ds"),
    "pyarrow in Berlin": (
        POLARS_IN_BERLIN.to_arrow(),
        pa.Table,
        NEXT_IN_BERLIN,
        "ds",
    ),
}
IN_ROWS = PANEL.rename(columns={"unique_id": "shop", "ds": "day"})
MANY = {
    "unique_id, ds, y": (PANEL, pd.DataFrame, ["unique_id", "ds"]),
    "MultiIndex": (MULTI, pd.DataFrame, ["unique_id", "ds"]),
    "MultiIndex, time first": (PANEL.set_index(["ds", "unique_id"]), pd.DataFrame, ["ds", "unique_id"]),
    "MultiIndex without names": (MULTI.rename_axis([None, None]), pd.DataFrame, [None, None]),
    "MultiIndex of periods": (
        PANEL.assign(ds=PANEL["ds"].dt.to_period("D")).set_index(["unique_id", "ds"]),
        pd.DataFrame,
        ["unique_id", "ds"],
    ),
    "MultiIndex in Berlin": (
        PANEL.assign(ds=PANEL["ds"].dt.tz_localize(BERLIN)).set_index(["unique_id", "ds"]),
        pd.DataFrame,
        ["unique_id", "ds"],
    ),
    "Series with a MultiIndex": (MULTI["y"], pd.Series, ["unique_id", "ds"]),
    "ids in an index": (PANEL.set_index("unique_id"), pd.DataFrame, ["unique_id"]),
    "polars": (pl.from_pandas(PANEL), pl.DataFrame, ["unique_id", "ds"]),
    "pyarrow": (pa.Table.from_pandas(PANEL, preserve_index=False), pa.Table, ["unique_id", "ds"]),
}


def in_pandas(table):
    return table if isinstance(table, pd.DataFrame | pd.Series) else table.to_pandas()


def target(found):
    """The values of the only target, from whatever came back."""
    return found.to_numpy() if isinstance(found, pd.Series) else in_pandas(found).iloc[:, -1].to_numpy()


@pytest.mark.parametrize("kind", ONE)
def test_a_series_of_each_kind_comes_back_as_it_went_in(kind, tmp_path, expected):
    table, back, times, name = ONE[kind]
    forecaster = fit(table, tmp_path)
    for found in (forecaster.predict(), forecaster.predict(table)):
        assert type(found) is back
        np.testing.assert_allclose(target(found), expected.get(kind, expected["one"]), rtol=1e-6)
        shown = in_pandas(found)
        if "column" in kind or not isinstance(table, pd.DataFrame | pd.Series):
            assert list(shown.columns) == [name, "y"] and isinstance(shown.index, pd.RangeIndex)
            index = pd.Index(shown[name])
        else:
            index = shown.index
            assert index.name == name and list(getattr(shown, "columns", ["y"])) == ["y"]
            assert type(index) is type(times)
        assert list(index) == list(times)
        assert str(getattr(index.dtype, "tz", None)) == str(getattr(times.dtype, "tz", None))
        assert back is not pd.Series or found.name == table.name
        if isinstance(table, pl.DataFrame):
            assert found.schema == table.schema


@pytest.mark.parametrize("kind", MANY)
def test_a_panel_of_each_kind_comes_back_as_it_went_in(kind, tmp_path, expected):
    table, back, names = MANY[kind]
    forecaster = fit(table, tmp_path)
    assert forecaster.checkpoint.record.series.id_column is not None
    for found in (forecaster.predict(), forecaster.predict(table)):
        assert type(found) is back
        shown, given = in_pandas(found), in_pandas(table)
        np.testing.assert_allclose(target(found), expected["many"], rtol=1e-6)
        assert list(shown.index.names) == list(given.index.names)
        levels = [shown.index.get_level_values(place) for place in range(shown.index.nlevels)]
        if isinstance(given.index, pd.MultiIndex):
            assert [level.dtype for level in levels] == [given.index.get_level_values(k).dtype for k in range(2)]
            ids, times = levels[:: -1 if names[0] == "ds" else 1]
        else:
            ids = shown.reset_index()["unique_id"]
            times = shown[names[-1] if len(names) > 1 else "ds"]
        assert list(ids) == ["shop1"] * P + ["shop2"] * P
        assert [pd.Timestamp(str(time)[:10]) for time in times] == [*NEXT, *NEXT]
        assert back is not pd.Series or found.name == table.name


def test_the_index_of_a_forecast_goes_on_from_that_of_the_table(tmp_path):
    forecaster = fit(ALONE, tmp_path)
    after = forecaster.predict()
    assert after.index.freq == ALONE.index.freq and after.index.dtype == ALONE.index.dtype
    pd.testing.assert_index_equal(pd.concat([ALONE, after]).index, DAYS.append(NEXT))
    loaded = Forecaster.load(forecaster.folder / "checkpoints/best.ckpt")
    assert list(loaded.predict().columns) == ["date", "y"]
    assert type(loaded.predict(ALONE["y"])) is pd.Series and type(loaded.predict(pl.from_pandas(PLAIN))) is pl.DataFrame


def test_a_night_with_a_change_of_the_clock_has_midnights_before_and_after_it(tmp_path):
    before = ALONE.set_axis(pd.date_range(end="2024-03-30", periods=N, freq="D", tz=BERLIN))
    assert before.index[-1].utcoffset() != NEXT_IN_BERLIN[0].utcoffset() + datetime.timedelta(hours=1)
    found = fit(before, tmp_path).predict()
    assert list(found.index) == list(pd.date_range("2024-03-31", periods=P, freq="D", tz=BERLIN))
    assert {time.hour for time in found.index} == {0}
    assert [time.utcoffset().seconds // 3600 for time in found.index] == [1, 2, 2]


def test_ends_of_intervals_of_a_series_are_columns_of_a_frame_with_its_index(tmp_path):
    words = [word for word in WORDS if not word.startswith("calibration")]
    keys = {"overrides": [*words, f"hydra.run.dir={tmp_path}/run"], "calibration": "static"}
    found = fit(ALONE["y"], tmp_path, **keys).predict(level=[80])
    assert list(found.columns) == ["y", "y-lo-80", "y-hi-80"] and list(found.index) == list(NEXT)


def test_a_backtest_comes_back_in_the_library_of_the_table(tmp_path):
    table = pl.from_pandas(PLAIN)
    forecaster = fit(table, tmp_path)
    found = forecaster.backtest(table, folds=2)
    assert type(found) is pl.DataFrame
    assert found.to_pandas().equals(forecaster.cross_validation(PLAIN, folds=2))
    assert type(forecaster.evaluate()) is pd.DataFrame


def test_missing_days_are_filled_where_that_is_said(tmp_path):
    holes = ALONE.drop(index=DAYS[[20, 50]])
    with pytest.raises(UserError, match=r"not regular.*data\.gaps=interpolate"):
        fit(holes, tmp_path / "refused")
    found = fit(holes, tmp_path, gaps="interpolate").predict()
    assert list(found.index) == list(NEXT)


@pytest.mark.parametrize("name", ["h", "horizon", "prediction_length", "pred_len"])
def test_a_horizon_has_many_names(name):
    assert "pred_len=5" in Forecaster("ridge", **{name: 5}).overrides


def test_a_panel_of_hours_has_all_hours_of_a_night_with_a_change_of_the_clock(tmp_path):
    hours = pd.date_range(end=pd.Timestamp("2023-10-29 01:00", tz=BERLIN), periods=N, freq="h", name="ds")
    table = pd.concat({"a": ALONE.set_axis(hours), "b": ALONE.set_axis(hours)}, names=["shop"])
    found = fit(table, tmp_path).predict()
    after = [hours[-1] + pd.Timedelta(hours=step) for step in range(1, P + 1)]
    assert list(found.index) == [(shop, time) for shop in "ab" for time in after]
    assert [time.hour for time in after] == [2, 2, 3]


def test_an_automatic_run_leaves_the_ids_to_the_check_and_gives_the_index_back():
    frame = frame_of(MULTI, {}, panel=False)
    assert frame.layout == {"time_column": "ds"}
    ahead = pd.DataFrame({"unique_id": ["a", "b"], "ds": NEXT[:2], "y": [1.0, 2.0]})
    assert frame.kind.of_forecast(ahead, time="ds", time_zone=None).index.names == ["unique_id", "ds"]
    one = frame.kind.of_forecast(ahead.drop(columns="unique_id"), time="ds", time_zone=None)
    assert one.index.names == ["ds"]


def test_a_search_and_an_automatic_run_take_a_table_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = Forecaster("dlinear", seq_len=14, label_len=7, h=P, trainer={"max_epochs": 1}, overrides=WORDS)
    best = own.tune(POLARS, output="study", minutes=None, trials=1, space={"optim.lr": [1e-3, 1e-2]})
    assert type(best.predict()) is pl.DataFrame and best.study["data"] == "data.parquet"
    with pytest.raises(UserError, match=r"'sent' and 'arrived' may both be.*settings=\{'data\.time_column'"):
        Forecaster.auto(REFUSED["two times"][0], output="auto")
    with pytest.raises(UserError, match=r"leaderboard\.json is not there: Forecaster\.auto\(df, output="):
        best.leaderboard()


SETTINGS = {
    # keywords, the words of the command line
    "a mapping": ({"overrides": {"optim.lr": 1e-3, "data.where": {"region": "Albany"}}}, ["optim.lr=0.001"]),
    "words": ({"overrides": ["optim.lr=1e-3"]}, ["optim.lr=1e-3"]),
    "options": ({"data": "ETTh1", "attention": "full", "loss": "mae"}, ["data=ETTh1", "attention=full", "loss=mae"]),
    "keys of a group": ({"trainer": {"max_epochs": 3}}, ["trainer.max_epochs=3"]),
    "gaps": ({"gaps": "interpolate"}, ["data.gaps=interpolate"]),
    "odd text": ({"overrides": {"data.target": "a, b"}}, ["data.target='a, b'"]),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_are_keywords_a_mapping_or_words(kind):
    settings, words = SETTINGS[kind]
    assert set(words) <= set(Forecaster("informer", **settings).overrides)


def test_settings_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"pred_len=7 and horizon=5 both say how many steps are forecast"):
        Forecaster(horizon=5, pred_len=7)
    assert Forecaster(horizon=5, h=5).overrides.count("pred_len=5") == 1
    with pytest.raises(UserError, match=r"horizon=5 and h=7 both say how many steps are forecast"):
        Forecaster.auto(ALONE, output=tmp_path / "auto", horizon=5, h=7)
    with pytest.raises(UserError, match=r"horizons is no argument\. Did you mean 'horizon'\? The steps are called"):
        fit(ALONE, tmp_path).predict(horizons=P)
    with pytest.raises(UserError, match=r"'optm' is no key of the config\. Did you mean 'optim'\?"):
        Forecaster("ridge", optm="adam").fit(ALONE)
    with pytest.raises(UserError, match=r"overrides='loss=mae' is one text\. Give a list"):
        Forecaster(overrides="loss=mae")


STAMPS = PANEL["ds"]
REFUSED = {
    # a table, what is said of it
    "two times": (
        PLAIN.rename(columns={"ds": "sent"}).assign(arrived=DAYS + pd.Timedelta("1D")),
        r"'sent' and 'arrived' may both be the time\. .*overrides=\{'data\.time_column': 'sent'\}",
    ),
    "two usual ids": (PANEL.assign(item_id=PANEL["unique_id"]), "'unique_id' and 'item_id' may both be the id"),
    "ids without a usual name": (IN_ROWS, r"data\.id_column"),
    "a repeated index": (pd.concat([ALONE, ALONE.iloc[-3:]]), r"^the DataFrame: line .*data\.duplicates=mean"),
    "a repeated pair": (pd.concat([MULTI, MULTI.iloc[-3:]]), r"^the DataFrame: line .*shop2"),
    "an index of mixed kinds": (
        ALONE.set_axis([*DAYS[:-1], 7]),
        r"the DataFrame has times of several kinds in 'date': Timestamp and int\. .*pd\.to_datetime",
    ),
    "no rows": (ALONE.iloc[:0], r"the DataFrame has no rows"),
    "no rows of polars": (pl.from_pandas(PLAIN.iloc[:0]), r"the DataFrame has no rows"),
    "words alone": (
        ALONE.assign(y="much"),
        r"^the DataFrame: there is no column of numbers beside the time: y \(text\)",
    ),
    "lists": (ALONE.assign(y=[[1]] * N), r"^the DataFrame: .* there is no column beside 'date'"),
    "no time": (ALONE.reset_index(drop=True), r"the DataFrame has no time: .*pd\.to_datetime"),
    "a name twice": (ALONE.rename_axis("y"), r"'y' is a column and a level of the index"),
    "two columns of a name": (pd.concat([ALONE, ALONE], axis=1), r"'y' twice"),
    "a floor above a value": (
        ALONE.assign(y=-1.0 - ALONE["y"].abs()),
        r"^data\.floor=0: the DataFrame has -",
    ),
    "a lazy table": (pl.from_pandas(PLAIN).lazy(), r"a LazyFrame was given in place of a DataFrame"),
    "levels without a time": (PANEL.drop(columns="ds").set_index(["unique_id", "y"]), "no time"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_that_says_too_little_is_refused_with_what_to_type(kind, tmp_path):
    table, message = REFUSED[kind]
    with pytest.raises(UserError, match=message) as error:
        fit(table, tmp_path, data={"floor": 0} if "floor" in kind else {})
    assert "/tmp" not in str(error.value)


def test_what_was_refused_is_taken_once_it_is_said(tmp_path, expected):
    for number, (name, key, chosen) in enumerate(
        [("two times", "data.time_column", "sent"), ("ids without a usual name", "data.id_column", "shop")]
    ):
        keys = {"overrides": [*WORDS, f"hydra.run.dir={tmp_path}/{number}", f"{key}={chosen}"]}
        found = fit(REFUSED[name][0], tmp_path, **keys).predict()
        np.testing.assert_allclose(found["y"], expected["many" if "id" in key else "one"], rtol=1e-6)


def test_a_forecaster_takes_another_kind_than_it_was_fitted_with(tmp_path, expected):
    forecaster = fit(PANEL, tmp_path)
    other = MULTI.rename_axis(["shop", "day"])
    found = forecaster.predict(other)
    assert list(found.index.names) == ["shop", "day"]
    np.testing.assert_allclose(found["y"], expected["many"], rtol=1e-6)
    assert isinstance(ZoneInfo(BERLIN), ZoneInfo) and type(forecaster.predict(pl.from_pandas(PANEL))) is pl.DataFrame
    alone = forecaster.predict(other.loc[["shop1"]])
    np.testing.assert_allclose(alone["y"], expected["many"][:P], rtol=1e-6)
