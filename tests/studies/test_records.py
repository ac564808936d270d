"""Lines of results: appended whole, read back, robust against a crash in the middle of one."""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from comparison.folders import edit_json, make_run, wave
from studies_lines import line

from forecast.errors import UserError
from forecast.run_folder import read_run
from studies.published import records
from studies.published.tables import Job


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new" / "runs.jsonl"


def test_a_line_has_its_place_in_the_table_and_the_keys_of_both_files_without_a_path(tmp_path):
    folder = make_run(tmp_path / "run", errors=wave(0.5), seed=3)
    more = {"path": "/home/me/ETTh1.csv", "columns": ["a", "b"]}
    made_by = {"commit": "1a2b3c4"}
    edit_json(folder / "run.json", lambda info: info["data"].update(more) or {**info, **made_by})
    job = Job(table="t", row="r", model="c", seed=3, overrides=("data.path=/home/me/x.csv", "seed=3"), identity="abc")
    result = records.record(job, read_run(folder))
    names = {"identity": "abc", "table": "t", "row": "r", "contender": "c"}
    assert result.items() >= {**names, "seed": 3}.items() and result["overrides"] == ["data.path=x.csv", "seed=3"]
    assert result["test"]["scaled"]["mse"] == pytest.approx(wave(0.5).mean())
    assert result.items() >= made_by.items() and result["versions"] == {"torch": "2.13.0"} and result["data"] == "ETTh1"
    assert result["data_read"] == {"name": "ETTh1", "checksum": "c0ffee", "columns": ["a", "b"]}
    assert "/home/me" not in json.dumps(result)


def test_lines_come_back_by_identity_and_place_and_the_last_one_counts(file):
    assert records.read(file) == []
    for mse in (0.5, 0.4):
        records.append(file, line("t", "r", "c", mse=mse))
    records.append(file, line("t", "r", "c", mse=0.3, seed=2))
    records.append(file, {**line("t", "r", "c", mse=0.2), "table": "another"})  # the same training
    assert [entry["test"]["scaled"]["mse"] for entry in records.read(file)] == [0.4, 0.3, 0.2]
    assert len(file.read_text().splitlines()) == 4


@pytest.mark.parametrize("cut_off", [True, False])
def test_a_line_cut_off_by_a_crash_is_left_out_and_a_whole_one_without_its_end_of_line_is_not(file, cut_off):
    records.append(file, line("t", "r", "c", mse=0.5))
    text = file.read_text()
    file.write_text(text + '{"identity": "x", "te' if cut_off else text.rstrip("\n"))
    assert len(records.read(file)) == 1
    records.append(file, line("t", "r", "c", mse=0.4, seed=2))
    assert [entry["seed"] for entry in records.read(file)] == [1, 2]


def test_lines_of_two_processes_do_not_cut_each_other(file):
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(records.append, [file] * 60, [line("t", "r", "c", mse=0.5, seed=seed) for seed in range(60)]))
    assert sorted(entry["seed"] for entry in records.read(file)) == list(range(60))


@pytest.mark.parametrize("text", ["{}\n", "text\n"])
def test_a_line_of_something_else_is_refused(file, text):
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UserError, match=r"runs\.jsonl, line 1, is damaged or was written by another version: "):
        records.read(file)
