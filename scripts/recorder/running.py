"""One side: the cases, one after the other, each command forked from a process that has imported the libraries.

Usage: python running.py CODE PLACE JOBS. CODE: a checkout; PLACE: the side's folder; JOBS: a JSON file of cases.
Nothing of the checkout is used but its public commands, `python -m forecast NAME ...`.
"""

import importlib
import json
import os
import runpy
import shlex
import signal
import sys
import time
import traceback
from pathlib import Path

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
    importlib.import_module("torch").set_num_threads(1)
    for name, steps in json.loads(Path(sys.argv[3]).read_text()).items():
        folder = place / "cases" / name
        folder.mkdir(parents=True)
        begun = time.monotonic()
        for number, step in enumerate(steps, 1):
            run(code, step, folder, folder / f"{number}-{shlex.split(step.removeprefix('killed '))[0]}")
        print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)


def run(code: str, step: str, folder: Path, output: Path) -> None:
    """A command in a process of its own; OUTPUT.txt gets what it prints, OUTPUT.errors.txt stderr and how it ended.

    `killed COMMAND` is killed as soon as there is a last.ckpt.
    """
    killed = step.startswith("killed ")
    words = shlex.split(step.removeprefix("killed "))
    printed, errors = output.with_suffix(".out.txt"), output.with_suffix(".err.txt")
    child = os.fork()
    if not child:
        become(code, words, folder, printed, errors)
    begun, state = time.monotonic(), 0
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        late = time.monotonic() - begun > LONGEST
        if late or (killed and list(folder.rglob("last.ckpt"))):
            os.killpg(child, signal.SIGKILL)
        time.sleep(LOOK)
    state = os.waitstatus_to_exitcode(ended[1])
    with errors.open("a") as file:
        file.write(f"\nexit status {state}\n")


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
