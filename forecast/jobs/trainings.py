"""Trainings of other commands: one after another in this process, or `forecast train` as a process of its own."""

import dataclasses
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from forecast.config.allow_list import OPTION, trusted
from forecast.config.entry import Main, call
from forecast.errors import UserError
from forecast.jobs.fresh_process import is_lost, lost_runs, restart_command
from forecast.run_folder import OUTPUT, Run, checkpoint_path, read_run
from forecast.run_folder.lock import in_use
from forecast.text.overrides import hydra_value
from forecast.text.terminal import say

LOOK = 0.2  # seconds between two looks


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


def train(main: Main, overrides: Sequence[str], folder: Path) -> Run:
    """Runs `forecast train OVERRIDES` to its end, from last.ckpt where a run was stopped or killed; the run it leaves.

    main: the function of that command. What it prints goes to the end of OUTPUT in the folder. While another process
    works there, it does nothing. A training that goes on has as many threads as it was begun with: the last digits
    depend on them. What ended without results has failed, whatever its files say; from its last.ckpt it would fail
    again. What stops a training stops the caller too.
    """
    elsewhere = Run(path=folder, state="unfinished", reason="another process trains it")
    folder.mkdir(parents=True, exist_ok=True)
    if in_use(folder):
        return elsewhere
    if str(folder) in lost_runs():
        return dataclasses.replace(read_run(folder), state="failed")
    resumed, failure = resumable(folder), None
    place = {"ckpt_path": checkpoint_path(folder, "last")} if resumed else {"hydra.run.dir": folder}
    words = [*([] if resumed else overrides), *(f"{key}={hydra_value(str(path))}" for key, path in place.items())]
    with (folder / OUTPUT).open("a") as output, redirect_stdout(output), redirect_stderr(output):
        try:
            with threads_of(folder if resumed else None):
                call(main, config_name="train", overrides=[*words, "trainer.enable_progress_bar=false"])
        except Exception as error:
            failure = error
            say(error if isinstance(error, UserError) else traceback.format_exc())
    if is_lost(failure):
        restart_command(folder)
    run = read_run(folder)
    if failure is None:
        return run
    if in_use(folder):  # another command started one first
        return elsewhere
    if resumed:
        place["ckpt_path"].replace(place["ckpt_path"].with_name("last.failed.ckpt"))
    return dataclasses.replace(run, state="failed", reason=str(failure))


@contextmanager
def threads_of(folder: Path | None) -> Iterator[None]:
    """Has torch take as many threads as the run of a folder; None: as it does."""
    import torch  # a command that trains nothing does without

    now = torch.get_num_threads()
    before = None if folder is None else read_run(folder).run_info.get("versions", {}).get("threads")
    if before is not None:
        torch.set_num_threads(int(before))
    try:
        yield
    finally:
        torch.set_num_threads(now)


def resumable(folder: Path) -> bool:
    """Whether a training was stopped or killed in a folder and can go on from its last.ckpt."""
    return checkpoint_path(folder, "last").is_file() and read_run(folder).state in ("interrupted", "unfinished")


def reason_of(run: Run, output: Path) -> str:
    """Why a training has no results: as its files say, else the last line printed, of a bug that of its traceback."""
    lines = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
    return run.reason if run.state == "failed" else "".join(lines[-1:])
