"""One side: the cases, one after the other, each command forked from a process that has imported the libraries.

Usage: python running.py CODE PLACE JOBS. CODE: a checkout; PLACE: the side's folder; JOBS: a JSON file of cases.
Nothing of the checkout is used but its public commands, `python -m forecast NAME ...`.
"""

import gc
import importlib
import json
import multiprocessing
import os
import runpy
import shlex
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

# Of the libraries that the commands import; the package itself is imported by each command.
LIBRARIES = (
    *("torch", "lightning.pytorch", "torch.utils.tensorboard", "numpy", "pandas", "pyarrow.parquet", "yaml"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "sklearn.ensemble", "scipy.signal", "scipy.optimize"),
    *("optuna", "hydra", "openpyxl", "holidays", "safetensors.torch", "rich.progress", "filelock", "statsforecast"),
)
LONGEST = 240.0  # seconds of one command
LOOK = 0.02  # seconds between two looks


def main() -> None:
    """Runs each case in a folder of its own below PLACE/cases."""
    code, place = sys.argv[1], Path(sys.argv[2])
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    spare_time()
    for name, steps in json.loads(Path(sys.argv[3]).read_text()).items():
        folder = place / "cases" / name
        folder.mkdir(parents=True)
        (folder / "files").symlink_to(place / "files")
        begun, used = time.monotonic(), 0.0
        for number, step in enumerate(steps, 1):
            used += run(code, step, folder, number)
        print(f"{place.name} {name}: {time.monotonic() - begun:.1f} s, {used:.1f} s of a processor", flush=True)


def spare_time() -> None:
    """What makes the forked commands quicker and changes nothing that is compared.

    A picture is written as what is drawn on it, as JSON: drawing takes a third of a command's time, and the data are
    what counts.
    """
    import torch
    import yaml

    def savefig(figure: Any, target: Any, **_: Any) -> None:
        content = json.dumps([described(axes) for axes in figure.axes], indent=1).encode()
        target.write(content) if hasattr(target, "write") else Path(target).write_bytes(content)

    figures: Any = importlib.import_module("matplotlib.figure")
    processes: Any = multiprocessing
    of_system = processes.get_context
    figures.Figure.savefig = savefig
    processes.get_context = lambda _=None: of_system("fork")  # else auto's steps import everything again
    yaml.SafeLoader = yaml.CSafeLoader
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def described(axes: Any) -> dict[str, Any]:
    """The words and the numbers of a picture's axes."""
    lines = [{"label": str(line.get_label()), "points": points(line.get_xydata())} for line in axes.get_lines()]
    areas = [[points(path.vertices) for path in one.get_paths()] for one in axes.collections]
    bars = [list(one.get_bbox().bounds) for one in axes.patches if hasattr(one, "get_bbox")]
    words = [axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), *(text.get_text() for text in axes.texts)]
    return {"words": words, "lines": lines, "areas": areas, "bars": bars}


def points(array: Any) -> list[float]:
    """Coordinates one after the other."""
    return [float(one) for one in array.ravel()]


def run(code: str, step: str, folder: Path, number: int) -> float:
    """A command in a process of its own; N-NAME.out.txt gets what it prints, N-NAME.err.txt stderr and how it ended.

    `killed COMMAND` is killed as soon as there is a last.ckpt, `refused COMMAND` is to end with an error, `write FILE
    TEXT` makes a file. Returns the seconds of a processor that it took.
    """
    if step.startswith("write "):
        _, name, text = step.split(" ", 2)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        return 0.0
    words = shlex.split(step)
    killed = words[0] == "killed"
    words = words[words[0] in ("killed", "refused") :]
    printed, errors = (folder / f"{number}-{words[0]}.{stream}.txt" for stream in ("out", "err"))
    child = os.fork()
    if not child:
        become(code, words, folder, printed, errors)
    begun = time.monotonic()
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        late = time.monotonic() - begun > LONGEST
        if late or (killed and any(folder.glob("*/checkpoints/last.ckpt"))):
            os.killpg(child, signal.SIGKILL)
        time.sleep(LOOK)
    state = os.waitstatus_to_exitcode(ended[1])
    with errors.open("a") as file:
        file.write(f"\nexit status {state}\n")
    return ended[2].ru_utime + ended[2].ru_stime


def become(code: str, words: list[str], folder: Path, printed: Path, errors: Path) -> None:
    """In the forked process: the command, from its own folder; never returns."""
    os.setsid()
    os.chdir(folder)
    for stream, path in ((1, printed), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    sys.path[0] = code  # that of `python -m forecast` in the checkout
    sys.argv = ["forecast", *words]
    status: object = 0
    try:
        runpy.run_module("forecast", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        status = stop.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    main()
