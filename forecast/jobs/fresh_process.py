"""A GPU that fails stays lost to its process: the command begins anew in a fresh one, and goes on with what is left."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from forecast.text.terminal import say

LOST = "FORECAST_LOST_RUNS"  # the folders of the runs whose GPU failed, for the processes that follow


def is_lost(error: BaseException | None) -> bool:
    """Whether CUDA failed, in an error or in what led to it, by anything else than a lack of memory."""
    while error is not None and ("CUDA error" not in str(error) or "out of memory" in str(error)):
        error = error.__cause__ or error.__context__
    return error is not None


def lost_runs() -> list[str]:
    """The folders of runs whose GPU failed in the processes of this command before."""
    return os.environ.get(LOST, "").split(os.pathsep)


def restart_command(folder: Path) -> NoReturn:
    """Runs the command of this process again, in its place; it leaves out the run in that folder, whose GPU failed."""
    os.environ[LOST] = os.pathsep.join([*lost_runs(), str(folder)])
    say("The GPU failed, and this process cannot use it any more: the others go on in a fresh one.", file=sys.stderr)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
