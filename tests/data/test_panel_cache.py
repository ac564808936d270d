"""A panel in a cache folder is that of the file, to the bit, however large, and never a half one."""

import logging
import os
import re
import signal
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from data.panel_files import long_table, planted, read, refusal

from forecast.data import cache

KEYS = {"id_column": "unique_id", "gaps": "interpolate", "sort": True}
LENGTH = 40_000  # rows of most series of the large table, of which some nine are read at a time


@pytest.fixture(scope="module")
def large():
    """Series one below the other, more rows than are read at a time, those of each in no order; some with gaps."""
    rng = np.random.default_rng(5)
    stamps = pd.date_range("2019-03-01", periods=LENGTH, freq="15min")
    parts = [
        pd.DataFrame({"unique_id": f"s{number}", "ds": stamps, "y": rng.integers(-4000, 4000, LENGTH) / 8})
        for number in range(20)
    ]
    parts[11] = parts[11].sample(frac=0.9, random_state=1)
    parts[13] = parts[13].iloc[500:].assign(y=lambda table: table["y"].where(table.index % 7 > 0))
    parts[17] = parts[17].sample(frac=0.3, random_state=1)
    return pd.concat([part.sample(frac=1, random_state=2) for part in parts], ignore_index=True)


def small(folder, kind="parquet", **columns):
    path = folder / f"my.{kind}"
    getattr(long_table(*planted()).assign(**columns), f"to_{kind}")(path)
    return path


def assert_equal(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.measured, other.measured)
    for name in ("offsets", "steps", "ids"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    for name in ("first", "freq", "columns", "name", "id_column", "time_column", "repair", "left_out", "checksum"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_the_cache_holds_the_panel_of_the_file_and_is_read_again(tmp_path, kind, large, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / f"my.{kind}"
    getattr(large, f"to_{kind}")(path)
    expected, keys = read(path, **KEYS), {"cache": str(tmp_path / "cache"), **KEYS}
    first = read(path, **keys)
    assert isinstance(first.values, np.memmap) and "converted into" in caplog.text
    assert first.left_out and first.repair.rows_added
    assert_equal(first, expected)
    caplog.clear()
    asked = {"columns": list(first.columns), "trained_on": first.freq}  # as a forecast does
    for named in ({}, asked):
        assert_equal(read(path, **named, **keys), expected)
    assert "into which it was converted before" in caplog.text and "converted into" not in caplog.text
    assert "15min" in refusal(path, **{**keys, **asked, "trained_on": "h"}), "of another model"
    assert len([*(tmp_path / "cache").glob("*panel-*[!k]")]) == 1


def test_a_conversion_holds_less_than_the_panel(tmp_path):
    series, length, names = 400, 500, [f"y{number}" for number in range(64)]
    table = pd.DataFrame(np.random.default_rng(0).random((series * length, 64), dtype=np.float32), columns=names)
    table.insert(0, "ds", np.tile(pd.date_range("2024-01-01", periods=length), series))
    table.insert(0, "unique_id", np.repeat(np.arange(series), length))
    table.to_parquet(tmp_path / "my.parquet", row_group_size=4 * length)
    tracemalloc.start()
    try:
        frame = read(tmp_path / "my.parquet", cache=str(tmp_path / "cache"), id_column="unique_id")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(frame.values, table[names].to_numpy())
    assert most < frame.values.nbytes / 1.5, most


def test_several_files_are_converted_together(tmp_path):
    table = long_table(*planted(count=23)).assign(brand=lambda table: table["unique_id"].str[-1])
    for number in range(3):
        table[table["unique_id"].map(len) % 3 == number].to_parquet(tmp_path / f"part{number}.parquet")
    pattern, keys = tmp_path / "part[02].parquet", {**KEYS, "id_column": ["brand", "unique_id"]}
    assert_equal(read(pattern, cache=str(tmp_path / "cache"), **keys), read(pattern, **keys))


def test_repeated_rows_are_made_one_in_the_conversion(tmp_path):
    table = long_table(*planted())
    path = tmp_path / "my.parquet"
    pd.concat([table, table.iloc[5:50].assign(y=7.0)]).sort_values("unique_id", kind="stable").to_parquet(path)
    keys = {"duplicates": "mean", **KEYS}
    assert_equal(read(path, cache=str(tmp_path / "cache"), **keys), read(path, **keys))
    assert "stands already" in refusal(path, cache=str(tmp_path / "cache"), **KEYS)


def test_what_is_wrong_in_late_rows_is_refused_without_a_cache_and_with_one(tmp_path, large):
    path = tmp_path / "my.parquet"
    for column, value in {"unique_id": "  ", "ds": None, "y": np.inf}.items():
        large.assign(**{column: large[column].where(large.index != 700_000, value)}).to_parquet(path)
        once, parts = refusal(path, **KEYS), refusal(path, cache=str(tmp_path / "cache"), **KEYS)
        assert parts.split(":")[:2] == once.split(":")[:2], "the file and the row"
        assert not list((tmp_path / "cache").glob("*panel-*[!k]"))


def test_series_at_other_times_than_those_read_before_are_refused(tmp_path, large):
    path = tmp_path / "my.parquet"
    late = large["unique_id"] == "s19"
    large.assign(ds=large["ds"].where(~late, large["ds"] + pd.Timedelta("5min"))).to_parquet(path)
    assert "between the steps of '15min'" in refusal(path, cache=str(tmp_path / "cache"), **KEYS)


@pytest.mark.parametrize("files", [1, 2])
def test_a_file_whose_series_do_not_stand_together_is_refused_with_a_line_that_sorts_it(tmp_path, files):
    table = long_table(*planted())
    path, halves = tmp_path / "my.parquet", [table.iloc[::2], table.iloc[1::2]]
    pd.concat(halves[:: 3 - 2 * files] if files == 1 else halves).to_parquet(path)
    said = refusal(path, cache=str(tmp_path / "cache"), **KEYS)
    assert said.startswith(f"{path}: the rows of the series '")
    line = re.search(r"pq\.write_table\(.*'sorted\.parquet'\)", said)[0]
    exec(line.replace("'sorted.parquet'", repr(str(path))), {"pq": pq})  # what is advised works
    assert_equal(read(path, cache=str(tmp_path / "cache"), **KEYS), read(path, **KEYS))


def test_a_file_that_changed_is_converted_anew(tmp_path):
    path, keys = small(tmp_path), {"cache": str(tmp_path / "cache"), **KEYS}
    before = read(path, **keys)
    pd.read_parquet(path).replace({"unique_id": {"s0": "s_0"}}).to_parquet(path)
    assert read(path, **keys).ids.tolist() != before.ids.tolist()
    assert read(path, **{**keys, "gaps": "mask"}).repair.policy == "mask"


def test_after_a_kill_the_next_conversion_begins_anew_to_the_same_bytes(tmp_path, monkeypatch):
    path = small(tmp_path)
    read(path, cache=str(tmp_path / "whole"), **KEYS)
    process = os.fork()
    if not process:  # killed once the rows are written
        monkeypatch.setattr(cache, "frame_of", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        read(path, cache=str(tmp_path / "cache"), **KEYS)
        os._exit(1)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert list((tmp_path / "cache").glob("panel-*")) == []
    read(path, cache=str(tmp_path / "cache"), **KEYS)
    whole, again = (
        {file.name: file.read_bytes() for file in (tmp_path / name).glob("panel-*/*")} for name in ("whole", "cache")
    )
    assert again == whole and len(whole) == 4
    assert list((tmp_path / "cache").glob("*.part")) == []


def test_a_conversion_that_fails_leaves_nothing(tmp_path):
    table = long_table(*planted()).drop(index=3)
    table.to_parquet(tmp_path / "my.parquet")
    assert "Set data.gaps=" in refusal(tmp_path / "my.parquet", cache=str(tmp_path / "cache"), id_column="unique_id")
    assert [entry.suffix for entry in (tmp_path / "cache").iterdir()] == [".lock"]


def test_what_is_no_parquet_file_is_held_in_memory_and_that_is_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "my.csv"
    long_table(*planted()).to_csv(path, index=False)
    assert_equal(read(path, cache=str(tmp_path / "cache"), **KEYS), read(path, **KEYS))
    assert "held in memory: data.cache is for long panels in Parquet or Feather files" in caplog.text


def test_times_that_are_text_are_not_converted(tmp_path):
    path = small(tmp_path, ds=long_table(*planted())["ds"].astype(str))
    assert "data.cache needs one column of dates" in refusal(path, cache=str(tmp_path / "cache"), **KEYS)
