"""Batch normalisation of sequences."""

from jaxtyping import Float
from torch import Tensor, nn


class BatchNorm(nn.Module):
    """Each of the D elements brought to mean 0 and deviation 1 over all steps of a batch: (B, L, D) -> (B, L, D).

    Ioffe and Szegedy 2015, "Batch Normalization", with learned scale and shift; in evaluation with the running mean and
    variance of the training. A training batch of one single step has no variance: it is normalised as in evaluation.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(d_model)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        steps, norm = x.flatten(0, 1), self.norm
        if steps.shape[0] > 1:
            normed: Tensor = norm(steps)
        else:  # torch refuses it in training
            assert norm.running_mean is not None and norm.running_var is not None
            scaled = (steps - norm.running_mean) * (norm.running_var + norm.eps).rsqrt()
            normed = scaled * norm.weight + norm.bias
        return normed.reshape(x.shape)
