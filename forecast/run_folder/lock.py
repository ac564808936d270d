"""The lock that keeps a second training out of a run folder."""

import contextlib
import datetime
import errno
import logging
import os
import socket
from pathlib import Path

from filelock import FileLock, Timeout

from forecast.errors import UserError

log = logging.getLogger(__name__)

LOCK, HOLDER = ".lock", ".lock.holder"


class FolderHeld(UserError):
    """Another process is at work in a run folder; the text says which one."""


# None: on a file system without locks.
_locks: dict[Path, FileLock | None] = {}
# What a file system without locks answers, beside ENOSYS; NFS without its lock service, for one.
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)


def hold(folder: Path) -> None:
    """Keeps all other processes out of a run folder, until `release` or the end of this process, however it ends.

    A second call by the same process does nothing. Raises FolderHeld where another one has it. The lock is the
    operating system's (flock, in FOLDER/.lock), which a killed process loses with its life. On a network file system it
    holds as far as that passes flock on: NFS between Linux machines does, others may do so on one machine only. Where
    there are no locks, nothing is kept out, and a warning says so; where the system call itself is missing (ENOSYS),
    filelock warns and makes a file in place of the lock, which a process killed with SIGKILL leaves behind.
    """
    path = folder.absolute()
    if path in _locks:
        return
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0.2, poll_interval=0.02)  # `in_use` of another process has it for a moment
    except Timeout:
        raise FolderHeld(
            f"{folder} is in use: {holder(path) or 'another process'} is at work there; wait for its end, stop it, or "
            "train elsewhere with hydra.run.dir=FOLDER"
        ) from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
        _locks[path] = None
        log.warning(
            "%s is on a file system without locks: see that nothing else is at work there, or train elsewhere with "
            "hydra.run.dir=FOLDER",
            folder,
        )
        return
    _locks[path] = lock
    now = datetime.datetime.now().isoformat(" ", "seconds")
    (path / HOLDER).write_text(f"process {os.getpid()} on {socket.gethostname()}, since {now},")


def release(folder: Path) -> None:
    """Lets others into the folder again, where this process holds it."""
    lock = _locks.pop(folder.absolute(), None)
    if lock is not None:
        with contextlib.suppress(OSError):  # the folder became read-only meanwhile
            (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def in_use(folder: Path) -> bool:
    """Whether another process holds the folder at this moment; no, where that cannot be found out. Writes nothing."""
    path = folder.absolute()
    if path in _locks or not (path / LOCK).is_file():
        return False
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):  # of another user, or no locks
        return False
    lock.release()
    return False


def holder(folder: Path) -> str:
    """The process that holds, or was killed when it held, the folder; empty where none has written itself down."""
    with contextlib.suppress(OSError):
        return (folder / HOLDER).read_text(errors="replace")
    return ""


def running_or_killed(folder: Path) -> str:
    """What has become of a run that run.json calls running, as far as its lock tells."""
    who = holder(folder)
    if in_use(folder):
        return f"it is running: {who.rstrip(',') or 'another process'}"
    # a lock of another machine may not be seen from here
    return "it was killed" if f" on {socket.gethostname()}, " in who else "it is running, or was killed"
