"""A CSV becomes a regular series, or one error that names file, line, column, value and fix."""

import re

import numpy as np
import pandas as pd
import pytest

from forecast.data.frame import SeriesFrame, future_timestamps, read_columns, read_frame
from forecast.errors import UserError

FREQUENCIES = [
    *("100ns", "250us", "100ms", "s", "30s", "min", "7min", "15min", "h", "3h", "D", "5D", "B"),
    *("W-SUN", "W-WED", "2W-TUE", "ME", "MS", "BME", "QE-DEC", "QE-NOV", "QS-FEB", "YE-DEC", "YS-APR", "WOM-3FRI"),
]
STARTS = {"h": "2016-07-01 00:00", "ME": "2016-01-31", "B": "2016-07-01"}


def write(folder, text, name="my.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def hourly(n=5, start="2016-07-01 00:00:00"):
    return [str(t) for t in pd.date_range(start, periods=n, freq="h")]


def table(stamps, header="date,a,b", cells="1.5,2"):
    return "\n".join([header, *(f"{stamp},{cells}" for stamp in stamps)]) + "\n"


def refusal(path, **options):
    with pytest.raises(UserError) as caught:
        read_frame(path, **options)
    assert str(path) in str(caught.value), "the message names the file"
    return str(caught.value)


def assert_says(message, *parts):
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"


# what is read


def test_all_columns_but_the_time_are_read_in_file_order(tmp_path):
    path = write(tmp_path, "b,date,a\n1,2016-07-01 00:00,-2.5\n3,2016-07-01 01:00,4e1\n5,2016-07-01 02:00,+.5\n")
    frame = read_frame(path)
    assert (frame.columns, frame.freq, frame.name, len(frame)) == (("b", "a"), "h", str(path), 3)
    assert frame.values.dtype == np.float64
    assert frame.values.tolist() == [[1, -2.5], [3, 40], [5, 0.5]]
    assert frame.timestamps.equals(pd.date_range("2016-07-01", periods=3, freq="h").as_unit(frame.timestamps.unit))


def test_chosen_columns_are_read_in_the_order_asked_for(tmp_path):
    path = write(tmp_path, table(hourly(), header="date,a,b,c", cells="1,2,text"))
    frame = read_frame(path, columns=["b", "a"])
    assert frame.columns == ("b", "a")
    assert frame.values[4].tolist() == [2, 1]


def test_a_bad_cell_in_a_column_that_was_not_asked_for_does_not_matter(tmp_path):
    path = write(tmp_path, table(hourly(), cells="1,oops"))
    assert read_frame(path, columns=["a"]).values.shape == (5, 1)


def test_the_columns_of_a_file_are_known_from_its_header_alone(tmp_path):
    path = write(tmp_path, "when;b;a\nrubbish;x;y\n")
    assert read_columns(path, time_column="when", separator=";") == ("b", "a")


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_any_frequency_is_found_exactly(tmp_path, freq):
    stamps = pd.date_range("2016-02-28 00:00", periods=29, freq=freq)
    path = write(tmp_path, table([str(s) for s in stamps]))
    frame = read_frame(path)
    again = pd.date_range(frame.timestamps[0], periods=29, freq=frame.freq)
    assert (frame.timestamps == stamps).all()
    assert (again == stamps).all()


@pytest.mark.parametrize("freq", ["h", "15min", "7min", "D", "B", "W-SUN", "ME", "MS", "QE-DEC", "YE-DEC", "100ms"])
def test_common_frequencies_have_their_canonical_name(tmp_path, freq):
    path = write(tmp_path, table([str(s) for s in pd.date_range("2016-07-01", periods=29, freq=freq)]))
    assert read_frame(path).freq == freq


@pytest.mark.parametrize(
    "stamps",
    [
        ["2016-07-01 00:00:00", "2016-07-01 01:00:00", "2016-07-01 02:00:00"],
        ["2016-07-01T00:00", "2016-07-01T01:00", "2016-07-01T02:00"],
        ["2016/7/1 0:00", "2016/7/1 1:00", "2016/7/1 2:00"],
        ['"2016-07-01 00"', '"2016-07-01 01"', '"2016-07-01 02"'],
    ],
)
def test_the_usual_ways_to_write_a_time_mean_the_same(tmp_path, stamps):
    frame = read_frame(write(tmp_path, table(stamps)))
    assert [str(t) for t in frame.timestamps] == hourly(3)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("date;a\n2016-07-01;1,5\n2016-07-02;2,5\n2016-07-03;3,5\n", {"separator": ";", "decimal": ","}),
        ("date\ta\n2016-07-01\t1.5\n2016-07-02\t2.5\n2016-07-03\t3.5\n", {"separator": "\\t"}),
        ("time, a\n2016-07-01, 1.5\n2016-07-02, 2.5\n2016-07-03, 3.5\n", {"time_column": "time"}),
        ("\ufeffdate,a\r\n2016-07-01,1.5\r\n\r\n2016-07-02,2.5\r\n2016-07-03,3.5\r\n\r\n", {}),
        ('"date","a"\n"2016-07-01","1.5"\n"2016-07-02","2.5"\n"2016-07-03","3.5"', {}),
    ],
)
def test_other_ways_to_write_a_csv_are_read(tmp_path, text, options):
    frame = read_frame(write(tmp_path, text), **options)
    assert frame.columns == ("a",)
    assert frame.values[:, 0].tolist() == [1.5, 2.5, 3.5]


def test_a_fixed_step_that_resembles_a_calendar_is_fixed(tmp_path):
    """Three steps of 90 days from a month's end look like business quarters to pandas, which then miss them."""
    stamps = pd.date_range("2016-01-31", periods=3, freq="90D")
    assert read_frame(write(tmp_path, table([str(s) for s in stamps]))).freq == "90D"


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_the_future_continues_the_past(freq):
    stamps = pd.date_range("2016-02-28", periods=18, freq=freq)
    assert (future_timestamps(stamps[10], freq, 7) == stamps[11:]).all()


def test_a_frame_is_frozen_and_its_parts_agree():
    stamps = pd.date_range("2016-07-01", periods=3, freq="h")
    frame = SeriesFrame(np.zeros((3, 2)), stamps, ("a", "b"), "h", "x")
    with pytest.raises(AttributeError):
        frame.freq = "D"
    with pytest.raises(AssertionError):
        SeriesFrame(np.zeros((3, 3)), stamps, ("a", "b"), "h", "x")


def test_ETTh1_has_17420_hours(ett_root):
    frame = read_frame(ett_root / "ETTh1.csv")
    assert (frame.values.shape, frame.freq) == ((17420, 7), "h")
    assert [str(frame.timestamps[i]) for i in (0, -1)] == ["2016-07-01 00:00:00", "2018-06-26 19:00:00"]


# the frequency that a model was trained on


@pytest.mark.parametrize(
    ("freq", "start", "n"),
    [
        ("B", "2021-03-01", 5),  # Monday to Friday: days, to whom knows no better
        ("BME", "2021-03-31", 3),  # the last days of their months, too
        ("h", "2021-03-01", 2),
        ("W-SUN", "2021-03-07", 1),
    ],
)
def test_a_short_history_has_the_frequency_trained_on(tmp_path, freq, start, n):
    stamps = pd.date_range(start, periods=n, freq=freq)
    frame = read_frame(write(tmp_path, table([str(s) for s in stamps])), freq=freq)
    assert (frame.freq, len(frame)) == (freq, n)
    assert (frame.timestamps == stamps).all()


@pytest.mark.parametrize(("found", "trained"), [("h", "15min"), ("B", "D"), ("W-WED", "W-SUN"), ("MS", "ME")])
def test_another_frequency_than_the_one_trained_on_is_refused_with_both(tmp_path, found, trained):
    path = write(tmp_path, table([str(s) for s in pd.date_range("2021-03-01", periods=13, freq=found)]))
    message = refusal(path, freq=trained)
    assert_says(message, f"has the frequency '{found}'; the model was trained on '{trained}'", "Resample the file")


def test_a_file_too_short_for_a_frequency_of_its_own_is_refused_at_the_line_off_the_grid(tmp_path):
    message = refusal(write(tmp_path, table(hourly(2))), freq="15min")
    assert_says(message, "line 3: 2016-07-01 01:00:00", "'15min'", "expects 2016-07-01 00:15:00", "Resample the file")
    message = refusal(write(tmp_path, table(["2021-03-06"])), freq="B")
    assert_says(message, "line 2: 2021-03-06", "'B'", "expects 2021-03-08")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([0, 1, 3, 4, 5, 6, 7], "line 4: the timestamps are not regular"),
        ([0, 1, 1], "line 4: the timestamp"),
        ([1, 0], "line 3: 2016-07-01 00:00:00 comes after"),
    ],
)
def test_a_file_that_is_irregular_by_itself_is_refused_as_such(tmp_path, rows, says):
    stamps = hourly(8)
    message = refusal(write(tmp_path, table([stamps[row] for row in rows])), freq="h")
    assert_says(message, says)
    assert "trained on" not in message


# what is refused: files


def test_a_missing_file_is_refused_with_its_neighbour(tmp_path):
    write(tmp_path, "", name="sales.csv")
    assert_says(refusal(tmp_path / "sale.csv"), "does not exist", "Did you mean 'sales.csv'?", "relative")


def test_a_folder_is_refused(tmp_path):
    assert_says(refusal(tmp_path), "is a folder", "Name one CSV file")


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_refused(tmp_path, text):
    assert_says(refusal(write(tmp_path, text)), "is empty", "date,a,b")


def test_a_header_without_rows_is_refused(tmp_path):
    assert_says(refusal(write(tmp_path, "date,a\n\n")), "a header and no rows", "Add one line per time step")


@pytest.mark.parametrize("row", [1, 3000])  # early: while reading the header; late: while pandas reads
def test_a_file_in_another_encoding_is_refused_at_its_line(tmp_path, row):
    lines = table(hourly(4000)).encode().split(b"\n")
    lines[row] += b" \xe9t\xe9"
    assert_says(refusal(write(tmp_path, b"\n".join(lines))), "not UTF-8", f"0xe9 in line {row + 1}", "encoding UTF-8")


# what is refused: the header


def test_a_missing_time_column_is_refused_with_those_that_are_there(tmp_path):
    message = refusal(write(tmp_path, table(hourly(), header="dates,a,b")))
    assert_says(message, "line 1", "'date'", "dates, a, b", "Did you mean 'dates'?", "data.time_column=NAME")
    assert "data.separator" in message


def test_a_wrong_separator_is_recognised(tmp_path):
    message = refusal(write(tmp_path, "date;a\n2016-07-01;1\n"))
    assert_says(message, "line 1 is one column", "'date;a'", "data.separator=';'")


def test_a_time_column_alone_is_refused(tmp_path):
    assert_says(refusal(write(tmp_path, "date\n2016-07-01\n")), "line 1", "no column beside 'date'", "Add a column")


def test_a_column_that_stands_twice_is_refused(tmp_path):
    message = refusal(write(tmp_path, table(hourly(), header="date,a,a")))
    assert_says(message, "line 1", "'a' stands twice", "columns 2 and 3", "Rename or drop")


def test_a_column_without_a_name_is_refused(tmp_path):
    message = refusal(write(tmp_path, ",date,a\n0,2016-07-01,1\n"))
    assert_says(message, "line 1", "column 1 has no name", "index=False")


def test_an_unknown_column_is_refused_with_the_nearest(tmp_path):
    path = write(tmp_path, table(hourly(), header="date,HUFL,OT"))
    assert_says(refusal(path, columns=["HUFLL"]), "'HUFLL'", "HUFL, OT", "Did you mean 'HUFL'?", "line 1")


@pytest.mark.parametrize("key", ["separator", "decimal"])
def test_a_separator_is_one_character(tmp_path, key):
    with pytest.raises(UserError, match=f"data.{key} is '::'; it must be one character"):
        read_frame(write(tmp_path, table(hourly())), **{key: "::"})


def test_separator_and_decimal_differ(tmp_path):
    with pytest.raises(UserError, match=r"data\.decimal and data\.separator are both ','.*different"):
        read_frame(write(tmp_path, table(hourly())), decimal=",")


# what is refused: cells


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("oops", ("'oops' is no number", "Correct it")),
        ("True", ("'True' is no number",)),
        ("0x1F", ("'0x1F' is no number",)),
        ('"1,5"', ("'1,5'", "data.decimal=','")),
        ("", ("missing ('')", "Fill the gap")),
        ("NaN", ("missing ('NaN')", "Fill the gap")),
        ("NA", ("missing ('NA')",)),
        ("inf", ("'inf' is not a finite number", "Replace it")),
        ("-Infinity", ("'-Infinity' is not a finite number",)),
        ("1e999", ("'1e999' is not a finite number",)),
    ],
)
def test_a_cell_that_is_no_finite_number_is_refused(tmp_path, cell, says):
    lines = table(hourly()).split("\n")
    lines[3] = f"2016-07-01 02:00:00,1,{cell}"
    lines.insert(2, "")  # a blank line: the line number is the editor's
    assert_says(refusal(write(tmp_path, "\n".join(lines))), "line 5, column 'b'", *says)


def test_a_short_row_lacks_a_value(tmp_path):
    path = write(tmp_path, table(hourly()) + "2016-07-01 05:00:00,7\n")
    assert_says(refusal(path), "line 7, column 'b'", "missing")


@pytest.mark.parametrize("row", [1, 2, 5])  # pandas alone would take row 1 for an index, in silence
def test_a_row_with_surplus_cells_is_refused(tmp_path, row):
    lines = table(hourly(), header="date,a", cells="1").split("\n")
    lines[row] += ",5"
    message = refusal(write(tmp_path, "\n".join(lines)), columns=["a"])
    assert_says(message, f"line {row + 1} has 3 cells", "2 columns", "data.decimal")


def test_decimal_commas_read_with_points_are_refused(tmp_path):
    path = write(tmp_path, "date;a\n2016-07-01;1.234,5\n2016-07-02;2\n2016-07-03;3\n")
    assert_says(refusal(path, separator=";", decimal=","), "line 2, column 'a'", "'1.234,5' is no number")
    path = write(tmp_path, "date;a\n2016-07-01;1.5\n2016-07-02;2\n2016-07-03;3\n")
    assert_says(refusal(path, separator=";", decimal=","), "line 2, column 'a'", "'1.5'", "data.decimal='.'")


# what is refused: timestamps


@pytest.mark.parametrize(
    ("stamp", "says"),
    [
        ("", ("the timestamp is missing", "drop the line")),
        ("yesterday", ("'yesterday' is no timestamp", "year first")),
        ("2016-13-01", ("'2016-13-01' is no timestamp", "year first")),
        ("2016-02-30", ("'2016-02-30' is no timestamp", "year first")),
        ("01/07/2016 02:00", ("'01/07/2016 02:00' is no timestamp", "year first")),
        ("01-02-03", ("'01-02-03' is no timestamp", "year first")),
        ("1467331200", ("'1467331200' is no timestamp", "year first")),
        ("2016-07-01 02:00:00Z", ("'2016-07-01 02:00:00Z' carries a time zone", "UTC")),
        ("2016-07-01T02:00+02:00", ("carries a time zone", "without the suffix")),
        ("2016-07-01 02:00 CET", ("'2016-07-01 02:00 CET' carries a time zone",)),
    ],
)
def test_a_timestamp_that_cannot_be_read_without_guessing_is_refused(tmp_path, stamp, says):
    stamps = hourly()
    stamps[2] = stamp
    assert_says(refusal(write(tmp_path, table(stamps))), "line 4, column 'date'", *says)


def test_one_time_zone_throughout_is_refused(tmp_path):
    stamps = [f"2016-07-01 0{i}:00:00Z" for i in range(5)]
    assert_says(refusal(write(tmp_path, table(stamps))), "line 2, column 'date'", "00:00:00Z' carries a time zone")


def test_mixed_time_zones_are_refused(tmp_path):
    stamps = [f"2016-07-01 0{i}:00:00+0{i}:00" for i in range(5)]
    assert_says(refusal(write(tmp_path, table(stamps))), "line 2, column 'date'", "+00:00", "time zone")


def test_day_first_dates_that_could_be_months_are_refused(tmp_path):
    """01/02/2016, 01/03/2016, ... are months to one reader, days to another: pandas would just choose."""
    stamps = [f"01/{month:02d}/2016" for month in range(1, 6)]
    assert_says(refusal(write(tmp_path, table(stamps))), "line 2", "'01/01/2016'", "without guessing")


def test_a_repeated_timestamp_is_refused_with_both_lines(tmp_path):
    stamps = hourly(23)
    stamps.insert(8, stamps[7])
    message = refusal(write(tmp_path, table(stamps)))
    assert_says(message, "line 10", "2016-07-01 07:00:00 stands already in line 9", "Drop or average")
    assert "several series" not in message


def test_many_repeated_timestamps_look_like_several_series(tmp_path):
    message = refusal(write(tmp_path, table(hourly() + hourly())))
    assert_says(message, "line 7", "line 2", "5 of 10 rows", "several series in one file", "one file per series")


def test_unsorted_timestamps_are_refused(tmp_path):
    stamps = hourly(7)
    stamps[3], stamps[4] = stamps[4], stamps[3]
    message = refusal(write(tmp_path, table(stamps)))
    assert_says(message, "line 6", "2016-07-01 03:00:00 comes after 2016-07-01 04:00:00", "Sort the rows")


def test_newest_first_is_unsorted(tmp_path):
    assert_says(refusal(write(tmp_path, table(hourly(7)[::-1]))), "line 3", "is earlier", "Sort the rows")


@pytest.mark.parametrize(
    ("freq", "start", "gone"),
    [("h", "2016-07-01", 17), ("15min", "2016-07-01", 2), ("B", "2016-07-01", 17), ("MS", "2016-01-01", 3)],
)
def test_a_gap_is_refused_with_both_sides_and_what_was_expected(tmp_path, freq, start, gone):
    stamps = pd.date_range(start, periods=41, freq=freq)
    path = write(tmp_path, table([str(s) for s in stamps.delete(gone)]))
    message = refusal(path)
    assert_says(message, f"line {gone + 2}:", f"{stamps[gone + 1]} follows {stamps[gone - 1]} (line {gone + 1})")
    assert_says(message, f"usual step '{freq}' expects {stamps[gone]}", "Fill the gap")


def test_a_timestamp_off_the_grid_is_refused(tmp_path):
    stamps = hourly(13)
    stamps[5] = "2016-07-01 05:00:30"
    assert_says(refusal(write(tmp_path, table(stamps))), "line 7:", "05:00:30", "'h' expects 2016-07-01 05:00:00")


def test_three_rows_with_unequal_steps_are_irregular(tmp_path):
    stamps = ["2016-07-01", "2016-07-02", "2016-07-05"]
    assert_says(refusal(write(tmp_path, table(stamps))), "line 4:", "2016-07-05", "'D' expects 2016-07-03")


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_rows_to_infer_a_frequency_are_refused(tmp_path, n):
    assert_says(refusal(write(tmp_path, table(hourly(n)))), f"{n} rows are too few", "At least 3")


def test_every_message_about_a_line_names_a_line_that_exists(tmp_path):
    stamps = hourly(7)
    del stamps[4]
    path = write(tmp_path, table(stamps).replace("\n", "\n\n"))
    line = int(re.findall(r"line (\d+):", refusal(path))[0])
    assert path.read_text().split("\n")[line - 1].startswith("2016-07-01 05:00:00")
