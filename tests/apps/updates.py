"""What the tests of `forecast update` share: a file that grows by a day, and a ridge trained on its first days."""

import contextlib
import io
import json

import numpy as np
import pandas as pd
from program import call

DAY, DAYS, TRAINED = 24, 120, 60
RIDGE = ["model=ridge", "logger=none", "seq_len=48", "label_len=24", "pred_len=24", "data=csv"]
RIDGE += ["level=[80,90]", "checks.leakage=false"]
# Thirty of the days choose and calibrate, so that a day has its like.
SPLIT = ["data/split=shares", "data.split.train=0.4", "data.split.val=0.5", "data.split.test=0.1"]


def series(days=DAYS, *, seed=0, swing=8.0):
    """A load by the hour: a day's swing, a level that wanders, noise."""
    draws, steps = np.random.default_rng(seed), np.arange(days * DAY)
    level = np.repeat(np.cumsum(draws.normal(0, 0.3, days)), DAY)
    values = 30 + level + swing * np.sin(2 * np.pi * steps / DAY) + draws.normal(size=len(steps))
    return pd.DataFrame({"date": pd.date_range("2025-01-01", periods=len(steps), freq="h"), "load": values.round(3)})


def broken(table, kind, day):
    """The same with a break from the beginning of a day on."""
    table, at = table.copy(), day * DAY
    before, after = table["load"].to_numpy()[:at], table["load"].to_numpy()[at:]
    changed = {
        "level": after + 0.3 * before.mean(),
        "swing": before.mean() + 1.5 * (after - before.mean()),
        "later": np.concatenate([before[-6:], after])[:-6],
        "noise": after + np.random.default_rng(5).normal(0, 3.0, len(after)),
    }
    table.loc[at:, "load"] = changed[kind].round(3)
    return table


def write(path, table, *, first=0, last, **options):
    """The rows of some days; returns the path."""
    table.iloc[first * DAY : last * DAY].to_csv(path, index=False, **options)
    return path


def trained(folder, table, *words, days=TRAINED, **options):
    """The run of a ridge on the first days."""
    write(folder / "trained.csv", table, last=days, **options)
    call("train", *RIDGE, *SPLIT, f"data.path={folder}/trained.csv", *words, f"hydra.run.dir={folder}/run")
    return folder / "run"


def words(run, path, folder, *more):
    return [f"ckpt_path={run}/checkpoints/best.ckpt", f"data.path={path}", f"hydra.run.dir={folder}", *more]


def updated(run, path, folder, *more):
    """The document of an update."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
        call("update", "--json", *words(run, path, folder, *more))
    return json.loads(said.getvalue())


def files_of(folder):
    """The bytes of all files but the lock."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name[0] != "."}
