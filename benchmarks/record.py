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


def merged(before: dict[str, Any] | None, machine: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """What the file holds next: these parts, and those of before that were not measured now.

    machine: of this run, with `rates` {part: {"before", "after", "date", "commit"}}; the rates of the other parts stay.
    """
    old = before or {"machine": {}, "parts": {}}
    kept = {part: rates for part, rates in old["machine"].get("rates", {}).items() if part not in parts}
    return {
        "machine": {**machine, "rates": {**kept, **machine["rates"]}},
        "parts": {**{part: figures for part, figures in old["parts"].items() if part not in parts}, **parts},
    }


def write(path: Path, machine: dict[str, Any], parts: dict[str, Any]) -> None:
    """Merges into the file. Raises UserError when it is not ours or cannot be written."""
    content = merged(read(path) if path.exists() else None, machine, parts)
    try:
        write_text(path, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise UserError(f"--json {path} cannot be written: {error.strerror}.") from error


def plain(value: Any) -> Any:
    """Floats with six digits that count; NaN and inf become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
