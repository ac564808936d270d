"""The JSON file of the figures: {"machine": {...}, "parts": {part: figures}}; a later run replaces what it measured."""

import json
import math
from pathlib import Path
from typing import Any

from forecast.errors import UserError
from forecast.files import write_text

# Figures measured with another of these do not belong into one file.
SAME = ("device", "kind", "threads", "torch")


def read(path: Path) -> dict[str, Any]:
    """The content of a file. Raises UserError for one that is not ours."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {"machine": dict(content["machine"]), "parts": dict(content["parts"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no file of benchmark figures ({error}): name another, or remove it.") from error


def check_same_machine(path: Path, machine: dict[str, Any]) -> None:
    """Raises UserError when an existing file holds figures of another machine."""
    before = read(path)["machine"]
    for key in SAME:
        if before.get(key) != machine[key]:
            raise UserError(
                f"--json {path}: its figures were measured with {key} {before.get(key)}, now it is {machine[key]}. "
                "Name another file: ratios of two machines say nothing."
            )


def write(path: Path, machine: dict[str, Any], parts: dict[str, Any]) -> None:
    """Puts parts into the file; parts of before that were not measured now stay, with their rates.

    machine: of this run, with `rates` {part: {"before", "after", "date", "commit"}}. Raises UserError when the file is
    not ours or cannot be written.
    """
    before = read(path) if path.exists() else {"machine": {}, "parts": {}}
    other_rates = {part: rates for part, rates in before["machine"].get("rates", {}).items() if part not in parts}
    other_parts = {part: figures for part, figures in before["parts"].items() if part not in parts}
    content = {
        "machine": {**machine, "rates": {**other_rates, **machine["rates"]}},
        "parts": {**other_parts, **parts},
    }
    try:
        write_text(path, json.dumps(significant(content), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise UserError(f"--json {path} cannot be written: {error.strerror}.") from error


def significant(value: Any) -> Any:
    """Floats with six significant digits; NaN and inf become None."""
    if isinstance(value, dict):
        return {str(key): significant(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [significant(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
