"""What the command line does, one file a command, and the files that a run leaves."""

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a command has found out, as plain values: the document that --json prints, and the exit status."""

    document: Any
    exit_status: int = 0
