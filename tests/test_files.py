"""Files are written whole or not at all."""

import contextlib
import errno
import json
import math
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from forecast.files import remove_unfinished, replacing, rounded, save_arrays, together, write_json


def test_floats_are_rounded_to_six_decimals_wherever_they_are_and_small_ones_to_as_many_digits():
    value = {"a": [0.12345678, (np.float32(0.1), 2)], "b": np.array([1.0000004, np.nan]), "c": True, "d": "x"}
    assert rounded(value) == {"a": [0.123457, [0.1, 2]], "b": [1.0, None], "c": True, "d": "x"}
    assert rounded([0.00281234567, -1.23456789e-9]) == [0.00281235, -1.23457e-9]
    assert rounded(rounded(0.09999999996)) == rounded(0.09999999996)


def test_whole_numbers_stay_whole():
    assert type(rounded(np.int64(5))) is int
    assert type(rounded(True)) is bool
    assert math.copysign(1.0, rounded(-0.0)) == 1.0


def test_nan_and_inf_become_null(tmp_path):
    path = tmp_path / "metrics.json"
    write_json(path, {"mse": float("nan"), "inf": -math.inf, "np": np.float64("nan"), "none": None})
    assert json.loads(path.read_text()) == {"mse": None, "inf": None, "np": None, "none": None}
    assert "NaN" not in path.read_text()


def test_json_is_indented_by_two(tmp_path):
    write_json(tmp_path / "x.json", {"b": 1.23456789, "a": "é"})
    assert (tmp_path / "x.json").read_text() == '{\n  "b": 1.234568,\n  "a": "\\u00e9"\n}\n'


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_json(path, {"old": 1})

    def killed(self, *_args, **_kwargs):
        with open(self, "w") as file:  # noqa: PTH123 - write_text is what is replaced here
            file.write("{ half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["metrics.json"]  # noqa: PTH208


def test_who_reads_while_it_is_written_sees_the_whole_old_file(tmp_path):
    path = tmp_path / "metrics.json"
    write_json(path, {"old": 1})
    with path.open() as reader:
        write_json(path, {"new": 2})
        assert json.load(reader) == {"old": 1}
    assert json.loads(path.read_text()) == {"new": 2}


def test_others_may_read_the_file_as_the_umask_allows(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    write_json(tmp_path / "x.json", {})
    assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_arrays_are_written_under_the_name_that_was_asked_for(tmp_path):
    with replacing(tmp_path / "errors.npz") as unfinished:
        save_arrays(unfinished, {"start": np.arange(3)})
    assert [path.name for path in tmp_path.iterdir()] == ["errors.npz"]
    with np.load(tmp_path / "errors.npz") as archive:
        assert archive["start"].tolist() == [0, 1, 2]


def test_what_could_not_be_written_raises_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "file"):
        pass  # nothing was written beside it
    assert list(tmp_path.iterdir()) == []


def killed_at(monkeypatch, number):
    """The rename of that number, counted from 1, is one that a killed process does not come to."""
    rename, calls = Path.replace, []

    def replace(self, target):
        calls.append(target)
        if len(calls) == number:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)


@pytest.mark.parametrize("last_is_written", [False, True])
def test_files_that_belong_together_appear_when_the_last_one_is_on_the_disk(tmp_path, last_is_written):
    for name in ("a.csv", "metrics.json"):
        (tmp_path / name).write_text("old")
    with contextlib.suppress(KeyboardInterrupt), together(tmp_path) as beside:
        beside("a.csv").write_text("new")
        assert (tmp_path / "a.csv").read_text() == "old"
        if not last_is_written:
            raise KeyboardInterrupt
        beside("metrics.json").write_text("new")
    expected = "new" if last_is_written else "old"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": expected, "metrics.json": expected}


def test_they_take_their_places_in_the_order_in_which_they_were_asked_for(tmp_path, monkeypatch):
    killed_at(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt), together(tmp_path) as beside:
        beside("a.csv").write_text("new")
        beside("metrics.json").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_place_that_is_a_folder_is_found_before_any_file_is_replaced(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError, match=r"'.*/b'$"), together(tmp_path) as beside:
        beside("a").touch()
        beside("b").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_each_file_and_then_its_folder_is_on_the_disk_before_the_writer_returns(tmp_path, monkeypatch):
    """Of a power cut a test can see only this: what was synced, and whether it had its name by then."""
    synced, sync = [], os.fsync

    def fsync(descriptor):
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), (tmp_path / "x.json").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_json(tmp_path / "x.json", {})
    (file, named), (folder, renamed) = synced
    assert file.name.endswith(".part") and not named
    assert folder == tmp_path and renamed


def test_an_error_names_the_file_and_not_the_part_of_it(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*/b'$"), together(tmp_path) as beside:
        beside("a").touch()
        beside("b")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as a write to a full disk does
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*/no/a'$"):
        write_json(tmp_path / "no" / "a", {})


def test_a_file_of_a_users_own_with_the_suffix_of_an_unfinished_one_stays(tmp_path):
    (tmp_path / "x.json.part").write_text("mine")
    write_json(tmp_path / "x.json", {})
    assert (tmp_path / "x.json.part").read_text() == "mine"


def test_two_processes_that_write_the_same_file_write_it_one_after_the_other(tmp_path, monkeypatch):
    with replacing(tmp_path / "x") as first:
        first.write_text("first")
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with replacing(tmp_path / "x") as second:
            second.write_text("second")
        assert (tmp_path / "x").read_text() == "second"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "first")]


def test_what_a_killed_process_left_of_a_file_is_removed_and_nothing_else(tmp_path):
    for name in (".last.ckpt.17.part", "last.ckpt", ".best.ckpt.17.part", "last.ckpt.part"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / "last.ckpt")
    assert {path.name for path in tmp_path.iterdir()} == {"last.ckpt", ".best.ckpt.17.part", "last.ckpt.part"}
    remove_unfinished(tmp_path / "none" / "last.ckpt")
