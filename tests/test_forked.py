"""A process that is forked is to its test what one of subprocess is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from program import heed_ctrl_c

SAYS = """
import json, os, signal, sys
print(json.dumps([__name__, sys.argv, sys.path[0], os.getcwd(), os.environ.get("WORD"), os.getsid(0) == os.getpid()]))
print(open("/proc/self/cmdline").read().split("\\0")[1:-1] if len(sys.argv) < 3 else "", file=sys.stderr)
print([signal.getsignal(number).__name__ for number in (signal.SIGINT,)])
sys.exit(3)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "says.py"
    path.write_text(SAYS)
    return path


def command_shown(text):
    """Without the zeros that fill the place of a longer command."""
    return [word for word in eval(text) if word]


@pytest.mark.slow
@pytest.mark.parametrize("session", [False, True])
def test_it_has_the_arguments_folder_environment_and_session_that_it_was_given(script, tmp_path, session):
    (tmp_path / "there").mkdir()
    options = {"cwd": tmp_path / "there", "env": {**os.environ, "WORD": "a b"}, "start_new_session": session}
    heed_ctrl_c()
    ours, theirs = (
        run([sys.executable, str(script), "x=1"], capture_output=True, text=True, check=False, **options)
        for run in (forked.run, subprocess.run)
    )
    assert ours.returncode == theirs.returncode == 3
    assert ours.stdout == theirs.stdout
    assert command_shown(ours.stderr) == command_shown(theirs.stderr) == [str(script), "x=1"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [["nosuch"], ["train", "seq_len=x"], ["inspect-checkpoint", "nowhere.ckpt"]])
def test_the_program_says_and_ends_the_same(words, tmp_path):
    command = [sys.executable, "-m", "forecast", *words]
    ours, theirs = (
        run(command, capture_output=True, text=True, check=False, cwd=tmp_path) for run in (forked.run, subprocess.run)
    )
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert ours.returncode in (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_its_number_is_the_status(number, tmp_path):
    (tmp_path / "sleeps.py").write_text("import pathlib, time\npathlib.Path('up').touch()\ntime.sleep(100)\n")
    process = forked.Popen([sys.executable, str(tmp_path / "sleeps.py")], cwd=tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    while not (tmp_path / "up").exists():
        time.sleep(0.01)
    assert process.poll() is None and Path(f"/proc/{process.pid}").exists()
    process.send_signal(number)
    assert process.wait(20) == process.poll() == -number
    assert not Path(f"/proc/{process.pid}").exists()
