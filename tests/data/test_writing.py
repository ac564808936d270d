"""A forecast is written as its file, so that it can be appended and is read back as what it was."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame

from forecast.data.reading.layout import Layout
from forecast.data.values.calendar import future_timestamps
from forecast.data.writing import ForecastTable, Writing

N, P = 47, 7
STD = np.array([1.7, 240.0])


def number(value, decimals, layout):
    text, decimal = f"{value:.{decimals}f}", layout.decimal or "."
    if layout.thousands:
        text = f"{value:,.{decimals}f}".replace(",", "~").replace(".", decimal).replace("~", layout.thousands)
    return text.replace(".", decimal) if not layout.thousands else text


def write(path, layout, freq, cells_of, start):
    """A file of N rows in a layout. cells_of: a timestamp as the cells of the columns of time."""
    stamps = pd.date_range(start, periods=N, freq=freq)
    values = np.random.default_rng(7).normal(size=(N, 2)) * STD + [3, 1200]
    rows = [[*layout.time_columns, "a", "b"]]
    rows += [
        [*cells_of(t), number(a, 2, layout), number(b, 1, layout)] for t, (a, b) in zip(stamps, values, strict=True)
    ]
    path.write_text("".join(layout.separator.join(row) + "\n" for row in rows), encoding="utf-8")


def forecast_of(frame):
    stamps = future_timestamps(frame.timestamps[-1], frame.freq, P)
    values = np.random.default_rng(8).normal(size=(P, 2)) * STD + [3, 1200]
    return pd.DataFrame({"date": stamps, "a": values[:, 0], "b": values[:, 1]})


def fmt(text):
    return lambda stamp: [stamp.strftime(text)]


def berlin(stamp):
    return [stamp.tz_localize("Europe/Berlin").isoformat()]


def from_berlin(stamp):
    return [f"{stamp.tz_localize('Europe/Berlin').tz_convert('UTC'):%Y-%m-%d %H:%MZ}"]


def to_24(stamp):
    """The day and the hour, 1 to 24, that end there."""
    day = stamp - pd.Timedelta("1ns")
    return f"{day:%d.%m.%Y}", f"{stamp.hour or 24}"


PARTS, MIXED = {"time_column": ("year", "month", "day")}, {"time_column": ("Day", "Month", "Year")}
GERMAN = {"separator": ";", "decimal": ","}
CASES = {
    "ISO": ("h", fmt("%Y-%m-%d %H:%M:%S"), {}, "2021-03-01 00:00:00"),
    "ISO, a T and no seconds": ("15min", fmt("%Y-%m-%dT%H:%M"), {}, ""),
    "ISO, milliseconds": ("100ms", lambda t: [t.isoformat(timespec="milliseconds")], {}, ""),
    "days": ("D", fmt("%Y-%m-%d"), {}, ""),
    "business days": ("B", fmt("%Y/%m/%d"), {}, ""),
    "months": ("MS", fmt("%Y-%m"), {}, "1949-01"),
    "month ends": ("ME", fmt("%Y-%m-%d"), {}, ""),
    "years": ("YS", fmt("%Y"), {}, ""),
    "quarters": ("QS", lambda t: [f"{t.year}Q{t.quarter}"], {"time_format": "quarter"}, ""),
    "quarters, the year last": ("QS", lambda t: [f"q{t.quarter} {t.year}"], {"time_format": "quarter"}, ""),
    "day first": ("h", fmt("%d/%m/%Y %H:%M"), {}, ""),
    "month first, without zeros": ("D", lambda t: [f"{t.month}/{t.day}/{t.year}"], {}, ""),
    "no day below ten yet": ("h", lambda t: [f"{t.month}/{t.day}/{t.year} {t:%H:%M}"], {}, "2021-03-30"),
    "hours without zeros": ("h", lambda t: [f"{t.day}.{t.month}.{t.year} {t.hour}:{t.minute:02}"], GERMAN, ""),
    "AM and PM": ("h", fmt("%m/%d/%Y %I:%M %p"), {}, ""),
    "am and pm": ("h", lambda t: [t.strftime("%m/%d/%Y %I:%M %p").lower()], {}, ""),
    "names of months": ("D", fmt("%d-%b-%Y"), {}, ""),
    "long names of months": ("D", fmt("%B %d, %Y"), {"separator": ";"}, ""),
    "names in capitals": ("MS", lambda t: [t.strftime("%b-%Y").upper()], {}, ""),
    "weekdays": ("D", fmt("%a, %d %b %Y"), {"separator": ";"}, ""),
    "packed": ("D", fmt("%Y%m%d"), {}, ""),
    "packed with a time": ("h", fmt("%Y%m%d%H"), {"time_format": "%Y%m%d%H"}, ""),
    "two digits of a year": ("D", fmt("%d.%m.%y"), GERMAN, ""),
    "unix seconds": ("h", lambda t: [str(t.value // 10**9)], {}, ""),
    "unix seconds with a point": ("h", lambda t: [f"{t.value // 10**9}.0"], {}, ""),
    "unix milliseconds": ("D", lambda t: [str(t.value // 10**6)], {}, ""),
    "UTC": ("h", fmt("%Y-%m-%dT%H:%M:%SZ"), {}, ""),
    "UTC, in Berlin": (
        "D",
        from_berlin,
        {"time_zone": "Europe/Berlin"},
        "",
    ),
    "offsets, in Berlin": ("D", berlin, {"time_zone": "Europe/Berlin"}, ""),
    "offsets": ("h", lambda t: [f"{t:%Y-%m-%d %H:%M:%S}+00:00"], {}, ""),
    "GMT": ("h", fmt("%Y-%m-%d %H:%M GMT"), {}, ""),
    "year, month, day": (
        "D",
        lambda t: [str(t.year), str(t.month), str(t.day)],
        PARTS,
        "",
    ),
    "day, month and year, padded": (
        "D",
        lambda t: [f"{t:%d}", f"{t:%m}", f"{t:%Y}"],
        MIXED,
        "",
    ),
    "month by name": ("MS", lambda t: [str(t.year), f"{t:%B}"], {"time_column": ("year", "month")}, ""),
    "year and quarter": ("QS", lambda t: [str(t.quarter), str(t.year)], {"time_column": ("quarter", "year")}, ""),
    "hours 1 to 24": ("h", lambda t: list(to_24(t)), {"time_column": ("date", "hour")}, "2021-03-01 01:00:00"),
    "midnight as 24:00": ("h", lambda t: [f"{to_24(t)[0]} {t.hour or 24:02}:00"], {}, "2021-03-01 01:00:00"),
    "date and time": ("h", lambda t: [f"{t:%d/%m/%Y}", f"{t:%H:%M}"], {"time_column": ("Date", "Time")}, ""),
    "semicolons, commas, points": ("h", fmt("%Y-%m-%d %H:%M"), {**GERMAN, "thousands": "."}, ""),
    "tabs": ("h", fmt("%Y-%m-%d %H:%M"), {"separator": "\t"}, ""),
}
OTHERWISE = {  # written in the format that reads them, if not with the letters of the file
    "GMT",
    "am and pm",
    "long names of months",
    "names in capitals",
    "month by name",
    "ISO, milliseconds",
    "quarters, the year last",
    "unix seconds with a point",
    "month first, without zeros",
    "no day below ten yet",
    "hours without zeros",
    "year, month, day",
    "hours 1 to 24",
    "midnight as 24:00",
}


def text_of(writing, frame, forecast):
    names = list(forecast.columns[1:])
    table = ForecastTable(frame=frame, targets=names, pred_len=P, writing=writing)
    return table.header_text() + table.text(np.array([0]), forecast[names].to_numpy()[None])


@pytest.mark.parametrize("case", CASES)
def test_a_forecast_appended_to_its_file_continues_it(tmp_path, case):
    freq, cells_of, keys, start = CASES[case]
    layout = replace(Layout(), **keys)
    path = tmp_path / "own.csv"
    write(path, layout, freq, cells_of, start or "2021-03-01")
    frame = read_frame(path, layout)
    forecast = forecast_of(frame)
    writing = Writing.of(path, layout, frame.time_format)
    text = text_of(writing, frame, forecast)
    rows = list(csv.reader(text.splitlines()[1:], delimiter=writing.separator))
    assert [row[:-2] for row in rows] == [list(cells_of(stamp)) for stamp in forecast["date"]] or case in OTHERWISE
    first, *lines = text.splitlines(keepends=True)
    assert first == path.read_text().splitlines(keepends=True)[0]
    path.write_text(path.read_text() + "".join(lines))
    whole = read_frame(path, layout)
    expected = frame.timestamps.append(pd.DatetimeIndex(forecast["date"]))
    assert (whole.timestamps == expected).all() and whole.freq == frame.freq
    np.testing.assert_allclose(whole.values[-P:], forecast[["a", "b"]].to_numpy(), atol=0.5e-3, rtol=0)
    # and alone, as another history of the model's frequency
    (tmp_path / "alone.csv").write_text(text)
    told = layout if layout.time_format or frame.time_format is None else replace(layout, time_format=frame.time_format)
    alone = read_frame(tmp_path / "alone.csv", told, freq=frame.freq)
    assert (alone.timestamps == whole.timestamps[-P:]).all() and (alone.values == whole.values[-P:]).all()


def test_a_series_of_several_is_continued_as_that_one(tmp_path):
    path, layout = tmp_path / "own.csv", Layout(where={"city": "Albany", "size": 2})
    stamps = pd.date_range("2021-03-01", periods=N, freq="D")
    rows = [f"{t:%Y-%m-%d},{city},2,{k}.5" for city in ("Albany", "Rome") for k, t in enumerate(stamps)]
    path.write_text("\n".join(["date,city,size,a", *rows]) + "\n")
    frame = read_frame(path, layout, columns=["a"])
    writing = Writing.of(path, layout, frame.time_format)
    forecast = pd.DataFrame({"date": future_timestamps(frame.timestamps[-1], "D", P), "a": np.arange(P) / 4})
    text = text_of(writing, frame, forecast)
    assert text.splitlines()[:2] == ["date,city,size,a", "2021-04-17,Albany,2,0.0"]
    (tmp_path / "alone.csv").write_text(text)
    assert read_frame(tmp_path / "alone.csv", layout, columns=["a"]).values[:, 0].tolist() == forecast["a"].tolist()
