"""Several forked processes that train together: those that torchrun and Lightning start, on hosts that are namespaces.

What one of them is told when it imports, its number among the others, is set anew in what has been imported.
"""

import contextlib
import ctypes
import importlib
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

HOST = "FORECAST_TESTS_HOST"  # names the network namespace that a forked process is to enter (hosts.py)
TORCHRUN = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
LIGHTNING = "lightning.pytorch.strategies.launchers.subprocess_script"
NEW_MOUNTS, NEW_NAMES, NEW_NETWORK = 0x00020000, 0x04000000, 0x40000000
RECURSIVE, SLAVE, BIND, DETACH = 1 << 14, 1 << 19, 1 << 12, 2


def take_place():
    """The number among the processes that train together, and the host, that the environment names."""
    rank_zero = importlib.import_module("lightning.fabric.utilities.rank_zero")
    rank_zero.rank_zero_only.rank = rank_zero._get_rank() or 0
    if name := os.environ.get(HOST):
        enter(name)


def enter(name):
    """As `ip netns exec NAME unshare --uts` does, and the host's name is NAME."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function, *words):
        if getattr(libc, function)(*(word.encode() if isinstance(word, str) else word for word in words)):
            raise OSError(ctypes.get_errno(), f"{function}{words}")

    with Path("/run/netns", name).open() as network:
        call("setns", network.fileno(), NEW_NETWORK)
    call("unshare", NEW_MOUNTS | NEW_NAMES)
    call("mount", "", "/", "none", RECURSIVE | SLAVE, None)
    call("umount2", "/sys", DETACH)
    call("mount", name, "/sys", "sysfs", 0, None)
    call("mount", f"/etc/netns/{name}/hosts", "/etc/hosts", "none", BIND, None)
    socket.sethostname(name)


@contextlib.contextmanager
def launchers(begin):
    """The processes that torchrun and Lightning start are begun by `begin`, a Popen."""
    lightning = importlib.import_module(LIGHTNING)
    shim = SimpleNamespace(**{**vars(lightning.subprocess), "Popen": begin})
    with mock.patch(f"{TORCHRUN}.Popen", begin), mock.patch.object(lightning, "subprocess", shim):
        yield
