"""No attention: the control without mixing."""

from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import SelfMechanism, check_self_lengths


class NoAttention(SelfMechanism):
    """Each step gets its own value. Queries and keys are not read, and have no gradient.

    The control for every attention: what a model reaches without mixing over time. Of two sequences no step has a value
    of its own in the other, so a cross slot is rejected; `MeanAttention` is the control there.
    """

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, L, E), k (B, H, L, E), v (B, H, L, V) the v. Raises ValueError unless Q = K."""
        check_self_lengths("no attention", q.shape[2], k.shape[2])
        return v

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """The last Q of K values: q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        del k, length
        return v[:, :, -q.shape[2] :]
