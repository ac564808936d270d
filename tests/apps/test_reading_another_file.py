"""predict and evaluate read another file as the one trained on, but for what is said of it; a DataFrame is no file."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from checkpoints import LENGTHS, write_untrained
from data.csv_files import read_frame
from program import call, refusal

from forecast import Forecaster
from forecast.checkpoint.load import load_checkpoint
from forecast.data.reading.layout import Layout

ROWS = 300


@pytest.fixture(scope="module")
def values():
    steps = np.arange(ROWS)
    noise = np.random.default_rng(11).normal(size=(ROWS, 2))
    times = pd.date_range("2021-01-01", periods=ROWS, freq="D")
    return pd.DataFrame(noise + np.sin(steps / 7)[:, None] + [3, 1200], columns=["a", "4046"], index=times).round(3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reading")


def written(values, path, *, time_format="%d/%m/%Y", separator=";", missing=None, **columns):
    """The values as a file, in an order of day and month that only many rows tell."""
    table = values.astype(object)
    if missing is not None:
        table.iloc[5, 0] = missing
    table = table.assign(**columns)
    table.insert(0, "when", values.index.strftime(time_format))
    table.to_csv(path, index=False, sep=separator)
    return path


@pytest.fixture(scope="module")
def trained(values, folder):
    """Trained on the rows of Albany, of a file with semicolons, days first, and M for a missing value."""
    both = [
        written(values + shift, folder / f"{city}.csv", missing="M", city=city)
        for city, shift in (("Albany", 0), ("Rome", 50))
    ]
    path = folder / "trained.csv"
    path.write_text(both[0].read_text() + both[1].read_text().split("\n", 1)[1])
    options = ["data=csv", f"data.path={path}", "data.time_column=when", "data.separator=';'", "data.missing=[M]"]
    own = ["data.where={city: Albany}", "data.gaps=interpolate", "data.target=4046"]
    return write_untrained(folder / "trained.ckpt", *LENGTHS, *options, *own)


def same(one, other):
    pd.testing.assert_frame_equal(one, other)


def test_the_format_that_training_found_is_in_the_checkpoint(trained):
    assert load_checkpoint(trained).data["time_format"] == "%d/%m/%Y"


def test_a_file_written_alike_needs_no_word(trained, values, folder):
    forecaster = Forecaster.load(trained)
    path = written(values, folder / "alike.csv", missing="M", city="Albany")
    same(forecaster.predict(path), forecaster.predict())


def test_what_differs_is_said(trained, values, folder, capsys):
    path = written(values, folder / "typed.csv", separator=",", time_format="%m|%d|%Y", missing=-99)
    typed = ["data.separator=','", "data.time_format='%m|%d|%Y'", "data.where={}", "data.missing=[-99]"]
    common = [f"ckpt_path={trained}", f"data.path={path}", *typed]
    call("predict", *common, f"output={folder}/typed_forecast.csv", f"hydra.run.dir={folder}/p")
    forecast = pd.read_csv(folder / "typed_forecast.csv")
    expected = Forecaster.load(trained).predict()
    assert forecast["when"].tolist() == expected["when"].dt.strftime("%m|%d|%Y").tolist()
    np.testing.assert_allclose(forecast[["a", "4046"]], expected[["a", "4046"]], rtol=0, atol=0.5e-5)
    capsys.readouterr()
    call("evaluate", *common, "split=all", f"hydra.run.dir={folder}/e")
    assert "Left out" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["data.separator=';'"],
            "data.separator says how another file is read, and none is named. Add data.path=FILE.",
        ),
        (["data.path=x.csv", "data.columns=[a]"], "data.columns: the model reads the columns that it was trained on"),
        (["data.path=x.csv", "data.duplicates=men"], "data.duplicates=men: must be 'as_trained' or 'error'"),
        (["data.path=x.csv", "data.where=Albany"], "data.where=Albany: must be"),
        (["data.path=x.csv", "data.seperator=';'"], "data.seperator"),
    ],
)
def test_options_that_cannot_be_are_refused(trained, folder, capsys, words, message):
    text = refusal(
        capsys, "predict", f"ckpt_path={trained}", *words, f"output={folder}/f.csv", f"hydra.run.dir={folder}/r"
    )
    assert message in text


def test_a_short_history_that_tells_neither_days_from_months_nor_thousands_is_read_as_in_training(folder):
    times = pd.date_range("2021-01-01", periods=ROWS, freq="h")
    hourly = pd.DataFrame({"a": np.random.default_rng(2).normal(size=ROWS)}, index=times)
    path = written(hourly, folder / "hourly.csv", time_format="%d/%m/%Y %H:%M")
    options = ["data=csv", f"data.path={path}", "data.time_column=when", "data.separator=';'"]
    forecaster = Forecaster.load(write_untrained(folder / "hourly.ckpt", *LENGTHS, *options))
    points = hourly.iloc[24:47].assign(a=["1.143", "837"] * 11 + ["12"])
    few = written(points, folder / "few.csv", time_format="%d/%m/%Y %H:%M")
    assert forecaster.predict(few)["when"].iloc[0] == pd.Timestamp("2021-01-02 23:00")


# a DataFrame


def test_a_table_is_read_right_whatever_the_file_was_like(trained, values):
    forecaster = Forecaster.load(trained)
    complete = values.copy()
    complete.iloc[5, 0] = np.nan
    expected = forecaster.predict().astype({"when": values.index.dtype})
    same(forecaster.predict(complete).reset_index(names="when"), expected)
    same(
        forecaster.predict(complete.rename_axis(index="time")),
        expected.set_index("when").rename_axis("time").asfreq("D"),
    )
    same(forecaster.predict(complete.reset_index(names="when")), expected)
    same(forecaster.predict(complete.reset_index(names="when").iloc[::-1]), expected)


def test_a_table_as_the_file_holds_it_is_read_as_the_file(trained, folder):
    forecaster = Forecaster.load(trained)
    raw = pd.read_csv(folder / "trained.csv", sep=";")
    found = forecaster.predict(raw)
    found["when"] = pd.to_datetime(found["when"], format="%d/%m/%Y").astype("datetime64[ns]")
    same(found, forecaster.predict())


def test_a_table_is_evaluated_as_its_file_is(trained, values, folder):
    forecaster = Forecaster.load(trained)
    path = written(values, folder / "evaluated.csv", city="Albany")
    same(forecaster.evaluate(values), forecaster.evaluate(path))


def test_a_forecast_is_written_as_the_file_that_it_continues(trained, values, folder):
    path, layout = folder / "own.csv", Layout(time_column="when", separator=";", where={"city": "Albany"})
    common = ["predict", f"ckpt_path={trained}", f"output={path}", f"hydra.run.dir={folder}/own"]
    call(*common)
    header, *rows = path.read_text().splitlines()
    exact = Forecaster.load(trained).predict()
    assert header == "when;city;a;4046" and rows[0].startswith("28/10/2021;Albany;")
    table = read_frame(path, replace(layout, time_format="%d/%m/%Y"), columns=["a", "4046"])
    assert table.timestamps.tolist() == exact["when"].tolist()
    np.testing.assert_allclose(table.values, exact[["a", "4046"]], rtol=0, atol=0.5e-5)
    # another file is continued as that one is written, in place of the earlier forecast
    other = written(values, folder / "other_style.csv", separator=",", time_format="%Y-%m-%dT%H:%M", city="Albany")
    call(*common, f"data.path={other}", "data.separator=','")
    assert path.read_text().splitlines()[1].startswith("2021-10-28T00:00,Albany,")
    call(*common)
    assert path.read_text().splitlines() == [header, *rows]


# several columns of time, and none


@pytest.fixture(scope="module")
def in_parts(values, folder):
    table = values.assign(year=values.index.year, month=values.index.month, day=values.index.day)
    table.to_csv(folder / "parts.csv", index=False)
    parts = "data.time_column=[year,month,day]"
    return write_untrained(folder / "parts.ckpt", *LENGTHS, "data=csv", f"data.path={folder}/parts.csv", parts)


def test_a_time_in_several_columns_is_called_date_in_the_forecast(in_parts, values, folder):
    forecaster = Forecaster.load(in_parts)
    forecast = forecaster.predict()
    assert forecast.columns.tolist() == ["date", "a", "4046"]
    assert forecast["date"].iloc[0] == values.index[-1] + pd.Timedelta("1D")
    same(forecaster.predict(values).reset_index(names="date"), forecast.astype({"date": values.index.dtype}))
    same(forecaster.predict(pd.read_csv(folder / "parts.csv")), forecast)


def test_steps_without_a_calendar_are_numbered(values, folder):
    values.to_csv(folder / "steps.csv", index=False)
    options = ["data=csv", f"data.path={folder}/steps.csv", "data.time_column=null", "data.freq=steps"]
    forecaster = Forecaster.load(write_untrained(folder / "steps.ckpt", *LENGTHS, *options))
    forecast = forecaster.predict()
    assert forecast.columns.tolist() == ["step", "a", "4046"]
    assert forecast["step"].tolist() == [301, 302, 303, 304, 305]
    same(forecaster.predict(values.reset_index(drop=True)), forecast)
    call("predict", f"ckpt_path={folder}/steps.ckpt", f"output={folder}/s.csv", f"hydra.run.dir={folder}/s")
    assert pd.read_csv(folder / "s.csv")["step"].tolist() == [301, 302, 303, 304, 305]


def test_rows_counted_from_a_start_have_dates_in_the_forecast(values, folder):
    values.to_csv(folder / "started.csv", index=False)
    time = ["data.time_column=null", "data.freq=D", "data.start=2021-01-01"]
    options = ["data=csv", f"data.path={folder}/started.csv", *time]
    forecaster = Forecaster.load(write_untrained(folder / "started.ckpt", *LENGTHS, *options))
    assert forecaster.predict()["date"].iloc[0] == values.index[-1] + pd.Timedelta("1D")


def test_a_parquet_file_is_read_as_the_dataframe_that_it_holds(values, folder, trained):
    path = folder / "history.parquet"
    values.rename_axis("when").assign(city="Albany").to_parquet(path)
    model = Forecaster.load(trained)
    same(model.predict(path).astype({"when": values.index.dtype}), model.predict(values).reset_index(names="when"))
