"""A training as a process of its own, in a folder of its own, which goes on where it was stopped."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forecast.data.guessing.train_command import hydra_value
from forecast.run_folder import OUTPUT, Run, checkpoint_path, read_run
from forecast.run_folder.lock import in_use

NOTHING: Mapping[str, str] = {}


def train(
    overrides: Sequence[str],
    folder: Path,
    stopped: Callable[[], bool],
    *,
    threads: int,
    environment: Mapping[str, str] = NOTHING,
) -> Run:
    """Runs `forecast train OVERRIDES` to its end, from last.ckpt where a run was stopped or killed; the run it leaves.

    A training outlives the command that started it: while one still works in the folder, no second one is started.
    environment: of the process, where it is not this one's; threads: where neither has OMP_NUM_THREADS.
    What ended by itself without results has failed, whatever its files say; from its last.ckpt it would fail again.
    """
    elsewhere = Run(path=folder, state="unfinished", reason="another process trains it")
    folder.mkdir(parents=True, exist_ok=True)
    if in_use(folder):
        return elsewhere
    checkpoint = checkpoint_path(folder, "last")
    resumed = read_run(folder).state in ("interrupted", "unfinished") and checkpoint.is_file()
    place = {"ckpt_path": checkpoint} if resumed else {"hydra.run.dir": folder}
    words = [*(() if resumed else overrides), *(f"{key}={hydra_value(str(p))}" for key, p in place.items())]
    with (folder / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecast", "train", *words, "trainer.enable_progress_bar=false"],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": str(threads), **os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the trainings
        )
    while process.poll() is None and not stopped():
        time.sleep(0.2)
    terminated = process.poll() is None
    if terminated:
        process.terminate()
        process.wait()
    run = read_run(folder)
    if run.state == "finished" or terminated:
        return run
    if in_use(folder):  # another command started one first
        return elsewhere
    if resumed:
        checkpoint.replace(checkpoint.with_name("last.failed.ckpt"))
    lines = [line for line in (folder / OUTPUT).read_text(errors="replace").splitlines() if line.strip()]
    reason = run.reason if run.state == "failed" else "".join(lines[-1:])
    return dataclasses.replace(run, state="failed", reason=reason or f"exit status {process.returncode}")
