"""The plain Transformer."""

from typing_extensions import Unpack

from forecast.bounds import Layers
from forecast.models.base import WindowShape
from forecast.models.informer import DecodeName, Informer, InformerOptions


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
        encoder_layers: Layers,
        instance_norm: bool = False,
        decode: DecodeName = "one_shot",
        **options: Unpack[InformerOptions],
    ) -> None:
        super().__init__(
            window=window,
            encoder_layers=encoder_layers,
            distil=False,
            mix=False,
            instance_norm=instance_norm,
            decode=decode,
            **options,
        )
