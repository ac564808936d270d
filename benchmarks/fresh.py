"""Work in a process of its own: its peak memory is its own, and running out of it ends nothing else.

`python -m benchmarks.fresh` is the other side: it calls the function and writes what it returns.
"""

import importlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import available_memory
from benchmarks.setting import Figures, Setting
from benchmarks.timing import repeated
from forecast.config.distributed import LARGE_PAGES
from forecast.evaluation.memory import PeakMemory

ROOT = Path(__file__).parents[1]


def in_own_process(
    function: Callable[..., Figures], setting: Setting, *, as_train: bool = False, **arguments: Any
) -> Figures:
    """`function(setting, **arguments)` in a process of its own, or {"failed": the last line of its stderr}.

    function: of a module of this package, by its name; arguments: plain values. as_train: with the pages that train.py
    asks for, see `distributed.LARGE_PAGES`; nobody else gets them.
    """
    task = {"setting": asdict(setting), "arguments": arguments}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        result = Path(folder) / "result.json"
        place = [function.__module__, function.__name__]
        command = [sys.executable, "-m", "benchmarks.fresh", *place, json.dumps(task), str(result)]
        environment = {**os.environ, LARGE_PAGES: "1" if as_train else "0"}
        child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if child.returncode or not result.is_file():
            message = child.stderr.strip().splitlines() or [f"ended with status {child.returncode}"]
            return {"failed": message[-1][:200]}
        return dict(json.loads(result.read_text()))


def main() -> None:
    """The other side."""
    module, name, task = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    setting = Setting(**{**task["setting"], "peers": tuple(task["setting"]["peers"])})
    prepare_process(setting, bounded=True)
    figures = getattr(importlib.import_module(module), name)(setting, **task["arguments"])
    Path(sys.argv[4]).write_text(json.dumps(figures))


def prepare_process(setting: Setting, *, bounded: bool) -> None:
    """Threads and random numbers; bounded: and a limit on the memory, so that the machine does not begin to swap."""
    if bounded and setting.device == "cpu":  # CUDA reserves address space that it never uses
        limit = int(min(setting.memory, 0.9 * available_memory()) * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)


def measured(run: Callable[[], object], setting: Setting) -> dict[str, float]:
    """Median seconds of a call after one to warm up, and the 10^6 bytes that the first takes above those before it."""
    peak = peak_above(run, setting)
    return {"seconds": repeated(run, setting.synchronise()), "megabytes": peak}


def peak_above(run: Callable[[], object], setting: Setting) -> float:
    """The 10^6 bytes that a call takes at its peak, above what was there before."""
    memory = PeakMemory()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    before = torch.cuda.memory_allocated() if setting.device == "cuda" else resident
    run()
    setting.synchronise()()
    peak = memory.megabytes(torch.device(setting.device))
    return (peak if peak is not None else math.nan) - before / 1e6


if __name__ == "__main__":
    main()
