"""The machine that is measured on: what it is, and how fast it multiplies matrices."""

import datetime
import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.setting import Setting

SIDE = 2048  # of the square matrices
LEAST_SECONDS, LEAST_PRODUCTS = 0.3, 3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
Rates = dict[str, float]


def rates(setting: Setting, *, side: int = SIDE) -> Rates:
    """GFLOP/s of matrix products (side, side) x (side, side) in each of DTYPES: the median of a few."""
    return {name: product_rate(dtype, setting, side) for name, dtype in DTYPES.items()}


def product_rate(dtype: torch.dtype, setting: Setting, side: int) -> float:
    """GFLOP/s in one dtype."""
    left, right = (torch.randn(side, side, device=setting.device, dtype=dtype) for _ in range(2))
    out, synchronise, seconds = torch.empty_like(left), setting.synchronise(), list[float]()
    torch.matmul(left, right, out=out)
    while len(seconds) < LEAST_PRODUCTS or sum(seconds) < LEAST_SECONDS:
        synchronise()
        start = time.perf_counter()
        torch.matmul(left, right, out=out)
        synchronise()
        seconds.append(time.perf_counter() - start)
    return 2 * side**3 / statistics.median(seconds) / 1e9


def mean_rates(before: Rates, after: Rates) -> Rates:
    """Between two measurements."""
    return {name: (before[name] + after[name]) / 2 for name in before}


def describe(setting: Setting) -> dict[str, Any]:
    """What stands in the JSON file beside the figures. commit: "" outside a checkout of git."""
    return {
        "device": torch.cuda.get_device_name() if setting.device == "cuda" else processor(),
        "kind": setting.device,
        "threads": setting.threads,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "commit": commit(),
        "date": datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def processor() -> str:
    """The CPU's name and number of cores."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return f"{found[1].strip() if found else platform.machine()}, {os.cpu_count()} cores"


def commit() -> str:
    """The state of the checkout that this package lies in."""
    command = ["git", "describe", "--always", "--dirty", "--tags"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def available_memory() -> float:
    """10^9 bytes that processes may still take; infinite where the system does not say."""
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return int(found[1]) * 1024 / 1e9 if found else float("inf")
