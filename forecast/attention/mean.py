"""Uniform attention: the control that mixes and does not choose."""

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Mechanism, check_self_lengths
from forecast.ops.window_sums import running_sum


class MeanAttention(Mechanism):
    """The mean of all values, or of those up to the query's own step when causal.

    The control for what queries and keys choose: they are not read, and have no gradient. No weight is dropped in
    training.
    """

    independent_rows = True

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        if self.causal:
            check_self_lengths("causal mean attention", q.shape[2], k.shape[2])
            return running_sum(v, mean=True).to(v.dtype)
        mean = v.mean(2, keepdim=True, dtype=torch.promote_types(v.dtype, torch.float32)).to(v.dtype)
        return mean.expand(-1, -1, q.shape[2], -1)

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """The last Q of K rows of the causal form: q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        del k, length
        return running_sum(v, mean=True).to(v.dtype)[:, :, -q.shape[2] :]
