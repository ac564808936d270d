"""Contenders in turns, peak memory in processes of their own, and what the figures say of each other.

`python -m benchmarks.timing` is the other side of `in_own_process`: it calls the function and writes what it returns.
"""

import functools
import importlib
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.setting import TF32, Figures, Setting
from forecast.config.resolvers import LARGE_PAGES
from forecast.training.throughput import PeakMemory

ROOT = Path(__file__).parents[1]
Seconds = dict[str, list[float]]
LEAST_ROUNDS = 3
LEAST_SECONDS, LEAST_REPEATS, LONG = 0.5, 3, 10.0
SMALL_SIDE = 128
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, TF32: torch.float32}


def turns(contenders: Mapping[str, Callable[[], object]], setting: Setting, *, warm_up: int = 1) -> Seconds:
    """Seconds of each call, A B A B ...: what disturbs the machine for a while disturbs all contenders.

    `warm_up` rounds come first and do not count. Ends after `rounds` rounds, or after `budget` seconds of them, but not
    before LEAST_ROUNDS or, when that is fewer, `rounds`.
    """
    seconds: Seconds = {name: [] for name in contenders}
    for run in [*contenders.values()] * warm_up:
        run()
    begun = time.perf_counter()
    for completed in range(setting.rounds):
        if completed >= LEAST_ROUNDS and time.perf_counter() - begun >= setting.budget:
            break
        for name, run in contenders.items():
            seconds[name].append(once(run, setting.device))
    return seconds


def once(run: Callable[[], object], device: str) -> float:
    """Seconds of a call; a GPU is waited for before and after it."""
    wait: Callable[[], None] = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def repeated(run: Callable[[], object], device: str) -> float:
    """Median seconds of a call: of LEAST_REPEATS for LEAST_SECONDS, or of a single one that takes LONG."""
    seconds = [once(run, device)]
    while seconds[0] <= LONG and (len(seconds) < LEAST_REPEATS or sum(seconds) < LEAST_SECONDS):
        seconds.append(once(run, device))
    return statistics.median(seconds)


def machine_rates(setting: Setting, *, side: int | None = None) -> dict[str, float]:
    """GFLOP/s of matrix products (side, side) x (side, side) in each of DTYPES: the median of a few.

    side: None for 2048, on a GPU 8192, which a product's launch is nothing beside. Of smaller ones alone where a
    processor emulates a type, and one product would take more than LEAST_SECONDS.
    """
    side = side or (8192 if setting.device == "cuda" else 2048)
    measured = {}
    for name, dtype in DTYPES.items():
        if name == TF32 and setting.device != "cuda":
            continue
        torch.set_float32_matmul_precision("high" if name == TF32 else "highest")
        for size in (side,) if setting.device == "cuda" else (min(SMALL_SIDE, side), side):
            left, right = (torch.randn(size, size, device=setting.device, dtype=dtype) for _ in range(2))
            product = functools.partial(torch.matmul, left, right, out=torch.matmul(left, right))
            measured[name] = 2 * size**3 / repeated(product, setting.device) / 1e9
            if 2 * side**3 / 1e9 / measured[name] > LEAST_SECONDS:
                break
    torch.set_float32_matmul_precision("highest")
    return measured


def compared(seconds: Seconds, references: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each contender the median seconds, their deciles, and its ratios to the references; above 1 it is faster.

    A ratio is the median of the ratios of single rounds, with their deciles.
    """
    figures: dict[str, dict[str, Any]] = {}
    for name, ours in seconds.items():
        ratios = {other: deciles(np.divide(seconds[other], ours).tolist()) for other in references if other != name}
        times = deciles(ours)
        figures[name] = {"seconds": times.pop("median"), **times, "rounds": len(ours), "ratios": ratios}
    return figures


def deciles(values: Sequence[float]) -> dict[str, float]:
    """Median, and the 10th and 90th percentiles."""
    return dict(zip(("median", "low", "high"), np.percentile(values, (50, 10, 90)).tolist(), strict=True))


def in_own_process(
    function: Callable[..., Figures], setting: Setting, *, as_train: bool = False, **arguments: Any
) -> Figures:
    """`function(setting, **arguments)` in a process of its own, or {"failed": the last line of its stderr}.

    Running out of memory there ends nothing else. function: of a module of this package, by its name; arguments: plain
    values. as_train: with the pages that train.py asks for, see `distributed.LARGE_PAGES`; nobody else gets them.

    On a GPU in this process but `as_train`: its memory is counted by torch, and what is left of one does not disturb
    the next.
    """
    if setting.device == "cuda" and not as_train:
        try:
            return function(setting, **arguments)
        except RuntimeError as error:  # no memory left, or nothing that can be captured
            return {"failed": str(error).strip().splitlines()[-1][:200]}
        finally:
            torch.cuda.empty_cache()
    task = json.dumps({"setting": asdict(setting), "arguments": arguments})
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "benchmarks.timing", function.__module__, function.__name__, task, str(result)]
        environment = {**os.environ, LARGE_PAGES: "1" if as_train else "0"}
        child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if child.returncode or not result.is_file():
            message = child.stderr.strip().splitlines() or [f"ended with status {child.returncode}"]
            return {"failed": message[-1][:200]}
        return dict(json.loads(result.read_text()))


def main() -> None:
    """The other side. Its memory is limited, so that the machine does not begin to swap."""
    module, name, task, result = sys.argv[1:]
    content = json.loads(task)
    setting = Setting(**content["setting"])
    if setting.device == "cpu":  # CUDA reserves address space that it never uses
        limit = int(min(setting.memory, 0.9 * available_memory()) * 1e9)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    prepare_process(setting)
    figures = getattr(importlib.import_module(module), name)(setting, **content["arguments"])
    Path(result).write_text(json.dumps(figures))


def prepare_process(setting: Setting) -> None:
    """Threads and random numbers."""
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)


def available_memory() -> float:
    """10^9 bytes that processes may still take; infinite where the system does not say."""
    file = Path("/proc/meminfo")
    match = re.search(r"MemAvailable:\s*(\d+) kB", file.read_text()) if file.is_file() else None
    return int(match[1]) * 1024 / 1e9 if match else math.inf


def whole_peak(memory: PeakMemory) -> float | None:
    """The 10^6 bytes that this process has taken at most since `memory` was made, or another one after it."""
    return memory.megabytes(torch.device("cpu"))


def peak_above(run: Callable[[], object], setting: Setting) -> float:
    """The 10^6 bytes that a call takes at its peak, above what was there before."""
    memory = PeakMemory()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    before = torch.cuda.memory_allocated() if setting.device == "cuda" else resident
    once(run, setting.device)
    peak = memory.megabytes(torch.device(setting.device))
    return (peak if peak is not None else math.nan) - before / 1e6


if __name__ == "__main__":
    main()
