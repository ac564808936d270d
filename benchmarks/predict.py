"""predict.py from the shell, with a full-size checkpoint."""

import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import ours, timing
from benchmarks.epoch import trained
from benchmarks.setting import Figures, Setting, Sizes
from forecast.errors import UserError

RUNS = 3


def run(setting: Setting) -> Figures:
    """Seconds from the shell to the CSV file, its picture included; the files are in the disk cache.

    Raises UserError when the training of the checkpoint, or predict.py, fails.
    """
    csv, seconds = str(ours.series_file(setting)), []
    with TemporaryDirectory(prefix="benchmark-") as folder:
        output, task = Path(folder, "forecast.csv"), {"csv": csv, "folder": f"{folder}/run"}
        more = ["trainer.max_steps=1", "trainer.limit_val_batches=0"]
        training = timing.in_own_process(trained, setting, as_train=True, more=more, **task)
        if "failed" in training:
            raise UserError(f"predict: a training of one step has failed: {training['failed']}")
        command = [
            str(timing.ROOT / "predict.py"),
            f"ckpt_path='{folder}/run/checkpoints/last.ckpt'",
            f"output='{output}'",
            f"device={setting.device}",
            f"hydra.run.dir='{folder}/predict'",
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads)}
        for _ in range(min(RUNS, setting.rounds)):
            start = time.perf_counter()
            process = subprocess.run(
                [sys.executable, *command],
                cwd=timing.ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if process.returncode:
                raise UserError(f"python {' '.join(command)} has failed: {process.stderr.strip()[-500:]}")
            seconds.append(time.perf_counter() - start)
        steps = len(output.read_text().splitlines()) - 1
    sizes, contenders = asdict(Sizes(**setting.sizes)), timing.compared({"predict.py": seconds}, [])
    return {"predict": {**sizes, "steps": steps, "contenders": contenders}}
