"""Trainings of one process: what they share, and that each is what a process of its own would have made of it."""

import gc
import json
import sys
from pathlib import Path

import forked
import numpy as np
import pandas as pd
import pytest
import torch
from config.composed import run_config
from program import TINY

from forecast.__main__ import imported
from forecast.apps.common.training_data import read_data
from forecast.data.sources import Source
from forecast.training.shared_data import DataCache

TRAIN = Path(__file__).parents[2] / "train.py"


def result(run):
    """What a training has come to, without what it took."""
    metrics = json.loads((run / "metrics.json").read_text())
    weights = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    return {key: metrics[key] for key in metrics.keys() - {"cost", "files"}}, weights


@pytest.mark.slow
def test_the_tenth_training_of_a_process_has_the_bits_of_a_fresh_one(tmp_path):
    train = [sys.executable, str(TRAIN)]
    quiet = {"cwd": tmp_path, "capture_output": True, "timeout": 300, "check": True}
    forked.run([*train, "-m", *TINY, "model=transformer,informer", "seed=1,2,3,4,5"], **quiet)
    runs = {json.loads(path.read_text())["job"]: path.parent for path in tmp_path.glob("multirun/*/*/run.json")}
    assert sorted(runs) == [*range(10)]
    alone = tmp_path / "alone"
    forked.run([*train, *TINY, "model=informer", "seed=5", f"hydra.run.dir={alone}"], **quiet)
    (metrics, weights), (expected, fresh) = result(runs[9]), result(alone)
    assert metrics == expected
    assert weights.keys() == fresh.keys() and all(torch.equal(weights[name], fresh[name]) for name in fresh)


@pytest.fixture
def series(tmp_path):
    """Writes a file of so many hours, which end in a number, and gives the config of trainings on it."""

    def write(last):
        values = np.append(np.sin(np.arange(299) / 3), last)
        times = pd.date_range("2020", periods=300, freq="h")
        pd.DataFrame({"date": times, "y": values.round(3)}).to_csv(tmp_path / "file.csv", index=False)
        return lambda *words: run_config(
            "data=csv", f"data.path={tmp_path / 'file.csv'}", *("seq_len=19", "label_len=7", "pred_len=5"), *words
        )

    return write


def found(cache, config):
    return cache.find(config.data.build(Source), config, read_data)


def test_data_are_shared_until_the_file_or_what_is_read_of_it_changes(series):
    cache, config = DataCache(2**20), series(0.25)
    first = found(cache, config())
    assert found(cache, config("data.batch_size=7", "optim.lr=0.01")) is first
    assert first.baselines(ridge=False) is first.baselines(ridge=False)
    assert "ridge_weight" in first.baselines(ridge=True) and "ridge_weight" not in first.baselines(ridge=False)
    assert found(cache, config("seq_len=18")) is not first
    assert found(cache, config("data.scaling=none")) is not first
    again = found(cache, series(0.75)())  # a file of the same name and size
    assert again is not first and again.data.frame.values[-1] == 0.75


def test_what_was_used_last_is_kept_as_far_as_there_is_room(series):
    config = series(0.25)
    size = found(DataCache(), config()).bytes
    cache = DataCache(2 * size + size // 2)
    first, second = found(cache, config()), found(cache, config("seq_len=18"))
    assert found(cache, config()) is first
    found(cache, config("seq_len=17"))
    assert found(cache, config()) is first and found(cache, config("seq_len=18")) is not second
    assert found(DataCache(), config()) is not found(DataCache(), config()), "by themselves none are kept"


def test_what_a_job_of_a_sweep_leaves_behind_is_collected():
    imported("train")
    frozen, garbage = gc.get_freeze_count(), []
    garbage.append(garbage)
    imported("train")
    assert gc.get_freeze_count() == frozen
