"""Times that name what is meant in another way: hour 24, a little beside the grid, local midnights with an offset."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame, refusal
from data.panel_files import read

from forecast.data.describe.check import check_file
from forecast.data.reading.timestamps import read_timestamps
from forecast.data.values.calendar import on_grid

ROWS = 24 * 30
ENDS = pd.date_range("2023-01-01 01:00", periods=ROWS, freq="h")
HOUR_24 = {
    # columns of time that name the ends of hours
    "hours of a date": lambda day, hour: {"date": day.strftime("%d.%m.%Y"), "hour": hour.astype(str)},
    "hours of an ISO date": lambda day, hour: {"date": day.strftime("%Y-%m-%d"), "Hour Ending": hour.astype(str)},
    "clock": lambda day, hour: {"date": day.strftime("%m/%d/%Y"), "time": hour.map("{:02}:00".format)},
    "parts": lambda day, hour: {"year": day.year, "month": day.month, "day": day.day, "hour": hour},
    "minutes": lambda day, hour: {"time": day.strftime("%Y-%m-%d ") + hour.map("{:02}:00".format)},
    "seconds": lambda day, hour: {"time": day.strftime("%Y-%m-%dT") + hour.map("{:02}:00:00".format)},
    "day first": lambda day, hour: {"time": day.strftime("%d.%m.%Y ") + hour.map("{}:00".format)},
    "digits": lambda day, hour: {"time": day.strftime("%Y%m%d") + hour.map("{:02}00".format)},
}


def values(rows, period):
    noise = np.random.default_rng(5).normal(size=rows) / 10
    return (np.sin(2 * np.pi * np.arange(rows) / period) + noise).round(4) + 10


def as_panel(table):
    """The rows of three series, one below the other."""
    return pd.concat([table.assign(id=name, y=table["y"] + n) for n, name in enumerate(["one", "two", "three"])])


def time_columns(columns):
    names = list(columns)
    return names[0] if len(names) == 1 else tuple(names)


def notes(text, caplog):
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("kind", HOUR_24)
def test_hour_24_is_midnight_of_the_next_day(tmp_path, kind):
    day = (ENDS - pd.Timedelta(hours=1)).normalize()
    columns = HOUR_24[kind](day, pd.Series(ENDS.hour).replace(0, 24).to_numpy() + 0 * pd.Index(range(ROWS)))
    table = pd.DataFrame(columns).assign(y=values(ROWS, 24))
    table.to_csv(tmp_path / "series.csv", index=False)
    check = check_file(str(tmp_path / "series.csv"))
    assert check.command and check.freq == "h"
    assert check.layout.time_columns == tuple(columns)
    frame = read_frame(tmp_path / "series.csv", time_column=time_columns(columns))
    assert frame.freq == "h" and (frame.timestamps == ENDS).all()
    as_panel(table).to_csv(tmp_path / "panel.csv", index=False)
    panel = read(tmp_path / "panel.csv", id_column="id", time_column=time_columns(columns))
    assert panel.freq == "h" and panel.first == ENDS[0] and set(panel.lengths) == {ROWS}


def check_columns_of_their_types(write, path):
    day = (ENDS - pd.Timedelta(hours=1)).normalize()
    table = pd.DataFrame({"date": day, "hour": pd.Series(ENDS.hour).replace(0, 24), "y": values(ROWS, 24)})
    write(table)
    frame = read_frame(path, time_column=("date", "hour"))
    assert frame.freq == "h" and (frame.timestamps == ENDS).all()
    write(as_panel(table))
    panel = read(path, id_column="id", time_column=("date", "hour"))
    assert panel.freq == "h" and panel.first == ENDS[0] and set(panel.lengths) == {ROWS}


def test_hour_24_of_parquet_columns(tmp_path):
    path = tmp_path / "table.parquet"
    check_columns_of_their_types(lambda table: table.to_parquet(path), path)


def test_hour_24_of_a_sheet(tmp_path):
    pytest.importorskip("openpyxl", reason='needs openpyxl: pip install -e ".[xlsx]"')
    pytest.importorskip("defusedxml", reason='needs defusedxml: pip install -e ".[xlsx]"')
    path = tmp_path / "table.xlsx"
    check_columns_of_their_types(lambda table: table.to_excel(path, index=False), path)


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["2023-01-31 24:00", "2023-02-01 01:00"], ["2023-02-01", "2023-02-01 01:00"]),
        (["2023-01-31T24:00:00Z", "2023-02-01T01:00:00Z"], ["2023-02-01", "2023-02-01 01:00"]),
        (["2023-12-31 24:00+01:00", "2024-01-01 01:00+01:00"], ["2023-12-31 23:00", "2024-01-01"]),
        (["2023-01-31 24:15", "2023-02-01 01:00"], [None, "2023-02-01 01:00"]),
        (["2023-01-31 25:00", "2023-02-01 01:00"], [None, "2023-02-01 01:00"]),
        (["2023-02-30 24:00", "2023-02-01 01:00"], [None, "2023-02-01 01:00"]),
        (["2023 01 24", "2023 01 25"], ["2023-01-24", "2023-01-25"]),
        (["20230124", "20230125"], ["2023-01-24", "2023-01-25"]),
        (["25 Jan 24", "26 Jan 24"], ["2024-01-25", "2024-01-26"]),
    ],
)
def test_only_a_full_hour_24_is_midnight(cells, read):
    reading = read_timestamps({"time": cells}, missing=())
    assert list(reading.stamps) == [pd.NaT if one is None else pd.Timestamp(one) for one in read]


def beside(stamps, *nanoseconds):
    """Each stamp beside its own by one of these, in turn."""
    return stamps + pd.to_timedelta(np.resize(nanoseconds, len(stamps)), unit="ns")


def drifting(stamps, end):
    """Each stamp a little more beside its own, the last by `end` nanoseconds."""
    return stamps + pd.to_timedelta(np.linspace(0, end, len(stamps)).astype(int), unit="ns")


SECOND = 1_000_000_000
NEAR = {
    # freq, first, times as written
    "a millisecond early at last": ("h", "2007-10-01", lambda t: drifting(t, -8_000_000)),
    "early and late": ("15min", "2007-10-01", lambda t: beside(t, 0, -SECOND, 3 * SECOND, 10**6)),
    "half past the hour": ("h", "2007-10-01 00:30", lambda t: beside(t, 10**6, -(10**6), 10**6, 0)),
    "days": ("D", "2007-10-01", lambda t: beside(t, 0, -(10**6))),
    "weeks": ("W-MON", "2007-10-01", lambda t: beside(t, 0, -(10**6))),
    "months": ("MS", "1907-10-01", lambda t: beside(t, 0, -(10**6))),
}


@pytest.mark.parametrize("kind", NEAR)
def test_times_beside_a_regular_one_by_less_than_a_hundredth_of_a_step_are_that_one(tmp_path, caplog, kind):
    caplog.set_level("INFO")
    freq, first, written = NEAR[kind]
    stamps = pd.date_range(first, periods=800, freq=freq)
    table = pd.DataFrame({"date": written(stamps), "y": values(len(stamps), 24)})
    count = int((table["date"] != stamps).sum())
    sentence = f"{count} of 800 times lie within 1 % of a step of a regular one and are read as that: "
    table.to_csv(tmp_path / "series.csv", index=False)
    check = check_file(str(tmp_path / "series.csv"))
    assert check.command and check.layout.resample is None
    assert [text for text in check.findings.texts("note") if sentence in text]
    frame = read_frame(tmp_path / "series.csv")
    assert (frame.timestamps == stamps).all() and frame.freq == freq
    assert len(notes(sentence, caplog)) == 1
    as_panel(table).to_parquet(tmp_path / "panel.parquet", index=False)
    panel = read(tmp_path / "panel.parquet", id_column="id", cache=str(tmp_path / "cache"))
    assert panel.freq == freq and panel.first == stamps[0] and set(panel.lengths) == {800}


@pytest.mark.parametrize(
    "written",
    [
        lambda t: t + pd.Timedelta("7min"),  # regular as they are
        lambda t: t + pd.Timedelta("2ms"),
        lambda t: pd.date_range(t[0], periods=len(t), freq="3590s"),
        lambda t: beside(t, 0, 60 * SECOND, 0, -60 * SECOND),  # too far
        lambda t: t + pd.to_timedelta(np.random.default_rng(0).integers(0, 3600, len(t)), unit="s"),
    ],
)
def test_other_times_stay_where_they_are(written):
    for rows in (5, 300):
        stamps = written(pd.date_range("2007-10-01", periods=rows, freq="h"))
        times = stamps.as_unit("ns").asi8
        found, note = on_grid(times, np.diff(np.sort(times)))
        assert found is times and note is None


def test_rows_of_one_step_are_repeated_and_those_far_away_are_named(tmp_path):
    stamps = pd.date_range("2007-10-01", periods=300, freq="h")
    table = pd.DataFrame({"date": [*beside(stamps, 0, 1000), stamps[5] + pd.Timedelta("2ms")], "y": values(301, 24)})
    table.to_csv(tmp_path / "my.csv", index=False)
    assert "stands already (line 7), with other values" in refusal(tmp_path / "my.csv", sort=True)
    table.loc[300, "date"] = stamps[5] + pd.Timedelta("20min")
    table.to_csv(tmp_path / "my.csv", index=False)
    message = refusal(tmp_path / "my.csv")
    assert "line 302: 2007-10-01 05:20:00 follows" in message


def local(zone, *, first="2021-11-01", periods=600, freq="D"):
    return pd.date_range(first, periods=periods, freq=freq, tz=zone)


LOCAL = {
    "Berlin": local("Europe/Berlin"),
    "Lord Howe": local("Australia/Lord_Howe"),
    "a winter": local("Europe/Berlin", periods=140),
    "gas days": local("Europe/Berlin", first="2021-11-01 06:00"),
    "months": local("Europe/Berlin", freq="MS", first="2009-01-01", periods=160),
}


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("written", [str, lambda t: f"{t.tz_convert('UTC'):%Y-%m-%dT%H:%M:%SZ}"], ids=["offset", "UTC"])
def test_instants_a_day_apart_are_days_in_the_zone_that_is_set(tmp_path, kind, written):
    stamps = LOCAL[kind]
    table = pd.DataFrame({"date": [written(stamp) for stamp in stamps], "y": values(len(stamps), 7)})
    table.to_csv(tmp_path / "series.csv", index=False)
    fix = "Set data.time_zone=Europe/Berlin, or the zone of the data, or data.time_zone=UTC."
    assert fix in refusal(tmp_path / "series.csv")
    assert fix in check_file(str(tmp_path / "series.csv")).findings.texts("error")[0]
    frame = read_frame(tmp_path / "series.csv", time_zone=str(stamps.tz))
    assert (frame.timestamps == stamps.tz_localize(None)).all() and frame.freq == stamps.freqstr


def test_a_zone_that_is_set_is_kept_and_hours_are_instants(tmp_path):
    stamps = local("Europe/Berlin")
    table = pd.DataFrame({"date": [stamp.isoformat(" ") for stamp in stamps], "y": values(600, 7)})
    table.to_csv(tmp_path / "my.csv", index=False)
    assert "not regular" in refusal(tmp_path / "my.csv", time_zone="UTC")
    cells = [stamp.isoformat(" ") for stamp in local("Europe/Berlin", freq="h", periods=5000)]
    reading = read_timestamps({"time": cells}, missing=())
    assert reading.settings == {"data.time_zone": "UTC"}


def test_local_midnights_of_a_typed_panel_are_days(tmp_path):
    stamps = pd.date_range("2022-01-01", periods=300, freq="D", tz="Europe/Berlin")
    hours = pd.date_range("2022-01-01", periods=300, freq="h", tz="Europe/Berlin")
    for times, first, freq in ((stamps, "2022-01-01 00:00", "D"), (hours, "2021-12-31 23:00", "h")):
        as_panel(pd.DataFrame({"date": times, "y": values(300, 7)})).to_parquet(tmp_path / "panel.parquet", index=False)
        panel = read(tmp_path / "panel.parquet", id_column="id")
        assert panel.freq == freq and panel.first == pd.Timestamp(first) and set(panel.lengths) == {300}
