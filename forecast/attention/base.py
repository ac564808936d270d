"""The contract of an attention mechanism."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn


class NotCacheable(ValueError):
    """Single rows cannot be computed: which steps a row sees depends on the whole sequence."""


class Padding(NamedTuple):
    """Keys (B, K) that only fill a window, so that no row sees them, and queries (B, Q) whose rows nobody reads.

    True where it is padding, as in torch's attention; some keys of each window are none. queries: None where all count.
    """

    keys: Bool[Tensor, "B K"]
    queries: Bool[Tensor, "B Q"] | None = None


class Mechanism(nn.Module):
    """Mixes values over time. Owns no projection and no head logic.

    q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V)  ->  (B, H, Q, V); V is E in every model.
    Given the identity as v (V = K) a mechanism returns its attention weights (B, H, Q, K). `ScrambledProbAttention`
    alone does not: heads and steps of its weights have changed places, which is the mistake that it repeats.

    causal: step t does not see the steps after t; then Q must equal K.
    layer: the number of the attention layer in its model, from 0. Random draws in evaluation depend on it.
    independent_rows: whether a row of the result depends on its own query alone, so that a row that nobody reads need
        not be computed.
    masks_padding: whether `forward`, not causal, takes a `Padding` too.
    """

    independent_rows = False
    masks_padding = False

    def __init__(self, *, causal: bool, layer: int) -> None:
        super().__init__()
        self.causal = causal
        self.layer = layer

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """The values mixed over time: q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        raise NotImplementedError

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """Rows K - Q to K - 1 of the causal form on `length` >= K steps, of which the first K are there so far.

        q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V). What decoding with a cache needs.
        Raises NotCacheable unless a row depends on nothing but itself and the steps before it.
        """
        raise NotCacheable(
            f"{type(self).__name__} cannot be computed row by row: which steps a row sees depends on the whole sequence"
        )

    @classmethod
    def refusal(cls, *, cross: bool, cached: bool, causal: bool = False) -> str:
        """Why this mechanism cannot serve a slot, empty when it can.

        cross: queries and keys come from two sequences. cached: the model decodes row by row. causal: no step may see
        a later one.
        """
        # what overrides `last_rows` can decode: a flag beside it could say otherwise
        if cached and cls.last_rows is Mechanism.last_rows:
            return "which steps a row sees depends on the whole sequence, so it cannot decode row by row with a cache"
        return ""


class SelfMechanism(Mechanism):
    """A mechanism for one sequence: queries and keys are the same steps, Q = K, causal or not."""

    @classmethod
    def refusal(cls, *, cross: bool, cached: bool, causal: bool = False) -> str:
        """Why this mechanism cannot serve a slot, empty when it can: not one of two sequences."""
        if cross:
            return "it works inside one sequence and cannot attend to another"
        return super().refusal(cross=cross, cached=cached, causal=causal)


def exporting() -> bool:
    """Whether torch.export traces, for any number of windows: then work is not cut into parts by their number."""
    # torch.compiler.is_exporting is not in torch 2.6
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()


def check_self_lengths(name: str, n_queries: int, n_keys: int) -> None:
    """Raises ValueError unless there are as many queries as keys: what a query sees depends on its position."""
    if n_queries != n_keys:
        raise ValueError(
            f"{name} got {n_queries} queries and {n_keys} keys; it serves self-attention only, where both are equal"
        )


class SeededDraws(nn.Module):
    """A mechanism's random draw: in training from torch's global generator, in evaluation the same at every call.

    An exported program holds what it drew instead.

    eval_seed, layer: in evaluation a CPU generator is seeded by both anew at every call, so that equal calls draw the
    same on every device, and no two layers do. What was drawn last is kept: a GPU waits for a copy from the host.
    eval_seed None takes fresh numbers there, too.
    """

    def __init__(self, *, eval_seed: int | None, layer: int) -> None:
        super().__init__()
        self.eval_seed = eval_seed
        self.layer = layer
        self._last: tuple[tuple[object, ...], Tensor] | None = None

    def forward(self, first: int, second: int, third: int, device: torch.device) -> Tensor:
        """The draw of these sizes, on the device."""
        sizes = (first, second, third)
        if self.training or self.eval_seed is None:
            return self.drawn(*sizes, device=device, generator=None)
        key = (self.eval_seed, sizes, device)
        if self._last is None or self._last[0] != key:
            # a prime beyond any number of layers: no two pairs meet. Figures of stored checkpoints depend on the rule
            generator = Generator().manual_seed(self.eval_seed * 1009 + self.layer)
            with torch.inference_mode(False):  # what is kept may serve a backward pass later
                self._last = key, self.drawn(*sizes, device=torch.device("cpu"), generator=generator).to(device)
        return self._last[1]

    def drawn(self, *sizes: int, device: torch.device, generator: Generator | None) -> Tensor:
        """A draw of these sizes; generator None: torch's global one."""
        raise NotImplementedError
