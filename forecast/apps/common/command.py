"""A command: its function, and what that hands to the command line."""

import gc
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
    was_enabled = gc.isenabled()
    gc.disable()  # it would look again and again through what the imports make, a sixth of their time
    try:
        module = import_module(place)
        if hasattr(module, "__path__"):
            module = import_module(f"{place}.command")
    finally:
        if was_enabled:
            gc.enable()
    function: Callable[..., Answer | None] = getattr(module, "main", None) or getattr(module, name)
    return function
