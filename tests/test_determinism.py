"""The same seed on the same machine gives the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import torch
from checkpoints import DEMO, LENGTHS, write_untrained
from program import ONE_COLUMN, call

ROOT = Path(__file__).parents[1]
SETTINGS = [*ONE_COLUMN, "model=informer", "attention=prob"]


def train_in_a_process(folder, *changes, run=subprocess.run):
    command = [sys.executable, ROOT / "train.py", *SETTINGS, *changes]
    threads = os.environ | {"OMP_NUM_THREADS": "1"}  # more are slow beside other tests
    done = run(
        [*command, f"hydra.run.dir={folder}"], capture_output=True, text=True, cwd=ROOT, env=threads, check=False
    )
    assert done.returncode == 0, done.stderr


def weights(folder):
    return torch.load(folder / "checkpoints/best.ckpt", weights_only=True)["state_dict"]


def without_cost(folder):
    """The text of metrics.json but for cost, and hashes of files with more than six decimals."""
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics.pop("cost") and metrics.pop("files")
    return json.dumps(metrics)


@pytest.mark.slow
def test_two_processes_train_the_same_weights_to_the_last_bit_and_write_the_same_metrics(tmp_path):
    """One is a process of its own, the next this one, which has done other things before, the last one is forked as
    those of other tests. With dropout.
    """
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    train_in_a_process(first, "model.dropout=0.1")
    call("train", *SETTINGS, "model.dropout=0.1", f"hydra.run.dir={second}")
    train_in_a_process(third, "model.dropout=0.1", run=forked.run)
    for again in (second, third):
        assert weights(first).keys() == weights(again).keys()
        assert all(torch.equal(value, weights(again)[key]) for key, value in weights(first).items())
        assert without_cost(first) == without_cost(again)
        assert (first / "metrics_by_step.csv").read_bytes() == (again / "metrics_by_step.csv").read_bytes()
    other = tmp_path / "other"
    call("train", *SETTINGS, "model.dropout=0.1", "seed=2", f"hydra.run.dir={other}")
    assert any(not torch.equal(value, weights(other)[key]) for key, value in weights(first).items())


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """metrics.json of evaluate.py on a checkpoint, for some settings."""
    checkpoint = tmp_path_factory.mktemp("checkpoint") / "best.ckpt"
    write_untrained(checkpoint, *DEMO, *LENGTHS, "model=informer", "attention=prob")

    def evaluate(*changes):
        folder = tmp_path_factory.mktemp("evaluated") / "run"
        call("evaluate", f"ckpt_path={checkpoint}", *changes, f"hydra.run.dir={folder}")
        return without_cost(folder)

    return evaluate


@pytest.fixture(scope="module")
def once(evaluated):
    return evaluated()


@pytest.mark.parametrize("changes", [[], *([f"data.batch_size={size}"] for size in (1, 7, 32, 256))], ids=str)
def test_a_second_evaluation_by_batches_of_any_size_has_the_same_digits(evaluated, once, changes):
    assert evaluated(*changes) == once
