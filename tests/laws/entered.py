"""Prints the files of forecast/ that a command enters: those in which it calls a function, imports left out.

Usage: python entered.py COMMAND ...
"""

import sys
import threading
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "forecast"


def imports(frame):
    """Whether a module of the package is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            return True
        frame = frame.f_back
    return False


def note_file(frame, event, _, prefix=f"{PACKAGE}/", files=set()):  # noqa: B006
    """Keep the file of a call."""
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(prefix) and name not in files and not imports(frame):
        files.add(name)
    return files


def main():
    """Run the command, then print each file on a line of its own."""
    from forecast.__main__ import main as run

    threading.setprofile(note_file)
    sys.setprofile(note_file)
    sys.argv[0] = "forecast"
    try:
        run()
    finally:
        sys.setprofile(None)
        print("entered:", *sorted(note_file(sys._getframe(), "", None)), sep="\n")


if __name__ == "__main__":
    main()
