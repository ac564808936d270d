"""Times that name what is meant in another way: hour 24, a little beside the grid, local midnights with an offset."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame
from data.panel.panel_files import read

from forecast.data.guessing.check import check_file
from forecast.data.reading.timestamps import read_timestamps

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
def test_hour_24_is_midnight_of_the_next_day(tmp_path, caplog, kind):
    caplog.set_level("INFO")
    day = (ENDS - pd.Timedelta(hours=1)).normalize()
    columns = HOUR_24[kind](day, pd.Series(ENDS.hour).replace(0, 24).to_numpy() + 0 * pd.Index(range(ROWS)))
    table = pd.DataFrame(columns).assign(y=values(ROWS, 24))
    table.to_csv(tmp_path / "series.csv", index=False)
    check = check_file(str(tmp_path / "series.csv"))
    assert check.readable and check.command and check.freq == "h" and not check.choices
    assert check.layout.time_columns == tuple(columns)
    (note,) = [text for text in check.findings.texts("note") if "Hour 24" in text]
    assert "midnight of the next day" in note and "30 rows, the first " in note
    frame = read_frame(tmp_path / "series.csv", time_column=time_columns(columns))
    assert frame.freq == "h" and (frame.timestamps == ENDS).all()
    assert len(notes("Hour 24", caplog)) == 1
    as_panel(table).to_csv(tmp_path / "panel.csv", index=False)
    caplog.clear()
    panel = read(tmp_path / "panel.csv", id_column="id", time_column=time_columns(columns))
    assert panel.freq == "h" and panel.first == ENDS[0] and set(panel.lengths) == {ROWS}
    assert len(notes("Hour 24", caplog)) == 1


@pytest.mark.parametrize("suffix", ["", "table.parquet"])
def test_hour_24_of_columns_of_their_types(tmp_path, suffix):
    path = tmp_path / (suffix or "table.xlsx")
    day = (ENDS - pd.Timedelta(hours=1)).normalize()
    table = pd.DataFrame({"date": day, "hour": pd.Series(ENDS.hour).replace(0, 24), "y": values(ROWS, 24)})
    table.to_parquet(path) if suffix else table.to_excel(path, index=False)
    frame = read_frame(path, time_column=("date", "hour"))
    assert frame.freq == "h" and (frame.timestamps == ENDS).all()
    table = as_panel(table)
    table.to_parquet(path) if suffix else table.to_excel(path, index=False)
    panel = read(path, id_column="id", time_column=("date", "hour"))
    assert panel.freq == "h" and panel.first == ENDS[0] and set(panel.lengths) == {ROWS}


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
    assert any("Hour 24" in note for note in reading.notes) == ("24:00" in cells[0] and read[0] is not None)
