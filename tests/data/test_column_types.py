"""A Parquet or Feather column of every Arrow type, in every role: read as what it holds, or refused in one sentence."""

import datetime
import decimal
import logging
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
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
# Of each type a column of N cells; in NOT_READ the types that hold neither numbers, nor text, nor times.
READ = {
    **{str(kind): pa.array([int(n) for n in NUMBERS], kind) for kind in (pa.int8(), pa.uint64(), pa.int64())},
    **{str(kind): pa.array(NUMBERS, kind) for kind in (pa.float32(), pa.float64())},
    "float16": pa.array(np.array(NUMBERS, dtype=np.float16)),
    "bool": pa.array([n > 2 for n in NUMBERS]),
    **{str(kind): pa.array([decimal.Decimal(int(n)) for n in NUMBERS], kind) for kind in (pa.decimal128(9, 2),)},
    **{str(kind): pa.array(WORDS, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{str(kind): pa.array(BYTES, kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(5))},
    "dictionary of text": pa.array(WORDS).dictionary_encode(),
    "dictionary of binary": pa.array(BYTES, pa.binary()).dictionary_encode(),
    **{str(kind): pa.array(DAYS, kind) for kind in (pa.date32(), pa.date64())},
    **{str(kind): pa.array(STAMPS, kind) for kind in (pa.timestamp("ms"), pa.timestamp("ns", "UTC"))},
    "time32": pa.array([datetime.time(i % 24) for i in range(N)], pa.time32("s")),
    "time64": pa.array([datetime.time(i % 24) for i in range(N)], pa.time64("us")),
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


def series(folder, cells, role):
    """One series with these cells in a role."""
    columns = {"date": STAMPS, "odd": cells, "x": NUMBERS}
    if role == "time":
        columns["date"] = columns.pop("odd")
    use = {
        "time": {},
        "unused": {},
        "target": {"target": "odd"},
        "columns": {"columns": ["odd", "x"]},
        "where": {"where": {"odd": "north"}},
        "known": {"known": ["odd"], "target": "x"},
        "past": {"past": ["odd"], "target": "x"},
        "categorical": {"known": ["odd"], "categorical": ["odd"], "target": "x"},
    }[role]
    return CsvSource(path=str(feather(folder, columns)), split=SPLIT, **{"target": None, **use})


def panel(folder, cells, role):
    """Two series, or as many as the cells say, with these cells in a role."""
    half = N // 2
    columns = {"id": ["a"] * half + ["b"] * half, "date": [*STAMPS[:half]] * 2, "odd": cells, "x": NUMBERS}
    if role == "id":
        columns["id"] = columns.pop("odd")
        columns["date"] = STAMPS[np.arange(N) // 2]
    if role == "time":
        columns["date"] = columns.pop("odd")
    use = {
        "id": {},
        "time": {},
        "unused": {},
        "target": {"target": "odd"},
        "columns": {"columns": ["odd", "x"]},
        "where": {"where": {"odd": "north"}},
        "known": {"known": ["odd"], "target": "x"},
        "static": {"static": ["odd"], "target": "x"},
        "categorical": {"known": ["odd"], "categorical": ["odd"], "target": "x"},
    }[role]
    if role == "static":
        first, last = cells.slice(0, 1), cells.slice(N - 1, 1)
        columns["odd"] = pa.concat_arrays([first] * half + [last] * half)
    source = {"id_column": "id", "split": SPLIT, "short": "pad", "target": None, "gaps": "mask", **use}
    return CsvSource(path=str(feather(folder, columns)), **source)


def read(source):
    """The columns of the frame, its categories and its ids."""
    if source.panel_form is None:
        frame = source.frame()
        source.target_columns(frame)
        return frame
    return read_panel(source)


ROLES = [
    *((series, role) for role in ("time", "target", "columns", "where", "known", "past", "categorical")),
    *((panel, role) for role in ("id", "time", "target", "columns", "where", "known", "static", "categorical")),
]


@pytest.mark.parametrize(("make", "role"), ROLES, ids=[f"{make.__name__} {role}" for make, role in ROLES])
@pytest.mark.parametrize("kind", NOT_READ)
def test_what_holds_no_numbers_text_or_times_is_refused_in_every_role(tmp_path, kind, make, role):
    name = {"time": "date", "id": "id"}.get(role, "odd")
    ways = (f"the column '{name}' is of the type ", "the column 'odd' .* holds text", "no column 'odd' .data.target")
    with pytest.raises(UserError, match=rf"my\.feather: .*({'|'.join(ways)})") as refused:
        source = make(tmp_path, NOT_READ[kind], role)
        source.target_columns(read(source))
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400 + len(str(tmp_path))
    if TEXT_LATER.isdisjoint([kind]):
        assert "holds neither numbers, text nor times. Store it as" in str(refused.value)
    elif make is series:
        assert "row 5 holds other bytes than text in UTF-8" in str(refused.value)


@pytest.mark.parametrize("make", [series, panel])
@pytest.mark.parametrize("kind", NOT_READ)
def test_a_column_that_cannot_be_read_may_stand_beside(tmp_path, kind, make, caplog):
    caplog.set_level(logging.INFO)
    frame = read(make(tmp_path, NOT_READ[kind], "unused"))
    assert frame.columns == ("x",)
    assert re.search(r"Left out.*odd \(", caplog.text)


@pytest.mark.parametrize(("make", "role"), ROLES, ids=[f"{make.__name__} {role}" for make, role in ROLES])
@pytest.mark.parametrize("kind", READ)
def test_a_type_that_is_read_gives_a_frame_or_a_sentence(tmp_path, kind, make, role):
    try:
        source = make(tmp_path, READ[kind], role)
        frame = read(source)
        source.target_columns(frame)
    except UserError as error:
        assert "cannot be read" not in str(error)
        return
    said = [*getattr(frame, "ids", ()), *(word for words in frame.categories.values() for word in words)]
    assert not any(str(READ[kind].type) == word for word in said)


BINARY = [kind for kind in READ if "binary" in kind]


@pytest.mark.parametrize("kind", BINARY)
def test_binary_is_text_in_utf8(tmp_path, kind):
    padded = sorted({cell.decode() for cell in BYTES})
    frame = read(series(tmp_path, READ[kind], "categorical"))
    assert sorted(word.strip() for word in frame.categories["odd"]) == sorted(word.strip() for word in padded)
    ids = read(panel(tmp_path, READ[kind], "id")).ids
    assert sorted(word.strip() for word in ids) == sorted(word.strip() for word in padded)


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


METADATA = {"no json": b"{", "deep": b"[" * 100_000, "a list": b"[1, 2]", "a number": b"7", "no UTF-8": b"\xff"}
METADATA |= {"index of numbers": b'{"index_columns": 7}', "index of lists": b'{"index_columns": [[1], {}, null, "x"]}'}


@pytest.mark.parametrize("text", METADATA.values(), ids=METADATA)
def test_metadata_of_pandas_that_pandas_has_not_written_say_nothing(tmp_path, text):
    half = N // 2
    columns = {"id": ["a"] * half + ["b"] * half, "date": [*STAMPS[:half]] * 2, "y": NUMBERS, "x": NUMBERS}
    pq.write_table(pa.table(columns).replace_schema_metadata({b"pandas": text}), tmp_path / "my.parquet")
    source = CsvSource(path=str(tmp_path / "my.parquet"), id_column="id", split=SPLIT, short="pad", target=None)
    assert "y" in read_panel(source).columns
    one = pa.table({"date": STAMPS, "y": NUMBERS, "x": NUMBERS}).replace_schema_metadata({b"pandas": text})
    pq.write_table(one, tmp_path / "one.parquet")
    assert "y" in read_frame(tmp_path / "one.parquet").columns
