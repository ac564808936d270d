"""A Parquet or Feather column of every Arrow type, in every role: read as what it holds, or refused in one sentence."""

import datetime
import logging
import re

import pandas as pd
import pyarrow as pa
import pytest

from forecast.data.assembling.read import read_panel, source_rows
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit
from forecast.errors import UserError

N = 24
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")
NUMBERS = [float(i % 5) for i in range(N)]
SPLIT = ShareSplit(train=0.6, val=0.2, test=0.2)
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
    "binary": pa.array([b"north"] * N, pa.binary()),
    "dictionary of binary": pa.array([b"north"] * N, pa.binary()).dictionary_encode(),
}


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
        source_rows(one_series(tmp_path, NOT_READ[kind], columns=["odd", "x"]))
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400 + len(str(tmp_path))
    assert "holds neither numbers, text nor times" in str(refused.value)


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


def test_a_fact_file_is_refused_in_the_same_way(tmp_path):
    facts = feather(tmp_path, {"shop": ["a", "b"], "odd": [[1.0], [2.0]]}, "facts")
    source = {"static_path": str(facts), "static_on": {"id": "shop"}, "static": ["odd"], "target": "x"}
    half = N // 2
    path = feather(tmp_path, {"id": ["a"] * half + ["b"] * half, "date": [*STAMPS[:half]] * 2, "x": NUMBERS})
    with pytest.raises(UserError, match=r"facts\.feather: the column 'odd' is of the type list<"):
        read_panel(CsvSource(path=str(path), id_column="id", split=SPLIT, short="pad", **source))
