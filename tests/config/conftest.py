"""The entry point whose main does nothing, run without a process of its own."""

import os
import subprocess
import sys

import pytest
from config import stub

from forecast.__main__ import exit_status
from forecast.config.entry import logging_restored, run


@pytest.fixture
def ran_here(tmp_path, monkeypatch, capsys):
    """Runs `stub.py ARGUMENTS` in tmp_path, inside the test's process; returns its status and what it prints."""
    for name in [name for name in os.environ if name.startswith(("FORECAST", "HYDRA"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run_stub(*arguments):
        monkeypatch.setattr(sys, "argv", [stub.__file__, *arguments])
        status = 0
        try:
            with logging_restored(), exit_status():
                run(stub.main, config_name="train")
        except SystemExit as stop:
            status = stop.code
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(sys.argv, status, printed.out, printed.err)

    return run_stub
