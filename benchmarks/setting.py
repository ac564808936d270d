"""The options of the command line, and the sizes that both sides share. Without torch, which --help need not load."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# As they are called in tables, and Lightning's names of them. On a GPU also TF32, which is no precision of Lightning's.
PRECISIONS = {"fp32": "32-true", "bf16-mixed": "bf16-mixed"}
TF32 = "tf32"
Figures = dict[str, Any]
# At once: a measurement takes minutes.
print_now = functools.partial(print, sep="\n", flush=True)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where, what and how long to measure: the options with their defaults, as plain values.

    threads: of torch on the CPU. peers: NAME or NAME=FOLDER, folders absolute. rounds, budget: see `timing.turns`.
    memory: 10^9 bytes that a process of its own may take. sizes: those of `Sizes` that the command line names.
    """

    device: str = "cpu"
    threads: int = 1
    peers: Sequence[str] = ()
    rounds: int = 25
    budget: float = 20.0
    memory: float = 12.0
    csv: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    fraction: float = 1.0
    # of the part `attention`
    only: Sequence[str] = ()
    lengths: Sequence[int] = (96, 192, 336, 720, 1024, 2048, 4096, 8192, 16384)
    limit: float = 60.0
    # of the part `panels`: series of the large panel, windows of its epoch, series that are forecast, series and
    # training steps beside a peer, and the Python that has this peer, None: this one
    series: int = 1_000_000
    windows: int = 100_000
    predicted: int = 100_000
    compared: int = 10_000
    steps: int = 200
    python: str | None = None


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
