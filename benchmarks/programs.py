"""Whole programs from the shell: predict.py with a full-size checkpoint, and how long each takes to start."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import epoch
from benchmarks.fresh import ROOT, in_own_process
from benchmarks.setting import Setting, Sizes
from forecast.errors import UserError

RUNS = 3


def predict(setting: Setting, *, csv: Path, sizes: Sizes, runs: int = RUNS) -> dict[str, Any]:
    """Seconds of predict.py from the shell to the CSV file, its picture included; the files are in the disk cache."""
    with TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        trained(setting, csv, sizes, folder / "run")
        output = folder / "forecast.csv"
        command = [
            str(ROOT / "predict.py"),
            f"ckpt_path='{folder / 'run' / 'checkpoints' / 'last.ckpt'}'",
            f"output='{output}'",
            f"device={setting.device}",
            f"hydra.run.dir='{folder / 'predict'}'",
        ]
        seconds = [shell(command, setting) for _ in range(runs)]
        steps = len(output.read_text().splitlines()) - 1
    return {**sizes.plain(), "steps": steps, "contenders": {"predict.py": spread(seconds)}}


def startup(setting: Setting, *, csv: Path, sizes: Sizes, runs: int = RUNS) -> dict[str, Any]:
    """Seconds until each is there; importing torch alone is the least that a training can take."""
    commands = {
        "import forecast": ["-c", "import forecast"],
        "import torch": ["-c", "import torch"],
        "train.py --help": [str(ROOT / "train.py"), "--help"],
        "train.py --cfg job": [str(ROOT / "train.py"), "--cfg", "job"],
    }
    seconds = {name: [shell(command, setting) for _ in range(runs)] for name, command in commands.items()}
    with TemporaryDirectory(prefix="benchmark-") as folder:
        first = [trained(setting, csv, sizes, Path(folder) / str(run)) for run in range(runs)]
    seconds["train.py to its first step"] = first
    return {**sizes.plain(), "contenders": {name: spread(each) for name, each in seconds.items()}}


def spread(seconds: Sequence[float]) -> dict[str, Any]:
    """Median, least and most."""
    return {"seconds": statistics.median(seconds), "low": min(seconds), "high": max(seconds), "rounds": len(seconds)}


def shell(command: Sequence[str], setting: Setting) -> float:
    """Seconds of `python COMMAND`. Raises UserError when it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise UserError(f"python {' '.join(command)} has failed: {done.stderr.strip()[-500:]}")
    return seconds


def trained(setting: Setting, csv: Path, sizes: Sizes, folder: Path) -> float:
    """Seconds from the start of a process to the end of its first training step; its checkpoint is in the folder.

    Raises UserError when the training fails.
    """
    start = time.time()
    found = in_own_process(
        one_step, setting.with_peer(""), as_train=True, csv=str(csv), sizes=sizes.plain(), folder=str(folder)
    )
    if "failed" in found:
        raise UserError(f"a training of one step has failed: {found['failed']}")
    return float(found["first_step_at"]) - start


def one_step(setting: Setting, *, csv: str, sizes: dict[str, Any], folder: str) -> dict[str, float]:
    """What train.py does, but it ends after one step, without validation."""
    command = [
        *epoch.train_command(setting, Path(csv), Sizes(**sizes)),
        "trainer.max_steps=1",
        "trainer.limit_val_batches=0",
        f"hydra.run.dir='{folder}'",
    ]
    return {"first_step_at": epoch.fitted(command)[1].first_step_at}
