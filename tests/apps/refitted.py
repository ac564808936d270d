"""Runs with a refit, on a file whose last rows are of a law that no earlier row shows."""

import json

import numpy as np
import pandas as pd
from apps.files import OWN
from program import call

ROWS, PERIOD = 601, 7
SIZES = ["seq_len=19", "label_len=7", "pred_len=5", "checks.leakage=false"]
RIDGE = ["model=ridge", "logger=none", *SIZES]
TREES = ["model=boosted_trees", "model.trees=20", "logger=none", *SIZES]
NETWORK = [*OWN, "logger=none", "checks.leakage=false"]
LINEAR = [*(word for word in NETWORK if not word.startswith("model.")), "model=dlinear", "trainer.max_epochs=3"]
LINEAR += ["optim.lr=0.03", "data.batch_size=32", "schedule=constant"]
INFORMER = [*NETWORK, "model=informer", "trainer.max_epochs=2", "data.batch_size=128"]
UNTIL = "2022-01-26 00:00:00"  # the last of the rows


def planted(rows):
    """Noise, and from the first test row of ROWS on a large wave, whose period the calendar does not have."""
    steps, noise = np.arange(rows), np.random.default_rng(1).normal(size=rows)
    wave = np.where(steps >= ROWS - int(0.2 * ROWS), 30 * np.sin(2 * np.pi * steps / PERIOD), 0.0)
    times = pd.date_range("2022-01-01", periods=rows, freq="h", name="date")
    return pd.DataFrame({"load": (wave + noise).round(4)}, index=times)


def run(folder, csv, *changes):
    call("train", "data=csv", f"data.path={csv}", *changes, f"hydra.run.dir={folder}")
    return folder


def refit_of(folder):
    return folder / "checkpoints" / "refit.ckpt"


def best_of(folder):
    return folder / "checkpoints" / "best.ckpt"


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())
