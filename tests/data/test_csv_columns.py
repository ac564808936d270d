"""The cells of a file: what its text, its size and its way of writing may not change; each fault that was found."""

import gzip
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

from forecast.data import csv_columns
from forecast.data.frame import read_frame
from forecast.errors import UserError

GAPS = "mask"


def write(folder, text):
    path = folder / "my.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def hours(n, cells="1.5,2"):
    return [f"{stamp},{cells}" for stamp in pd.date_range("2016-07-01", periods=n, freq="h")]


def refusal(path, **options):
    with pytest.raises(UserError) as caught:
        read_frame(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def small_chunks(monkeypatch):
    """Seven rows of three columns at a time."""
    monkeypatch.setattr(csv_columns, "CHUNK_CELLS", 21)
    monkeypatch.setattr(csv_columns, "CHUNK_ROWS", 1)


# read some rows at a time


def test_the_size_of_a_chunk_changes_nothing(tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=(23, 2)).round(3)
    stamps = pd.date_range("2016-07-01", periods=23, freq="h")
    lines = [f"{stamp},{a!r},{b!r}" for stamp, (a, b) in zip(stamps, values.tolist(), strict=True)]
    path = write(tmp_path, "\n".join(["date,a,b", *lines]))
    for cells, rows in [(1, 1), (21, 1), (1, 7), (66, 1), (69, 1), (10_000, 1)]:
        monkeypatch.setattr(csv_columns, "CHUNK_CELLS", cells)
        monkeypatch.setattr(csv_columns, "CHUNK_ROWS", rows)
        frame = read_frame(path)
        assert frame.values.tolist() == values.tolist()
        assert frame.values.strides == (8, frame.values.strides[1]), "column by column, as sums over the rows need it"
        assert (frame.timestamps == stamps).all()


@pytest.mark.parametrize(
    ("row", "line", "says"),
    [
        (16, "2016-07-01 16:00:00,oops,2", "line 18, column 'a': 'oops' is no number"),
        (16, "2016-07-01 16:00:00,,2", "line 18, column 'a': the value is missing"),
        (16, "2016-07-01 16:00:00,1,2,3", "line 18 has 4 cells"),
        (16, "soon,1,2", "line 18, column 'date': 'soon' is no timestamp"),
        (16, ",1,2", "line 18, column 'date': the timestamp is missing"),
        (16, "2016-07-01 16:00:00Z,1,2", "line 18, column 'date': '2016-07-01 16:00:00Z' carries a time zone"),
        (22, '2016-07-01 22:00:00,"1,2', "line 24: a quotation mark opens a cell that is never closed"),
    ],
)
def test_an_error_in_a_later_chunk_has_its_line(tmp_path, small_chunks, row, line, says):
    lines = hours(23)
    lines[row] = line
    assert says in refusal(write(tmp_path, "\n".join(["date,a,b", *lines])))


def test_a_later_chunk_all_in_one_zone_is_refused(tmp_path, small_chunks):
    lines = hours(7) + [line.replace(",", "+02:00,", 1) for line in hours(14)[7:]]
    assert "line 9, column 'date': '2016-07-01 07:00:00+02:00'" in refusal(
        write(tmp_path, "\n".join(["date,a,b", *lines]))
    )


def test_chunks_of_unlike_timestamps_are_one_series(tmp_path, small_chunks):
    """Seconds, nanoseconds and dates: pandas 3 has a resolution for each."""
    stamps = pd.date_range("2016-07-01", periods=21, freq="12h")
    forms = ["%Y-%m-%d %H:%M"] * 7 + ["%Y-%m-%dT%H:%M:%S.000000000"] * 7 + ["%Y/%m/%d %H"] * 7
    lines = [f"{stamp.strftime(form)},1,2" for stamp, form in zip(stamps, forms, strict=True)]
    frame = read_frame(write(tmp_path, "\n".join(["date,a,b", *lines])))
    assert (frame.timestamps == stamps).all()


# ways to write a file


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_any_line_end_with_or_without_a_byte_order_mark_is_read(tmp_path, end, mark):
    frame = read_frame(write(tmp_path, mark + end.join(["date,a,b", *hours(11)]) + end))
    assert frame.values.tolist() == [[1.5, 2.0]] * 11


def test_line_ends_may_be_mixed(tmp_path):
    lines = ["date,a,b", *hours(11)]
    text = "".join(line + end for line, end in zip(lines, ["\n", "\r", "\r\n"] * 4, strict=True))
    assert read_frame(write(tmp_path, text)).values.shape == (11, 2)


def test_blanks_before_a_quotation_mark_do_not_count(tmp_path):
    frame = read_frame(write(tmp_path, "\n".join(['"date",  "a"', *(f'"{line[:19]}",  "1.5"' for line in hours(3))])))
    assert frame.values.tolist() == [[1.5]] * 3


def test_a_column_of_flags_is_one_and_zero(tmp_path):
    lines = [f"{line},{flag}" for line, flag in zip(hours(3), ["True", "False", "True"], strict=True)]
    assert read_frame(write(tmp_path, "\n".join(["date,a,b,c", *lines]))).values[:, 2].tolist() == [1, 0, 1]
    lines[1] = lines[1].replace("1.5", "oops")  # the flags before it are not what is wrong
    assert "line 3, column 'a': 'oops'" in refusal(
        write(tmp_path, "\n".join(["date,c,a,b", *lines]).replace("c,a,b", "a,b,c"))
    )
    lines[1] = lines[1].replace("oops", "1").replace("False", "2")
    assert "line 2, column 'c': 'True' is no number" in refusal(write(tmp_path, "\n".join(["date,a,b,c", *lines])))


@pytest.mark.parametrize("blank", ["", " ", "\t", " \t "])
def test_blank_lines_count_in_line_numbers_alone(tmp_path, blank):
    lines = [blank, "date,a,b", blank, *hours(5), blank, "2016-07-01 05:00:00,1,z", blank]
    assert "line 10, column 'b': 'z'" in refusal(write(tmp_path, "\n".join(lines)))
    assert read_frame(write(tmp_path, "\n".join(lines).replace("z", "3"))).values[5].tolist() == [1, 3]


@pytest.mark.parametrize("row", ['""', '" "', '"\t"'])
def test_blanks_in_quotes_are_a_row_without_values(tmp_path, row):
    assert "line 3, column 'a': the value is missing" in refusal(
        write(tmp_path, "\n".join(["date,a,b", hours(1)[0], row]))
    )


def test_lines_of_blanks_are_no_rows(tmp_path):
    assert "a header and no rows" in refusal(write(tmp_path, "date,a\n \t\n\t\n"))


def test_the_line_of_the_header_is_named(tmp_path):
    assert "line 3: column 'a' stands twice" in refusal(write(tmp_path, "\n\ndate,a,a\n2016-07-01,1,2\n"))


@pytest.mark.parametrize("separator", ["a", "1", '"', "\n", "§"])
def test_a_separator_that_cannot_separate_is_refused(tmp_path, separator):
    with pytest.raises(UserError, match=r"data\.separator is .*Choose ','"):
        read_frame(write(tmp_path, "date,a\n"), separator=separator)


def test_a_decimal_is_a_point_or_a_comma(tmp_path):
    with pytest.raises(UserError, match=r"data\.decimal is '-'; it must be one character\. Set '\.' or ','"):
        read_frame(write(tmp_path, TEXT), decimal="-")


# cells that pandas takes for something else, or cannot say what is wrong with


@pytest.mark.parametrize("cell", ["1\u00a0", "\u00a01", "١", "１", "1_000"])
def test_what_is_a_number_to_python_alone_is_refused(tmp_path, cell):
    message = refusal(write(tmp_path, "\n".join(["date,a,b", *hours(3), f"2016-07-01 03:00,1,{cell}"])))
    assert f"line 5, column 'b': {cell!r} is no number" in message


@pytest.mark.parametrize("word", ["now", "today", "NaT"])
def test_a_timestamp_is_not_read_off_the_clock(tmp_path, word):
    """With the frequency of a model one row is enough: `now` would be a timestamp of any frequency."""
    message = refusal(write(tmp_path, f"date,a\n{word},1\n"), freq="us")
    assert f"line 2, column 'date': {word!r} is no timestamp" in message


def test_a_nul_byte_is_refused_at_its_line(tmp_path):
    """To pandas 2 the cell 1NUL5 is the number 1."""
    lines = hours(5)
    lines[3] = lines[3].replace("1.5", "1\0005")
    assert "line 5 holds a NUL byte" in refusal(write(tmp_path, "\n".join(["date,a,b", *lines])))


def test_a_quotation_mark_that_never_closes_is_refused_where_it_opens(tmp_path):
    lines = hours(9)
    lines[4] = lines[4].replace("1.5", '"1.5')
    message = refusal(write(tmp_path, "\n".join(["date,a,b", *lines])))
    assert "line 6: a quotation mark opens a cell that is never closed. Close or remove it." in message


def test_a_long_cell_is_cut_in_the_message(tmp_path):
    message = refusal(write(tmp_path, "\n".join(["date,a,b", *hours(3), f"2016-07-01 03:00,1,{'x' * 9999}"])))
    assert f"'{'x' * 60}'... is no number" in message
    assert len(message) < 300


@pytest.mark.parametrize("stamp", ["-2016-01-01", "0000-01-01", "0001-01-01", "1677-12-31", "2262-01-01", "9999-12-31"])
@pytest.mark.parametrize("gaps", ["refuse", GAPS])
def test_a_year_out_of_reach_is_refused_as_such(tmp_path, stamp, gaps):
    """9999-12-31 means "open": all days until then were listed, in each of a dozen frequencies."""
    lines = hours(5)
    lines[3] = f"{stamp},1,2"
    message = refusal(write(tmp_path, "\n".join(["date,a,b", *lines])), gaps=gaps)
    assert f"line 5, column 'date': {stamp!r} is not in the years 1678 to 2261, which can be read" in message


def test_steps_of_centuries_have_a_length(tmp_path):
    """In nanoseconds the first one is beyond 64 bits."""
    message = refusal(write(tmp_path, "date,a\n1678-01-01,1\n1978-01-01,2\n2261-01-01,3\n"))
    assert "line 3: the timestamps are not regular: 1978-01-01 00:00:00 follows 1678-01-01 00:00:00" in message
    assert "usual step '103364D'" in message


def test_a_first_timestamp_off_the_grid_is_not_said_to_follow_the_last(tmp_path):
    stamps = ["2016-07-02", *map(str, pd.date_range("2016-07-10", periods=30, freq="W-SUN").delete(7))]
    message = refusal(write(tmp_path, "\n".join(["date,a", *(f"{stamp},1" for stamp in stamps)])), gaps=GAPS)
    assert "line 3: the timestamps are not regular: 2016-07-10 00:00:00 follows 2016-07-02 00:00:00 (line 2)" in message


# what is no CSV file


def workbook(path):
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/workbook.xml", "<workbook/>")


TEXT = "\n".join(["date,a,b", *hours(5)])
NO_CSV = {
    "gzip": (lambda path: path.write_bytes(gzip.compress(TEXT.encode())), "is compressed with gzip"),
    "Excel": (workbook, "is a zip archive or an Excel workbook"),
    "old Excel": (lambda path: path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 99), "is an Excel workbook"),
    "Parquet": (lambda path: path.write_bytes(b"PAR1" + bytes(99)), "is a Parquet file"),
    "UTF-16": (lambda path: path.write_text(TEXT, encoding="utf-16"), "is UTF-16 text"),
    "UTF-16 without a mark": (lambda path: path.write_text(TEXT, encoding="utf-16-le"), "line 1 holds a NUL byte"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "pipe": (os.mkfifo, "is a pipe or a device"),
    "device": (lambda path: path.symlink_to(os.devnull), "is a pipe or a device"),
    "broken link": (lambda path: path.symlink_to("nowhere"), "does not exist"),
    "link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
}


@pytest.mark.parametrize("kind", NO_CSV)
def test_what_is_no_csv_file_is_refused_by_its_name(tmp_path, kind):
    make, says = NO_CSV[kind]
    make(tmp_path / "my.csv")
    assert says in refusal(tmp_path / "my.csv")


def test_a_path_below_a_file_does_not_exist(tmp_path):
    assert "does not exist" in refusal(write(tmp_path, TEXT) / "my.csv")


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    assert "cannot be read: File name too long" in refusal(tmp_path / ("x" * 300))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = write(tmp_path, TEXT)
    path.chmod(0)
    assert "cannot be read: Permission denied" in refusal(path)
