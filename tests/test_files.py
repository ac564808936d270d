"""Files are written whole or not at all."""

import json
import math
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from forecast.files import replacing, rounded, write_arrays, write_json


def test_floats_are_rounded_to_six_decimals_wherever_they_are():
    value = {"a": [0.12345678, (np.float32(0.1), 2)], "b": np.array([1.0000004, np.nan]), "c": True, "d": "x"}
    assert rounded(value) == {"a": [0.123457, [0.1, 2]], "b": [1.0, None], "c": True, "d": "x"}


def test_whole_numbers_stay_whole():
    assert type(rounded(np.int64(5))) is int
    assert type(rounded(True)) is bool
    assert math.copysign(1.0, rounded(-1e-9)) == 1.0


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
    write_arrays(tmp_path / "errors.npz", {"start": np.arange(3)})
    assert [path.name for path in tmp_path.iterdir()] == ["errors.npz"]
    with np.load(tmp_path / "errors.npz") as archive:
        assert archive["start"].tolist() == [0, 1, 2]


def test_what_could_not_be_written_raises_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "file"):
        pass  # nothing was written beside it
    assert list(tmp_path.iterdir()) == []
