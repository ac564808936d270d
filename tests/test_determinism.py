"""The same seed on the same machine gives the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoints import DEMO, LENGTHS, write_untrained
from program import TINY, call

ROOT = Path(__file__).parents[1]


def train_in_a_process(folder, *changes):
    command = [sys.executable, ROOT / "train.py", *TINY, "model=informer", "attention=prob", *changes]
    threads = os.environ | {"OMP_NUM_THREADS": "1"}  # more are slow beside other tests
    done = subprocess.run(
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


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """The same training, with dropout, in two processes, one after the other."""
    folders = [tmp_path_factory.mktemp(name) / "run" for name in ("first", "second")]
    for folder in folders:
        train_in_a_process(folder, "model.dropout=0.1")
    return folders


@pytest.mark.slow
def test_two_processes_train_the_same_weights_to_the_last_bit(two_runs):
    first, second = map(weights, two_runs)
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[key]) for key, value in first.items())


@pytest.mark.slow
def test_two_processes_write_the_same_metrics(two_runs):
    first, second = map(without_cost, two_runs)
    assert first == second
    by_step = [(folder / "metrics_by_step.csv").read_bytes() for folder in two_runs]
    assert by_step[0] == by_step[1]


@pytest.mark.slow
def test_another_seed_trains_other_weights(two_runs, tmp_path):
    train_in_a_process(tmp_path, "model.dropout=0.1", "seed=2")
    first, other = weights(two_runs[0]), weights(tmp_path)
    assert any(not torch.equal(value, other[key]) for key, value in first.items())


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
