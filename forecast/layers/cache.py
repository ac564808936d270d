"""Caches for decoding step by step, so that no row is computed twice.

A cache belongs to one batch of windows and is passed as an argument. Modules store none, so no window reaches another
batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

KeysValues = tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]


class LastRows:
    """The last `count` rows of a sequence that comes in parts: what a causal convolution needs of the parts before.

    length: how many rows there have been.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.length = 0
        self._rows: Tensor | None = None

    def join(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "B N D"]:
        """The next rows (B, M, D) after the stored ones, which are at most `count`: (B, N, D)."""
        joined = x if self._rows is None else torch.cat([self._rows, x], dim=1)
        self.length += x.shape[1]
        if self.count:  # -0 would keep all of them
            self._rows = joined[:, -self.count :]
        return joined


class LayerCache:
    """The keys and values of one causal self-attention layer, and the last rows of its input.

    capacity: how many steps fit, the length of the whole sequence. lookback: how many earlier rows of the input a
    projected row depends on. Keys (B, H, capacity, E) and values (B, H, capacity, V) are of the first steps' dtype and
    device.
    """

    def __init__(self, capacity: int, *, lookback: int = 0) -> None:
        self.capacity = capacity
        self.length = 0
        self.inputs = LastRows(lookback)
        self._keys_values: KeysValues | None = None

    def append(self, k: Float[Tensor, "B H M E"], v: Float[Tensor, "B H M V"]) -> KeysValues:
        """Stores keys and values of the next M steps; returns those of all K so far: (B, H, K, E), (B, H, K, V).

        Raises ValueError when they do not fit, or are of another batch size than those before.
        """
        start, stop = self.length, self.length + k.shape[2]
        if stop > self.capacity:
            raise ValueError(
                f"the cache holds {self.capacity} steps and has {start}: {k.shape[2]} more do not fit. "
                "Make it for a longer sequence"
            )
        if self._keys_values is None:
            # room for all steps at once: joining them step after step would copy the earlier ones each time
            room = (*k.shape[:2], self.capacity)
            self._keys_values = k.new_empty(*room, k.shape[3]), v.new_empty(*room, v.shape[3])
        keys, values = self._keys_values
        if keys.shape[0] != k.shape[0]:  # one window would be copied to all
            raise ValueError(f"the cache is of {len(keys)} windows, got steps of {len(k)}: use a new one for a batch")
        keys[:, :, start:stop], values[:, :, start:stop] = k, v
        self.length = stop
        return keys[:, :, :stop], values[:, :, :stop]


@dataclass
class MemoryCache:
    """The last rows of a cross-attention layer's input; its keys and values, made with the first rows for all."""

    inputs: LastRows
    keys_values: KeysValues | None = None


@dataclass(frozen=True)
class CrossedCache:
    """The caches of a decoder layer with cross-attention: of its own steps, and of the encoder's output."""

    steps: LayerCache
    memory: MemoryCache


@dataclass(frozen=True)
class DecoderCache:
    """The cache of a whole decoder. rows: the last rows of its input; layers: the cache of each layer."""

    rows: LastRows
    layers: Sequence[object]
