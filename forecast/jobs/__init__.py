"""The one way to run many trainings, or many files: each a job that ends, well or not, without the others.

A job has a folder, whose files say whether it is done and whose lock says whether somebody is at it, so that nothing
else remembers anything: the same command goes on. Where it runs: `trainings`, this process, or one of the command line;
`steps`, a process with a limit of time; `cluster`, tasks on a Ray cluster. SLURM is Hydra's launcher.
"""

from typing import Any, NamedTuple

Value = Any  # what a job returns, in another process


class Ended(NamedTuple):
    """What a job came to: its value, or why there is none, in a sentence. kind: the class of the error."""

    value: Value = None
    error: str = ""
    kind: str = ""
