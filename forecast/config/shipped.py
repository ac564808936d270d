"""What conf says of loggers, trainer and callbacks: of a text from elsewhere one knows by it whether it is a place."""

import re
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from forecast.config.values import CONF, walk

# How long and under whose eyes a run trains, and where its file lies: the model and the data stay.
FREE_GROUPS = ("trainer", "callbacks", "logger")
PLAIN_NAME = re.compile(r"(\w[\w .,:=+-]*)?")  # no path, and no address


def is_shipped(path: str, text: str) -> bool:
    """Whether conf has this text at this place of FREE_GROUPS."""
    return _place(path, text) in _shipped_texts()


def _place(path: str, text: str) -> tuple[str, str]:
    """What a text of conf is known by: a class by its group, another text by its key."""
    return (path.partition(".")[0], text) if path.endswith("._target_") else (path, text)


@cache
def shipped() -> dict[str, Any]:
    """Every option of FREE_GROUPS as plain values: {"logger/csv": {...}, ...}."""
    files = [file for group in FREE_GROUPS for file in (CONF / group).glob("*.yaml")]
    return {f"{file.parent.name}/{file.stem}": OmegaConf.to_container(OmegaConf.load(file)) for file in files}


@cache
def _shipped_texts() -> frozenset[tuple[str, str]]:
    """Every text in them, as `_place` knows it."""
    parts = (part for option, values in shipped().items() for part in walk(values, option.partition("/")[0]))
    return frozenset(_place(path, text) for path, text in parts if isinstance(text, str))
