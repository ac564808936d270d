"""A panel in a cache folder is that of the file, to the bit, however large, and never a half one."""

import logging
import os
import signal
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from data.assembling.panel_files import Series, long_table, planted, read, refusal

from forecast.data.assembling import cache, rows

KEYS = {"id_column": "unique_id", "gaps": "interpolate"}


def gappy():
    panel, stamps = planted(count=23)
    for number in range(0, 23, 3):
        panel[number].values[2:4] = [np.nan, np.nan]
    panel.append(Series("none", 3, [1.0, *[np.nan] * 9, 1.0]))
    return panel, stamps


@pytest.fixture
def small_parts(monkeypatch):
    """Few rows are read and looked at at a time."""
    monkeypatch.setattr(cache, "CELLS", 17)
    monkeypatch.setattr(rows, "BLOCK_CELLS", 40)


def written(folder, kind="parquet", shuffle=4):
    path = folder / f"my.{kind}"
    table = long_table(*gappy(), shuffle=shuffle).reset_index(drop=True)
    getattr(table, f"to_{kind}")(path)
    return path


def assert_equal(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.measured, other.measured)
    for name in ("offsets", "steps", "ids"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    for name in ("first", "freq", "columns", "name", "id_column", "time_column", "repair", "left_out", "checksum"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize("shuffle", [None, 4])
def test_the_cache_holds_the_panel_of_the_file_and_is_read_again(tmp_path, kind, shuffle, small_parts, caplog):
    caplog.set_level(logging.INFO)
    path = written(tmp_path, kind, shuffle)
    expected = read(path, **KEYS)
    first = read(path, cache=str(tmp_path / "cache"), **KEYS)
    assert isinstance(first.values, np.memmap) and "converted into" in caplog.text
    assert_equal(first, expected)
    caplog.clear()
    assert_equal(read(path, cache=str(tmp_path / "cache"), **KEYS), expected)
    assert "into which it was converted before" in caplog.text and "converted into" not in caplog.text
    assert [entry.name[:6] for entry in (tmp_path / "cache").iterdir() if not entry.name.startswith(".")] == ["panel-"]


def test_what_a_training_has_converted_serves_a_forecast_which_names_columns_and_frequency(tmp_path, small_parts):
    path, keys = written(tmp_path), {"cache": str(tmp_path / "cache"), **KEYS}
    trained = read(path, **keys)
    asked = {"columns": list(trained.columns), "trained_on": trained.freq}
    assert_equal(read(path, **asked, **keys), trained)
    assert len([*(tmp_path / "cache").glob("panel-*")]) == 1
    said = refusal(path, **{**keys, **asked, "trained_on": "15min"})
    assert said == refusal(path, **{**KEYS, **asked, "trained_on": "15min"}), "of another model"


def test_a_conversion_holds_a_tenth_of_the_panel_at_most(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CELLS", 1 << 16)
    monkeypatch.setattr(rows, "BLOCK_CELLS", 1 << 16)
    series, length, names = 400, 500, [f"y{number}" for number in range(32)]
    table = pd.DataFrame(np.random.default_rng(0).random((series * length, 32), dtype=np.float32), columns=names)
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
    assert most < frame.values.nbytes / 10, most


def test_several_files_are_converted_together(tmp_path, small_parts):
    table = long_table(*gappy(), shuffle=1)
    for number in range(3):
        table[table["unique_id"].map(len) % 3 == number].to_parquet(tmp_path / f"part{number}.parquet")
    pattern = tmp_path / "part[02].parquet"
    assert_equal(read(pattern, cache=str(tmp_path / "cache"), **KEYS), read(pattern, **KEYS))


def test_steps_texts_and_several_ids_are_converted_alike(tmp_path, small_parts):
    table = long_table(*gappy(), shuffle=2)
    hours = ((table["ds"] - table["ds"].min()) // pd.Timedelta("1h")).to_numpy()
    table["week"], table["text"] = 40 + hours, table["ds"].dt.strftime("%d.%m.%Y %H:%M")
    table["day"], table["clock"] = table["ds"].dt.strftime("%Y-%m-%d"), table["ds"].dt.strftime("%H:%M")
    table["brand"] = table["unique_id"].str[-1]
    path = tmp_path / "my.parquet"
    table.to_parquet(path)
    for time in ("week", "text", ["day", "clock"]):
        keys = {"columns": ["y"], "time_column": time, "gaps": "mask", "id_column": ["brand", "unique_id"]}
        assert_equal(read(path, cache=str(tmp_path / "cache"), **keys), read(path, **keys))


def test_repeated_rows_are_made_one_in_the_conversion(tmp_path, small_parts):
    table = long_table(*gappy(), shuffle=1)
    path = tmp_path / "my.parquet"
    pd.concat([table, table.iloc[5:50].assign(y=7.0)]).to_parquet(path)
    for how in ("mean", "sum", "first", "last"):
        keys = {"duplicates": how, **KEYS}
        assert_equal(read(path, cache=str(tmp_path / "cache"), **keys), read(path, **keys))
    assert "repeat a time of their series" in refusal(path, cache=str(tmp_path / "cache"), **KEYS)


WRONG = {
    "an id that is missing": lambda table: table.assign(unique_id=table["unique_id"].where(table.index != 70)),
    "an id of blanks": lambda table: table.assign(unique_id=table["unique_id"].where(table.index != 70, "  ")),
    "ids that are bytes": lambda table: table.assign(unique_id=[b"a"] * 70 + [b"\xff"] * (len(table) - 70)),
    "a time that is missing": lambda table: table.assign(ds=table["ds"].where(table.index != 70)),
    "a word among numbers": lambda table: table.assign(y=table["y"].astype(str).where(table.index != 70, "?!")),
    "an endless number": lambda table: table.assign(y=table["y"].where(table.index != 70, np.inf)),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_late_rows_is_refused_without_a_cache_and_with_one(tmp_path, small_parts, case):
    """The first reading looks at all cells of the first rows alone."""
    path = tmp_path / "my.parquet"
    WRONG[case](long_table(*gappy(), shuffle=4).reset_index(drop=True)).to_parquet(path)
    once, parts = refusal(path, **KEYS), refusal(path, cache=str(tmp_path / "cache"), **KEYS)
    same = 1 if "bytes" in case else 2  # the file, and the row or the column; of a part that lacks the ids the column
    assert parts.split(":")[:same] == once.split(":")[:same]
    assert not list((tmp_path / "cache").glob("panel-*"))


def test_a_file_that_changed_is_converted_anew(tmp_path):
    path = written(tmp_path)
    keys = {"cache": str(tmp_path / "cache"), **KEYS}
    before = read(path, **keys)
    table = pd.read_parquet(path)
    table.replace({"unique_id": {"s0": "s_0"}}).to_parquet(path)
    assert read(path, **keys).ids.tolist() != before.ids.tolist()
    assert read(path, **{**keys, "gaps": "mask"}).repair.policy == "mask"


PART = 50  # rows of a row group


def in_row_groups(folder):
    """Shuffled rows in two files of several row groups."""
    table = long_table(*gappy(), shuffle=4).reset_index(drop=True)
    for number in range(2):
        mine = table[table["unique_id"].map(lambda name, number=number: len(name) % 2 == number)]
        mine.to_parquet(folder / f"part{number}.parquet", row_group_size=PART)
    return folder / "part*.parquet"


def killed_at(monkeypatch, path, cache, place, call):
    """A conversion that is killed when it comes to a place for the call-th time."""
    process = os.fork()
    if not process:
        owner, name = place
        real, calls = getattr(owner, name), []

        def killing(*given, **named):
            calls.append(given)
            if len(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        try:
            monkeypatch.setattr(owner, name, killing)
            read(path, cache=str(cache), **KEYS)
        finally:
            os._exit(1)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL, "it came to the place"


def bytes_of(cache):
    (home,) = cache.glob("panel-*")
    return {path.name: path.read_bytes() for path in home.iterdir()}


def test_after_a_kill_the_next_conversion_begins_anew_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CELLS", PART)
    monkeypatch.setattr(rows, "BLOCK_CELLS", 40)
    path = in_row_groups(tmp_path)
    read(path, cache=str(tmp_path / "whole"), **KEYS)
    killed_at(monkeypatch, path, tmp_path / "cache", (cache, "regular"), 3)
    assert list((tmp_path / "cache").glob("panel-*")) == []
    assert_equal(read(path, cache=str(tmp_path / "cache"), **KEYS), read(path, **KEYS))
    assert bytes_of(tmp_path / "cache") == bytes_of(tmp_path / "whole")
    assert list((tmp_path / "cache").glob("*.part")) == []


def test_a_conversion_that_fails_leaves_nothing(tmp_path):
    path = written(tmp_path)
    assert "Set data.gaps=" in refusal(path, cache=str(tmp_path / "cache"), id_column="unique_id")
    assert [entry.suffix for entry in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written(tmp_path):
    path = written(tmp_path)
    (tmp_path / "file").write_text("")
    assert "data.cache=" in refusal(path, cache=str(tmp_path / "file"), **KEYS)


def test_what_is_no_parquet_file_is_held_in_memory_and_that_is_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "my.csv"
    long_table(*gappy()).to_csv(path, index=False)
    assert_equal(read(path, cache=str(tmp_path / "cache"), **KEYS), read(path, **KEYS))
    assert "held in memory: data.cache is for long panels in Parquet or Feather files" in caplog.text
