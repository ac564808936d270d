"""What every part is given, and the sizes that both sides share. Without torch: --help needs no more than this."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

# As they are called in tables, and Lightning's names of them.
PRECISIONS = {"fp32": "32-true", "bf16-mixed": "bf16-mixed"}
# The options of the command line that change Sizes.
SIZES = ("seq_len", "label_len", "pred_len", "batch", "factor", "d_model", "n_heads", "d_ff")
Figures = dict[str, Any]


def print_now(*lines: str) -> None:
    """Prints at once: a measurement takes minutes."""
    print(*lines, sep="\n", flush=True)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where and how long to measure.

    threads: of torch on the CPU. peers: as on the command line, NAME or NAME=FOLDER, folders absolute. rounds, budget:
    see `timing.turns`. memory: 10^9 bytes that a process of its own may take.
    """

    device: str
    threads: int
    peers: tuple[str, ...]
    rounds: int
    budget: float
    memory: float

    def with_peer(self, name: str) -> "Setting":
        """The same with this peer alone, or with none of that name: a process of its own need not import the others."""
        return replace(self, peers=tuple(peer for peer in self.peers if peer.partition("=")[0] == name))

    def synchronise(self) -> Callable[[], None]:
        """Waits for the GPU; on a CPU there is nothing to wait for."""
        import torch

        return torch.cuda.synchronize if self.device == "cuda" else lambda: None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a model and its batches: L, S, P, B and D are seq_len, label_len, pred_len, batch and d_model.

    n_columns: C, all of them forecast. n_known: F calendar features.
    """

    seq_len: int = 96
    label_len: int = 48
    pred_len: int = 24
    batch: int = 32
    factor: int = 5
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    encoder_layers: int = 2
    decoder_layers: int = 1
    dropout: float = 0.05
    n_columns: int = 7
    n_known: int = 4


def sizes_from(arguments: argparse.Namespace) -> dict[str, int]:
    """Those of SIZES that the command line names."""
    return {name: value for name in SIZES if (value := getattr(arguments, name, None)) is not None}
