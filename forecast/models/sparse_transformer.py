"""The Sparse Transformer."""

import math

from torch import nn

from forecast.layers.causal_blocks import PreNormLayer
from forecast.models.decoder_only import DecoderOnly, scale_weights

# the paper's section 6
WEIGHT_DEVIATION = 0.125


class SparseTransformer(DecoderOnly):
    """Decoder-only: pre-norm residual layers of strided attention, weights scaled by the depth, the head from zero.

    Child et al. 2019, "Generating Long Sequences with Sparse Transformers", sections 4.2, 5.2 and 6, with
    `attention=strided` (or `fixed`, the paper's other pattern). Differs: values and calendar are embedded in the place
    of bytes, by linear maps with torch's first weights; positions are sinusoids, not learned rows and columns; the
    exact GELU, not x sigmoid(1.702 x); of what the paper computes twice to save memory, the attention's scores of long
    sequences alone.

    The arguments are those of `DecoderOnly`.
    """

    layer = PreNormLayer

    def draw_weights(self) -> None:
        """Normal weights by the number of inputs and the depth; the first forecast is zero."""
        scale_weights(self.layers, deviation=lambda n_inputs: WEIGHT_DEVIATION / math.sqrt(n_inputs))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
