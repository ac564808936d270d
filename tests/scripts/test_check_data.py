"""scripts/check_data.py: a page on a file, and a last line that can be run."""

import json
import shlex
import subprocess
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from program import call
from script import call_script

# a whole training in a second or two
TINY = [
    *("model.d_model=14", "model.n_heads=2", "model.d_ff=17", "trainer.max_epochs=1", "trainer.limit_train_batches=2"),
    *("trainer.accelerator=cpu", "trainer.enable_progress_bar=false"),
]


class Done(NamedTuple):
    """How the script ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def checked(capsys):
    return lambda *arguments: Done(*call_script(capsys, "check_data", *arguments))


def hours(rows=613, columns=("load", "wind")):
    noise = np.random.default_rng(0).normal(size=(rows, len(columns)))
    data = pd.DataFrame((np.sin(2 * np.pi * np.arange(rows) / 24)[:, None] * 5 + noise).round(3), columns=columns)
    data.insert(0, "date", pd.date_range("2021-01-05", periods=rows, freq="h"))
    return data


def test_a_healthy_file_takes_less_than_a_page_and_ends_with_the_command(tmp_path, checked):
    hours().to_csv(tmp_path / "my.csv", index=False)
    result = checked(tmp_path / "my.csv")
    lines = result.stdout.splitlines()
    assert (result.returncode, result.stderr) == (0, "")
    assert len(lines) < 40
    assert lines[-1] == f"python train.py data=csv data.path={tmp_path}/my.csv seq_len=96 label_len=48 pred_len=24"
    for words in ("613 rows, 3 columns", "2021-01-05 00:00:00 to 2021-01-30 12:00:00", "frequency  h, no row missing"):
        assert words in result.stdout
    assert "season     24 (a day), autocorrelation 0.9" in result.stdout
    assert "windows    train 310, val 39, test 99" in result.stdout


def test_etth1_fits_on_one_page(ett_root, checked):
    result = checked(ett_root / "ETTh1.csv")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) < 40
    assert "season     24 (a day), autocorrelation 0.62" in result.stdout
    assert "windows    train 12075, val 1719, test 3461" in result.stdout


@pytest.mark.parametrize("policy", ["interpolate", "mask"])
def test_the_printed_command_trains(tmp_path, policy, checked):
    """Semicolons, decimal commas, gaps, another time column, and a name that shell and Hydra must not read."""
    path = tmp_path / "it's a=b, $HOME.csv"
    data = hours().rename(columns={"date": "when"})
    gap = range(300, 303) if policy == "interpolate" else range(150, 190)
    data.drop(index=gap).to_csv(path, index=False, sep=";", decimal=",")
    result = checked(path)
    assert result.returncode == 0, result.stdout
    command = result.stdout.splitlines()[-1]
    by_shell = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    words = by_shell.stdout.decode().split("\0")[:-1]
    assert words == shlex.split(command)
    assert words[:2] == ["python", "train.py"]
    call("train", *words[2:], *TINY, f"hydra.run.dir={tmp_path}/run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    counts = {name: metrics[name]["windows"] for name in ("val", "test")}
    run_data = json.loads((tmp_path / "run/run.json").read_text())["data"]
    train = 429 - 119 - run_data["gaps"]["windows_left_out"]["train"]
    assert f"windows    train {train}, val {counts['val']}, test {counts['test']}" in result.stdout
    assert run_data["path"] == str(path)
    assert (run_data["gaps"]["policy"], run_data["gaps"]["rows_added"]) == (policy, len(gap))


def test_a_file_that_cannot_be_trained_on_says_what_to_do_first_and_fails(tmp_path, checked):
    lines = hours().to_csv(index=False).splitlines()
    lines.insert(8, lines[7])
    lines[20] = lines[20].split(",")[0] + ",high,1"
    (tmp_path / "my.csv").write_text("\n".join(lines))
    result = checked(tmp_path / "my.csv")
    assert result.returncode == 1
    first = result.stdout.index("Mend this first:")
    assert result.stdout.index("Line 9: the timestamp 2021-01-05 06:00:00 stands already in line 8") > first
    assert result.stdout.index("Line 21, column 'load': 'high' is no number") > first
    assert result.stdout.splitlines()[-1] == "No training reads this file as it is. Mend it, then run this again."


def test_options_are_used_instead_of_guesses(tmp_path, checked):
    data = hours().rename(columns={"date": "start"})
    data.insert(1, "end", data["start"] + pd.Timedelta("1h"))
    data.drop(columns="start").assign(a=1.5).to_csv(tmp_path / "a.csv", index=False, sep=";")
    result = checked(tmp_path / "a.csv", "--separator", ",")
    assert result.returncode == 1 and "separated by ','" in result.stdout
    result = checked(tmp_path / "a.csv", "--separator", ";", "--decimal", ",")
    assert result.returncode == 1 and "is no number" in result.stdout
    result = checked(tmp_path / "a.csv", "--time_column", "when")
    assert result.returncode == 1 and "There is no column 'when' among end, load, wind, a." in result.stdout
    assert checked(tmp_path / "a.csv", "--time_column", "end").returncode == 0
    data.to_csv(tmp_path / "tab.csv", index=False, sep="\t", columns=["end", "load"])
    assert checked(tmp_path / "tab.csv", "--separator", "\\t").returncode == 0


@pytest.mark.parametrize("name", ["separator", "decimal"])
def test_an_option_of_several_characters_is_refused(tmp_path, name, checked):
    result = checked(tmp_path / "a.csv", f"--{name}", ",,")
    assert result.returncode == 2 and f"--{name} ,,: must be one character" in result.stderr


def test_a_thousand_columns_and_findings_are_cut_short(tmp_path, checked):
    data = hours(rows=211, columns=tuple(f"c{i}" for i in range(1000)))
    data.loc[3, [f"c{i}" for i in range(100)]] = np.nan
    data.to_csv(tmp_path / "wide.csv", index=False)
    result = checked(tmp_path / "wide.csv")
    assert result.returncode == 0, result.stdout
    assert len(result.stdout.splitlines()) < 75
    assert "... and 988 columns more" in result.stdout and "... and 70 more of this kind" in result.stdout
