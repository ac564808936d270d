"""Times as offices count them: weeks, quarters, a year and a month as one number, days of a spreadsheet."""

import re

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame, refusal

from forecast.data.describe.check import check_file
from forecast.data.reading.layout import Layout
from forecast.data.reading.timestamps import read_timestamps
from forecast.data.writing import Writing


def weeks(rows, start="2012-10-01"):
    return pd.date_range(start, periods=rows, freq="7D")


def iso(write):
    return lambda stamps: {"week": [write(*stamp.isocalendar()) for stamp in stamps]}


def as_number(stamp):
    return float(f"{stamp.year}.{stamp.month:02}")


MONTHS = pd.date_range("1987-04-01", periods=190, freq="MS")
QUARTERS = pd.date_range("2001-07-01", periods=70, freq="QS")
DAYS = pd.date_range("2011-02-03", periods=120, freq="D")
# kind: (times, columns of time, format that the command names)
KINDS = {
    "weeks": (weeks(150), iso(lambda year, week, day: f"{year}-W{week:02}"), "week"),
    "weeks without a sign": (weeks(150), iso(lambda year, week, day: f"{year}W{week:02}"), "week"),
    "a day of each week": (weeks(150, "2012-10-04"), iso(lambda year, week, day: f"{year}-W{week:02}-{day}"), "week"),
    "days of weeks": (DAYS, iso(lambda year, week, day: f"{year}W{week:02}{day}"), "week"),
    "week first": (weeks(150), iso(lambda year, week, day: f"W{week}/{year}"), "week"),
    "weeks in German": (weeks(150), iso(lambda year, week, day: f"KW {week:02} {year}"), "week"),
    "weeks without a letter": (weeks(150), iso(lambda year, week, day: f"{year}-{week:02}"), "week"),
    "weeks of digits": (
        weeks(150),
        lambda stamps: {"yearweek": [stamp.isocalendar().year * 100 + stamp.isocalendar().week for stamp in stamps]},
        "week",
    ),
    "a year and a week": (
        weeks(150),
        lambda stamps: {
            "Year": [stamp.isocalendar().year for stamp in stamps],
            "week_of_year": [stamp.isocalendar().week for stamp in stamps],
        },
        None,
    ),
    "quarters as months": (QUARTERS, lambda stamps: {"period": [f"{s.quarter}/{s.year}" for s in stamps]}, "quarter"),
    "quarters, year first": (
        QUARTERS,
        lambda stamps: {"period": [f"{s.year}-{s.quarter}" for s in stamps]},
        "quarter",
    ),
    "quarters as numbers": (
        QUARTERS,
        lambda stamps: {"period": [float(f"{s.year}.{s.quarter}") for s in stamps]},
        "quarter",
    ),
    "the letter behind": (QUARTERS, lambda stamps: {"period": [f"{s.quarter}Q{s.year}" for s in stamps]}, "quarter"),
    "a year and a month": (MONTHS, lambda stamps: {"Year and month": list(map(as_number, stamps))}, "year.month"),
    "months of digits": (MONTHS, lambda stamps: {"ym": [int(f"{stamp:%Y%m}") for stamp in stamps]}, None),
    "days of a spreadsheet": (
        DAYS,
        lambda stamps: {"Date": (stamps - pd.Timestamp("1899-12-30")).days},
        "excel",
    ),
    "hours of a spreadsheet": (
        pd.date_range("2019-03-04 05:00", periods=300, freq="h"),
        lambda stamps: {"date": ((stamps - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)).to_numpy().round(10)},
        "excel",
    ),
}


def a_table(kind):
    stamps, columns, known = KINDS[kind]
    table = pd.DataFrame(columns(stamps))
    names = list(table.columns)
    values = np.random.default_rng(3).normal(size=len(table)).round(3) + 20
    return stamps, table.assign(y=values), names[0] if len(names) == 1 else tuple(names), known


WITH_GAPS = ("quarters as months", "a year and a month", "weeks without a letter")


@pytest.mark.parametrize(("kind", "gone"), [*((kind, []) for kind in KINDS), *((kind, [20, 41]) for kind in WITH_GAPS)])
def test_a_calendar_is_not_guessed_and_the_word_that_is_proposed_reads_it(tmp_path, kind, gone):
    stamps, table, time_column, known = a_table(kind)
    path = tmp_path / "series.csv"
    table.drop(index=gone).to_csv(path, index=False)
    options = {"time_column": time_column, "gaps": "mask"}
    if known is not None:
        assert re.search(rf"Set (.* or )?data\.time_format={known}( or .*)?\.", refusal(path, **options))
        assert f"data.time_format={known}" in check_file(str(path)).findings.texts("error")[0]
    frame = read_frame(path, time_format=known, **options)
    assert (frame.timestamps == stamps).all()


@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_are_written_so_that_they_continue_it(tmp_path, kind):
    stamps, table, time_column, known = a_table(kind)
    path, table = tmp_path / "series.csv", table.astype(str)
    table[:-5].to_csv(path, index=False)
    layout = Layout(time_column=time_column, time_format=known)
    frame = read_frame(path, time_column=time_column, time_format=known)
    writer = Writing.of(path, layout, frame.time_format).times
    assert writer is not None
    table.iloc[-5:, :-1] = writer.cells(stamps[-5:])
    table.to_csv(path, index=False)
    assert (read_frame(path, time_column=time_column, time_format=known).timestamps == stamps).all()


# what looks like it and is not


@pytest.mark.parametrize(
    ("cells", "stamps"),
    [
        # months, of one year or of many
        (["1-2020", "2-2020", "3-2020", "4-2020"], pd.date_range("2020-01-01", periods=4, freq="MS")),
        ([f"{s.month}-{s.year}" for s in MONTHS], MONTHS),
        ([f"{s.year}-{s.month:02}" for s in MONTHS], MONTHS),
    ],
)
def test_months_stay_months(cells, stamps):
    assert (read_timestamps({"when": cells}, missing=()).stamps == stamps).all()


def test_days_far_from_our_century_are_steps_and_no_days_of_a_spreadsheet(tmp_path):
    pd.DataFrame({"day": np.arange(10_000, 10_200), "y": np.random.default_rng(3).normal(size=200)}).to_csv(
        tmp_path / "series.csv", index=False
    )
    frame = read_frame(tmp_path / "series.csv", time_column="day")
    assert frame.without_calendar and len(frame.values) == 200
