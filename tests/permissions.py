"""What a file or folder forbids holds for the tests too, which mostly run as root."""

import contextlib
import ctypes
import os

import pytest

VERSION_3, OF_THIS_THREAD = 0x20080522, 0
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2  # to pass over what a file's mode says


@contextlib.contextmanager
def heeded():
    """Root's right to pass over them is laid down inside the block, as far as it is this process's; skips elsewhere."""
    if os.name != "posix":
        pytest.skip("needs the permissions of POSIX")
    if os.geteuid():
        yield
        return
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        capget, capset = libc.capget, libc.capset
    except (OSError, AttributeError):
        pytest.skip("needs the capabilities of Linux")
    header = (ctypes.c_uint32 * 2)(VERSION_3, OF_THIS_THREAD)
    rights = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then those from 32 on
    assert capget(header, rights) == 0
    before = rights[0]
    rights[0] &= ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
    assert capset(header, rights) == 0
    try:
        yield
    finally:
        rights[0] = before
        assert capset(header, rights) == 0


@contextlib.contextmanager
def read_only(folder):
    """Nothing can be made in a folder inside the block."""
    mode = folder.stat().st_mode
    folder.chmod(0o555)
    try:
        with heeded():
            with pytest.raises(PermissionError):
                (folder / "x").touch()
            yield
    finally:
        folder.chmod(mode)
