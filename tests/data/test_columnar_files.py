"""Parquet and Feather files are read as the CSV file of the same table, to the last bit, or refused with a sentence."""

import datetime
import decimal
import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data.csv_files import read_frame

from forecast.data.describe.check import check_file
from forecast.data.reading.layout import Layout
from forecast.errors import UserError

N = 31
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")
VALUES = np.random.default_rng(7).normal(size=N) * 10.0 ** np.arange(-9, 22)  # of every length, with exponents
WRITERS = {"parquet": pd.DataFrame.to_parquet, "feather": pd.DataFrame.to_feather}


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    def write(table, name="my"):
        path = tmp_path / f"{name}.{request.param}"
        WRITERS[request.param](table, path)
        return path

    return write


def parquet(folder, **columns):
    path = folder / "my.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def column(folder, values, layout=None):
    return read_frame(parquet(folder, date=STAMPS, x=values), layout or Layout()).values[:, 0].tolist()


def test_the_values_are_those_of_the_dataframe_to_the_last_bit(written):
    path = written(pd.DataFrame({"date": STAMPS, "x": VALUES, "n": np.arange(N)}))
    frame = read_frame(path)
    assert (frame.columns, frame.freq, frame.name) == (("x", "n"), "h", str(path))
    assert frame.values[:, 0].tolist() == VALUES.tolist()
    assert frame.timestamps.tolist() == STAMPS.tolist()
    assert frame.checksum == hashlib.md5(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", [None, "when"])
def test_an_index_of_times_is_the_time_column_and_called_date_if_it_has_no_name(written, name):
    table = pd.DataFrame({"x": VALUES}, index=STAMPS.rename(name))
    frame = read_frame(written(table), Layout(time_column=name or "date"))
    assert (frame.columns, frame.timestamps.tolist()) == (("x",), STAMPS.tolist())


def test_numbers_of_the_rows_that_were_the_index_are_left_out(written):
    table = pd.DataFrame({"date": STAMPS, "x": VALUES})
    table.index = np.arange(5, 5 + N)
    assert read_frame(written(table)).columns == ("x",)


@pytest.mark.parametrize(
    "layout", [Layout(), Layout(decimal=",", separator=";", thousands=".")], ids=["usual", "comma"]
)
def test_how_the_texts_of_a_file_write_numbers_is_nothing_to_its_numbers(tmp_path, layout):
    values = np.arange(N) + 0.125
    assert column(tmp_path, values, layout) == values.tolist()


def test_numbers_stored_as_text_are_read_as_the_layout_says(tmp_path):
    layout = Layout(decimal=",", thousands=".")
    assert column(tmp_path, [f"1.{i:03},5" for i in range(N)], layout) == [1000.5 + i for i in range(N)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([decimal.Decimal(i) / 8 for i in range(N)], pa.decimal128(9, 3)), [i / 8 for i in range(N)]),
        (pa.array(np.arange(N, dtype=np.float32) / 10), (np.arange(N, dtype=np.float32) / 10).tolist()),
        (pa.array([i % 2 == 0 for i in range(N)]), [float(i % 2 == 0) for i in range(N)]),
        (pa.array([i % 5 for i in range(N)]).dictionary_encode(), [float(i % 5) for i in range(N)]),
        (pa.array(np.arange(N) + 2**40), (np.arange(N) + 2.0**40).tolist()),
    ],
    ids=["decimal", "float32", "boolean", "dictionary", "int64"],
)
def test_a_column_of_each_type_of_number_is_read(tmp_path, values, expected):
    assert column(tmp_path, values) == expected


TIMES = {
    "timestamp[ns]": pa.array(STAMPS.as_unit("ns")),
    "timestamp[s]": pa.array(STAMPS.as_unit("s")),
    "of a zone": pa.array(STAMPS.as_unit("ns").to_numpy(), pa.timestamp("ns", "Asia/Tokyo")),
    "text": pa.array(STAMPS.astype(str)),
    "unix seconds": pa.array(STAMPS.to_numpy().astype("datetime64[s]").astype(np.int64)),
}


@pytest.mark.parametrize("times", TIMES)
def test_a_column_of_each_type_of_time_is_read(tmp_path, times):
    frame = read_frame(parquet(tmp_path, date=TIMES[times], x=VALUES))
    assert frame.timestamps.tolist() == STAMPS.tolist(), "instants are in UTC"


def test_instants_are_brought_to_the_zone_of_the_layout(tmp_path):
    path = parquet(tmp_path, date=TIMES["of a zone"], x=VALUES)
    assert read_frame(path, Layout(time_zone="Asia/Tokyo")).timestamps[0] == pd.Timestamp("2021-03-01 09:00")


def test_dates_and_times_of_day_fractions_and_periods_are_read(tmp_path):
    days = [datetime.date(2021, 3, 1 + i // 24) for i in range(N)]
    clock = pa.array([datetime.time(i % 24) for i in range(N)])
    for dates in (days, pa.array(days, pa.date64()), pa.array(days).cast(pa.timestamp("ns"))):
        both = read_frame(parquet(tmp_path, date=dates, clock=clock, x=VALUES), Layout(time_column=["date", "clock"]))
        assert both.timestamps.tolist() == STAMPS.tolist()
    fast = pd.date_range("2021", periods=N, freq="250us")
    assert read_frame(parquet(tmp_path, date=fast, x=VALUES)).timestamps.tolist() == fast.tolist()
    months = pd.DataFrame({"x": VALUES}, index=pd.period_range("2001-01", periods=N, freq="M"))
    months.to_parquet(tmp_path / "months.parquet")
    assert read_frame(tmp_path / "months.parquet").freq == "MS"


def test_a_missing_cell_is_a_gap_and_its_row_is_told(tmp_path):
    cells = [None if i in (3, 4) else float(i) for i in range(N)]
    with pytest.raises(UserError, match=r"my\.parquet: line 7: before it 2 rows.*\(no value of x\).*data\.gaps"):
        column(tmp_path, cells)
    assert column(tmp_path, cells, Layout(gaps="interpolate"))[3] == 3.0


def test_the_content_decides_whatever_the_file_is_called(tmp_path):
    path = parquet(tmp_path, date=STAMPS, x=VALUES)
    assert read_frame(path.rename(tmp_path / "my.csv")).columns == ("x",)
    (tmp_path / "text.parquet").write_text("date,x\n" + "".join(f"{stamp},1\n" for stamp in STAMPS))
    assert read_frame(tmp_path / "text.parquet").columns == ("x",)


def test_a_check_gives_the_command_and_the_findings_of_a_csv(written):
    table = pd.DataFrame(
        {"when": pd.date_range("2021", periods=500, freq="h"), "site": "a", "x": np.arange(500) % 24.0}
    )
    path = written(table)
    table.to_csv(path.with_suffix(".csv"), index=False)
    check, plain = (check_file(str(p)) for p in (path, path.with_suffix(".csv")))
    assert check.command == [word.replace(".csv", path.suffix) for word in plain.command]
    assert (check.findings, check.reasons) == (plain.findings, plain.reasons)


@pytest.mark.parametrize("keep", [12, 40, -9, -1])
def test_a_truncated_file_is_refused(written, keep):
    path = written(pd.DataFrame({"date": STAMPS, "x": VALUES}))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"my\.\w+ is a \w+ file, and cannot be read: .*Copy it again"):
        read_frame(path)
