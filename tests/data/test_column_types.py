"""A Parquet or Feather column of every Arrow type, in every role: read as what it holds, or refused in one sentence."""

import datetime
import logging
import re

import pandas as pd
import pyarrow as pa
import pytest

from forecast.data.assembling.read import read_panel
from forecast.data.frame import read_frame
from forecast.data.reading.layout import Layout
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit
from forecast.errors import UserError

N = 24
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")
NUMBERS = [float(i % 5) for i in range(N)]
WORDS = ["north" if i % 2 else "süd" for i in range(N)]
SPLIT = ShareSplit(train=0.6, val=0.2, test=0.2)
BYTES = [word.ljust(5 if word == "north" else 4).encode() for word in WORDS]  # of five bytes each
DAYS = [datetime.date(2021, 3, 1) + datetime.timedelta(i) for i in range(N)]
BINARY = {
    **{str(kind): pa.array(BYTES, kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(5))},
    "dictionary of binary": pa.array(BYTES, pa.binary()).dictionary_encode(),
}
PAIRS = [{"a": 1, "b": "x"}] * N
NOT_READ = {
    "list": pa.array([[1.0, 2.0]] * N),
    "large_list": pa.array([[1.0]] * N, pa.large_list(pa.float64())),
    "fixed_size_list": pa.array([[1.0]] * N, pa.list_(pa.float64(), 1)),
    "struct": pa.array(PAIRS),
    "map": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "null": pa.nulls(N),
    "duration": pa.array([datetime.timedelta(hours=1)] * N),
    "interval": pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval()),
    "union": pa.UnionArray.from_dense(
        pa.array([0] * N, pa.int8()), pa.array(range(N), pa.int32()), [pa.array([1.0] * N)]
    ),
    "run_end_encoded": pa.RunEndEncodedArray.from_arrays([N], ["a"]),
    "dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([0] * N), pa.array([[1.0]])),
    "binary that is no text": pa.array([b"ok"] * 4 + [b"\xff\xfe"] * (N - 4), pa.binary()),
    "binary with NUL": pa.array([b"ok"] * 4 + [b"\0"] * (N - 4), pa.large_binary()),
    "dictionary of no text": pa.array([b"ok"] * 4 + [b"\xff\xfe"] * (N - 4), pa.binary()).dictionary_encode(),
}
TEXT_LATER = {kind for kind in NOT_READ if kind.startswith("binary") or kind.endswith("of no text")}


def feather(folder, columns, name="my"):
    """Arrow's own format, which holds every type; Parquet lacks some."""
    path = folder / f"{name}.feather"
    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    return path


def one_series(folder, cells, **use):
    """One series with these cells in the column `odd`."""
    columns = {"date": STAMPS, "odd": cells, "x": NUMBERS}
    return CsvSource(path=str(feather(folder, columns)), split=SPLIT, **{"target": "x", **use})


def two_series(folder, cells, **use):
    half = N // 2
    columns = {"id": ["a"] * half + ["b"] * half, "date": [*STAMPS[:half]] * 2, "odd": cells, "x": NUMBERS}
    return CsvSource(path=str(feather(folder, columns)), id_column="id", split=SPLIT, **{"target": "x", **use})


@pytest.mark.parametrize("kind", NOT_READ)
def test_what_holds_no_numbers_text_or_times_is_refused(tmp_path, kind):
    with pytest.raises(UserError, match=r"my\.feather: the column 'odd' is of the type ") as refused:
        one_series(tmp_path, NOT_READ[kind], columns=["odd", "x"]).frame()
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400 + len(str(tmp_path))
    texts, others = "row 5 holds other bytes than text in UTF-8", "holds neither numbers, text nor times"
    says = texts if kind in TEXT_LATER else others
    assert says in str(refused.value)


USES = [{"where": {"odd": "north"}}, {"known": ["odd"]}, {"static": ["odd"]}, {"columns": ["odd", "x"]}]


@pytest.mark.parametrize("use", USES, ids=[next(iter(use)) for use in USES])
def test_it_is_refused_in_every_use_of_a_panel(tmp_path, use):
    with pytest.raises(UserError, match=r"my\.feather: the column 'odd' is of the type "):
        read_panel(two_series(tmp_path, NOT_READ["list"], **use))


@pytest.mark.parametrize("kind", NOT_READ)
def test_a_column_that_cannot_be_read_may_stand_beside(tmp_path, kind, caplog):
    caplog.set_level(logging.INFO)
    assert read_panel(two_series(tmp_path, NOT_READ[kind])).columns == ("x",)
    assert re.search(r"Left out.*odd \(", caplog.text)


@pytest.mark.parametrize("kind", BINARY)
def test_binary_is_text_in_utf8(tmp_path, kind):
    frame = one_series(tmp_path, BINARY[kind], known=["odd"], categorical=["odd"]).frame()
    assert sorted(word.strip() for word in frame.categories["odd"]) == ["north", "süd"]


def test_numbers_and_times_in_binary_are_read_as_text_is(tmp_path):
    stamps = pa.array([str(stamp).encode() for stamp in STAMPS], pa.binary())
    numbers = pa.array([f"{number}".encode() for number in NUMBERS], pa.binary())
    frame = read_frame(feather(tmp_path, {"date": stamps, "x": numbers}), Layout())
    assert frame.timestamps.tolist() == STAMPS.tolist() and frame.values[:, 0].tolist() == NUMBERS


def test_a_fact_file_is_refused_in_the_same_way(tmp_path):
    facts = feather(tmp_path, {"shop": ["a", "b"], "odd": [[1.0], [2.0]]}, "facts")
    source = {"static_path": str(facts), "static_on": {"id": "shop"}, "static": ["odd"], "target": "x"}
    half = N // 2
    path = feather(tmp_path, {"id": ["a"] * half + ["b"] * half, "date": [*STAMPS[:half]] * 2, "x": NUMBERS})
    with pytest.raises(UserError, match=r"facts\.feather: the column 'odd' is of the type list<"):
        read_panel(CsvSource(path=str(path), id_column="id", split=SPLIT, short="pad", **source))
