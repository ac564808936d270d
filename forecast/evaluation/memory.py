"""The memory that a run holds at its peak."""

import contextlib
import ctypes
import gc
import re
from pathlib import Path

import torch


class PeakMemory:
    """The most memory held since this object was made: of the GPU on a GPU, else of the process.

    A process knows its own high-water mark, which an earlier run in it may have set; Linux lets it be reset. Elsewhere
    the figure is None.
    """

    def __init__(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        # what earlier runs in this process have freed goes back to the system, where the C library can do that
        gc.collect()
        with contextlib.suppress(OSError, TypeError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5")  # man 5 proc: resets VmHWM
            self.can_reset = True
        except OSError:
            self.can_reset = False

    def megabytes(self, device: torch.device) -> float | None:
        """Peak in 10^6 bytes."""
        if device.type == "cuda":
            return torch.cuda.max_memory_allocated(device) / 1e6
        if not self.can_reset:
            return None
        match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return int(match[1]) * 1024 / 1e6 if match else None
