"""What the static patterns share: which steps see each other depends on nothing but their positions."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.attention.base import SelfMechanism, check_self_lengths
from forecast.ops.dropout import drop
from forecast.ops.softmax import attend

# up to this many steps an (L, L) mask is small, and torch's attention under it the fastest form
DENSE_STEPS = 512
# Of how many lengths a module caches the masks: an encoder that distils halves its own, evaluation adds another.
CACHED_LENGTHS = 4


class PatternAttention(SelfMechanism):
    """softmax(q k^T / sqrt(E)) v over the keys of a pattern that is known before q and k are.

    Up to DENSE_STEPS steps: a mask and torch's scaled_dot_product_attention. Above: `_sparse`, the same numbers without
    an (L, L) tensor. A pattern defines `_both_ways`, who sees whom without regard to order; its causal form is that and
    key <= step. Each step sees itself, so no row is empty.

    dropout: share of the attention weights that is dropped in training.
    """

    title: str

    def __init__(self, *, causal: bool, layer: int, dropout: float) -> None:
        super().__init__(causal=causal, layer=layer)
        self.dropout = dropout
        self._masks: dict[tuple[int, torch.device], tuple[Tensor, ...]] = {}

    def __getstate__(self) -> dict[str, object]:
        """All but the cached masks: a copy of a module makes its own, and no checkpoint or pickle grows by them."""
        return {**self.__dict__, "_masks": {}}

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Q (B, H, L, E), k (B, H, L, E), v (B, H, L, V) -> (B, H, L, V).

        Raises ValueError unless there are as many queries as keys, and where a size is larger than L.
        """
        length = q.shape[2]
        check_self_lengths(f"causal {self.title}" if self.causal else self.title, length, k.shape[2])
        self.check_length(length)
        if length > DENSE_STEPS:
            return self._sparse(q, k, v)
        return self._masked(q, k, v, self._dense(length, q.device))

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """The last Q of K rows of the causal form on `length` steps: (B, H, Q, V).

        Sizes are those for `length`, not for K: the pattern must not change while the sequence grows.
        """
        self.check_length(length)
        first, last = k.shape[2] - q.shape[2], k.shape[2]
        # three ways to the same rows: a cut of the cached mask; the cheap form of the whole length, where the rows are
        # many; and else a mask for these rows alone, as a decoder needs at each step of a long sequence
        if self.causal and length <= DENSE_STEPS:
            return self._masked(q, k, v, self._dense(length, q.device)[..., first:last, :last])
        if self.causal and q.shape[2] * last > DENSE_STEPS**2:  # many rows at once, as when a window is read
            before, after = (0, 0, first, length - last), (0, 0, 0, length - last)
            # causal: what stands in for the steps to come changes no row before them
            return self._sparse(F.pad(q, before), F.pad(k, after), F.pad(v, after))[:, :, first:last]
        steps = torch.arange(last, device=q.device)
        return self._masked(q, k, v, self._seen(steps[first:].unsqueeze(1), steps, length, causal=True))

    def allowed(self, length: int, *, device: torch.device | None = None) -> Bool[Tensor, "*halves L L"]:
        """Which keys each of `length` steps sees: (L, L), True = sees; (2, L, L) where two halves of the heads differ.

        Raises ValueError where a size is larger than `length`.
        """
        self.check_length(length)
        steps = torch.arange(length, device=device)
        return self._seen(steps.unsqueeze(1), steps, length, causal=self.causal)

    def check_length(self, length: int) -> None:
        """Raises ValueError where a size is larger than `length`."""
        raise NotImplementedError

    def _both_ways(self, steps: Tensor, keys: Tensor, length: int) -> Tensor:
        """Whether a step sees a key, whichever comes first: two broadcastable tensors of positions -> their shape."""
        raise NotImplementedError

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """What `forward` gives, without an (L, L) tensor."""
        raise NotImplementedError

    def _seen(self, steps: Tensor, keys: Tensor, length: int, *, causal: bool) -> Tensor:
        seen = self._both_ways(steps, keys, length)
        return seen & (keys <= steps) if causal else seen

    def _masked(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        return attend(q, k, v, allowed=allowed, dropout=self.dropout if self.training else 0.0)

    def _dense(self, length: int, device: torch.device) -> Tensor:
        return self._cached(length, device, lambda: (self.allowed(length, device=device),))[0]

    def _cached(self, length: int, device: torch.device, build: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What `build` gives, built once for a length and a device."""
        if (length, device) not in self._masks:
            if len(self._masks) == CACHED_LENGTHS:  # the oldest makes room: a dict keeps the order of insertion
                del self._masks[next(iter(self._masks))]
            with torch.inference_mode(False):  # masks made in a validation serve the training that follows
                self._masks[length, device] = build()
        return self._masks[length, device]

    def _weigh(self, scores: Tensor, like: Tensor) -> Tensor:
        """Softmax over the last axis, in float32 for half precision, and dropout; in the dtype of `like`."""
        weights = torch.softmax(scores, dim=-1, dtype=torch.promote_types(like.dtype, torch.float32)).to(like.dtype)
        return drop(weights, self.dropout, training=self.training)


def log2_ceil(number: int) -> int:
    """The least n with 2^n >= number."""
    return (number - 1).bit_length()


def sqrt_ceil(number: int) -> int:
    """The least n with n^2 >= number."""
    return math.isqrt(number - 1) + 1


def check_fits(title: str, length: int, **sizes: int | None) -> None:
    """Raises ValueError where a size is larger than the sequence."""
    for name, size in sizes.items():
        if size is not None and size > length:
            raise ValueError(
                f"{title} got {name}={size} on a sequence of {length} steps; {name} must be at most the sequence "
                f"length {length} here (a distilled encoder halves it from layer to layer), or null to follow it"
            )
