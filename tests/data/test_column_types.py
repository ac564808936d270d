"""A column of a Parquet or Feather file that holds neither numbers, text nor times is text, as pandas writes it."""

import logging

import pandas as pd
import pyarrow as pa
import pytest

from forecast.data.read import read_panel
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit

N = 24
OTHERS = {
    "list": pa.array([[1.0, 2.0]] * N),
    "struct": pa.array([{"a": 1, "b": "x"}] * N),
    "null": pa.nulls(N),
    "duration": pa.array([pd.Timedelta("1h")] * N),
    "binary": pa.array([b"north"] * N),
    "dictionary of binary": pa.array([b"north"] * N).dictionary_encode(),
}
STAMPS = pd.date_range("2021-03-01", periods=N // 2, freq="h")


def panel(folder, ids, cells):
    path = folder / "my.feather"  # it holds every type
    table = pa.table({"id": ids, "date": [*STAMPS] * 2, "odd": cells, "x": [float(i % 5) for i in range(N)]})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    return read_panel(CsvSource(path=str(path), id_column="id", target="x", split=ShareSplit()))


@pytest.mark.parametrize("kind", OTHERS)
def test_it_may_stand_beside_the_numbers(tmp_path, kind, caplog):
    caplog.set_level(logging.INFO)
    assert panel(tmp_path, ["a"] * (N // 2) + ["b"] * (N // 2), OTHERS[kind]).columns == ("x",)
    assert "Left out, as they hold no numbers of the series: odd (" in caplog.text


def test_ids_may_be_bytes(tmp_path):
    assert panel(tmp_path, [b"a"] * (N // 2) + [b"b"] * (N // 2), OTHERS["list"]).ids.tolist() == ["b'a'", "b'b'"]
