"""One writer at a time: locks that a process holds for as long as it lives, on systems that have them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(file: IO[Any]) -> Iterator[None]:
    """Waits until no other process writes to the file."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)
    yield  # closing the file opens the lock


def take(path: Path) -> IO[Any] | None:
    """The open lock file, None when another process holds it. A child that inherits it holds it too, after us."""
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
    return file
