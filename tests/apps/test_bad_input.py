"""A user's mistake, from the command line on: one message that names it, status 1, and nothing written but the log.

All that a wrong config can be answered with is in tests/config.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import torch
from permissions import read_only
from program import TINY, refusal

SMALL = [change for change in TINY if not change.startswith("data")]
HOURS = [f"2021-03-01 {h:02d}:00:00" for h in range(24)]


def lines(*changed, header="date,load,OT", rows=24):
    """A file of hourly rows; `changed` are (row, new line)."""
    body = [f"{HOURS[i]},{i}.5,{i}.25" for i in range(rows)]
    for row, line in changed:
        body[row] = line
    return "\n".join([header, *body]) + "\n"


FILES = {
    "empty": ("", ["empty"]),
    "no date column": (lines(header="time,load,OT"), ["'date'", "time, load, OT", "data.time_column"]),
    "unparsable timestamp": (lines((5, "yesterday,1,2")), ["line 7", "date", "yesterday"]),
    "duplicate timestamp": (lines((5, f"{HOURS[4]},1,2")), ["line 7", HOURS[4]]),
    "irregular": (lines((5, "2021-03-01 05:30:00,1,2")), ["line 7", "05:30:00"]),
    "text": (lines((5, f"{HOURS[5]},high,2")), ["line 7", "load", "high"]),
    "missing value": (lines((5, f"{HOURS[5]},,2")), ["line 8", "no value of load", "data.gaps"]),
    "infinite value": (lines((5, f"{HOURS[5]},1,inf")), ["line 7", "OT", "inf"]),
    "header only": ("date,load,OT\n", ["a header and no rows", "Add one line per time step"]),
    "several series": (lines() + lines()[len("date,load,OT\n") :].replace(".5", ".7"), ["line 26", "several series"]),
    "mixed time zones": (
        lines((5, f"{HOURS[5]}+01:00,1,2"), (6, f"{HOURS[6]}+02:00,1,2")),
        ["line 7", "+01:00", "offset from UTC"],
    ),
    "semicolons": (lines().replace(",", ";"), ["no time column 'date' among the 1 columns", "data.separator=';'"]),
    "decimal commas": (lines((5, f'{HOURS[5]},"1,5",2')), ["line 7", "'1,5'", "data.decimal=\"','\""]),
    "not UTF-8": (
        lines(header="date,Läufe,OT").encode("cp1252").replace(b"\xe4", b"\x81"),
        ["no text in UTF-8"],
    ),
    "Excel workbook": (b"PK\x03\x04" + bytes(99), ["Excel workbook", "as CSV"]),
    "too short": (lines(), ["24 rows", "seq_len"]),
}


def written(folder):
    return [
        f.name
        for f in Path(folder).rglob("*")
        if f.suffix in {".ckpt", ".csv", ".npz", ".png"} or f.name == "metrics.json" or "tfevents" in f.name
    ]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("problem", FILES)
def test_a_broken_file_is_refused_with_file_line_column_value_and_fix(workplace, capsys, problem):
    content, words = FILES[problem]
    (workplace / "own.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    text = refusal(capsys, "train", *SMALL, "data=csv", "data.path=own.csv")
    assert all(word in text for word in ["own.csv", *words]), text
    assert written(workplace / "outputs") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_stdout_is_one_sentence(workplace):
    """A process of its own: its stdout is a file, which Python fills at the end."""
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "forecast", "check-data", str(workplace / "own.csv")]
        end = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert end.returncode == 1
    assert end.stderr == "The output cannot be written: No space left on device. Make room where stdout goes to.\n"


LENGTHS = ["seq_len=19", "label_len=7", "pred_len=5"]
RIDGE = ["train", "data=demo", "data.rows=700", *LENGTHS, "model=ridge", "logger=none", "callbacks.figures=null"]


def status_without_reader(*words, stderr=subprocess.PIPE, run=subprocess.run):
    """Of a process whose reader has gone, as `| head -1` and `| grep -q` go, only sooner; and what it says on stderr.

    stderr: subprocess.STDOUT for `2>&1`. Python writes most of the output as it exits.
    """
    reader, writer = os.pipe()
    os.close(reader)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "forecast", *words]
    end = run(command, stdout=writer, stderr=stderr, text=True, env=environment, check=False)
    os.close(writer)
    return end.returncode, end.stderr


@pytest.mark.parametrize(
    ("words", "run"),
    [
        *(
            pytest.param(words, subprocess.run, id=" ".join(words))
            for words in (["--help"], ["--version"], ["auto", "--help"], ["check-data", "none.csv"])
        ),
        pytest.param(RIDGE, forked.run, id="what logs, and prints tables"),
    ],
)
def test_a_reader_that_has_gone_ends_a_command_without_a_word(workplace, words, run):
    status, said = status_without_reader(*words, run=run)
    assert (status, re.sub(r"(?m)^(Warning: |Fitted in ).*\n", "", said)) == (141, "")  # but for the log


def test_a_refusal_is_said_as_long_as_somebody_reads_it(workplace):
    assert status_without_reader("nosuch", stderr=subprocess.STDOUT) == (141, None)
    status, message = status_without_reader("nosuch", "--json")
    assert status == 141 and message == "forecast nosuch: no such command. `forecast --help` lists them all.\n"


def test_without_a_network_a_data_set_is_refused_with_what_to_do(workplace, capsys, monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there: no network, wherever this runs
    monkeypatch.setenv("no_proxy", "")
    text = refusal(capsys, "train", *SMALL, "data=ETTm1", "data.root=empty")
    for words in ("empty/ETTm1.csv is not there", "raw.githubusercontent.com", "data=demo needs no"):
        assert words in text
    assert written(workplace) == []


def test_a_data_set_that_is_not_the_published_file_is_refused(workplace, capsys):
    (workplace / "ETTh1.csv").write_text(lines())
    text = refusal(capsys, "train", *SMALL, "data=ETTh1", "data.root=.")
    assert "ETTh1.csv is not the published file" in text and "8381763947c85f4be6ac456c508460d6" in text


WRONG = {
    "target not in the file": (["data=demo", "data.target=OTT"], ["OTT", "Did you mean 'OT'?"]),
    "unknown group": (["modle=informer"], ["modle", "model"]),
    "unknown features": (["data.features=X"], ["data.features", "X", "'M', 'S' or 'MS'"]),
    "dates out of order": (
        ["data/split=dates", "data.split.val_start=2016-07-20", "data.split.test_start=2016-07-10"],
        ["2016-07-10"],
    ),
    "a target class that is not ours": (
        ["model._target_=torch.optim.optimizer.torch.load"],
        ["model._target_", "torch.optim.optimizer.torch.load"],
    ),
    "checkpoint missing": (["ckpt_path=none.ckpt"], ["none.ckpt"]),
}


@pytest.mark.parametrize("problem", WRONG)
def test_a_wrong_config_is_refused_before_any_data_is_read(workplace, capsys, problem):
    changes, words = WRONG[problem]
    settings = SMALL if any(change.startswith("data=") for change in changes) else TINY
    text = refusal(capsys, "train", *settings, *changes)
    assert all(word in text for word in words), text
    assert written(workplace) == []


def test_a_refused_resume_leaves_the_run_as_it_was(workplace, capsys):
    (workplace / "broken.ckpt").write_bytes(b"no checkpoint")
    text = refusal(capsys, "train", "ckpt_path=broken.ckpt")
    assert "broken.ckpt is damaged or was written by another program" in text
    assert written(workplace / "outputs") == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(workplace, capsys):
    settings = [change for change in TINY if not change.startswith("trainer.accelerator")]
    assert "torch sees no GPU here" in refusal(capsys, "train", *settings, "trainer=gpu")
    assert written(workplace) == []


def test_a_run_folder_that_cannot_be_made_is_refused(workplace, capsys):
    (workplace / "taken").write_text("a file")
    text = refusal(capsys, "train", *TINY, "hydra.run.dir=taken/run")
    assert "taken/run: Not a directory" in text and "hydra.run.dir=FOLDER" in text


@pytest.mark.parametrize("name", ["metrics.json", "checkpoints/best.ckpt", "metrics_by_step.csv", "run.json"])
def test_a_training_does_not_replace_files_in_a_folder_that_is_no_run(workplace, capsys, name):
    (workplace / "mine" / name).parent.mkdir(parents=True)
    (workplace / "mine" / name).write_text("mine")
    text = refusal(capsys, "train", *TINY, "hydra.run.dir=mine")
    assert f"mine/{name} is there and is not a file of a training. Nothing is overwritten: " in text
    assert text.endswith("choose another folder, or move the file away\n")
    assert (workplace / "mine" / name).read_text() == "mine"


@pytest.mark.parametrize(("command", "place"), [([], "outputs"), (["-m", "seed=1,2"], "multirun")])
def test_a_training_started_in_a_read_only_folder_is_refused_in_one_sentence(workplace, capsys, command, place):
    with read_only(workplace):
        text = refusal(capsys, "train", *command, "data=demo")
    assert text.splitlines()[-1].startswith(f"{place}: Permission denied. Make room or choose a folder")
    assert not [path for path in workplace.iterdir() if path.is_dir()]


@pytest.mark.parametrize(("size", "words"), [(2**40, "can't allocate memory"), (2**62, "verflow")])
def test_a_model_larger_than_memory_is_refused_in_torchs_words(tmp_path, capsys, size, words):
    changes = [f"model.d_model={size}", "model.n_heads=2", f"hydra.run.dir={tmp_path}/r"]
    text = refusal(capsys, "train", *[change for change in TINY if "d_model" not in change], *changes)
    assert words in text
