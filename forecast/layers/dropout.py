"""Dropout as a layer."""

from jaxtyping import Float
from torch import Tensor, nn

from forecast.ops.dropout import drop


class Dropout(nn.Dropout):
    """torch's layer, by `forecast.ops.dropout.drop`: p is the share of elements that is dropped in training."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Any shape -> the same shape."""
        return drop(x, self.p, training=self.training, inplace=self.inplace)
