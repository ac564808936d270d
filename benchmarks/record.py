"""The JSON file of the figures: {"machine": {...}, "parts": {part: figures}}; a later run replaces what it measured."""

import datetime
import json
import math
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

from benchmarks.setting import Setting
from forecast.errors import UserError
from forecast.files import write_text


def describe(setting: Setting) -> dict[str, Any]:
    """The machine, as it stands in the file beside the figures. commit: "" outside a checkout of git."""
    cpuinfo = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.is_file() else None
    name = match[1].strip() if match else platform.machine()
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


def read(path: Path) -> dict[str, Any]:
    """The content of a file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def check_same_machine(path: Path, machine: dict[str, Any]) -> None:
    """Raises UserError when an existing file holds figures of another machine."""
    before = read(path)["machine"]
    for key in ("device", "kind", "threads", "torch"):
        if before.get(key) != machine[key]:
            raise UserError(
                f"--json {path}: its figures were measured with {key} {before.get(key)}, now it is {machine[key]}. "
                "Name another file: ratios of two machines say nothing."
            )


def write(path: Path, machine: dict[str, Any], parts: dict[str, Any]) -> None:
    """Puts parts into the file; parts of before that were not measured now stay, with their rates.

    machine: of this run, with `rates` {part: {"before", "after", "date", "commit"}}.
    """
    before = read(path) if path.exists() else {"machine": {}, "parts": {}}
    other_rates = {part: rates for part, rates in before["machine"].get("rates", {}).items() if part not in parts}
    other_parts = {part: figures for part, figures in before["parts"].items() if part not in parts}
    machine = {**machine, "rates": {**other_rates, **machine["rates"]}}
    content = significant({"machine": machine, "parts": {**other_parts, **parts}})
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def significant(value: Any) -> Any:
    """Floats with six significant digits; NaN and inf become None."""
    if isinstance(value, dict):
        return {str(key): significant(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [significant(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
