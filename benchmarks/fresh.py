"""Work in a process of its own: its peak memory is its own, and running out of it ends nothing else.

`python -m benchmarks.fresh` is the other side: it calls the function that it is told and writes what it gives.
"""

import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import available_memory
from benchmarks.setting import Setting
from forecast.config.launch import LARGE_PAGES
from forecast.evaluation.memory import PeakMemory

ROOT = Path(__file__).parents[1]
PACKAGE = "benchmarks."
LEAST_SECONDS, LEAST_REPEATS = 0.5, 3


def in_own_process(
    function: Callable[..., dict[str, Any]], setting: Setting, *, as_train: bool = False, **given: Any
) -> dict[str, Any]:
    """What `function(setting, **given)` gives in a process of its own, or {"failed": the last line of its complaint}.

    function: of a module of this package, by its name; given: plain values. as_train: with the pages that train.py
    asks for, see `launch.LARGE_PAGES`; nobody else gets them.
    """
    task = {"function": f"{function.__module__}:{function.__name__}", "setting": asdict(setting), "given": given}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", f"{PACKAGE}fresh", json.dumps(task), str(result)]
        environment = {**os.environ, LARGE_PAGES: "1" if as_train else "0"}
        child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if child.returncode or not result.is_file():
            complaint = child.stderr.strip().splitlines() or [f"ended with status {child.returncode}"]
            return {"failed": complaint[-1][:200]}
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def main() -> None:
    """The other side."""
    task, result = json.loads(sys.argv[1]), Path(sys.argv[2])
    setting = Setting(**{**task["setting"], "peers": tuple(task["setting"]["peers"])})
    prepare_process(setting, bounded=True)
    module, name = task["function"].split(":")
    assert module.startswith(PACKAGE), module
    found = getattr(importlib.import_module(module), name)(setting, **task["given"])
    result.write_text(json.dumps(found))


def prepare_process(setting: Setting, *, bounded: bool) -> None:
    """Threads and random numbers; bounded: and a limit on the memory, so that the machine does not begin to swap."""
    if bounded and setting.device == "cpu":  # CUDA reserves address space that it never uses
        limit = int(min(setting.memory, 0.9 * available_memory()) * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)


def measured(run: Callable[[], object], setting: Setting) -> dict[str, float]:
    """Median seconds of a call after one to warm up, and the 10^6 bytes that the first takes above those before it."""
    synchronise = setting.synchronise()
    peak = peak_above(run, setting)
    seconds: list[float] = []
    while len(seconds) < LEAST_REPEATS or sum(seconds) < LEAST_SECONDS:
        start = time.perf_counter()
        run()
        synchronise()
        seconds.append(time.perf_counter() - start)
        if seconds[0] > 20 * LEAST_SECONDS:
            break
    return {"seconds": statistics.median(seconds), "megabytes": peak}


def peak_above(run: Callable[[], object], setting: Setting) -> float:
    """The 10^6 bytes that a call takes at its peak, above what was there before."""
    memory = PeakMemory()
    before = torch.cuda.memory_allocated() if setting.device == "cuda" else resident()
    run()
    setting.synchronise()()
    peak = memory.megabytes(torch.device(setting.device))
    return (peak if peak is not None else math.nan) - before / 1e6


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
