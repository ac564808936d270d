"""The program grows no heavier: what wants in pushes something of its size out; what has gone lowers the ceiling."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from laws import measures

# Statements without docstrings, by room; a commit that deletes lowers them. Of the 450 that short series may take, the
# models hold 236, the data 96, and evaluation, training and the page 90; of the 250 of a GPU's speed training holds 170
# and the rest 20; the 100 of the terminal and what many trainings in one process need lie in jobs and text.
CEILINGS = {
    "apps": 4447,
    "checkpoint, run_folder": 554,
    "config": 998,
    "data": 3599,
    "evaluation": 1975,
    "jobs, text, forecast/*.py": 878,
    "models, attention, layers, ops": 4015,
    "report, comparison": 2028,
    "training": 2005,
    "tests": 29546,
    "other Python": 4196,
}
# How far a room may lie below its ceiling before the ceiling has to follow.
SLACK = 60
# Files that a reader walks through: those in which the whole quickstart calls a function.
ENTERED = {"train": 105, "predict": 65}
LONGEST_FILE = 450
# Lines of the files that are longer than that.
LONG_FILES = {
    "tests/data/test_timestamps.py": 519,
    "tests/evaluation/test_leakage.py": 530,
    "tests/mutants.py": 1843,
}


@pytest.mark.parametrize("room", CEILINGS)
def test_a_room_lies_below_its_ceiling_and_the_ceiling_close_above_it(room):
    assert CEILINGS[room] - SLACK <= measures.rooms()[room] <= CEILINGS[room]


def test_every_room_has_a_ceiling():
    assert measures.rooms().keys() == CEILINGS.keys()


def test_no_file_becomes_longer_than_a_subject_needs():
    lines = {str(file.relative_to(measures.ROOT)): file.read_bytes().count(b"\n") for file in measures.python_files()}
    longer = {name: count for name, count in lines.items() if count > LONG_FILES.get(name, LONGEST_FILE)}
    assert not longer
    assert not [name for name in LONG_FILES if lines.get(name, 0) <= LONGEST_FILE], "remove these from LONG_FILES"


@pytest.mark.slow
def test_the_whole_quickstart_enters_no_more_files(tmp_path):
    brief = ["trainer.max_epochs=1", "trainer.limit_train_batches=4", "hydra.run.dir=run"]
    commands = {
        "train": ["train", "experiment=quickstart", *brief],
        "predict": ["predict", "ckpt_path=run/checkpoints/best.ckpt"],
    }
    for name, words in commands.items():
        files = entered(words, tmp_path)
        assert ENTERED[name] - 5 <= len(files) <= ENTERED[name], files


def entered(words, folder):
    """The files of forecast/ that a command enters."""
    program = [sys.executable, Path(measures.__file__).with_name("entered.py"), *words]
    environment = {**os.environ, "PYTHONPATH": str(measures.ROOT)}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.partition("entered:\n")[2].splitlines()
