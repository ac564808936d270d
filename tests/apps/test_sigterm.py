"""SIGTERM, by which schedulers and shells end a command that is no training: one sentence, and nothing half written."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from apps.updates import series

OFTEN = 0.0005


def waits_for(process, condition):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(OFTEN)


def catches_sigterm(process):
    """By the mask of caught signals, of Linux."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> signal.SIGTERM - 1 & 1)


@pytest.mark.parametrize("command", ["predict", "evaluate", "check-data"])
def test_a_command_that_sigterm_ends_says_so_and_leaves_no_unfinished_file(daily_run, tmp_path, command):
    best = f"ckpt_path={daily_run}/checkpoints/best.ckpt"
    series(days=4000).to_csv(tmp_path / "h.csv", index=False)
    words = {
        "predict": [best, f"output={tmp_path}/out.csv"],
        "evaluate": [best, f"hydra.run.dir={tmp_path}/evaluated"],
        "check-data": [tmp_path / "h.csv"],
    }[command]
    process = forked.Popen(
        [sys.executable, "-m", "forecast", command, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # a forecast while it is being written: its rows are, and its picture is drawn
    written = (lambda: any(tmp_path.glob(".*.part"))) if command == "predict" else lambda: catches_sigterm(process)
    waits_for(process, written)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(60)
    assert process.returncode == 143, errors
    assert errors.endswith("SIGTERM ended the command. Find out what sent it, and start the command again.\n")
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.glob("*") if path.is_file()] == ["h.csv"]
    assert not [*tmp_path.rglob("*.part")]
