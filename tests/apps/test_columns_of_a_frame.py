"""A DataFrame of one series gives the values and times of its file, whatever the types of its columns."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from data.csv_files import read_frame

from forecast.apps.common.frame_kinds import arrow_table, frame_of
from forecast.data.reading.layout import Layout
from forecast.errors import UserError

N = 41
HOURS = pd.date_range("2021-03-27 20:00", periods=N, freq="h")  # Europe's clocks are set forward in it
NUMBERS = [float(i % 7) + 0.25 for i in range(N)]
WHOLE = [i % 7 for i in range(N)]
FLAGS = [i % 3 == 0 for i in range(N)]

VALUES = {
    # a column, what is read of it
    "float64": (pd.Series(NUMBERS), NUMBERS),
    "float32": (pd.Series(NUMBERS, dtype="float32"), NUMBERS),
    "int8": (pd.Series(WHOLE, dtype="int8"), WHOLE),
    "uint64": (pd.Series(WHOLE, dtype="uint64"), WHOLE),
    "nullable int": (pd.Series(WHOLE, dtype="Int64"), WHOLE),
    "nullable float": (pd.Series(NUMBERS, dtype="Float64"), NUMBERS),
    "arrow": (pd.Series(NUMBERS, dtype="float64[pyarrow]"), NUMBERS),
    "bool": (pd.Series(FLAGS), FLAGS),
    "nullable bool": (pd.Series(FLAGS, dtype="boolean"), FLAGS),
    "objects": (pd.Series(NUMBERS, dtype=object), NUMBERS),
    "Decimal": (pd.Series([decimal.Decimal("0.1") + i for i in range(N)]), [float(f"{i}.1") for i in range(N)]),
    "text": (pd.Series([f"{n}" for n in NUMBERS]), NUMBERS),
    "text with zeros in front": (pd.Series([f"{i:05}" for i in WHOLE]), WHOLE),
    "text and numbers": (pd.Series([f"{n}" if i % 2 else n for i, n in enumerate(NUMBERS)]), NUMBERS),
    "category of numbers": (pd.Series(NUMBERS, dtype="category"), NUMBERS),
    "category of text": (pd.Series([f"{n}" for n in NUMBERS], dtype="category"), NUMBERS),
    "sparse": (pd.Series(pd.arrays.SparseArray(NUMBERS)), NUMBERS),
    "large whole numbers": (pd.Series([2**60 + i for i in WHOLE]), [float(2**60 + i) for i in WHOLE]),
}
TIMES = {
    # a column, the times that are read of it, the zone that is told
    **{f"datetime64[{unit}]": (HOURS.as_unit(unit), HOURS, None) for unit in ("s", "ms", "us", "ns")},
    "text": (HOURS.astype(str), HOURS, None),
    "objects": (pd.Series(HOURS.to_pydatetime(), dtype=object), HOURS, None),
    "arrow": (pd.Series(HOURS, dtype="timestamp[us][pyarrow]"), HOURS, None),
    "category": (pd.Series(HOURS.astype(str), dtype="category"), HOURS, None),
    "UTC": (HOURS.tz_localize("UTC"), HOURS, "UTC"),
    "a zone": (HOURS.tz_localize("UTC").tz_convert("Europe/Berlin"), HOURS, "UTC"),
    "an offset": (HOURS.tz_localize(datetime.timezone(datetime.timedelta(hours=3))), HOURS - pd.Timedelta("3h"), "UTC"),
    "days of a zone": (
        pd.date_range("2021-03-01", periods=N, freq="D", tz="Europe/Berlin"),
        pd.date_range("2021-03-01", periods=N, freq="D"),
        "Europe/Berlin",
    ),
    "winter days of a zone": (
        pd.date_range("2020-11-01", periods=N, freq="D", tz="Europe/Berlin"),
        pd.date_range("2020-11-01", periods=N, freq="D"),
        "Europe/Berlin",
    ),
    "dates": (
        [day.date() for day in pd.date_range("2021-03-01", periods=N)],
        pd.date_range("2021-03-01", periods=N),
        None,
    ),
    "months": (pd.period_range("2001-01", periods=N, freq="M"), pd.date_range("2001-01", periods=N, freq="MS"), None),
}


def write(table, path):
    pq.write_table(arrow_table(frame_of(table, {}).rows), path)


def read(table, folder, **layout):
    write(table, folder / "table.parquet")
    return read_frame(folder / "table.parquet", Layout(**layout))


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_each_type(tmp_path, kind):
    column, expected = VALUES[kind]
    table = pd.DataFrame({"date": HOURS, "x": column})
    frame = read(table, tmp_path)
    assert frame.values[:, 0].tolist() == expected
    if kind not in ("float32", "bool"):  # whose text is another number; whose text is True
        table.to_csv(tmp_path / "table.csv", index=False)
        assert read_frame(tmp_path / "table.csv").values.tolist() == frame.values.tolist()


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("indexed", [False, True], ids=["column", "index"])
def test_times_of_each_type(tmp_path, kind, indexed):
    column, expected, zone = TIMES[kind]
    table = (
        pd.DataFrame({"x": NUMBERS}, index=pd.Index(column))
        if indexed
        else pd.DataFrame({"date": column, "x": NUMBERS})
    )
    frame = read(table, tmp_path)
    assert frame.timestamps.tolist() == expected.tolist() and frame.time_zone == zone


def test_times_are_brought_to_the_zone_that_is_named(tmp_path):
    column = TIMES["a zone"][0]
    frame = read(pd.DataFrame({"date": column, "x": NUMBERS}), tmp_path, time_zone="Asia/Tokyo")
    assert frame.timestamps[0] == column[0].tz_convert("Asia/Tokyo").tz_localize(None)


def test_text_with_a_decimal_comma_is_refused_as_in_a_file(tmp_path):
    table = pd.DataFrame({"date": HOURS, "x": [f"{i},5" for i in range(N)]})
    table.to_csv(tmp_path / "table.csv", index=False)
    for path in (tmp_path / "table.parquet", tmp_path / "table.csv"):
        write(table, tmp_path / "table.parquet")
        with pytest.raises(UserError, match=r"line 2, column 'x': '0,5' is no number with '.' before decimals"):
            read_frame(path, Layout(columns=["x"]))
    assert read_frame(tmp_path / "table.parquet", Layout(decimal=",")).values[1].tolist() == [1.5]


def test_a_missing_cell_of_each_type_is_a_gap(tmp_path):
    cells = {"float": np.nan, "Int64": pd.NA, "boolean": pd.NA, "object": None, "string": pd.NA}
    for kind, missing in cells.items():
        others = [True] * N if kind == "boolean" else WHOLE
        column = pd.Series([others[0], missing, *others[2:]], dtype=kind)
        with pytest.raises(UserError, match=r"line 4: before it 1 row of 'h' is missing \(no value of x\)"):
            read(pd.DataFrame({"date": HOURS, "x": column}), tmp_path)


def test_a_row_without_a_time_is_refused(tmp_path):
    table = pd.DataFrame({"date": [*HOURS, pd.NaT], "x": [*NUMBERS, 1.0]})
    with pytest.raises(UserError, match=rf"line {N + 2}, column 'date': the timestamp is missing"):
        read(table, tmp_path)
