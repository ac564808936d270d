"""GPT."""

from forecast.layers.causal_blocks import PreNormLayer
from forecast.models.decoder_only import DecoderOnly, scale_weights

# Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", section 4.1
WEIGHT_DEVIATION = 0.02


class GPT(DecoderOnly):
    """Decoder-only: pre-norm layers of causal full attention and a GELU network.

    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3. Queries, keys and values
    are one product, and decoding keeps keys and values. Differs: values and calendar are embedded in the place of
    words, by linear maps; positions are sinusoids, as in all models here, not learned; the loss is squared error.

    The arguments are those of `DecoderOnly`.
    """

    layer = PreNormLayer

    def draw_weights(self) -> None:
        """Normal weights; those whose result is added to the sequence by the depth too."""
        scale_weights(self.layers, deviation=lambda n_inputs: WEIGHT_DEVIATION)
