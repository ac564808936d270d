"""`forecast train` as a process of its own, and a training in its folder, which goes on where it was stopped."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forecast.config.trust import OPTION, trusted
from forecast.run_folder import OUTPUT, Run, checkpoint_path, read_run
from forecast.run_folder.lock import in_use
from forecast.text.overrides import hydra_value

LOOK = 0.2  # seconds between two looks
MOST_THREADS = 1024


def run_train(
    words: Sequence[str], output: Path, *, environment: Mapping[str, str], stopped: Callable[[], bool]
) -> int | None:
    """Runs `forecast train WORDS`; its exit status, None where it was stopped. What it prints goes to a file's end.

    It trusts what this process does. stopped: asked at each look. What is stopped, by it or by Ctrl-C here, has the
    time to write last.ckpt. It outlives this process where that is killed.
    """
    trust = [f"{OPTION}={module}" for module in sorted(trusted())]
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecast", "train", *trust, *words, "trainer.enable_progress_bar=false"],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the other one
        )
    try:
        while process.poll() is None and not stopped():
            time.sleep(LOOK)
        return process.poll()
    finally:
        process.terminate()
        process.wait()


def train(overrides: Sequence[str], folder: Path, stopped: Callable[[], bool], *, threads: int) -> Run:
    """Runs `forecast train OVERRIDES` to its end, from last.ckpt where a run was stopped or killed; the run it leaves.

    A training outlives the command that started it: while one still works in the folder, no second one is started.
    threads: where there is no OMP_NUM_THREADS. A training that goes on has as many as it was begun with: the last
    digits depend on them. What ended by itself without results has failed, whatever its files say; from its last.ckpt
    it would fail again.
    """
    elsewhere = Run(path=folder, state="unfinished", reason="another process trains it")
    folder.mkdir(parents=True, exist_ok=True)
    if in_use(folder):
        return elsewhere
    checkpoint, environment = checkpoint_path(folder, "last"), {"OMP_NUM_THREADS": str(threads), **os.environ}
    place, resumed = {"hydra.run.dir": folder}, resumable(folder)
    if resumed:
        overrides, place = (), {"ckpt_path": checkpoint}
        before = str(read_run(folder).run_info.get("versions", {}).get("threads"))
        if before.isdecimal() and 0 < int(before) <= MOST_THREADS:
            environment["OMP_NUM_THREADS"] = before
    words = [*overrides, *(f"{key}={hydra_value(str(path))}" for key, path in place.items())]
    status = run_train(words, folder / OUTPUT, environment=environment, stopped=stopped)
    run = read_run(folder)
    if run.state == "finished" or status is None:
        return run
    if in_use(folder):  # another command started one first
        return elsewhere
    if resumed:
        checkpoint.replace(checkpoint.with_name("last.failed.ckpt"))
    reason = reason_of(run, folder / OUTPUT) or f"exit status {status}"
    return dataclasses.replace(run, state="failed", reason=reason)


def resumable(folder: Path) -> bool:
    """Whether a training was stopped or killed in a folder and can go on from its last.ckpt."""
    return checkpoint_path(folder, "last").is_file() and read_run(folder).state in ("interrupted", "unfinished")


def reason_of(run: Run, output: Path) -> str:
    """Why a training has no results: as its files say, else the last line printed, of a bug that of its traceback."""
    lines = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
    return run.reason if run.state == "failed" else "".join(lines[-1:])
