"""Several processes that train together: which one this is, and the folder they share.

Read from what the launcher leaves in the environment, before torch is there to ask.
"""

import datetime
import os
from pathlib import Path

from forecast.errors import UserError

# Read by torch when it is imported: "1" puts large tensors on a CPU into large pages, where Linux has them ("madvise",
# "always"). Without, a tenth of a training step goes into asking for memory (docs/experiments.md, "Speed").
LARGE_PAGES = "THP_MEM_ALLOC_ENABLE"
# Read once, before the first product on a GPU: with it, and not without, these give the same bits each time.
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def rank() -> int:
    """The number of this process among those that train together, 0 for a single one.

    Of torchrun (RANK), Lightning (LOCAL_RANK, one machine) or srun with several tasks (SLURM_PROCID).
    """
    names = ["RANK", "LOCAL_RANK"] + (["SLURM_PROCID"] if _under_srun() else [])
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def shared_folder() -> Path | None:
    """The run folder, below outputs, of processes that torchrun or srun started together; None for a single process.

    Named by what all of them know: torchrun's --rdzv-id or SLURM's numbers; without an id by when torchrun began.
    Raises UserError when there is nothing that they all know.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        name = os.environ["TORCHELASTIC_RUN_ID"]
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        folder = _by_parent() if name == "none" else Path(f"torchrun-{name}")
        # a restart begins anew: the results of the attempt before stay
        return folder if restarts == "0" else folder.with_name(f"{folder.name}-restart{restarts}")
    if _under_srun():
        return Path(f"slurm-{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_STEP_ID', '0')}")
    return None


def _under_srun() -> bool:
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1


def _by_parent() -> Path:
    """DATE/TIME-torchrun-PID of the torchrun process, the parent of all processes of this machine."""
    parent = os.getppid()
    try:
        # Linux: the 22nd field is when a process began, in ticks since the machine did (man 5 proc)
        ticks = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except OSError:
        boot = ""
    if not boot or int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        raise UserError(
            "torchrun gave this run no name by which its processes could find one folder: say torchrun --rdzv-id=NAME, "
            "or hydra.run.dir=FOLDER"
        )
    began = datetime.datetime.fromtimestamp(int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK"))
    return Path(began.strftime("%Y-%m-%d")) / f"{began.strftime('%H-%M-%S')}-torchrun-{parent}"
