"""A command: its function, and what that hands to the command line."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

BEGUN = time.monotonic()  # about when the process has


class Answer(NamedTuple):
    """What a command has found out, as plain values: the document that --json prints, and the exit status."""

    document: object
    exit_status: int = 0


def command(name: str) -> Callable[..., "Answer | None"]:
    """The function of `forecast NAME`, imported now: torch takes seconds that a typing error need not wait."""
    place = f"forecast.apps.{name.replace('-', '_')}"
    module = import_module(place)
    if hasattr(module, "__path__"):
        module = import_module(f"{place}.command")
    function: Callable[..., Answer | None] = getattr(module, "main", None) or getattr(module, name)
    return function
