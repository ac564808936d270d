"""The plain Transformer."""

from forecast.bounds import CalendarEncoding, Layers, Positive, Share
from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.feed_forward import Activation
from forecast.models.base import WindowShape
from forecast.models.informer import DecodeName, Informer


class Transformer(Informer):
    """The encoder-decoder whose attention is full and whose sequences keep their length.

    Vaswani et al. 2017, "Attention is all you need", used as in the row of that name in Zhou et al. 2021: the decoder
    reads the last `label_len` steps and `pred_len` zeros at once. It is the `Informer` without distilling, with heads
    merged in order and, as long as `attention=full`, without ProbSparse. Differs from the paper: values and calendar
    are embedded, not words; a norm follows the last layer of encoder and decoder; `decode=autoregressive` is the
    paper's way of making one step after the other.

    The arguments are those of `Informer`.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        d_model: Positive,
        n_heads: Positive,
        d_ff: Positive,
        encoder_layers: Layers,
        decoder_layers: Layers,
        dropout: Share,
        activation: Activation,
        embedding: CalendarEncoding,
        instance_norm: bool = False,
        decode: DecodeName = "one_shot",
        encoder_attention: AttentionFactories,
        decoder_attention: AttentionFactories,
        cross_attention: AttentionFactories,
    ) -> None:
        super().__init__(
            window=window,
            d_model=d_model,
            n_heads=n_heads,
            d_ff=d_ff,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            dropout=dropout,
            activation=activation,
            distil=False,
            mix=False,
            embedding=embedding,
            instance_norm=instance_norm,
            decode=decode,
            encoder_attention=encoder_attention,
            decoder_attention=decoder_attention,
            cross_attention=cross_attention,
        )
