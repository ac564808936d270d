"""Forecasts of a panel as files: in the input's names, and the same bytes whatever parts they are made in."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from panels import made_panel

from forecast.apps.common.forecast_parts import ForecastPart, beside, check_parts, read_part, write_joined
from forecast.data import writing as parts
from forecast.data.writing import ForecastTable, SeriesForecasts, TimeWriter, Writing, write_rows
from forecast.errors import UserError

PRED_LEN = 3
LENGTHS = tuple(range(2, 33))
RUN = {
    "checkpoint": "c1",
    "data": "d1",
    "series": 31,
    "pred_len": PRED_LEN,
    "threads": 1,
    "ending": ".csv",
    "left_out": 0,
    "unseen": 0,
}
ENDINGS = [".csv", ".parquet"]


def table_of(frame=None, **changes):
    return ForecastTable(
        frame=frame or made_panel(LENGTHS, columns="ab"), targets=["a", "b"], pred_len=PRED_LEN, **changes
    )


def ends_of(first, stop):
    series = np.arange(first, stop)
    values = series[:, None, None] + np.arange(PRED_LEN)[:, None] / 10 + np.array([0.0, 1e-6])
    return SeriesForecasts(series, values)


def part_of(path, table, first, stop, shard):
    """A part as `predict` leaves it."""
    rows = (stop - first) * PRED_LEN
    write_rows(path, path.suffix, table, [ends_of(first, stop)] if stop > first else [])
    said = ForecastPart(run=RUN, shard=shard, rows=rows)
    beside(path).write_text(said.model_dump_json())
    return path, said


def divided(folder, ending, cuts, table=None):
    edges = [0, *cuts, 31]
    n = len(edges) - 1
    pairs = enumerate(pairwise(edges), start=1)
    return [part_of(folder / f"{n}-{i}{ending}", table or table_of(), *edge, (i, n)) for i, edge in pairs]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_rows_are_those_of_a_slow_reader(tmp_path, ending):
    path = tmp_path / f"f{ending}"
    table = table_of()
    write_rows(path, ending, table, [ends_of(0, 7), ends_of(7, 31)])
    exact = {"a": float, "b": float}  # pandas 2 rounds the last bit of a number
    found = pd.read_csv(path, parse_dates=["date"], converters=exact) if ending == ".csv" else pd.read_parquet(path)
    frame, values = table.frame, ends_of(0, 31).values
    expected = [
        (f"s{s}", frame.timestamps(s, PRED_LEN)[-PRED_LEN + p], *values[s, p])
        for s in range(31)
        for p in range(PRED_LEN)
    ]
    assert found.columns.tolist() == ["unique_id", "date", "a", "b"]
    assert list(found.itertuples(index=False, name=None)) == expected
    again = pd.concat([table.table(*ends_of(0, 7)[:2]), table.table(*ends_of(7, 31)[:2])], ignore_index=True)
    pd.testing.assert_frame_equal(again, found, check_dtype=False)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("group", [2**17, 8])
def test_however_they_were_cut_the_joined_bytes_are_the_same(tmp_path, monkeypatch, ending, group):
    monkeypatch.setattr(parts, "GROUP", group)
    joined = []
    for number, cuts in enumerate([[], [8], [8, 24], [0, 8, 8, 31]]):
        path = tmp_path / f"joined-{number}{ending}"
        whole = write_joined(path, check_parts(divided(tmp_path, ending, cuts)[::-1]))
        joined.append(path.read_bytes())
        assert read_part(path) == whole == ForecastPart(run=RUN, shard=(1, 1), rows=93)
    assert set(joined) == {joined[0]}
    if ending == ".csv":
        assert joined[0] == (tmp_path / "1-1.csv").read_bytes()
    else:
        groups = pq.ParquetFile(path).metadata
        rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        assert rows == ([8] * 11 + [5] if group == 8 else [93])


def test_steps_without_a_calendar_go_on_as_numbers(tmp_path):
    frame = made_panel((4, 2), columns="ab", freq="ms", steps=(0, 5))
    frame = replace(frame, numbers=(40, 10), first=pd.Timestamp(0))
    expected = [80, 90, 100, 110, 120, 130]
    lines = table_of(frame).text(*ends_of(0, 2)[:2]).splitlines()
    assert [line.split(",")[1] for line in lines] == list(map(str, expected))
    assert table_of(frame).columns(*ends_of(0, 2)[:2]).column("date").to_pylist() == expected


def test_a_csv_is_written_as_the_file_that_it_goes_on_from():
    frame = replace(made_panel((4, 2), columns="ab"), ids=np.array(["x;1", "=2"]), id_column="shop")
    times = TimeWriter.of({"day": ["30.01.2024", "31.01.2024"]}, "%d.%m.%Y", None)
    table = table_of(frame, writing=Writing(separator=";", decimal=",", times=times), safe=True)
    assert table.header_text() == "shop;day;a;b\n"
    lines = table.text(*ends_of(0, 2)[:2]).splitlines()
    assert lines[0] == '"x;1";03.02.2024;0,0;1e-06'
    assert lines[3] == "'=2;04.02.2024;1,0;1,000001"


def test_several_id_columns_are_written_as_several():
    frame = replace(made_panel((4, 2), columns="ab"), ids=np.array(["a/x", "a/y"]), id_column="shop/brand")
    table = table_of(frame, id_names=("shop", "brand"))
    assert table.header == ["shop", "brand", "date", "a", "b"]
    assert table.text(*ends_of(1, 2)[:2]).splitlines()[0].startswith("a,y,2024-02-04,")
    assert table.columns(*ends_of(1, 2)[:2]).column_names == table.header
    odd = replace(frame, ids=np.array(["a/x", "a/y/z"]))
    assert table_of(odd, id_names=("shop", "brand")).header[:2] == ["shop/brand", "date"]


def test_what_is_said_of_a_part_is_read_back(tmp_path):
    path, said = divided(tmp_path, ".csv", [])[0]
    assert read_part(path) == said
    beside(path).unlink()
    assert read_part(path) is None


def other_run(pair):
    return pair[0], pair[1].model_copy(update={"run": {**RUN, "checkpoint": "c2"}})


REFUSALS = {
    r"2-2.csv is no part of the same forecast as .*, for its checkpoint differ": lambda one, two: [
        one[0],
        other_run(two[1]),
    ],
    "These are the parts 1/3, 2/2. Name each of 1/2 to 2/2 once": lambda one, two: [two[1], one[0]],
    "These are the parts 1/2, 1/2, 2/2. Name each of 1/2 to 2/2 once": lambda one, two: [two[0], two[1], two[0]],
    "These are the parts 2/3. Name each of 1/3 to 3/3 once": lambda one, two: [one[1]],
}


@pytest.mark.parametrize("message", REFUSALS)
def test_parts_that_are_not_one_forecast_are_refused(tmp_path, message):
    three, two = divided(tmp_path, ".csv", [8, 16]), divided(tmp_path, ".csv", [8])
    with pytest.raises(UserError, match=message):
        check_parts(REFUSALS[message](three, two))
