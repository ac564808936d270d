"""What the static patterns share: which steps see each other depends on their positions alone."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.attention.base import SelfMechanism, check_causal_lengths, check_self_lengths

# up to this many steps a boolean (L, L) mask is cheap, and torch's attention under it the fastest form
DENSE_STEPS = 512
# how many lengths a module keeps masks for: those of a training, a validation and a shorter last window
KEPT_LENGTHS = 4


class PatternAttention(SelfMechanism):
    """softmax(q k^T / sqrt(E)) v over the keys of a pattern that is known before q and k are.

    Up to DENSE_STEPS steps a mask and torch's scaled_dot_product_attention; above, `_sparse` of the pattern, which
    computes the same without an (L, L) tensor. A pattern tells `_both_ways`, its relation of steps and keys without
    regard to order; the causal form is that relation and key <= step. No row is empty: each step sees itself.

    dropout: share of the attention weights that is dropped in training.
    """

    title = "pattern attention"

    def __init__(self, *, causal: bool, layer: int, dropout: float) -> None:
        super().__init__(causal=causal, layer=layer)
        self.dropout = dropout
        self._kept: dict[tuple[int, torch.device], tuple[Tensor, ...]] = {}

    def __getstate__(self) -> dict[str, object]:
        """All but the kept masks: a copy or a pickle of a module makes its own."""
        return {**self.__dict__, "_kept": {}}

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Q (B, H, L, E), k (B, H, L, E), v (B, H, L, V) -> (B, H, L, V).

        Raises ValueError unless there are as many queries as keys, and where a size does not fit into L steps.
        """
        check = check_causal_lengths if self.causal else check_self_lengths
        check(self.title, q.shape[2], k.shape[2])
        self._check(q.shape[2], q.shape[1])
        if q.shape[2] > DENSE_STEPS:
            return self._sparse(q, k, v)
        return self._masked(q, k, v, self.allowed(q.shape[2], device=q.device))

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """The last Q of K rows of the causal form on `length` steps, see `Mechanism.last_rows`.

        Sizes are those of `length` and not of K: the pattern must not change while a sequence grows.
        """
        n_queries, n_keys = q.shape[2], k.shape[2]
        if n_keys > length:
            raise ValueError(f"{self.title} got {n_keys} keys of a sequence of {length} steps")
        self._check(length, q.shape[1])
        if length <= DENSE_STEPS and self.causal:
            allowed = self.allowed(length, device=q.device)[..., n_keys - n_queries : n_keys, :n_keys]
        else:
            steps = torch.arange(n_keys, device=q.device)
            allowed = self._seen(steps[n_keys - n_queries :].unsqueeze(1), steps, length, causal=True)
        return self._masked(q, k, v, allowed)

    def allowed(self, length: int, *, device: torch.device | None = None) -> Bool[Tensor, "*halves L L"]:
        """Which keys each of `length` steps sees: (L, L), True = sees; (2, L, L) where each half of the heads differs.

        Raises ValueError where a size does not fit into `length` steps.
        """
        device = device or torch.device("cpu")
        self._check(length, 2)
        steps = torch.arange(length, device=device)
        return self._keep(length, device, lambda: (self._seen(steps.unsqueeze(1), steps, length, causal=self.causal),))[
            0
        ]

    def _keep(self, length: int, device: torch.device, build: "Masks") -> tuple[Tensor, ...]:
        """What `build` gives, built once per length and device; a module uses one form per length."""
        key = (length, device)
        if key not in self._kept:
            if len(self._kept) == KEPT_LENGTHS:
                del self._kept[next(iter(self._kept))]
            with torch.inference_mode(False):  # a mask made in a validation must serve the training after it
                self._kept[key] = build()
        return self._kept[key]
