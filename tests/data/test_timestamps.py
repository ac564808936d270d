"""Time columns: each writing is read as it is meant, from all cells of the column, or refused; no cell is guessed."""

import csv
import os
import re
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

from forecast.data.reading.columns import MISSING_SPELLINGS
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps
from forecast.data.values.calendar import infer_frequency
from forecast.errors import UserError

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "forecast-hypothesis")


def read(*columns, names=None, **options):
    """One column of cells, or several with names."""
    names = names or [f"t{i}" for i in range(len(columns))]
    return read_timestamps(dict(zip(names, columns, strict=True)), missing=MISSING_SPELLINGS, **options)


def how_of(reading):
    return ", ".join(reading.settings.values())


def assert_reads(reading, stamps):
    assert list(reading.stamps) == [pd.Timestamp(stamp) for stamp in stamps]
    assert reading.stamps.tz is None
    assert reading.faults == {}


# writings

WRITINGS = [
    # cells, stamps, how
    (["2016-07-01 00:00:00", "2016-07-01 01:00:00"], ["2016-07-01 00:00", "2016-07-01 01:00"], ""),
    (["2016-07-01T00:00:00.250", "2016-07-01"], ["2016-07-01 00:00:00.250", "2016-07-01"], ""),
    (["2016-7-1 0:00", "2016-10-11 13:00"], ["2016-07-01", "2016-10-11 13:00"], ""),
    (["1949-01", "1949-02"], ["1949-01-01", "1949-02-01"], ""),
    (["1949", "1950"], ["1949-01-01", "1950-01-01"], ""),
    (["19580329", "19580405"], ["1958-03-29", "1958-04-05"], ""),
    (["20160701 13:00", "20160702 14:30"], ["2016-07-01 13:00", "2016-07-02 14:30"], ""),
    (["2016/07/01", "2016/07/13"], ["2016-07-01", "2016-07-13"], ""),
    (["2016-07-01 5", "2016-07-01 13"], ["2016-07-01 05:00", "2016-07-01 13:00"], "%Y-%m-%d %H"),
    (["01.07.2016 13:00", "31.07.2016 7:30"], ["2016-07-01 13:00", "2016-07-31 07:30"], "%d.%m.%Y %H:%M"),
    (["01.07.2016  13.00.00", "31.07.2016 07.30.15"], ["2016-07-01 13:00", "2016-07-31 07:30:15"], "%d.%m.%Y %H.%M.%S"),
    (["13/7/2016, 01:00", "4/7/2016, 02:00"], ["2016-07-13 01:00", "2016-07-04 02:00"], "%d/%m/%Y, %H:%M"),
    (["3/10/2004", "3/13/2004"], ["2004-03-10", "2004-03-13"], "%m/%d/%Y"),
    (["3/1/2004 1:30:00 PM", "3/13/2004 12:00:00 AM"], ["2004-03-01 13:30", "2004-03-13"], "%m/%d/%Y %I:%M:%S %p"),
    (["03-13-2004 12 PM", "03-01-2004 1 AM"], ["2004-03-13 12:00", "2004-03-01 01:00"], "%m-%d-%Y %I %p"),
    (["1/31/16", "2/1/16"], ["2016-01-31", "2016-02-01"], "%m/%d/%y"),
    (["07/1949", "11/1949"], ["1949-07-01", "1949-11-01"], "%m/%Y"),
    (["5-Jan-09", "13-Feb-69"], ["2009-01-05", "1969-02-13"], "%d-%b-%y"),
    (["05JAN2009", "6FEB2009"], ["2009-01-05", "2009-02-06"], "%d%b%Y"),
    (
        ["5. January 2009 14:00", "1. may 2009 15:00"],
        ["2009-01-05 14:00", "2009-05-01 15:00"],
        "%d. %B %Y %H:%M",
    ),
    (["January 5, 2009", "May 16, 2009"], ["2009-01-05", "2009-05-16"], "%B %d, %Y"),
    (["2009-Jan-05", "2009-Dec-16"], ["2009-01-05", "2009-12-16"], "%Y-%b-%d"),
    (["Mon, 5 Jan 2009 1:30 PM", "Tue, 6 Jan 2009 12:30 am"], ["2009-01-05 13:30", "2009-01-06 00:30"], None),
    (["Jan 1949", "Feb 1949"], ["1949-01-01", "1949-02-01"], "%b %Y"),
    (["1949-JAN", "1949-FEB"], ["1949-01-01", "1949-02-01"], "%Y-%b"),
    (["Jan-49", "Feb-89", "Mar-45"], ["1949-01-01", "1989-02-01", "2045-03-01"], "%b-%y"),
    (["194901", "194912"], ["1949-01-01", "1949-12-01"], "%Y%m"),
    (["20160701230000", "20160702000000"], ["2016-07-01 23:00", "2016-07-02"], "%Y%m%d%H%M%S"),
    (["999999999", "1000000000"], ["2001-09-09 01:46:39", "2001-09-09 01:46:40"], "unix, UTC"),
    (["1467331200.5", "1467331201.25"], ["2016-07-01 00:00:00.5", "2016-07-01 00:00:01.25"], "unix, UTC"),
    (["1467331200250", "1467331200500"], ["2016-07-01 00:00:00.25", "2016-07-01 00:00:00.5"], "unix_ms, UTC"),
    (["1467331200000001"], ["2016-07-01 00:00:00.000001"], "unix_us, UTC"),
    (["1467331200000000001"], ["2016-07-01 00:00:00.000000001"], "unix_ns, UTC"),
    (["2016-07-01T00:00Z", "2016-07-01T03:00+02:00"], ["2016-07-01 00:00", "2016-07-01 01:00"], "UTC"),
    (["2016-07-01 00:00 UTC", "2016-07-01 01:00 GMT"], ["2016-07-01 00:00", "2016-07-01 01:00"], "UTC"),
    (
        ["13.07.2016 00:00 UTC", "14.07.2016 00:00 UTC"],
        ["2016-07-13 00:00", "2016-07-14 00:00"],
        "%d.%m.%Y %H:%M %z, UTC",
    ),
    (
        ["13.07.2016 00:00 +0200", "13.07.2016 00:00 +0100"],
        ["2016-07-12 22:00", "2016-07-12 23:00"],
        "%d.%m.%Y %H:%M %z, UTC",
    ),
]


@pytest.mark.parametrize(("cells", "stamps", "how"), WRITINGS, ids=[row[0][0] for row in WRITINGS])
def test_a_writing_is_read_and_what_is_said_of_it_reads_the_same(cells, stamps, how):
    reading = read(cells)
    assert_reads(reading, stamps)
    assert how is None or how_of(reading) == how
    options = {key.removeprefix("data."): value for key, value in reading.settings.items()}
    assert_reads(read(cells, **options), stamps)
    if how == "":
        assert reading.settings == {}


def test_blanks_around_a_cell_are_no_part_of_it():
    assert_reads(read([" 13/01/2016 ", "14/01/2016\t"]), ["2016-01-13", "2016-01-14"])


# several columns


@pytest.mark.parametrize(
    ("names", "columns", "stamps", "how"),
    [
        (
            ["year", "month", "day", "hour"],
            ["2010 2010", "1 12", "5 31", "0 23"],
            ["2010-01-05", "2010-12-31 23:00"],
            None,
        ),
        (["Hr", "DAY", "Mnth", "Yr"], ["0 23", "5 31", "1 12", "2010 2010"], ["2010-01-05", "2010-12-31 23:00"], None),
        (["YEAR", "Month"], ["2010 2010", "Jan dec"], ["2010-01-01", "2010-12-01"], "%Y %b"),
        (["year", "month"], ["2010.0 2010.0", "1.0 12.0"], ["2010-01-01", "2010-12-01"], "%Y %m"),
        (["year", "qtr"], ["2010 2010", "1 4"], ["2010-01-01", "2010-10-01"], "%Y %q"),
        (["year", "quarter"], ["2010 2010", "Q2 Q3"], ["2010-04-01", "2010-07-01"], "%Y %q"),
        (
            ["year", "month", "day", "hour", "minute", "second"],
            ["2010", "1", "5", "0", "7", "59"],
            ["2010-01-05 00:07:59"],
            "%Y %m %d %H %M %S",
        ),
        (
            ["Date", "Time"],
            ["3/10/2004 3/14/2004", "18.00.00 19.00.00"],
            ["2004-03-10 18:00", "2004-03-14 19:00"],
            "%m/%d/%Y %H.%M.%S",
        ),
        (["dteday", "hr"], ["2011-01-01 2011-01-02", "0 13"], ["2011-01-01", "2011-01-02 13:00"], None),
        (["a", "b"], ["2011-01-01 2011-01-02", "1:00 13:00"], ["2011-01-01 01:00", "2011-01-02 13:00"], ""),
    ],
)
def test_several_columns_are_one_time(names, columns, stamps, how):
    reading = read(*(column.split() for column in columns), names=names)
    assert_reads(reading, stamps)
    assert how is None or how_of(reading) == how


def test_a_format_reads_all_columns_joined_by_a_space():
    assert_reads(read(["2010"], ["33"], names=["year", "day"], time_format="%Y %j"), ["2010-02-02"])


@pytest.mark.parametrize(
    "names",
    [["year", "hour"], ["year", "month", "hour"], ["year", "yr", "month"], ["year", "quarter", "month"]],
)
def test_parts_that_are_no_time_are_refused(names):
    with pytest.raises(UserError, match=f"names '{names[0]}', '{names[1]}'.* which are no time. Name the columns of"):
        read(*(["1"] for _ in names), names=names)


# one format for the whole column


def test_a_single_day_above_twelve_in_the_last_row_decides_for_all_rows():
    cells = ["01/02/2000", "05/02/2000"] * 3_000
    assert read([*cells, "13/02/2000"]).stamps[0] == pd.Timestamp("2000-02-01")
    assert read([*cells, "02/13/2000"]).stamps[0] == pd.Timestamp("2000-01-02")


def test_the_format_of_most_times_wins_and_the_others_are_faults():
    reading = read(["01/13/2016", "01/14/2016", "15/01/2016", "16/01/2016", "17/01/2016"])
    assert (how_of(reading), reading.faults) == ("%d/%m/%Y", {0: "unreadable", 1: "unreadable"})


def test_where_no_day_is_above_twelve_the_regular_series_is_meant():
    months = pd.date_range("2000-01-01", periods=19, freq="MS")
    assert_reads(read(list(months.strftime("%d/%m/%Y"))), months)
    assert_reads(read(list(months.strftime("%m/%d/%Y"))), months)
    hours = pd.date_range("2016-03-01", periods=37, freq="h")
    assert_reads(read(list(hours.strftime("%d.%m.%Y %H:%M"))), hours)


def test_two_regular_series_are_ambiguous_and_both_ways_out_are_given():
    cells = [f"{month:02}/01/2000 00:00" for month in range(1, 13)]
    with pytest.raises(AmbiguousTime) as refused:
        read(cells)
    message = str(refused.value)
    assert "'02/01/2000 00:00' in row 2 is 2000-01-02 00:00:00 with data.time_format=" in message
    assert """Set data.time_format="'%d/%m/%Y %H:%M'" or data.time_format="'%m/%d/%Y %H:%M'".""" in message
    day_first, month_first = refused.value.candidates
    assert_reads(read(cells, time_format=day_first["data.time_format"]), [f"2000-01-{day:02}" for day in range(1, 13)])
    assert_reads(read(cells, time_format=month_first["data.time_format"]), [f"2000-{m:02}-01" for m in range(1, 13)])


@pytest.mark.parametrize(
    ("cells", "formats"),
    [
        (["01/02/2000"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["01/02/16", "01/03/16"], ["%d/%m/%y", "%m/%d/%y", "%y/%m/%d"]),
        ([f"2001{month:02}" for month in range(1, 13)], ["%Y%m", "%y%m%d"]),
        ([f"20160701{hour:02}" for hour in range(24)], ["%Y%m%d%H", "unix"]),
    ],
)
def test_readings_that_nothing_tells_apart_are_refused(cells, formats):
    with pytest.raises(AmbiguousTime, match=r"and that is not guessed\. Set ") as refused:
        read(cells)
    assert [candidate["data.time_format"] for candidate in refused.value.candidates] == formats


def test_readings_that_give_the_same_timestamps_are_not_ambiguous():
    assert_reads(read(["01/01/2000", "02/02/2000", "03/03/2000"]), ["2000-01-01", "2000-02-02", "2000-03-03"])


def test_integers_that_no_clock_of_our_century_shows_are_no_unix_time():
    assert read(["099999999"]).faults == {0: "unreadable"}
    assert read(["4002444800"]).faults == {0: "unreadable"}


# cells that do not fit

GOOD = ["13/01/2016", "14/01/2016", "15/01/2016"]


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("", "missing"),
        ("  ", "missing"),
        ("NaN", "missing"),
        ("N/A", "missing"),
        ("01/16/2016", "unreadable"),
        ("30/02/2016", "unreadable"),
        ("2016-01-16", "unreadable"),
        ("16/01/16", "unreadable"),
        ("16/01/2016 00:00", "unreadable"),
        ("31/12/9999", "unreadable"),
        ("01/01/1066", "unreadable"),
        ("16/01/2016 00:00 CET", "unreadable"),
    ],
)
@pytest.mark.parametrize("at", [0, 3])
def test_a_cell_of_another_format_is_a_fault_of_its_row(cell, kind, at):
    cells = [*GOOD[:at], cell, *GOOD[at:]]
    reading = read(cells)
    assert reading.faults == {at: kind}
    assert how_of(reading) == "%d/%m/%Y"
    assert np.flatnonzero(reading.stamps.isna()).tolist() == [at]
    assert list(reading.stamps.delete(at)) == list(read(GOOD).stamps)


@pytest.mark.parametrize("cell", ["now", "today", "01/02/2016", "2016-02-30", "2016-1-1 24:30", "20160", "2016011"])
def test_among_iso_timestamps_too(cell):
    assert read(["2016-07-01", cell, "2016-07-02"]).faults == {1: "unreadable"}


@pytest.mark.parametrize("year", ["0001", "1677", "2262", "9999"])
def test_years_that_pandas_cannot_count_in_nanoseconds_are_faults(year):
    assert read(["2016-07-01", f"{year}-12-31"]).faults == {1: "unreadable"}
    assert read(["20160701", f"{year}1231"]).faults == {1: "unreadable"}
    assert 1 in read(["2016-07-01 13:00:00.000000001", f"{year}-12-31 23:59:59.5"]).faults


def test_words_are_no_timestamps():
    reading = read(["low", "high", ""])
    assert reading.faults == {0: "unreadable", 1: "unreadable", 2: "missing"}
    assert reading.settings == {}


# zones


def test_of_mixed_timestamps_the_fewer_are_faults():
    assert read(["2016-07-01 00:00Z", "2016-07-01 01:00+02:00", "2016-07-01 02:00"]).faults == {2: "zone"}
    assert read(["2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 02:00Z"]).faults == {2: "zone"}


def test_a_zone_by_its_letters_is_not_read():
    assert [*read(["2016-07-01 00:00 CET", "2016-07-01 01:00 CEST"]).faults] == [0, 1]


def test_instants_below_a_day_stay_in_utc_and_days_are_those_of_the_zone():
    reading = read(["1467331200", "1467334800"], time_zone="Asia/Kolkata")
    assert_reads(reading, ["2016-07-01 00:00", "2016-07-01 01:00"])
    assert reading.clock == "UTC"
    assert how_of(reading) == "unix, Asia/Kolkata"
    assert reading.settings == {"data.time_format": "unix", "data.time_zone": "Asia/Kolkata"}
    days = read(["1467311400", "1467397800"], time_zone="Asia/Kolkata")
    assert_reads(days, ["2016-07-01", "2016-07-02"])
    assert days.clock == "Asia/Kolkata"


def test_hours_alone_are_an_offset_where_all_are():
    assert_reads(read(["2016-07-01T00:00+05", "2016-07-01T01:00+05"]), ["2016-06-30 19:00", "2016-06-30 20:00"])


def test_a_zone_does_nothing_to_a_clock_without_offsets():
    assert_reads(read(["2016-07-01", "2016-07-02"], time_zone="Europe/Berlin"), ["2016-07-01", "2016-07-02"])


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("Europe/Berlln", "Did you mean 'Europe/Berlin'?"), ("Mars", "Set the IANA"), ("../x", "Set the")],
)
def test_an_unknown_zone_is_refused(zone, hint):
    with pytest.raises(UserError, match=rf"data.time_zone='{re.escape(zone)}' is no time zone\. {re.escape(hint)}"):
        read(["2016-07-01T00:00Z"], time_zone=zone)


# data.time_format


@pytest.mark.parametrize(
    ("time_format", "cell", "stamp"),
    [
        ("%d/%m/%Y", "01/02/2000", "2000-02-01"),
        ("%m/%d/%Y", "01/02/2000", "2000-01-02"),
        ("%Y-%d-%m", "2000-02-01", "2000-01-02"),
        ("%y%m%d", "200102", "2020-01-02"),
        ("%Y-%j", "2016-060", "2016-02-29"),
        ("%B %d, %Y", "January 5, 2009", "2009-01-05"),
        ("%I:%M %p on %d/%m/%Y", "12:05 PM on 01/02/2000", "2000-02-01 12:05"),
        ("%d/%m/%Y %H:%M %z", "01/02/2000 13:00 UTC", "2000-02-01 13:00"),
        ("%d/%m/%Y %H:%M %Z", "01/02/2000 13:00 UTC", "2000-02-01 13:00"),
        ("%Y-%m-%d %H:%M%z", "2016-07-01 13:00+0200", "2016-07-01 11:00"),
        ("unix", "-86400", "1969-12-31"),
        ("unix", "0", "1970-01-01"),
        ("unix_ms", "86400000", "1970-01-02"),
        ("ISO8601", "2016-07-01T00:00", "2016-07-01"),
    ],
)
def test_a_format_is_taken_at_its_word(time_format, cell, stamp):
    assert_reads(read([cell], time_format=time_format), [stamp])


@pytest.mark.parametrize(
    ("time_format", "message"),
    [
        ("%d/%k/%Y", "cannot be used: 'k' is a bad directive. Write it as"),
        ("%Y-%", "cannot be used: stray %. Write it as"),
        ("%Y %Y", "cannot be used: redefinition of group name"),
        ("%d/%m %H:%M", "cannot be used: it has no year"),
        ("mixed", "cannot be used: it has no year"),
    ],
)
def test_a_format_that_is_none_is_refused(time_format, message):
    with pytest.raises(UserError, match=rf"data.time_format='{re.escape(time_format)}' {message}"):
        read(["01/02/2000"], time_format=time_format)


# what is written is read


def named(stamp):
    return "JanFebMarAprMayJunJulAugSepOctNovDec"[3 * stamp.month - 3 : 3 * stamp.month]


# how it is written -> (writer, finest unit, other strptime formats that such cells may have)
WRITERS = {
    "iso": (lambda s: f"{s:%Y-%m-%d %H:%M:%S}", "s", []),
    "iso unpadded": (lambda s: f"{s.year}-{s.month}-{s.day} {s.hour}:{s:%M}", "min", []),
    "iso offset": (lambda s: f"{s:%Y-%m-%dT%H:%M:%S}+00:00", "s", []),
    "day first": (lambda s: f"{s:%d/%m/%Y %H:%M}", "min", ["%m/%d/%Y %H:%M"]),
    "day first, points": (lambda s: f"{s.day}.{s.month}.{s.year} {s:%H.%M.%S}", "s", ["%m.%d.%Y %H.%M.%S"]),
    "month first": (lambda s: f"{s.month}/{s.day}/{s.year} {s.hour}:{s:%M}", "min", ["%d/%m/%Y %H:%M"]),
    "month first, half days": (
        lambda s: f"{s:%m/%d/%Y} {(s.hour + 11) % 12 + 1}:{s:%M} {'AP'[s.hour // 12]}M",
        "min",
        ["%d/%m/%Y %I:%M %p"],
    ),
    "dates, day first": (lambda s: f"{s:%d-%m-%Y}", "D", ["%m-%d-%Y"]),
    "dates, two digits": (lambda s: f"{s:%d/%m/%y}", "D", ["%m/%d/%y", "%y/%m/%d"]),
    "named month": (lambda s: f"{s.day}-{named(s)}-{s:%y}", "D", []),
    "named month, American": (lambda s: f"{named(s)} {s.day}, {s.year} {s:%H:%M}", "min", []),
    "named month alone": (lambda s: f"{named(s)} {s.year}", "M", []),
    "compact": (lambda s: f"{s:%Y%m%d}", "D", []),
    "compact, hours": (lambda s: f"{s:%Y%m%d%H}", "h", ["unix"]),
    "compact, months": (lambda s: f"{s:%Y%m}", "M", ["%y%m%d"]),
    "unix": (lambda s: str(s.value // 10**9), "s", ["%Y%m%d%H"]),
    "unix_ms": (lambda s: str(s.value // 10**6), "s", ["%Y%m%d%H%M"]),
}
UNITS = {"s": 0, "min": 1, "h": 2, "D": 3, "M": 4}
STEPS = {"s": 0, "7s": 0, "min": 1, "10min": 1, "h": 2, "6h": 2, "D": 3, "7D": 3, "W": 3, "MS": 4, "QS": 4, "YS": 4}


def otherwise(cells, other):
    """The cells as `other` reads them, by Python's own strptime; None when it does not read them all."""
    try:
        if other == "unix":
            stamps = [pd.Timestamp(int(cell), unit="s") for cell in cells]
        else:
            stamps = [pd.Timestamp(datetime.strptime(cell, other)) for cell in cells]
    except ValueError:
        return None
    if any(not 1678 <= stamp.year <= 2261 or (other == "unix" and not 1973 <= stamp.year < 2100) for stamp in stamps):
        return None
    return pd.DatetimeIndex(stamps)


def is_regular(stamps):
    once = stamps.sort_values().unique()
    return len(once) >= 3 and infer_frequency(once) is not None


def generated(examples):
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
    )


@pytest.mark.parametrize("writing", WRITERS)
@given(data=st.data())
@generated(7)
def test_a_regular_series_is_read_back_or_ambiguous_when_it_is(writing, data):
    write, unit, rivals = WRITERS[writing]
    step = data.draw(st.sampled_from([step for step, finest in STEPS.items() if finest >= UNITS[unit]]))
    start = data.draw(st.datetimes(datetime(1974, 1, 1), datetime(2030, 1, 1)))
    floor = {"M": "D"}.get(unit, unit)
    size = data.draw(st.integers(1, 29))
    stamps = pd.date_range(pd.Timestamp(start).floor(floor), periods=size, freq=step)
    cells = [write(stamp) for stamp in stamps]
    others = [other for rival in rivals if (other := otherwise(cells, rival)) is not None]
    others = [other for other in others if not (other == stamps).all()]
    ambiguous = bool(others) and (not is_regular(stamps) or any(is_regular(other) for other in others))
    if not ambiguous:
        reading = read(cells, time_zone="UTC")
        assert_reads(reading, stamps)
        options = {key.removeprefix("data."): value for key, value in reading.settings.items()}
        assert (read(cells, **options).stamps == stamps).all()
        return
    with pytest.raises(AmbiguousTime) as refused:
        read(cells, time_zone="UTC")
    ways = [
        read(cells, time_zone="UTC", time_format=way["data.time_format"]).stamps for way in refused.value.candidates
    ]
    assert any((way == stamps).all() for way in ways)


PIECES = [
    "2016",
    "16",
    "1",
    "13",
    "Jan",
    "T",
    "Z",
    "PM",
    "Q1",
    "+02:00",
    "-",
    "/",
    ".",
    ":",
    " ",
    ",",
    "now",
    "NaN",
    "%d",
    "٣",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), min_size=1, max_size=7))
@generated(60)
def test_any_cells_are_timestamps_or_faults_or_ambiguous(cells):
    try:
        reading = read(cells)
    except AmbiguousTime:
        return
    assert sorted(reading.faults) == np.flatnonzero(reading.stamps.isna()).tolist()
    assert len(reading.stamps) == len(cells)


# files as they are found

DATA = os.environ.get("FORECAST_DATA")
WILD = Path(DATA).resolve().parent / "wild" if DATA else None
FILES = {  # file: (columns, first and last timestamp, how, rows without a timestamp)
    "airquality_uci.csv": (["Date", "Time"], "2004-03-10 18:00", "2005-04-04 14:00", "%m/%d/%Y %H:%M:%S", 114),
    "daily_istanbul_stock.csv": (["date"], "2009-01-05", "2011-02-22", "%d-%b-%y", 0),
    "ff_asos_raw.csv": (["valid"], "2019-01-01", "2019-11-18 23:55", "", 0),
    "ff_avocado.csv": (["Date"], "2015-12-27", "2018-01-07", "", 0),
    "hourly_bikesharing.csv": (["ts"], "2010-09-20 12:00", "2019-09-01", "", 0),
    "hourly_electricity.csv": (["ts"], "2012-01-01", "2014-12-31 23:00", "", 0),
    "hourly_parking.csv": (["LastUpdated"], "2016-10-04 07:59:42", "2016-12-19 16:30:35", "", 0),
    "hourly_sf_traffic.csv": (["ts"], "2015-01-01", "2016-12-31 23:00", "", 0),
    "hourly_traffic_volume.csv": (["date_time"], "2012-10-02 09:00", "2018-09-30 23:00", "", 0),
    "jb_airline-passengers.csv": (["Month"], "1949-01-01", "1960-12-01", "", 0),
    "jb_pollution.csv": (
        ["year", "month", "day", "hour"],
        "2010-01-01",
        "2014-12-31 23:00",
        "%Y %m %d %H",
        0,
    ),
    "nab_nyc_taxi.csv": (["timestamp"], "2014-07-01", "2015-01-31 23:30", "", 0),
    "pr_yosemite_temps.csv": (["ds"], "2017-05-01", "2017-07-05", "", 0),
    "sm_co2.csv": (["date"], "1958-03-29", "2001-12-29", "", 0),
}


@pytest.mark.skipif(WILD is None or not WILD.is_dir(), reason="no folder `wild` with real files beside FORECAST_DATA")
@pytest.mark.parametrize("file", FILES)
def test_a_file_as_it_is_found(file):
    names, first, last, how, lacking = FILES[file]
    with (WILD / file).open(newline="") as lines:
        header, *rows = csv.reader(lines)
    reading = read(*([row[header.index(name)] for row in rows] for name in names), names=names)
    assert how_of(reading) == how
    assert list(reading.faults.values()) == ["missing"] * lacking
    stamps = reading.stamps.dropna()
    assert (stamps[0], stamps[-1], len(stamps)) == (pd.Timestamp(first), pd.Timestamp(last), len(rows) - lacking)
