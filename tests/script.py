"""Runs a command, or scripts/NAME.py, as a user does, inside the test's process."""

import importlib.util
import sys
from pathlib import Path
from unittest import mock

from forecast.__main__ import COMMANDS, start
from forecast.config.entry import logging_restored

SCRIPTS = Path(__file__).parents[1] / "scripts"


def call_script(capsys, name, *arguments):
    """Its exit status, what it prints on stdout and what on stderr."""
    status = 0
    try:
        with logging_restored(), mock.patch.object(sys, "argv", [f"{name}.py", *map(str, arguments)]):
            if (command := name.replace("_", "-")) in COMMANDS:
                start(command)
            else:
                load_script(name).main()
    except SystemExit as stop:  # a text is printed by the interpreter, which we do not leave
        status, message = (1, f"{stop.code}\n") if isinstance(stop.code, str) else (stop.code or 0, "")
        sys.stderr.write(message)
    output, errors = capsys.readouterr()
    return status, output, errors


def load_script(name):
    """The module scripts/NAME.py."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
