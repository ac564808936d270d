"""forecast check-data: a page on a file, and a last line that can be run."""

import json
import shlex
import subprocess

import numpy as np
import pandas as pd
import pytest
from program import call
from script import call_script

# a whole training in a second or two
TINY = [
    *("model.d_model=14", "model.n_heads=2", "model.d_ff=17", "trainer.max_epochs=1", "trainer.limit_train_batches=2"),
    *("trainer.accelerator=cpu", "trainer.enable_progress_bar=false", "callbacks.figures=null"),
    *("checks.leakage=false", "calibration=none", "logger=none"),
]


@pytest.fixture
def check(capsys):
    """The script's stdout, once it has ended with that status; for 2, wrong arguments, its stderr."""

    def run(*arguments, status=0):
        actual, output, error = call_script(capsys, "check_data", *arguments)
        assert (actual, bool(error)) == (status, status == 2), output + error
        return error or output

    return run


def commands(output):
    """The two that a page ends with: of the ridge, and of an Informer."""
    _, ridge, _, informer = output.splitlines()[-4:]
    return ridge, informer


def hours(rows=613, columns=("load", "wind")):
    noise = np.random.default_rng(0).normal(size=(rows, len(columns)))
    data = pd.DataFrame((np.sin(2 * np.pi * np.arange(rows) / 24)[:, None] * 5 + noise).round(3), columns=columns)
    data.insert(0, "date", pd.date_range("2021-01-05", periods=rows, freq="h"))
    return data


def test_a_healthy_file_takes_less_than_a_page_and_ends_with_the_command(tmp_path, check):
    hours().to_csv(tmp_path / "my.csv", index=False)
    output = check(tmp_path / "my.csv")
    lines = output.splitlines()
    assert len(lines) < 40
    assert (
        commands(output)[0] == f"forecast train model=ridge data=csv data.path={tmp_path}/my.csv seq_len=96 pred_len=24"
    )
    assert commands(output)[1].startswith(
        f"forecast train model=informer data=csv data.path={tmp_path}/my.csv seq_len=96 "
    )
    for text in ("613 rows, 3 columns", "2021-01-05 00:00:00 to 2021-01-30 12:00:00", "frequency  h"):
        assert text in output
    assert "season     24 (a day), autocorrelation 0.93, MSE of repeating it 0.1" in output
    assert "windows    train 310, val 39, test 99" in output


@pytest.mark.parametrize("policy", ["interpolate", "mask"])
def test_the_printed_command_trains(tmp_path, policy, check):
    """Semicolons, decimal commas, gaps, another time column, and a name that shell and Hydra must not read."""
    path = tmp_path / "it's a=b, $HOME.csv"
    data = hours().rename(columns={"date": "when"})
    gap = range(300, 303) if policy == "interpolate" else range(150, 190)
    data.drop(index=gap).to_csv(path, index=False, sep=";", decimal=",")
    output = check(path)
    _, command = commands(output)
    by_shell = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    words = by_shell.stdout.decode().split("\0")[:-1]
    assert words == shlex.split(command)
    assert words[:2] == ["forecast", "train"]
    call("train", *words[2:], *TINY, f"hydra.run.dir={tmp_path}/run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    counts = {name: metrics[name]["windows"] for name in ("val", "test")}
    run_data = json.loads((tmp_path / "run/run.json").read_text())["data"]
    train = 429 - 119 - run_data["gaps"]["windows_left_out"]["train"]
    assert f"windows    train {train}, val {counts['val']}, test {counts['test']}" in output
    assert run_data["path"] == str(path)
    assert (run_data["gaps"]["policy"], run_data["gaps"]["rows_added"]) == (policy, len(gap))


def test_a_file_that_cannot_be_trained_on_says_what_to_do_first_and_fails(tmp_path, check):
    lines = hours().to_csv(index=False).splitlines()
    lines[20] = lines[20].split(",")[0] + ",high,1"
    (tmp_path / "my.csv").write_text("\n".join(lines))
    output = check(tmp_path / "my.csv", status=1)
    first = output.index("Mend this first:")
    assert output.index("Line 21, column 'load': 'high' is no number") > first
    assert output.splitlines()[-1] == (
        "No training reads this file as it is. Mend it or set a key named above, then run this again."
    )


def test_many_columns_are_cut_short(tmp_path, check):
    data = hours(rows=211, columns=tuple(f"c{i}" for i in range(212)))
    data.to_csv(tmp_path / "wide.csv", index=False)
    output = check(tmp_path / "wide.csv")
    assert len(output.splitlines()) < 75
    assert "... and 200 columns more" in output


def test_keys_of_the_data_group_and_a_target_are_taken(tmp_path, check):
    hours(rows=2003).to_csv(tmp_path / "my.csv", index=False)
    output = check(tmp_path / "my.csv", "--target", "wind", "data.gaps=mask", "data.columns=[wind]")
    season = " ".join(output.partition("season ")[2].partition("lengths")[0].split())
    assert season.startswith("24 (a day), autocorrelation 0.9") and "; the next, 168 (a week), " in season
    assert ' data.columns="[wind]" data.gaps=mask data.features=S data.target=wind ' in commands(output)[0]
    assert "lacks" not in output and "How it is read" not in output


def test_a_target_that_is_written_as_a_number_is_a_name(tmp_path, check):
    hours(columns=("load", "4046")).to_csv(tmp_path / "my.csv", index=False)
    output = check(tmp_path / "my.csv", "data.target=4046")
    assert " data.features=S data.target=\"'4046'\" " in commands(output)[0]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("data.features=X", "data.features=X: must be 'M', 'S' or 'MS'"),
        ("data.featurs=M", "Did you mean 'data.features'?"),
        ("data.target=[a]", "data.target=['a']: must be a valid string"),
        ("data.split.train=0.5", "this command does not take it."),
    ],
)
def test_wrong_keys_are_refused(tmp_path, capsys, word, says):
    hours().to_csv(tmp_path / "my.csv", index=False)
    status, _, error = call_script(capsys, "check_data", tmp_path / "my.csv", word)
    assert status == 1 and says in error


@pytest.mark.parametrize("name", ["a\tb", "two\nlines", "it's"])
def test_the_words_of_a_command_are_carried_whatever_stands_in_a_name(tmp_path, name, capfd):
    hours().rename(columns={"load": name}).to_csv(tmp_path / "my.csv", index=False)
    call("check-data", tmp_path / "my.csv", "--target", name, "--json")
    words = json.loads(capfd.readouterr().out)["command"]
    call("train", *words[2:], f"hydra.run.dir={tmp_path}/run")


def of_shops(counts):
    """Rows of shops below one another: numbers for names, one shop with more rows than the others."""
    parts = [hours(rows=rows, columns=("sold",)).assign(shop=number + 3) for number, rows in enumerate(counts)]
    return pd.concat(parts).assign(rack=lambda table: [f"r{shop % 2}" for shop in table["shop"]])


def test_what_is_advised_of_several_series_trains(tmp_path, check, monkeypatch):
    of_shops([211, 240, 211]).to_csv(tmp_path / "my.csv", index=False)
    words = shlex.split(check(tmp_path / "my.csv", "data.id_column=shop").splitlines()[-1])
    monkeypatch.chdir(tmp_path)
    call("train", *words[2:])
