"""A CSV becomes a regular series, or one error that names file, line, column, value and fix."""

import re

import numpy as np
import pandas as pd
import pytest
from data.csv_files import FREQUENCIES, assert_says, hours, read_frame, refusal, table, write

from forecast.data.values.calendar import future_timestamps

CANONICAL = ["h", "15min", "7min", "D", "B", "W-SUN", "ME", "MS", "QE-DEC", "YE-DEC", "100ms"]


def stamps_of(start, n, freq):
    return [str(stamp) for stamp in pd.date_range(start, periods=n, freq=freq)]


# what is read


def test_all_columns_but_the_time_are_read_in_file_order(tmp_path):
    path = write(tmp_path, "b,date,a\n1,2016-07-01 00:00,-2.5\n3,2016-07-01 01:00,4e1\n5,2016-07-01 02:00,+.5\n")
    frame = read_frame(path)
    assert (frame.columns, frame.freq, frame.name, len(frame)) == (("b", "a"), "h", str(path), 3)
    assert frame.values.dtype == np.float64
    assert frame.values.tolist() == [[1, -2.5], [3, 40], [5, 0.5]]
    assert frame.timestamps.equals(pd.date_range("2016-07-01", periods=3, freq="h").as_unit(frame.timestamps.unit))


def test_columns_are_read_in_the_order_given_and_bad_cells_of_others_do_not_matter(tmp_path):
    frame = read_frame(write(tmp_path, table(hours(), header="date,a,b,c", cells="1,2,text")), columns=["b", "a"])
    assert (frame.columns, frame.values.shape, frame.values[4].tolist()) == (("b", "a"), (5, 2), [2, 1])


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_any_frequency_is_found_exactly(tmp_path, freq):
    stamps = pd.date_range("2016-02-28 00:00", periods=29, freq=freq)
    frame = read_frame(write(tmp_path, table(map(str, stamps))))
    assert (frame.timestamps == stamps).all()
    assert (pd.date_range(frame.timestamps[0], periods=29, freq=frame.freq) == stamps).all()
    assert freq not in CANONICAL or frame.freq == freq


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
    assert [str(t) for t in frame.timestamps] == hours(3)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("date;a\n2016-07-01;1,5\n2016-07-02;2,5\n2016-07-03;3,5\n", {"separator": ";", "decimal": ","}),
        ("date\ta\n2016-07-01\t1.5\n2016-07-02\t2.5\n2016-07-03\t3.5\n", {"separator": "\\t"}),
        ("time, a\n2016-07-01, 1.5\n2016-07-02, 2.5\n2016-07-03, 3.5\n", {"time_column": "time"}),
        ("\ufeffdate,a\r\n2016-07-01,1.5\r\n\r\n2016-07-02,2.5\r\n2016-07-03,3.5\r\n\r\n", {}),
        ('"date","a"\n"2016-07-01","1.5"\n"2016-07-02","2.5"\n"2016-07-03","3.5"', {}),
        ('"date",  "a"\n"2016-07-01",  "1.5"\n"2016-07-02",  "2.5"\n"2016-07-03",  "3.5"', {}),
    ],
)
def test_other_ways_to_write_a_csv_are_read(tmp_path, text, options):
    frame = read_frame(write(tmp_path, text), **options)
    assert (frame.columns, frame.values[:, 0].tolist()) == (("a",), [1.5, 2.5, 3.5])


def test_a_fixed_step_that_resembles_a_calendar_is_fixed(tmp_path):
    """Three steps of 90 days from a month's end look like business quarters to pandas, which then miss them."""
    assert read_frame(write(tmp_path, table(stamps_of("2016-01-31", 3, "90D")))).freq == "90D"


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_the_future_continues_the_past(freq):
    stamps = pd.date_range("2016-02-28", periods=18, freq=freq)
    assert (future_timestamps(stamps[10], freq, 7) == stamps[11:]).all()


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
    frame = read_frame(write(tmp_path, table(stamps_of(start, n, freq))), freq=freq)
    assert (frame.freq, len(frame)) == (freq, n)
    assert (frame.timestamps == pd.date_range(start, periods=n, freq=freq)).all()


@pytest.mark.parametrize(("actual", "trained"), [("h", "15min"), ("B", "D"), ("W-WED", "W-SUN"), ("MS", "ME")])
def test_another_frequency_than_the_one_trained_on_is_refused_with_both(tmp_path, actual, trained):
    message = refusal(write(tmp_path, table(stamps_of("2021-03-01", 13, actual))), freq=trained)
    assert_says(message, f"has the frequency '{actual}'; the model was trained on '{trained}'", "Resample the file")


def test_a_file_too_short_for_a_frequency_of_its_own_is_refused_at_the_line_off_the_grid(tmp_path):
    message = refusal(write(tmp_path, table(hours(2))), freq="15min")
    assert_says(message, "has no value in 3 of 5 rows at the frequency '15min'")
    message = refusal(write(tmp_path, table(["2021-03-06"])), freq="B")
    assert_says(message, "line 2: 2021-03-06", "between the steps of 'B'")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([0, 1, 3, 4, 5, 6, 7], "line 4: before it 1 row"),
        ([0, 1, 2, 3, 9, 4], "line 7: 2016-07-01 04:00:00 follows 2016-07-01 09:00:00; the times go back in 1 step"),
    ],
)
def test_a_file_that_is_irregular_by_itself_is_refused_as_such(tmp_path, rows, says):
    message = refusal(write(tmp_path, table([hours(10)[row] for row in rows])), freq="h")
    assert says in message and "trained on" not in message


# what is refused


def test_a_missing_file_is_refused_with_its_neighbour(tmp_path):
    for name in ("a.csv", "orders.csv", "sales.csv"):  # which end alike
        (tmp_path / name).touch()
    assert_says(refusal(tmp_path / "sale.csv"), "does not exist", "Did you mean 'sales.csv'?", "relative")


@pytest.mark.parametrize(
    ("freq", "start", "gone"),
    [("h", "2016-07-01", 17), ("15min", "2016-07-01", 2), ("B", "2016-07-01", 17), ("MS", "2016-01-01", 3)],
)
def test_a_gap_is_refused_with_both_sides_and_what_was_expected(tmp_path, freq, start, gone):
    stamps = pd.date_range(start, periods=41, freq=freq)
    message = refusal(write(tmp_path, table(map(str, stamps.delete(gone)))))
    assert_says(
        message, f"line {gone + 2}: before it 1 row of '{freq}' is missing, from {stamps[gone]} on. Set data.gaps"
    )


def test_every_message_about_a_line_names_a_line_that_exists(tmp_path):
    stamps = hours(7)
    del stamps[4]
    path = write(tmp_path, table(stamps).replace("\n", "\n\n"))
    line = int(re.findall(r"line (\d+):", refusal(path))[0])
    assert path.read_text().split("\n")[line - 1].startswith("2016-07-01 05:00:00")


def test_a_column_that_is_the_same_in_all_rows_counts_no_steps(tmp_path):
    path = write(tmp_path, table(["0"] * 7))
    assert_says(refusal(path), "1 series of at most 1 row are too short to infer a frequency")


def test_steps_that_resampling_leaves_without_a_value_are_refused_or_filled(tmp_path):
    stamps = [stamp for stamp in hours(11) if "05:" not in stamp]
    path = write(tmp_path, table(stamps))
    message = refusal(path, resample="h", aggregate="mean")
    assert_says(message, "before it 1 row of 'h' is missing, from 2016-07-01 05:00:00 on")
    frame = read_frame(path, resample="h", aggregate="mean", gaps="interpolate")
    assert len(frame) == 11 and np.isfinite(frame.values).all()
