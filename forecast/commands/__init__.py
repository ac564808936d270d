"""What the command line does, one file a command, and the files that a run leaves."""

import time
from typing import Any, NamedTuple

BEGUN = time.monotonic()  # about when the process has


class Answer(NamedTuple):
    """What a command has found out, as plain values: the document that --json prints, and the exit status."""

    document: Any
    exit_status: int = 0
