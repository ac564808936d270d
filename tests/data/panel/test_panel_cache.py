"""A panel in a cache folder is that of the file, to the bit, however large, and never a half one."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.panel.panel_files import Series, held, long_table, planted, read, refusal

from forecast.data.panel import columnar_rows, rows

ROOT = Path(__file__).parents[3]
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
    monkeypatch.setattr(columnar_rows, "BATCH", 17)
    monkeypatch.setattr(rows, "BLOCK_ROWS", 40)


def written(folder, kind="parquet", shuffle=4):
    pytest.importorskip("pyarrow") if kind != "csv" else None
    path = folder / f"my.{kind}"
    table = long_table(*gappy(), shuffle=shuffle).reset_index(drop=True)
    table.to_csv(path, index=False) if kind == "csv" else getattr(table, f"to_{kind}")(path)
    return path


def assert_equal(one, other):
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.measured, other.measured)
    for name in ("offsets", "steps", "ids"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    for name in ("first", "freq", "columns", "name", "id_column", "time_column", "repair", "left_out", "checksum"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
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


def test_several_files_are_converted_together(tmp_path, small_parts):
    pytest.importorskip("pyarrow")
    table = long_table(*gappy(), shuffle=1)
    for number in range(3):
        table[table["unique_id"].map(len) % 3 == number].to_parquet(tmp_path / f"part{number}.parquet")
    pattern = tmp_path / "part[02].parquet"
    assert_equal(read(pattern, cache=str(tmp_path / "cache"), **KEYS), read(pattern, **KEYS))


def test_steps_texts_and_several_ids_are_converted_alike(tmp_path, small_parts):
    pytest.importorskip("pyarrow")
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
    pytest.importorskip("pyarrow")
    table = long_table(*gappy(), shuffle=1)
    path = tmp_path / "my.parquet"
    pd.concat([table, table.iloc[5:50].assign(y=7.0)]).to_parquet(path)
    for how in ("mean", "sum", "first", "last"):
        keys = {"duplicates": how, **KEYS}
        assert_equal(read(path, cache=str(tmp_path / "cache"), **keys), read(path, **keys))
    assert "repeat a time of their series" in refusal(path, cache=str(tmp_path / "cache"), **KEYS)


def test_a_file_that_changed_is_converted_anew(tmp_path):
    path = written(tmp_path, "csv")
    keys = {"cache": str(tmp_path / "cache"), **KEYS}
    before = read(path, **keys)
    path.write_text(path.read_text().replace("s0,", "s_0,"))
    assert read(path, **keys).ids.tolist() != before.ids.tolist()
    assert read(path, **{**keys, "gaps": "mask"}).repair.policy == "mask"


@pytest.mark.parametrize("damage", ["values.f32", "arrays.npz", "meta.json"])
def test_a_cache_that_was_damaged_is_written_anew(tmp_path, damage):
    path, keys = written(tmp_path, "csv"), {"cache": str(tmp_path / "cache"), **KEYS}
    expected = held(read(path, **keys))
    (home,) = (tmp_path / "cache").glob("panel-*")
    (home / damage).write_bytes((home / damage).read_bytes()[:-7])
    assert held(read(path, **keys)) == expected


KILLED = """
import os, signal, sys
from data.panel.panel_files import read
from forecast.data.panel import columnar_rows, conversion, rows
columnar_rows.BATCH, rows.BLOCK_ROWS = 17, 40
real, calls = conversion.regular, []
def regular(*given):
    calls.append(given)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)
conversion.regular = regular
read(sys.argv[1], cache=sys.argv[2], id_column="unique_id", gaps="interpolate")
"""


def test_after_a_kill_in_the_midst_of_a_conversion_it_begins_again(tmp_path, small_parts):
    path, cache = written(tmp_path), tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run([sys.executable, "-c", KILLED, path, cache], env=environment, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = cache.glob(".panel-*.part")
    assert (left / "values.f32").stat().st_size > 0, "it was killed in the midst"
    assert list(cache.glob("panel-*")) == []
    assert_equal(read(path, cache=str(cache), **KEYS), read(path, **KEYS))
    assert list(cache.glob(".panel-*.part")) == []


def test_a_conversion_that_fails_leaves_nothing(tmp_path):
    path = written(tmp_path)
    assert "Set data.gaps=" in refusal(path, cache=str(tmp_path / "cache"), id_column="unique_id")
    assert [entry.suffix for entry in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written(tmp_path):
    path = written(tmp_path, "csv")
    (tmp_path / "file").write_text("")
    assert "data.cache=" in refusal(path, cache=str(tmp_path / "file"), **KEYS)
