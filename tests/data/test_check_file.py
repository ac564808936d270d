"""A check reads any file, finds all that is wrong at once, and suggests what the strict reader then takes."""

import shlex

import numpy as np
import pandas as pd
import pytest

from forecast.data.check import check_file
from forecast.data.column_notes import find_outliers
from forecast.data.csv_text import guess_separator
from forecast.data.frame import read_frame

ROWS = 613


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.csv"


def table(rows=ROWS, freq="h", start="2021-01-05", seed=0):
    """A daily season of 24 rows, and noise."""
    noise = np.random.default_rng(seed).normal(size=(rows, 2)) / 10
    values = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None] * [1, 3] + noise + [0, 50]
    data = pd.DataFrame(values.round(4), columns=["load", "temp"])
    data.insert(0, "date", pd.date_range(start, periods=rows, freq=freq))
    return data


def lines_of(data):
    return data.to_csv(index=False).splitlines()


def checked(path, lines, **options):
    path.write_text("\n".join(lines) + "\n")
    return check_file(str(path), **options)


def texts(check, severity):
    return check.findings.texts(severity)


def only(check, severity):
    (text,) = texts(check, severity)
    return text


def with_cells(line, cells):
    """A line with other cells after its timestamp."""
    return f"{line.split(',')[0]},{cells}"


# a file that is well


def test_a_healthy_file_has_no_findings_and_the_command_names_nothing_but_its_lengths(path):
    check = checked(path, lines_of(table()))
    assert check.findings == []
    assert (check.freq, check.rows_missing, check.time_column) == ("h", 0, "date")
    assert check.season[:2] == (24, "a day") and check.season.autocorrelation > 0.9
    assert check.windows == {"train": 429 - 119, "val": 62 - 23, "test": 122 - 23}
    assert check.command == f"forecast train data=csv data.path={path} seq_len=96 label_len=48 pred_len=24"


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), ("\t", "."), ("|", ","), (";", ".")])
def test_separator_decimal_and_time_column_are_guessed_and_named_in_the_command(path, separator, decimal):
    data = table().rename(columns={"date": "when"})[["load", "when", "temp"]]
    data.to_csv(path, index=False, sep=separator, decimal=decimal)
    check = check_file(str(path))
    assert check.findings == []
    overrides = dict(word.split("=", 1) for word in shlex.split(check.command)[3:])
    layout = {key: value for key, value in overrides.items() if key.startswith("data.") and key != "data.path"}
    expected = {"data.separator": r"'\t'" if separator == "\t" else f"'{separator}'", "data.time_column": "when"}
    assert layout == {**expected, **({"data.decimal": "','"} if decimal == "," else {})}


def test_the_separator_is_the_one_that_cuts_header_and_lines_alike():
    assert guess_separator("date;a;b\n2020;1,5;2,5\n2021;1,5;2,5\n") == ";"
    assert guess_separator("date,a|b\n2020,1\n2021,2\n") == ","
    assert guess_separator("one column") == ","


# gaps


def test_missing_rows_and_values_are_counted_with_the_first_runs_and_the_longest(path):
    lines = lines_of(table())
    for line, cell in ((400, "NA"), (402, ""), (403, "")):
        lines[line] = f"{lines[line].rsplit(',', 1)[0]},{cell}"
    for first, last in ((500, 503), (300, 301), (200, 211), (100, 102)):
        del lines[first:last]
    check = checked(path, lines)
    rows, values = texts(check, "mend")
    assert check.rows_missing == 17
    assert "17 of 613 rows are missing (2.77%) in 4 gaps: 2 rows from 2021-01-09 03:00:00, 11 rows from " in rows
    assert "1 row from 2021-01-17 11:00:00, ...; the longest has 11 rows, from 2021-01-13 07:00:00." in rows
    assert values == ("Column 'temp': 3 values of 596 missing, the first in line 387 ('NA'), at most 2 in succession.")
    assert texts(check, "error") == []


@pytest.mark.parametrize(
    ("cut", "emptied", "policy"),
    [
        (range(300, 303), [], "interpolate"),
        (range(200, 240), [], "mask"),  # longer than half of the forecast: a line over it says nothing
        ([], [613], "forward_fill"),
        ([], [1], "mask"),
    ],
)
def test_the_rule_for_gaps_is_one_that_the_strict_reader_takes(path, cut, emptied, policy):
    lines = lines_of(table())
    for line in emptied:
        lines[line] = lines[line].rsplit(",", 1)[0] + ","
    check = checked(path, [line for i, line in enumerate(lines) if i not in cut])
    assert (check.gaps, texts(check, "error")) == (policy, [])
    assert f"data.gaps={policy}" in check.command
    frame = read_frame(path, gaps=policy)
    assert frame.filled.sum() == len(cut) + len(emptied)


def test_more_than_half_of_the_rows_missing_is_no_gap(path):
    lines = lines_of(table())
    check = checked(path, [*lines[:100], *lines[400:]])
    assert texts(check, "error") == []
    check = checked(path, [*lines[:100], *lines[600:]])
    assert "the frequency 'h' has 613 rows, of which 500 are missing. That is no gap to fill" in only(check, "error")
    assert check.command is None


# time


BERLIN = pd.date_range("2018-12-31 23:00", "2020-12-31", freq="h", tz="UTC").tz_convert("Europe/Berlin")
NEW_YORK = pd.date_range("2019-01-01", "2020-12-31", freq="30min", tz="UTC").tz_convert("America/New_York")


@pytest.mark.parametrize(
    ("zone", "spring", "autumn"),
    [(BERLIN, "2019-03-31 02:00:00", "2019-10-27 02:00:00"), (NEW_YORK, "2019-03-10 02:00:00", "2019-11-03 01:00:00")],
    ids=["Berlin", "New York"],
)
def test_a_clock_set_on_and_back_is_recognised(path, zone, spring, autumn):
    local = zone.tz_localize(None)
    check = checked(path, ["date,a", *(f"{t},{i % 24}" for i, t in enumerate(local))])
    (clock,) = [text for text in texts(check, "error") if "clock" in text]
    assert f"the hour of {spring} is missing and that of {autumn} stands twice" in clock
    assert "(2 springs, 2 autumns)" in clock and "UTC" in clock


def test_a_clock_of_which_only_the_missing_hours_are_left_is_noted(path):
    local = BERLIN.tz_localize(None).unique()
    check = checked(path, ["date,a", *(f"{t},{i % 24}" for i, t in enumerate(local))])
    assert "the hour of 2019-03-31 02:00:00 is missing, as daylight" in texts(check, "note")[0]
    assert check.gaps == "interpolate" and check.command


@pytest.mark.parametrize(
    "absent", ["2021-03-21 02:00:00", "2021-03-28 12:00:00", "2021-05-30 02:00:00", "2021-03-27 02:00:00"]
)
def test_another_missing_hour_is_no_change_of_the_clock(path, absent):
    lines = [line for line in lines_of(table(rows=5000)) if not line.startswith(absent)]
    assert not any("clock" in finding.text for finding in checked(path, lines).findings)


def test_time_zones_are_listed_with_their_kinds(path):
    check = checked(path, ["date,a", *(f"{t},{i % 24}" for i, t in enumerate(BERLIN))])
    (zoned,) = [text for text in texts(check, "error") if "time zone" in text]
    assert "Line 2, column 'date': '2019-01-01 00:00:00+01:00' carries a time zone; 17522 such rows of 17522" in zoned
    assert "17522: +01:00, +02:00. Convert" in zoned
    check = checked(path, ["date,a", "2020-01-01T00:00:00Z,1", "2020-01-01T01:00:00Z,1", "2020-01-01T02:00:00Z,1"])
    assert "'2020-01-01T00:00:00Z' carries a time zone; 3 such rows of 3: Z. Convert" in texts(check, "error")[0]


def test_everything_is_found_at_once(path):
    lines = lines_of(table())
    lines.insert(8, lines[7])
    lines[20] = with_cells(lines[20], "x,NA")
    lines[25] += ",9"
    lines[30] = with_cells(lines[30], "inf,-9999")
    del lines[100:103]
    check = checked(path, lines)
    severities = [finding.severity for finding in check.findings]
    assert sorted(severities) == ["error"] * 4 + ["mend", "mend", "note"]
    errors = " ".join(texts(check, "error"))
    assert "Line 21, column 'load': 'x' is no number; 1 such cell of 611. Correct it" in errors
    assert "Line 26 has 4 cells, the header names 3 columns; 1 such row of 611. Remove" in errors


def test_after_an_open_quote_the_check_reads_on(path):
    lines = lines_of(table(rows=9_000))  # longer than a cell may be for csv
    lines[10], lines[500] = lines[10].replace(",", ',"', 1), with_cells(lines[500], "high,1")
    quote, text = texts(checked(path, lines), "error")
    assert "Look for an unclosed quotation mark" in quote and "Line 501, column 'load': 'high' is no number" in text
    lines[600] += '"'
    quote, text = texts(checked(path, lines), "error")
    assert "Line 11: a quotation mark opens a cell that goes over the end of its line" in quote and "'high'" in text


def test_series_below_each_other_are_recognised_and_not_taken_for_disorder(path):
    parts = [table(rows=97, seed=i).assign(place="abc"[i]) for i in range(3)]
    check = checked(path, lines_of(pd.concat(parts)))
    text, stacked = texts(check, "error")
    assert "194 of 291 rows repeat one. This looks like several series in one file, 3 below each other" in stacked
    assert "Line 2, column 'place': 'a' is no number; 291 such cells of 291, 3 different words. Drop the column" in text


def test_a_file_without_timestamps_is_described(path):
    assert only(checked(path, ["a,b", "1,2", "3,4"]), "error").startswith("No column of a, b holds timestamps")


# columns


def test_outliers_are_far_from_all_others_or_jump_there_and_back():
    values = np.random.default_rng(0).normal(size=997)
    assert find_outliers(values).tolist() == []
    values[313] = 50.0
    values[400:500] = np.nan
    assert find_outliers(values).tolist() == [313]
    slow = 100 * np.sin(np.arange(997) / 100) + values.clip(-3, 3) / 10
    slow[701] += 30.0  # well inside the range of the column
    assert find_outliers(slow).tolist() == [701]
    step = np.r_[np.zeros(500), np.full(497, 50.0)] + values.clip(-3, 3)
    assert find_outliers(step).tolist() == []
    step[40:80] = -999.0  # a code for "no value"
    assert find_outliers(np.where(step > 25, np.nan, step)).tolist() == list(range(40, 80))
    assert find_outliers(np.r_[np.zeros(90), 1.0, np.zeros(9)]).tolist() == []  # a column that hardly moves


def test_the_farthest_outlier_is_named_with_its_line_and_a_constant_column_with_its_value(path):
    data = table().assign(flat=7.5)
    data.loc[[17, 230], "temp"] = [-9999.0, 500.0]
    outlier, constant = texts(checked(path, lines_of(data)), "note")
    assert "Column 'temp': 2 outliers; the farthest, -9999 in line 19," in outlier
    assert constant == "Column 'flat' is always 7.5. It says nothing: better drop it."


def test_a_column_that_reaches_the_largest_float_is_checked_without_a_warning(path):
    data = table()
    data["temp"] = 1e308 * (-1.0) ** np.arange(ROWS)
    assert checked(path, lines_of(data)).readable
