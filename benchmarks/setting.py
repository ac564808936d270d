"""What all parts of the benchmark are told, and the sizes that both sides share."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

# Of the attentions' table beside the peers', of that of every attention, and the models that decode step by step.
DUEL_LENGTHS = (96, 336, 720, 1440, 2880, 5760)
LENGTHS = (96, 192, 336, 720, 1024, 2048, 4096, 8192, 16384)
DECODERS = ("gpt", "logtrans", "sparse_transformer")
# As they are called in tables, and Lightning's names of them.
PRECISIONS = {"fp32": "32-true", "bf16-mixed": "bf16-mixed"}
AS_IT_IS = "as it is"


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
        """The same with this peer alone, or with none of that name: what a process of its own need not import."""
        return replace(self, peers=tuple(peer for peer in self.peers if peer.partition("=")[0] == name))

    def synchronise(self) -> Callable[[], None]:
        """Waits for the GPU; on a CPU there is nothing to wait for."""
        import torch  # --help needs the rest of this file alone

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

    def but(self, **changed: Any) -> "Sizes":
        """The same with other values."""
        return replace(self, **changed)

    def plain(self) -> dict[str, Any]:
        """For a file or another process."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.seq_len}/{self.label_len}/{self.pred_len} batch {self.batch}"
