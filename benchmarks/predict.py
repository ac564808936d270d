"""predict.py from the shell, with a full-size checkpoint."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import fresh, ours, timing
from benchmarks.document import say_table
from benchmarks.setting import Figures, Setting, Sizes, given_sizes
from forecast.errors import UserError

RUNS = 3


def run(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """Seconds from the shell to the CSV file, its picture included; the files are in the disk cache.

    Raises UserError when the training of the checkpoint, or predict.py, fails.
    """
    sizes = Sizes(**given_sizes(arguments))
    with TemporaryDirectory(prefix="benchmark-") as name:
        folder, output = Path(name), Path(name, "forecast.csv")
        given = {"csv": str(ours.series_file(arguments.csv)), "sizes": sizes.plain(), "folder": str(folder / "run")}
        training = fresh.in_own_process(one_step, setting.with_peer(""), as_train=True, **given)
        if "failed" in training:
            raise UserError(f"predict: a training of one step has failed: {training['failed']}")
        command = [
            str(fresh.ROOT / "predict.py"),
            f"ckpt_path='{folder / 'run' / 'checkpoints' / 'last.ckpt'}'",
            f"output='{output}'",
            f"device={setting.device}",
            f"hydra.run.dir='{folder / 'predict'}'",
        ]
        seconds = [shell(command, setting) for _ in range(min(RUNS, setting.rounds))]
        steps = len(output.read_text().splitlines()) - 1
    found = {**sizes.plain(), "steps": steps, "contenders": timing.compared({"predict.py": seconds}, [])}
    say_table("predict", found)
    return {"predict": found}


def one_step(setting: Setting, *, csv: str, sizes: dict[str, Any], folder: str) -> Figures:
    """A training of one step, without validation; its checkpoint is in the folder."""
    from benchmarks import epoch  # lightning: seconds

    more = ["trainer.max_steps=1", "trainer.limit_val_batches=0"]
    return epoch.trained(setting, csv=csv, sizes=sizes, folder=folder, more=more)


def shell(command: list[str], setting: Setting) -> float:
    """Seconds of `python COMMAND`. Raises UserError when it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], cwd=fresh.ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"python {' '.join(command)} has failed: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - start
