"""Gaps are refused, or filled by the rule that data.gaps names; a frame says which rows were filled in."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import FREQUENCIES, read_frame

from forecast.data.panel import Repair
from forecast.data.values.calendar import infer_frequency
from forecast.errors import UserError

POLICIES = ("interpolate", "forward_fill", "mask")
HOURS = pd.date_range("2021-03-01", periods=13, freq="h")
ONES = ["1,1"] * 13


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.csv"


def write(path, stamps, cells=None):
    """Columns a and b, 1 where no cells are named."""
    cells = ["1,1"] * len(stamps) if cells is None else cells
    path.write_text("\n".join(["date,a,b", *(f"{t},{cell}" for t, cell in zip(stamps, cells, strict=True))]) + "\n")


def gappy(path):
    """Hours 3, 4 and 9 are no rows; b is empty at hour 5 and a says NA at hour 11. a = hour, b = 100 + hour squared."""
    cells = [f"{h},{100 + h * h}" for h in range(13)]
    cells[5], cells[11] = "5,", "NA,221"
    rows = [h for h in range(13) if h not in (3, 4, 9)]
    write(path, HOURS[rows], [cells[h] for h in rows])


FILLED = [3, 4, 5, 9, 11]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_grid_is_whole_and_says_which_rows_are_made_up_and_what_was_done(path, policy):
    gappy(path)
    frame = read_frame(path, gaps=policy)
    assert (frame.freq, frame.timestamps.tolist()) == ("h", HOURS.tolist())
    assert np.flatnonzero(frame.missing.any(axis=1)).tolist() == FILLED
    assert frame.repair == Repair(policy, rows_added=3, cells_filled=2, longest_run=3)
    assert frame.values.dtype == np.float64
    measured = [0, 1, 2, 6, 7, 8, 10, 12]
    assert frame.values[measured].tolist() == [[h, 100 + h * h] for h in measured]


def test_interpolate_draws_a_line_in_time_to_the_next_value(path):
    gappy(path)
    values = read_frame(path, gaps="interpolate").values
    np.testing.assert_allclose(values[FILLED, 0], FILLED, rtol=1e-15)
    # b: from 104 at hour 2 to 136 at hour 6, from 164 at 8 to 200 at 10; at 11 it was measured
    np.testing.assert_allclose(values[FILLED, 1], [112, 120, 128, 182, 221], rtol=1e-15)


def test_forward_fill_repeats_the_last_value(path):
    gappy(path)
    values = read_frame(path, gaps="forward_fill").values
    assert values[FILLED].tolist() == [[2, 104], [2, 104], [5, 104], [8, 164], [10, 221]]


def test_mask_keeps_every_row_and_any_finite_number_stands_in_it(path):
    write(path, HOURS[:6], ["0,0", ",1", "1,", "2,2", "3,", "4,4"])
    frame = read_frame(path, gaps="mask")
    assert np.isfinite(frame.values).all()
    assert frame.values[[0, 3, 5]].tolist() == [[0, 0], [2, 2], [4, 4]]
    assert frame.missing.any(axis=1).tolist() == [False, True, True, False, True, False]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_without_gaps_is_read_to_the_same_bits(path, policy):
    rng = np.random.default_rng(0)
    write(path, HOURS, [f"{x},{y}" for x, y in rng.normal(size=(13, 2))])
    plain, frame = read_frame(path), read_frame(path, gaps=policy)
    assert (frame.missing, frame.repair) == (None, Repair(policy))
    assert frame.values.tobytes() == plain.values.tobytes()
    assert frame.timestamps.equals(plain.timestamps) and frame.freq == plain.freq


WORDS = ["", "nan", "NaN", "NAN", "NA", "na", "N/A", "n/a", "null", "NULL", "None", "none", "<NA>", "#N/A"]


@pytest.mark.parametrize("word", WORDS)
def test_every_word_for_a_missing_value_is_a_gap(path, word):
    write(path, HOURS[:4], ["1,1", f"{word},2", "3,3", "4,4"])
    assert read_frame(path, gaps="interpolate").values[:, 0].tolist() == [1, 2, 3, 4]


def test_a_row_that_ends_early_lacks_its_last_cells(path):
    write(path, HOURS[:7], ["0,0", "1,1", "2,2", "3,3", "4,4", "5", "6,6"])
    assert read_frame(path, gaps="forward_fill").values[-2].tolist() == [5, 4]


MISSING = [[*range(3, 40, 3)], [11], [5, 6, 7, 23]]
GAPPY = [freq for freq in FREQUENCIES if freq not in ("WOM-3FRI", "2W-TUE")]


@pytest.mark.parametrize(("freq", "missing"), [(freq, MISSING[place % 3]) for place, freq in enumerate(GAPPY)])
def test_the_frequency_is_found_in_spite_of_gaps(path, freq, missing):
    whole = pd.date_range("2016-03-05", periods=41, freq=freq)
    write(path, whole.delete(missing))
    frame = read_frame(path, gaps="forward_fill")
    assert frame.timestamps.tolist() == whole.tolist()
    assert frame.timestamps.tolist() == pd.date_range(whole[0], periods=41, freq=frame.freq).tolist()
    assert frame.repair.rows_added == len(missing)
    unit = infer_frequency(whole).split("-")[0]  # QS-FEB is QS-MAY, but a week is not 7D
    assert frame.freq.split("-")[0] == unit


def test_a_file_of_a_known_frequency_may_have_two_rows_and_a_gap_between(path):
    write(path, HOURS[[0, 2]], ["1,1", "3,5"])
    assert read_frame(path, freq="h", gaps="interpolate").values.tolist() == [[1, 1], [2, 3], [3, 5]]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_coarser_frequency_is_not_a_finer_one_with_gaps(path, policy):
    write(path, pd.date_range("2021", periods=7, freq="2h"))
    with pytest.raises(UserError, match=r"has the frequency '2h'; the model was trained on 'h'"):
        read_frame(path, freq="h", gaps=policy)


def test_a_known_frequency_off_whose_grid_a_row_lies_is_refused(path):
    write(path, [*HOURS[:4], *(HOURS[5:9] + pd.Timedelta("30min"))])
    with pytest.raises(UserError, match=r"my.csv: line 6: .*05:30:00 is between the steps of 'h'"):
        read_frame(path, freq="h", gaps="mask")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("stamps", "cells", "says"),
    [
        (
            [*HOURS[:3], *HOURS[5:7], HOURS[7] + pd.Timedelta("7min"), *HOURS[8:]],
            *(None, r"line 7: the times are not regular: .* 07:07:00 follows .* 06:00:00, where"),
        ),
        (
            HOURS[[0, 1, 2, 7, 12]],
            None,
            r"column 'a' has no value in 8 of 13 rows at the frequency 'h'.*resample",
        ),
        (HOURS, ["1,1"] * 5 + ["1,"] * 7 + ["1,1"], r"column 'b' has no value in 7 of 13 rows.*drop the column"),
    ],
    ids=["off the grid", "most rows missing", "most of a column missing"],
)
def test_what_is_no_gap_is_refused_with_every_rule(path, policy, stamps, cells, says):
    write(path, stamps, cells)
    with pytest.raises(UserError, match=rf"my.csv.*{says}"):
        read_frame(path, gaps=policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_exactly_half_of_the_rows_or_of_a_column_may_be_missing(path, policy):
    write(path, HOURS, ["1,1"] * 6 + ["1,"] * 6 + ["1,1"])
    assert read_frame(path, gaps=policy).repair.cells_filled == 6
    write(path, HOURS[[0, 1, 4, 5, 6, 11]])
    assert read_frame(path, gaps=policy).repair.rows_added == 6


@pytest.mark.parametrize("policy", [*POLICIES, "refuse"])
@pytest.mark.parametrize("row", [0, 12])
def test_rows_at_an_end_that_lack_a_value_are_left_out_and_said(path, policy, row, caplog):
    caplog.set_level("INFO")
    cells = list(ONES)
    cells[row] = "1,"
    write(path, HOURS[::-1], cells[::-1])
    frame = read_frame(path, gaps=policy)
    assert frame.timestamps.tolist() == HOURS.delete(row).tolist() and frame.missing is None
    assert "1 row left out at an end, for want of a value in a column." in caplog.text


def test_rows_of_which_none_is_whole_are_refused(path):
    write(path, HOURS[:12], ["1,", ",1"] * 6)
    with pytest.raises(UserError, match=r"my.csv: none of 1 series can be used: .* of the columns a, b\. Name columns"):
        read_frame(path, gaps="forward_fill")


def test_a_refused_gap_names_the_rules_that_fill_it(path):
    write(path, HOURS.delete(7))
    with pytest.raises(
        UserError, match=r"line 9: before it 1 row.*2021-03-01 07:00:00 on. Set data.gaps=interpolate, "
    ):
        read_frame(path)
    write(path, HOURS, [*ONES[2:], "1,", "1,1"])
    with pytest.raises(UserError, match=r"line 14: .* is missing \(no value of b\), .*Set data.gaps=interpolate"):
        read_frame(path)


def test_the_last_rows_of_a_frame_know_which_of_them_are_made_up(path):
    gappy(path)
    frame = read_frame(path, gaps="mask")
    last = frame.tail(5)
    assert (~last.measured).any(axis=1).tolist() == [False, True, False, True, False]
    assert (last.repair, last.freq, last.columns, last.name) == (frame.repair, "h", ("a", "b"), str(path))
    assert last.timestamps(0).tolist() == HOURS[-5:].tolist() and last.values.tolist() == frame.values[-5:].tolist()
