"""A sheet of an Excel workbook is read as the CSV file of the same table, or refused with a sentence."""

import hashlib
import logging

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame

from forecast.data.reading.layout import Layout
from forecast.errors import UserError

openpyxl = pytest.importorskip("openpyxl", reason='needs openpyxl: pip install -e ".[xlsx]"')
pytest.importorskip("defusedxml", reason='needs defusedxml: pip install -e ".[xlsx]"')

N = 31
STAMPS = [stamp.to_pydatetime() for stamp in pd.date_range("2021-03-01", periods=N, freq="h")]
VALUES = np.random.default_rng(7).normal(size=N) * 10.0 ** np.arange(-9, 22)
VALUES = np.array([float(f"{value:.15g}") for value in VALUES])  # as Excel and openpyxl keep them
ROWS = [["date", "x"], *([stamp, float(x)] for stamp, x in zip(STAMPS, VALUES, strict=True))]
NOTES = [["Meter 7, by the city"], ["see also", "page 3"]]


def written(path, _name="my.xlsx", **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path / _name)
    return path / _name


def numbers(rows, layout, folder):
    return read_frame(written(folder, Data=rows), layout).values[:, 0].tolist()


def test_the_values_and_dates_are_those_of_the_sheet_to_the_last_bit(tmp_path):
    path = written(tmp_path, Data=ROWS)
    frame = read_frame(path)
    assert (frame.columns, frame.freq, frame.name) == (("x",), "h", str(path))
    assert frame.values[:, 0].tolist() == VALUES.tolist()
    assert frame.timestamps.tolist() == STAMPS
    assert frame.checksum == hashlib.md5(path.read_bytes()).hexdigest()


def test_what_pandas_writes_is_read(tmp_path):
    pd.DataFrame({"x": VALUES}, index=pd.DatetimeIndex(STAMPS)).to_excel(tmp_path / "pandas.xlsx")
    assert read_frame(tmp_path / "pandas.xlsx", Layout(time_column="column 1")).values[:, 0].tolist() == VALUES.tolist()


def test_a_title_above_the_header_and_empty_rows_at_the_end_are_no_rows(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    frame = read_frame(written(tmp_path, Data=[*NOTES[:1], [], *ROWS, [None, None], [], [""]]))
    assert frame.values[:, 0].tolist() == VALUES.tolist()
    assert "The names of the columns stand in line 3; what stands above them is left out." in caplog.text


def test_a_fault_is_told_with_the_row_of_the_sheet(tmp_path):
    rows = [*NOTES[:1], [], *ROWS]
    rows[7] = [STAMPS[4], "broken"]
    with pytest.raises(UserError, match=r"my\.xlsx: line 8, column 'x': 'broken' is no number"):
        read_frame(written(tmp_path, Data=rows))


def test_numbers_stored_as_text_and_beside_numbers_are_read_as_the_layout_says(tmp_path):
    rows = [["date", "x"], *([stamp, f"1.{i:03},5" if i % 3 else 1000.5 + i] for i, stamp in enumerate(STAMPS))]
    assert numbers(rows, Layout(decimal=",", thousands="."), tmp_path) == [1000.5 + i for i in range(N)]


def test_dates_with_a_column_of_times_of_day_and_flags_are_read(tmp_path):
    rows = [["day", "clock", "open"], *([stamp.date(), stamp.time(), stamp.hour > 7] for stamp in STAMPS)]
    frame = read_frame(written(tmp_path, Data=rows), Layout(time_column=["day", "clock"]))
    assert frame.timestamps.tolist() == STAMPS
    assert frame.values[:, 0].tolist() == [float(stamp.hour > 7) for stamp in STAMPS]


def test_of_several_sheets_with_cells_one_must_be_named(tmp_path):
    north = [["date", "x"], *([stamp, 1.0] for stamp in STAMPS)]
    path = written(tmp_path, Data=ROWS, North=north, Empty=[])
    with pytest.raises(UserError, match=r"holds the sheets Data, North\. Set data\.sheet=NAME"):
        read_frame(path)
    assert read_frame(path, Layout(sheet="North")).values[:, 0].tolist() == [1.0] * N
    with pytest.raises(UserError, match=r"holds the sheets Data, North\. Did you mean 'North'\? Set data\.sheet"):
        read_frame(path, Layout(sheet="Nord"))


@pytest.mark.parametrize("keep", [4, 400, -40, -1])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = written(tmp_path, Data=ROWS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"my\.xlsx is a zip archive or an Excel workbook, and cannot be read"):
        read_frame(path)


def test_a_workbook_without_data_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"my\.xlsx is empty"):
        read_frame(written(tmp_path, Empty=[[None]], Too=[]))
