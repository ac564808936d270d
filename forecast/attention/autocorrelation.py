"""Auto-correlation, of the Autoformer, without its decomposition."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from forecast.attention.base import Mechanism
from forecast.bounds import Positive
from forecast.ops.row_ops import take_rows

CIRCULAR = "it shifts the sequence in a circle, so a step would see later ones"


def n_delays(length: int, factor: int) -> int:
    """How many delays of a sequence are kept: floor(factor * ln length), in [1, length]."""
    return max(1, min(int(factor * math.log(length)), length))


class AutoCorrelation(Mechanism):
    """The values shifted by the delays at which queries and keys are most alike, weighed by how much they are.

    R(d) = sum over t of q_t k_(t - d), in a circle, the mean of a head's channels: all d at once by the Fourier
    transform. Of the `n_delays` largest R a softmax gives the weights w, and row t is the sum of w_i v_(t + d_i), in a
    circle. So a weight belongs to a delay, and all rows have the same ones.

    Wu et al. 2021, "Autoformer", section "Auto-Correlation Mechanism". Of fewer keys than queries zeros stand in for
    the others, of more the first are taken, as there. Differs: the delays are chosen for each window and head; the
    paper's code averages R over the heads, and in training chooses one set of delays for the whole batch.

    factor: the paper's c, 1 to 3.
    Raises ValueError when causal.
    """

    def __init__(self, *, causal: bool, layer: int, factor: Positive = 1) -> None:
        super().__init__(causal=causal, layer=layer)
        if causal:
            raise ValueError(f"auto-correlation cannot be causal: {CIRCULAR}")
        self.factor = factor

    @classmethod
    def refusal(cls, *, cross: bool, cached: bool, causal: bool = False) -> str:
        """Why this mechanism cannot serve a slot, empty when it can: not a causal one."""
        return CIRCULAR if causal else super().refusal(cross=cross, cached=cached)

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        length = q.shape[2]
        k, v = (F.pad(x[:, :, :length], (0, 0, 0, max(0, length - x.shape[2]))) for x in (k, v))
        weights, delays = self.chosen(q, k)
        steps = (torch.arange(length, device=q.device) + delays.unsqueeze(3)) % length  # (B, H, U, Q)
        shifted = torch.unflatten(take_rows(v, steps.flatten(2)), 2, (-1, length))  # (B, H, U, Q, V)
        return (weights.to(v.dtype)[..., None, None] * shifted).sum(2)

    def chosen(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H Q E"]
    ) -> tuple[Float[Tensor, "B H U"], Int[Tensor, "B H U"]]:
        """The weights of the delays and these, (B, H, U) each, U = n_delays(Q, factor): q, k (B, H, Q, E)."""
        # float32 at least: torch has no Fourier transform of bfloat16
        exact = torch.promote_types(q.dtype, torch.float32)
        # the conjugate is written out: torch's lazy one is lost where a tensor is wrapped
        spectrum = torch.fft.rfft(q.to(exact), dim=2) * torch.fft.rfft(k.to(exact), dim=2).conj_physical()
        alike = torch.fft.irfft(spectrum.mean(3), n=q.shape[2], dim=2)
        top = alike.topk(n_delays(q.shape[2], self.factor), dim=2)
        return top.values.softmax(2), top.indices
