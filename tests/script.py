"""Runs scripts/NAME.py as a user does, inside the test's process."""

import importlib.util
import sys
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).parents[1] / "scripts"


def call_script(capsys, name, *arguments):
    """Its exit status, what it prints on stdout and what on stderr."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    status, message = 0, ""
    try:
        with mock.patch.object(sys, "argv", [f"{name}.py", *map(str, arguments)]):
            module.main()
    except SystemExit as stop:  # a text is printed by the interpreter, which we do not leave
        text = isinstance(stop.code, str)
        status, message = (1, f"{stop.code}\n") if text else (stop.code or 0, "")
    printed = capsys.readouterr()
    return status, printed.out, printed.err + message
