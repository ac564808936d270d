"""docs/wild.md: files of strangers, run as printed, and what the page says of them."""

import json

import numpy as np
import pandas as pd
import pytest
from script import SCRIPTS, call_script

from forecast.errors import UserError
from studies.wild import page as wild_page
from studies.wild import runs as wild_runs

RESULTS = SCRIPTS.parent / "results"


def result(mase, **baselines):
    return {
        "made_by": "2026-01-02, commit 1a2b3c4",
        "check": "forecast check-data a.csv",
        "check_seconds": 2.5,
        "train": "forecast train data.path=a.csv",
        "train_seconds": 7.5,
        "said": "time: column 'ts'",
        "verdict": "The model wins.",
        "rows": 1009,
        "columns": 3,
        "season": 24,
        "lengths": [96, 24],
        "mase": mase,
        "baselines": baselines,
    }


def series(n_rows, columns):
    steps = np.arange(n_rows)
    noise = np.random.default_rng(0).normal(size=(n_rows, columns))
    values = np.sin(2 * np.pi * steps[:, None] / 24 + np.arange(columns)) + 0.1 * noise
    table = pd.DataFrame(values.round(3), columns=[f"c{i}" for i in range(columns)])
    table.insert(0, "when", pd.date_range("2024-01-01", periods=n_rows, freq="h"))
    return table


def test_the_page_is_what_the_record_gives(capsys):
    status, _, error = call_script(capsys, "wild_files", "--check")
    assert (status, error) == (0, "")


def test_the_record_has_no_paths_and_a_result_for_each_file():
    for name, one in wild_runs.read(RESULTS / "wild.json").items():
        assert "/" not in name
        assert one["train"].count(name) == 1 and f"data.path={name}" in one["train"]
        assert "commit" in one["made_by"] and one["mase"] > 0 and one["check_seconds"] > 0


def test_the_table_measures_the_model_by_the_baseline_that_is_best_on_test():
    results = {
        "a.csv": result(1.02, last_value=4.0, seasonal_naive=1.0, ridge=1.02),
        "b.csv": result(1.5, last_value=2.0, seasonal_naive=None, ridge=1.25)
        | {"informer": {"seconds": 91.4, "mase": 1.4}},
    }
    text = wild_page.lines(results, {"b.csv": "Its level jumps."})
    assert text[0] == "At most 1.02 times the best baseline: 1 of 2 files (goal: 2)."
    assert text[1] == "At most 1.15 times: 1 of 2 (goal: all)."
    assert "| `a.csv` | 1,009 | 3 | 24 | 96 | 24 | 1.020 | 4.000 | 1.000 | - | 1.020 | 1.020 | - |" in text
    assert "| `b.csv` | 1,009 | 3 | 24 | 96 | 24 | 1.500 | 2.000 | - | - | 1.250 | 1.200 | 1.400 |" in text
    assert text[2] == "The Informer's command, files of at most 50,000 rows: 91 s at most (goal: 180)."
    assert text[-2:] == ["- the Informer's command, 91.4 s: MASE 1.400.", "- A miss. Its level jumps."]


def test_an_informers_result_stays_while_the_file_is_read_and_cut_as_before():
    informer = {"informer": {"mase": 1.4}}
    before = {"train": "forecast train model=ridge data.path=a.csv seq_len=96"} | informer
    trees = {"train": "forecast train model=boosted_trees data.path=a.csv seq_len=96 model.error=absolute"}
    assert wild_runs.with_informer(trees, before) == trees | informer
    longer = {"train": "forecast train model=ridge data.path=a.csv seq_len=192"}
    assert wild_runs.with_informer(longer, before) == longer
    assert wild_runs.with_informer({"train": None}, {}) == {"train": None}


def test_a_command_that_failed_is_a_miss_with_its_last_words():
    failed = {"made_by": "commit 1a2b3c4", "check": "forecast check-data a.csv", "check_seconds": 2.5, "train": None}
    text = wild_page.lines({"a.csv": failed | {"verdict": "No rows."}}, {"a.csv": "It is empty."})
    assert text[0].startswith("At most 1.02 times the best baseline: 0 of 1")
    assert "| `a.csv` | - | - | - | - | - | - | - | - | - | - | - | - |" in text
    assert "- check-data, 2.5 s: No rows." in text


@pytest.mark.parametrize(
    ("mase", "notes", "message"),
    [
        pytest.param(1.5, {}, r"a\.csv misses the goal: say why", id="a miss"),
        pytest.param(1.0, {"a.csv": "So."}, r"a\.csv misses nothing: remove it", id="no miss"),
        pytest.param(1.0, {"b.csv": "So."}, r"b\.csv misses nothing: remove it", id="no file"),
    ],
)
def test_each_miss_has_a_reason_and_nothing_else_has(mase, notes, message):
    with pytest.raises(UserError, match=message):
        wild_page.lines({"a.csv": result(mase, ridge=1.0)}, notes)


def test_a_page_that_differs_is_told(tmp_path):
    page = tmp_path / "wild.md"
    page.write_text("# Files\n<!-- made by scripts/wild_files.py -->\n<!-- until here -->\n")
    results = {"a.csv": result(1.0, ridge=1.0)}
    with pytest.raises(UserError, match=r"wild\.md is not what results/wild\.json gives: run python scripts/wild_f"):
        wild_page.write(page, results, {}, check=True)
    wild_page.write(page, results, {}, check=False)
    wild_page.write(page, results, {}, check=True)


def test_a_folder_without_such_files_is_told(tmp_path):
    with pytest.raises(UserError, match=r"has no \*\.csv"):
        wild_runs.record(tmp_path, tmp_path / "wild.json")
    (tmp_path / "a.csv").write_text("a\n")
    with pytest.raises(UserError, match=r"has no b\.csv"):
        wild_runs.record(tmp_path, tmp_path / "wild.json", only=["b.csv"])


@pytest.mark.slow
def test_each_file_gets_the_two_commands(tmp_path, monkeypatch):
    """One whole, one with several series below one another, one that holds no numbers."""
    folder, path = tmp_path / "files", tmp_path / "wild.json"
    folder.mkdir()
    series(503, 2).to_csv(folder / "whole.csv", index=False)
    parts = [series(307, 1).assign(place=place) for place in ("here", "there")]
    monkeypatch.setitem(wild_runs.TYPED, "two below.csv", ["data.where={place: here}"])
    pd.concat(parts).to_csv(folder / "two below.csv", index=False)
    (folder / "words.csv").write_text("a,b\nx,y\n")
    wild_runs.record(folder, path)
    results = json.loads(path.read_text())
    assert list(results) == ["two below.csv", "whole.csv", "words.csv"]
    whole, two, words = (results[name] for name in ("whole.csv", "two below.csv", "words.csv"))
    assert whole["rows"] == 503 and whole["columns"] == 2 and whole["season"] == 24
    assert whole["mase"] <= 1.02 * min(whole["baselines"].values())
    assert "place: here" in two["train"] and two["mase"] > 0
    assert words["train"] is None and words["verdict"]
    with pytest.raises(UserError, match=r"wild\.json has no training of words\.csv: record it first, without --inf"):
        wild_runs.record_informers(folder, path, only=["words.csv"])
    wild_runs.record_informers(folder, path, only=["two below.csv"])
    informer = json.loads(path.read_text())["two below.csv"]["informer"]
    assert "model=informer" in informer["command"] and "place: here" in informer["command"] and informer["mase"] > 0
    assert str(tmp_path) not in path.read_text()
