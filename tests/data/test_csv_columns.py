"""The cells of a file: what its size and its way of writing may not change, and what is no CSV file at all."""

import os

import pandas as pd
import pytest
from data.csv_files import assert_listed, hours, read_frame, refusal, table, write

from forecast.data.read import read_panel
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit

TEXT = table(hours(11))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_any_line_end_with_or_without_a_byte_order_mark_is_read(tmp_path, end, mark):
    frame = read_frame(write(tmp_path, mark + TEXT.replace("\n", end)))
    assert frame.values.tolist() == [[1.5, 2.0]] * 11


def test_line_ends_may_be_mixed(tmp_path):
    lines = TEXT.splitlines()
    text = "".join(line + end for line, end in zip(lines, ["\n", "\r", "\r\n"] * 4, strict=True))
    assert read_frame(write(tmp_path, text)).values.shape == (11, 2)


def test_a_column_of_flags_is_one_and_zero(tmp_path):
    lines = ["date,a,b,c", *(f"{t},1.5,2,{flag}" for t, flag in zip(hours(3), ["True", "False", "True"], strict=True))]
    assert read_frame(write(tmp_path, "\n".join(lines))).values[:, 2].tolist() == [1, 0, 1]
    lines[2] = lines[2].replace("1.5", "oops")  # the flags before it are not what is wrong
    assert "line 3, column 'a': 'oops'" in refusal(write(tmp_path, "\n".join(lines)))
    lines[2:] = [line.replace("oops", "1").replace("False", "2").replace("True", "3") for line in lines[2:]]
    assert "line 2, column 'c': 'True' is no number" in refusal(write(tmp_path, "\n".join(lines)))


@pytest.mark.parametrize("ids", [["H1", "007"], ["007", "H1"], ["7.0", "1e5"], ["TRUE", "True"], ["1-2", "1.10"]])
def test_an_id_stays_as_it_is_written_whatever_the_first_one_looks_like(tmp_path, ids):
    lines = ["date,id,y", *(f"{t},{name},1.5" for name in ids for t in hours())]
    panel = read_panel(CsvSource(path=str(write(tmp_path, "\n".join(lines))), id_column="id", split=ShareSplit()))
    assert panel.ids.tolist() == ids


@pytest.mark.parametrize("blank", ["", " ", "\t", " \t "])
def test_blank_lines_count_in_line_numbers_alone(tmp_path, blank):
    lines = [blank, "date,a,b", blank, *TEXT.splitlines()[1:6], blank]
    text = "\n".join([*lines, "2016-07-01 05:00:00,1,z", blank])
    assert "line 10, column 'b': 'z'" in refusal(write(tmp_path, text))
    assert read_frame(write(tmp_path, text.replace("z", "3"))).values[5].tolist() == [1, 3]


# timestamps


@pytest.mark.parametrize("word", ["now", "today", "NaT"])
def test_a_timestamp_is_not_read_off_the_clock(tmp_path, word):
    """With the frequency of a model one row is enough: `now` would be a timestamp of any frequency."""
    message = refusal(write(tmp_path, table([word])), freq="us")
    assert f"line 2, column 'date': {word!r} is no timestamp" in message


def test_a_first_timestamp_off_the_grid_does_not_follow_the_last(tmp_path):
    stamps = ["2016-07-02", *map(str, pd.date_range("2016-07-10", periods=30, freq="W-SUN").delete(7))]
    message = refusal(write(tmp_path, table(stamps)), gaps="mask")
    assert "line 3: the times are not regular: 2016-07-10 00:00:00 follows 2016-07-02 00:00:00" in message


# what is no CSV file


NO_CSV = {
    "no mark": (lambda path: path.write_text(TEXT, encoding="utf-16-le"), "is damaged, or no text in UTF-8"),
    "nothing there": (lambda path: None, "does not exist"),
    "link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
}


@pytest.mark.parametrize("kind", NO_CSV)
def test_what_is_no_csv_file_is_refused_by_its_name(tmp_path, kind):
    make, says = NO_CSV[kind]
    make(tmp_path / "my.csv")
    message = refusal(tmp_path / "my.csv")
    assert says in message
    assert_listed(tmp_path / "my.csv", message)


def test_a_path_that_no_file_can_have_is_refused(tmp_path):
    assert "does not exist" in refusal(write(tmp_path, TEXT) / "my.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = write(tmp_path, TEXT)
    path.chmod(0)
    assert "cannot be read: Permission denied" in refusal(path)


def test_a_quoted_cell_may_hold_the_end_of_a_line_and_lines_are_those_of_the_file(tmp_path):
    rows = [f'2016-07-0{day},{day},"a\nb"' for day in range(1, 6)]
    path = tmp_path / "my.csv"
    path.write_text("\n".join(["date,x,note", *rows]))
    assert read_frame(path).values[:, 0].tolist() == [1, 2, 3, 4, 5]
    path.write_text("\n".join(["date,x,note", *rows[:2], rows[2].replace(",3", ",?")]))
    assert "line 6, column 'x': '?' is no number" in refusal(path)


def test_a_quoted_decimal_comma_may_stand_among_cells_parted_by_commas(tmp_path):
    path = write(tmp_path, table(hours(3), cells='"1,5",2'))
    assert read_frame(path, decimal=",").values.tolist() == [[1.5, 2]] * 3
