"""Forecaster takes tables of many kinds, with the values of the plain one, and gives back what it was given."""

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
    keys = {"seq_len": 14, "pred_len": P, "overrides": [*WORDS, f"hydra.run.dir={folder}/run"], **settings}
    return Forecaster("ridge", **keys).fit(table)


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    """The forecasts after plain tables, columns of ids, of time and y, from CSV files."""

    def of_file(table):
        folder = tmp_path_factory.mktemp("plain")
        table.to_csv(folder / "t.csv", index=False)
        words = [f"data.path={folder}/t.csv", "data.time_column=ds"]
        words += ["data.id_column=unique_id"] if "unique_id" in table else []
        overrides = [*WORDS, f"hydra.run.dir={folder}/run", "data=csv", *words]
        found = Forecaster("ridge", seq_len=14, pred_len=P, overrides=overrides).fit().predict()
        return found.astype({"ds": table["ds"].dtype})

    steps = {"days": DAYS, "hours": HOURS, "months": MONTHS, "weeks": WEEKS, "years": YEARS}
    plain = {"panel": PANEL} | {name: PLAIN.assign(ds=times) for name, times in steps.items()}
    return {name: (table, of_file(table)) for name, table in plain.items()}


NEXT = pd.date_range(DAYS[-1], periods=P + 1, freq="D")[1:]
HOURS, MONTHS, WEEKS, YEARS = (pd.date_range("1901-01-02", periods=N, freq=step) for step in ("h", "MS", "W-WED", "YS"))
IN_ROWS = PANEL.rename(columns={"unique_id": "shop", "ds": "day"})
MULTI = PANEL.set_index(["unique_id", "ds"])
POLARS = pl.from_pandas(PLAIN)


def times(change):
    """A kind whose column of time is changed."""
    return lambda table: table.assign(ds=change(table["ds"]))


def index(change):
    """A kind whose time, changed, is the index."""
    return lambda table: times(change)(table).set_index("ds")


def numbers(kind):
    """A kind whose numbers have a type."""
    return lambda table: table.astype({"y": kind})


def ids(*names, kind=None):
    """A kind with other ids."""
    return lambda table: table.assign(
        unique_id=pd.Series(table["unique_id"].map(dict(zip(("shop1", "shop2"), names, strict=True))), dtype=kind)
    )


def arrow(table):
    return pa.Table.from_pandas(table, preserve_index=False)


def polars(**kinds):
    return lambda table: pl.from_pandas(table).with_columns(pl.col(name).cast(kind) for name, kind in kinds.items())


def same(cells):
    return cells


def days_in_berlin(cells):
    return cells.dt.tz_localize(BERLIN)


def hours_in_berlin(cells):
    return cells.dt.tz_localize("UTC").dt.tz_convert(BERLIN)


def text(form):
    return lambda cells: cells.dt.strftime(form)


def dates(cells):
    return cells.dt.date


KINDS = {
    # what kind of table; what a plain table of days, hours, ... becomes in it
    "DatetimeIndex": ("days", index(same)),
    "DatetimeIndex without a name": ("days", lambda table: index(same)(table).rename_axis(None)),
    "DatetimeIndex called 0": ("days", lambda table: index(same)(table).rename_axis(0)),
    "DatetimeIndex of seconds": ("days", index(lambda cells: cells.dt.as_unit("s"))),
    "PeriodIndex": ("days", index(lambda cells: cells.dt.to_period("D"))),
    "PeriodIndex of months": ("months", index(lambda cells: cells.dt.to_period("M"))),
    "PeriodIndex of weeks": ("weeks", index(lambda cells: cells.dt.to_period("W-TUE"))),
    "index in Berlin": ("days", index(days_in_berlin)),
    "index of hours in Berlin": ("hours", index(hours_in_berlin)),
    "index of hours in UTC": ("hours", index(lambda cells: cells.dt.tz_localize("UTC"))),
    "index of text": ("days", index(text("%d.%m.%Y"))),
    "index of dates": ("days", index(dates)),
    "index of one level": ("days", lambda table: table.set_index(pd.MultiIndex.from_arrays([table["ds"]]))[["y"]]),
    "index of years": ("years", lambda table: index(lambda cells: cells.dt.year)(table).rename_axis("year")),
    "Series": ("days", lambda table: index(same)(table)["y"].rename("sales")),
    "Series without a name": ("days", lambda table: index(same)(table)["y"].rename(None)),
    "Series called by a pair": ("days", lambda table: index(same)(table)["y"].rename(("a", "b"))),
    "Series of periods": ("days", lambda table: index(lambda cells: cells.dt.to_period("D"))(table)["y"]),
    "Series in Berlin": ("days", lambda table: index(days_in_berlin)(table)["y"]),
    "column": ("days", times(same)),
    "column found by its values": ("days", lambda table: table.rename(columns={"ds": "Messung"})),
    "columns as AutoGluon has them": ("days", lambda table: table.set_axis(["timestamp", "target"], axis=1)),
    "column called 0": ("days", lambda table: index(same)(table).set_axis([0], axis=1)),
    "column of text": ("days", lambda table: times(text("%d.%m.%Y"))(table).rename(columns={"ds": "tag"})),
    "column of extension text": ("days", times(lambda cells: text("%Y-%m-%d")(cells).astype("string"))),
    "column of categories": ("days", times(lambda cells: text("%Y-%m-%d")(cells).astype("category"))),
    "column of whole numbers": ("days", times(lambda cells: text("%Y%m%d")(cells).astype(int))),
    "column of unix seconds": ("days", times(lambda cells: (cells - pd.Timestamp(0)) // pd.Timedelta("1s"))),
    "column of text with offsets": ("hours", times(lambda cells: hours_in_berlin(cells).astype(str))),
    "column of dates": ("days", times(dates)),
    "column of periods": ("days", times(lambda cells: cells.dt.to_period("D"))),
    "column in Berlin": ("days", times(days_in_berlin)),
    "column of Arrow": ("days", times(lambda cells: cells.astype("timestamp[us][pyarrow]"))),
    "column beside names of rows": ("days", lambda table: table.rename_axis("number")),
    "float32": ("days", numbers("float32")),
    "Float64": ("days", numbers("Float64")),
    "floats of Arrow": ("days", numbers("double[pyarrow]")),
    "polars": ("days", polars()),
    "polars dates": ("days", polars(ds=pl.Date)),
    "polars text": ("days", lambda table: pl.from_pandas(times(text("%Y-%m-%d"))(table))),
    "polars categories": (
        "days",
        lambda table: KINDS["polars text"][1](table).with_columns(pl.col("ds").cast(pl.Categorical)),
    ),
    "polars in Berlin": ("hours", lambda table: pl.from_pandas(times(hours_in_berlin)(table))),
    "polars float32": ("days", polars(y=pl.Float32)),
    "pyarrow": ("days", arrow),
    "pyarrow dates": ("days", lambda table: arrow(times(dates)(table))),
    "pyarrow in Berlin": ("hours", lambda table: arrow(times(hours_in_berlin)(table))),
    "panel": ("panel", same),
    "panel as AutoGluon has it": ("panel", lambda table: table.set_axis(["item_id", "timestamp", "target"], axis=1)),
    "panel of text": ("panel", times(text("%d.%m.%Y"))),
    "panel of periods": ("panel", times(lambda cells: cells.dt.to_period("D"))),
    "panel in Berlin": ("panel", times(days_in_berlin)),
    "whole ids": ("panel", ids(7, 10)),
    "ids of Int64": ("panel", ids(7, 10, kind="Int64")),
    "ids of Arrow": ("panel", ids(7, 10, kind="int64[pyarrow]")),
    "decimal ids": ("panel", ids(7.0, 10.0)),
    "ids with zeros in front": ("panel", ids("007", "010")),
    "ids of categories": ("panel", ids("a", "b", kind=pd.CategoricalDtype(["c", "b", "a"]))),
    "ids of whole categories": ("panel", ids(7, 10, kind="category")),
    "ids of objects": ("panel", ids("a", "b", kind=object)),
    "ids in the index": ("panel", lambda table: table.set_index("unique_id")),
    "whole ids in the index": ("panel", lambda table: ids(7, 10)(table).set_index("unique_id")),
    "MultiIndex": ("panel", lambda table: table.set_index(["unique_id", "ds"])),
    "MultiIndex with the time first": ("panel", lambda table: table.set_index(["ds", "unique_id"])),
    "MultiIndex of three": ("panel", lambda table: table.assign(land="n").set_index(["land", "unique_id", "ds"])),
    "MultiIndex without names": ("panel", lambda table: table.set_index(["unique_id", "ds"]).rename_axis([None] * 2)),
    "MultiIndex of periods": (
        "panel",
        lambda table: times(lambda cells: cells.dt.to_period("D"))(table).set_index(["unique_id", "ds"]),
    ),
    "MultiIndex of whole ids in Berlin": (
        "panel",
        lambda table: times(days_in_berlin)(ids(7, 10)(table)).set_index(["unique_id", "ds"]),
    ),
    "Series with a MultiIndex": ("panel", lambda table: table.set_index(["unique_id", "ds"])["y"]),
    "polars panel": ("panel", polars()),
    "polars whole ids": ("panel", lambda table: pl.from_pandas(ids(7, 10)(table))),
    "polars categories of ids": ("panel", polars(unique_id=pl.Categorical)),
    "polars enum of ids": ("panel", polars(unique_id=pl.Enum(["shop2", "shop1"]))),
    "pyarrow panel": ("panel", arrow),
    "pyarrow whole ids": ("panel", lambda table: arrow(ids(7, 10)(table))),
}
WHOLE = {  # in; out
    "index of one level": lambda table: table.set_index("ds"),
    "column beside names of rows": same,
}


def in_pandas(table):
    return table if isinstance(table, pd.DataFrame | pd.Series) else table.to_pandas()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_each_kind_comes_back_as_it_went_in(kind, tmp_path, ahead):
    name, changed = KINDS[kind]
    plain, forecast = ahead[name]
    table, expected = changed(plain), WHOLE.get(kind, changed)(forecast)
    forecaster = fit(table, tmp_path)
    loaded = Forecaster.load(forecaster.folder / "checkpoints/best.ckpt")
    for found in (forecaster.predict(), forecaster.predict(table), loaded.predict(), loaded.predict(table)):
        assert type(found) is type(expected)
        assert getattr(found, "schema", None) == getattr(expected, "schema", None)
        check = pd.testing.assert_series_equal if isinstance(found, pd.Series) else pd.testing.assert_frame_equal
        check(in_pandas(found), in_pandas(expected), rtol=1e-5, check_freq=False)


def test_the_index_of_a_forecast_goes_on_from_that_of_the_table(tmp_path):
    forecaster = fit(ALONE, tmp_path)
    after = forecaster.predict()
    assert after.index.freq == ALONE.index.freq and after.index.dtype == ALONE.index.dtype
    pd.testing.assert_index_equal(pd.concat([ALONE, after]).index, DAYS.append(NEXT))
    assert type(forecaster.predict(ALONE["y"])) is pd.Series and type(forecaster.predict(POLARS)) is pl.DataFrame


def test_a_night_with_a_change_of_the_clock_has_midnights_before_and_after_it(tmp_path):
    before = ALONE.set_axis(pd.date_range(end="2024-03-30", periods=N, freq="D", tz=BERLIN))
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
    assert found.to_pandas().equals(forecaster.backtest(PLAIN, folds=2))
    assert type(forecaster.evaluate()) is pd.DataFrame


def test_missing_days_are_filled_where_that_is_said(tmp_path):
    holes = ALONE.drop(index=DAYS[[20, 50]])
    with pytest.raises(UserError, match=r"df\.iloc\[20\]: before it 1 row .*data\.gaps=interpolate"):
        fit(holes, tmp_path / "refused")
    found = fit(holes, tmp_path, gaps="interpolate").predict()
    assert list(found.index) == list(NEXT)


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


def test_an_automatic_run_takes_a_table_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"'sent' and 'arrived' may both be.*Forecaster\.auto\(\.\.\., time_column='sent'\)"
    ):
        Forecaster.auto(REFUSED["two times"][0], output="auto")
    with pytest.raises(UserError, match=r"leaderboard\.json is not there: Forecaster\.auto\(df, output="):
        fit(ALONE, tmp_path).leaderboard()


SETTINGS = {
    # keywords, the words of the command line
    "a mapping": ({"overrides": {"optim.lr": 1e-3, "data.where": {"region": "Albany"}}}, ["optim.lr=0.001"]),
    "words": ({"overrides": ["optim.lr=1e-3"]}, ["optim.lr=1e-3"]),
    "options": ({"data": "ETTh1", "attention": "full", "loss": "mae"}, ["data=ETTh1", "attention=full", "loss=mae"]),
    "keys of a group": ({"trainer": {"max_epochs": 3}}, ["trainer.max_epochs=3"]),
    "keys of the data": (
        {"target": "y", "known": ["a b"], "gaps": "interpolate", "floor": 0, "id_column": "shop", "where": {"a": "b"}},
        ["data.target=y", "data.known=['a b']", "data.gaps=interpolate", "data.floor=0", "data.where={a: b}"],
    ),
    "odd text": ({"overrides": {"data.target": "a, b"}}, ["data.target='a, b'"]),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_are_keywords_a_mapping_or_words(kind):
    settings, words = SETTINGS[kind]
    assert set(words) <= set(Forecaster("informer", **settings).overrides)


def test_settings_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"'h' is no key of the config\. Did you mean 'pred_len'\?"):
        Forecaster("ridge", h=5).fit(ALONE)
    with pytest.raises(UserError, match=r"horizons is no argument of Forecaster\.auto, and no key"):
        Forecaster.auto(ALONE, output=tmp_path / "auto", horizons=5)
    with pytest.raises(UserError, match=r"'optm' is no key of the config\. Did you mean 'optim'\?"):
        Forecaster("ridge", optm="adam").fit(ALONE)
    with pytest.raises(UserError, match=r"^data\.target is a keyword and in overrides\. Give it once$"):
        Forecaster("ridge", target="y", overrides={"data.target": "x"})
    with pytest.raises(UserError, match=r"overrides='loss=mae' is one text\. Give a list"):
        Forecaster(overrides="loss=mae")


STAMPS = PANEL["ds"]
REFUSED = {
    # a table, what is said of it
    "two times": (
        PLAIN.rename(columns={"ds": "sent"}).assign(arrived=DAYS + pd.Timedelta("1D")),
        r"'sent' and 'arrived' may both be the time\. .*Forecaster\(\.\.\., time_column='sent'\)",
    ),
    "two usual ids": (PANEL.assign(item_id=PANEL["unique_id"]), "'unique_id' and 'item_id' may both be the id"),
    "ids without a usual name": (IN_ROWS, r"df\.iloc\[120\]: .* data\.id_column=.* set data\.duplicates=mean"),
    "a repeated index": (
        pd.concat([ALONE, 2 * ALONE.iloc[-3:]]),
        r"the DataFrame: df\.iloc\[120\]: .*data\.duplicates=mean",
    ),
    "a repeated pair": (pd.concat([MULTI, 2 * MULTI.iloc[-3:]]), r"^the DataFrame: df\.iloc\[240\]: .*shop2"),
    "an index of mixed kinds": (
        ALONE.set_axis([*DAYS[:-1], 7]),
        r"^the DataFrame: df\.iloc\[119\], column 'date': '7' is no timestamp",
    ),
    "no rows": (ALONE.iloc[:0], r"the DataFrame has no rows"),
    "no rows of polars": (pl.from_pandas(PLAIN.iloc[:0]), r"the DataFrame has no rows"),
    "words alone": (
        ALONE.assign(y="much"),
        r"^the DataFrame: there is no column of numbers beside the time: y \(text\)",
    ),
    "lists": (ALONE.assign(y=[[1]] * N), r"^the DataFrame: there is no column of numbers beside the time"),
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


def test_what_was_refused_is_taken_once_it_is_said(tmp_path, ahead):
    for number, (name, key, chosen) in enumerate(
        [("two times", "time_column", "sent"), ("ids without a usual name", "id_column", "shop")]
    ):
        keys = {"overrides": [*WORDS, f"hydra.run.dir={tmp_path}/{number}"], key: chosen}
        found = fit(REFUSED[name][0], tmp_path, **keys).predict()
        np.testing.assert_allclose(found["y"], ahead["panel" if "id" in key else "days"][1]["y"], rtol=1e-6)


def test_a_forecaster_takes_another_kind_than_it_was_fitted_with(tmp_path, ahead):
    forecaster = fit(PANEL, tmp_path)
    other = MULTI.rename_axis(["shop", "day"])
    found = forecaster.predict(other)
    assert list(found.index.names) == ["shop", "day"]
    np.testing.assert_allclose(found["y"], ahead["panel"][1]["y"], rtol=1e-6)
    assert type(forecaster.predict(pl.from_pandas(PANEL))) is pl.DataFrame
    alone = forecaster.predict(other.loc[["shop1"]])
    np.testing.assert_allclose(alone["y"], ahead["panel"][1]["y"][:P], rtol=1e-6)
