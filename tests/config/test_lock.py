"""One process at a time in a run folder: the others are refused at once and change nothing. Processes, no trainings."""

import contextlib
import errno
import os
import re
import subprocess
import sys
import time

import pytest
from config.test_entry import STUB, reports
from filelock import FileLock
from program import refusal

from forecast.run_folder import read_run
from forecast.run_folder.lock import FolderHeld, hold, in_use, release


@contextlib.contextmanager
def at_work(folder, *arguments):
    """A process that has its run folder and waits there; killed as by kill -9 at the end."""
    process = subprocess.Popen([sys.executable, str(STUB), *arguments, "logger.name=wait"], cwd=folder)
    try:
        deadline = time.monotonic() + 60
        while not (folder / "waiting").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def content(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_a_second_training_or_resume_is_refused_until_the_first_is_gone_however_it_ended(
    tmp_path, ran_here, monkeypatch, capsys
):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "last.ckpt").touch()
    with at_work(tmp_path, f"hydra.run.dir={run}") as first:
        before = content(run)
        assert run / ".hydra" / "config.yaml" in before
        message = (
            rf"{run} is in use: process {first.pid} on \S+, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d, is at work there; "
            r"wait for its end, stop it, or train elsewhere with hydra\.run\.dir=FOLDER\n"
        )
        for second in ("seed=2", f"ckpt_path={run}/checkpoints/last.ckpt", "hydra.output_subdir=null"):
            end = ran_here(second, *([] if "ckpt_path" in second else [f"hydra.run.dir={run}"]))
            assert end.returncode == 1 and reports(end) == []
            assert re.fullmatch(message, end.stderr)
            assert content(run) == before
        evaluated = (f"ckpt_path={run}/checkpoints/last.ckpt", f"hydra.run.dir={run}")  # it would replace metrics.json
        assert re.fullmatch(message, refusal(capsys, "evaluate", *evaluated))
        assert content(run).items() >= before.items()
        assert reports(ran_here(f"hydra.run.dir={tmp_path / 'elsewhere'}"))  # what the message advises
        with monkeypatch.context() as another_process_of_one_training:
            another_process_of_one_training.setenv("LOCAL_RANK", "1")
            assert reports(ran_here(f"hydra.run.dir={run}"))
        before = content(run)
        assert in_use(run) and content(run) == before
        (run / "run.json").write_text('{"status": "running", "overrides": []}')
        at_work_there = rf"it is running: process {first.pid} on \S+, since [-\d]+ [:\d]+"
        assert re.fullmatch(at_work_there, read_run(run).reason)
    assert (run / ".lock").exists() and not in_use(run)  # killed: what it left locks nothing
    assert read_run(run).reason == "it was killed"
    (run / ".lock.holder").write_text("process 7 on another-machine, since today,")
    assert read_run(run).reason == "it is running, or was killed"  # not every file system tells one machine of another
    (report,) = reports(ran_here(f"hydra.run.dir={run}", "seed=2"))
    assert report["seed"] == 2


def test_two_sweeps_of_the_same_words_share_the_jobs(tmp_path, ran_here):
    command = ("-m", "seed=1,2", "data=demo")
    with at_work(tmp_path, *command) as first:
        (busy,) = tmp_path.glob("multirun/*/*/")
        before = content(busy)
        end = ran_here(*command)
        assert end.returncode == 0
        assert [report["seed"] for report in reports(end)] == [2]
        left_out = [line for line in end.stdout.splitlines() if "  left out: " in line]
        assert len(left_out) == 1 and f"{busy} is in use: process {first.pid} on " in left_out[0]
        assert content(busy) == before
        (tmp_path / "go").touch()
        assert first.wait(60) == 0


def test_the_same_process_may_hold_a_folder_again_and_lets_it_go(tmp_path):
    hold(tmp_path)
    hold(tmp_path)
    with contextlib.ExitStack() as undo:
        child = f"from pathlib import Path; from forecast.run_folder.lock import hold; hold(Path({str(tmp_path)!r}))"
        refused = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=False)
        undo.callback(release, tmp_path)
        assert f"FolderHeld: {tmp_path} is in use: process {os.getpid()} on" in refused.stderr
    assert not in_use(tmp_path) and not in_use(tmp_path / "none")
    with FileLock(tmp_path / ".lock"), pytest.raises(FolderHeld):  # once let go, it is asked for anew
        hold(tmp_path)


def test_a_holder_that_has_not_yet_written_who_it_is_refuses_all_the_same(tmp_path):
    with FileLock(tmp_path / ".lock"), pytest.raises(FolderHeld, match="is in use: another process is at work there"):
        hold(tmp_path)


@pytest.mark.parametrize(
    "refused", [OSError(errno.ENOLCK, "No locks available"), OSError(errno.EOPNOTSUPP, "?"), NotImplementedError("?")]
)
def test_on_a_file_system_without_locks_a_run_goes_on_with_a_warning_once(tmp_path, monkeypatch, caplog, refused):
    def acquire(*_, **__):
        raise refused

    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    hold(tmp_path)
    hold(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path} is on a file system without locks: see that nothing else is at work there, or train elsewhere "
        "with hydra.run.dir=FOLDER"
    ]
    assert not in_use(tmp_path)
    (tmp_path / "run.json").write_text('{"status": "running", "overrides": []}')
    assert read_run(tmp_path).reason == "it is running, or was killed"
    release(tmp_path)
