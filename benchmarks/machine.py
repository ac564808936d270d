"""The machine that is measured on: what it is, and how fast it multiplies matrices."""

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

from benchmarks.setting import Setting
from benchmarks.timing import repeated

SIDE = 2048  # of the square matrices
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def rates(setting: Setting, *, side: int = SIDE) -> dict[str, float]:
    """GFLOP/s of matrix products (side, side) x (side, side) in each of DTYPES: the median of a few."""
    measured = {}
    for name, dtype in DTYPES.items():
        left, right = (torch.randn(side, side, device=setting.device, dtype=dtype) for _ in range(2))
        out = torch.matmul(left, right)
        product = lambda a=left, b=right, c=out: torch.matmul(a, b, out=c)  # noqa: E731
        measured[name] = 2 * side**3 / repeated(product, setting.synchronise()) / 1e9
    return measured


def describe(setting: Setting) -> dict[str, Any]:
    """What stands in the JSON file beside the figures. commit: "" outside a checkout of git."""
    name = first_match("/proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.machine()
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--tags"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        commit = ""
    return {
        "device": torch.cuda.get_device_name() if setting.device == "cuda" else f"{name}, {os.cpu_count()} cores",
        "kind": setting.device,
        "threads": setting.threads,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "commit": commit,
        "date": datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def available_memory() -> float:
    """10^9 bytes that processes may still take; infinite where the system does not say."""
    kilobytes = first_match("/proc/meminfo", r"MemAvailable:\s*(\d+) kB")
    return int(kilobytes) * 1024 / 1e9 if kilobytes else float("inf")


def first_match(path: str, pattern: str) -> str:
    """The first group of the pattern in a file of the system; "" where there is none."""
    file = Path(path)
    match = re.search(pattern, file.read_text()) if file.is_file() else None
    return match[1].strip() if match else ""
