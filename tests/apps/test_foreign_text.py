"""Names that are attacks, in a file and a checkpoint: what the commands print and write of them."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from checkpoints import LENGTHS, write_untrained
from hydra.core.override_parser.overrides_parser import OverridesParser
from program import call, refusal
from script import call_script

from forecast.text.terminal import harmless

# Column -> a part that must not come out as it is.
NAMES = {
    "load\x1b]0;owned\x07\x1b[2J": "\x1b",
    "\x9b2Jheat": "\x9b",
    "$\\frac{ and $ more": None,
    "sun\nok    all is well\nforecast train data=evil": "\nok    all",
    "=cmd|'/c calc'!A0": None,
    "[bold red]x[/] :dog:": None,
    "温度 👩🏽‍🚀": None,
    "n" * 600: "n" * 200,
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A CSV file with NAMES, own.csv, and an untrained checkpoint for it, best.ckpt."""
    folder = tmp_path_factory.mktemp("hostile")
    steps = np.arange(240)
    columns = {name: np.sin(2 * np.pi * steps / 24 + place).round(4) for place, name in enumerate(NAMES)}
    table = pd.DataFrame({"date": pd.date_range("2021-01-05", periods=240, freq="h"), **columns})
    table.to_csv(folder / "own.csv", index=False)
    write_untrained(folder / "best.ckpt", "data=csv", f"data.path={folder}/own.csv", "model=dlinear", *LENGTHS)
    return folder


def check_shown(text):
    assert harmless(text) == text
    for part in filter(None, NAMES.values()):
        assert part not in text


def test_check_data(hostile, capsys):
    status, output, errors = call_script(capsys, "check_data", hostile / "own.csv")
    assert status == 0
    check_shown(output + errors)
    assert "温度 👩🏽‍🚀" in output
    assert r"load\x1b]0;owned" in output


def test_a_refusal(hostile, capsys, tmp_path):
    options = ["data=csv", f"data.path={hostile}/own.csv", "data.target=none", f"hydra.run.dir={tmp_path}"]
    text = refusal(capsys, "train", *options)
    check_shown(text)
    assert "there is no column 'none'" in text


def test_inspect_as_json_keeps_the_true_names_and_is_harmless(hostile, capsys):
    _, output, _ = call_script(capsys, "inspect_checkpoint", "--json", hostile / "best.ckpt")
    assert harmless(output) == output
    assert json.loads(output)["data"]["columns"] == list(NAMES)


def test_evaluate(hostile, capsys, tmp_path):
    call("evaluate", f"ckpt_path={hostile}/best.ckpt", f"hydra.run.dir={tmp_path}")
    printed = capsys.readouterr()
    check_shown(printed.out + printed.err)
    check_shown((tmp_path / "evaluate.log").read_text())


def test_the_command_to_train_with_survives_the_shell_and_hydra_and_is_harmless(capsys, tmp_path):
    """A time column and a file with names that a shell would obey."""
    name = "$(touch x) `y`; 'q' \"z\" ${oc.env:HOME}"
    table = pd.DataFrame({name: pd.date_range("2021-01-05", periods=240, freq="h"), "load": np.sin(np.arange(240))})
    path = tmp_path / "a b;$(c).csv"
    table.to_csv(path, index=False)
    _, output, _ = call_script(capsys, "check_data", path)
    words = shlex.split(output.splitlines()[-1])
    parsed = {o.key_or_group: o.value() for o in OverridesParser.create().parse_overrides(words[3:])}
    assert parsed["data.path"] == str(path)
    assert parsed["data.time_column"].replace("\\${", "${") == name


def test_a_name_that_a_shell_has_listed_in_a_wrong_place(capsys):
    status, _, errors = call_script(capsys, "report", "folder", "evil\x1b[2J")
    assert status == 2
    assert errors.endswith("unrecognized arguments: evil\\x1b[2J\n")


def test_output_safe_puts_an_apostrophe_before_what_a_spreadsheet_would_run_and_before_no_number(hostile, tmp_path):
    paths = [f"output={tmp_path}/f.csv", f"hydra.run.dir={tmp_path}/p"]
    call("predict", f"ckpt_path={hostile}/best.ckpt", "output_safe=true", *paths)
    table = pd.read_csv(tmp_path / "f.csv")
    assert table.columns.tolist() == ["date", *("'" + name if name.startswith("=") else name for name in NAMES)]
    assert np.isfinite(table[table.columns[1:]].to_numpy(dtype=float)).all()
    cells = [cell for line in (tmp_path / "f.csv").read_text().splitlines()[-5:] for cell in line.split(",")]
    assert len(cells) == 5 * (1 + len(NAMES))
    assert any(cell.startswith("-0.") for cell in cells)  # a number, and a date is no formula
    assert not any(cell.startswith("'") for cell in cells)


def test_output_safe_is_true_or_false(hostile, capsys, tmp_path):
    paths = [f"ckpt_path={hostile}/best.ckpt", f"output={tmp_path}/f.csv", f"hydra.run.dir={tmp_path}/p"]
    text = refusal(capsys, "predict", *paths, "output_safe=maybe")
    assert "output_safe" in text and "maybe" in text and "boolean" in text
    assert not (tmp_path / "f.csv").exists()
