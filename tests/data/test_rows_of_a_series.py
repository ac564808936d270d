"""Rows of one timestamp, out of order, or of no regular step: made one series by a rule that the user names."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.reading.rows import Rows, merged, resampled
from forecast.errors import UserError

NAN = np.nan
TWICE = ["2016-07-01 00:00", "2016-07-01 01:00", "2016-07-01 01:00", "2016-07-01 02:00", "2016-07-01 01:00"]


def rows(stamps, *columns):
    return Rows(pd.DatetimeIndex(stamps), np.array(columns, dtype=float).T)


def equal(actual, expected):
    np.testing.assert_array_equal(actual, np.array(expected, dtype=float).T)


@pytest.mark.parametrize(
    ("how", "a", "b"),
    [
        ("first", [1, 2, 7], [5, NAN, 5]),
        ("last", [1, 6, 7], [5, 3, 5]),
        ("mean", [1, 4, 7], [5, 2, 5]),
        ("sum", [1, 12, 7], [5, 4, 5]),
    ],
)
def test_rows_of_one_timestamp_become_one_by_the_rule(how, a, b):
    repeated = rows(TWICE, [1, 2, 4, 7, 6], [5, NAN, 1, 5, 3])
    result = merged(repeated, how)
    assert list(map(str, result.timestamps)) == [f"2016-07-01 0{hour}:00:00" for hour in range(3)]
    equal(result.values, [a, b])
    assert result.notes[-1] == f"data.duplicates={how} made 2 repeated rows one with the row before."


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_a_sum_and_a_mean_of_nothing_is_nothing(how):
    equal(merged(rows(TWICE[:3], [1, NAN, NAN]), how).values, [[1, NAN]])


def test_repeated_rows_are_left_where_no_rule_is_given():
    repeated = rows(TWICE[:4], [1, 2, 4, 7])
    result = merged(repeated, "error")
    assert result.timestamps.equals(repeated.timestamps)
    assert result.notes == ()


@pytest.mark.parametrize(("order", "steps"), [([4, 3, 2, 1, 0], "4 steps"), ([1, 2, 0, 3, 4], "1 step")])
def test_rows_are_sorted_by_time_and_it_is_said(order, steps):
    stamps = pd.date_range("2016-07-01", periods=5, freq="h")
    result = merged(rows(stamps[order], order), "error")
    assert result.timestamps.equals(pd.DatetimeIndex(stamps))
    equal(result.values, [range(5)])
    assert result.notes == (f"The rows were sorted by time: {steps} went back.",)


def test_rows_in_order_are_the_very_same():
    before = rows(pd.date_range("2016-07-01", periods=3, freq="h"), [1, 2, 3])
    after = merged(before, "mean")
    assert after.values is before.values
    assert after.notes == ()


@pytest.mark.parametrize(
    ("aggregate", "values"), [("mean", [1.5, NAN, 4, 7.5]), ("sum", [3, NAN, 12, 15]), ("last", [2, NAN, 5, 8])]
)
def test_rows_are_brought_to_a_frequency_by_the_rule(aggregate, values):
    minutes = [0, 40, 130, 140, 170, 181, 200]
    stamps = pd.Timestamp("2016-07-01") + pd.to_timedelta(minutes, unit="min")
    result = resampled(rows(stamps, [1, 2, 3, 4, 5, 7, 8]), "h", aggregate)
    assert result.timestamps.equals(pd.date_range("2016-07-01", periods=4, freq="h").as_unit(result.timestamps.unit))
    equal(result.values, [values])
    assert f"data.resample=h made 4 rows of 7, by their {aggregate}." in result.notes


def test_a_sum_of_part_of_a_step_is_said():
    stamps = pd.date_range("2016-07-01 22:00", periods=53, freq="h")
    notes = resampled(rows(stamps, range(53)), "D", "sum").notes
    assert notes[-1] == "The sums of the first and last step are of 2 and 3 rows, where others are of 24."
    assert len(resampled(rows(stamps, range(53)), "D", "mean").notes) == 1


@pytest.mark.parametrize("freq", ["hourly", "", "0h", "-1h", "x"])
def test_what_is_no_frequency_is_refused(freq):
    with pytest.raises(UserError, match=f"data.resample={freq} is no frequency. Write h, 15min"):
        resampled(rows(TWICE[:2], [1, 2]), freq, "mean")


def test_a_frequency_that_leaves_no_series_is_refused():
    stamps = pd.date_range("2016-07-01", periods=5, freq="h")
    with pytest.raises(UserError, match=r"data.resample=D leaves 1 row of 5.*Choose a finer frequency"):
        resampled(rows(stamps, range(5)), "D", "mean")
