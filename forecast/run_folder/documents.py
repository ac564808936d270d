"""The small files of a run folder as they lie there, which anyone may have written."""

import json
from pathlib import Path
from typing import Any

DEEPEST = 50  # levels of a JSON file; ours have seven


def read_json(path: Path) -> dict[str, Any]:
    """Empty when there is no such file. Raises ValueError for anything but an object, RecursionError for a deep one."""
    if not path.is_file():
        return {}
    content = json.loads(read_text(path, most=50), parse_int=_integer)
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} is not an object")
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        parts = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [value for values in parts for value in values]
    if level:
        raise RecursionError
    return content


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"it holds a number of {len(digits)} digits")
    return int(digits)


def read_text(path: Path, *, most: int) -> str:
    """Raises ValueError for a file of more than `most` MB."""
    if (size := path.stat().st_size / 1e6) > most:
        raise ValueError(f"{path.name} has {size:.0f} MB; no run writes more than {most}")
    return path.read_text()
