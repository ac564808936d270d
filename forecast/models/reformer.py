"""The Reformer."""

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import Unpack

from forecast.bounds import CalendarEncoding, Layers, Positive
from forecast.layers.attention_layer import AttentionFactories, SelfAttention
from forecast.layers.blocks import BlockOptions, BlockSizes
from forecast.layers.embedding import DataEmbedding
from forecast.layers.heads import OutputMap
from forecast.layers.pre_norm import PreNorm
from forecast.layers.reversible import ReversibleLayer, ReversibleStack
from forecast.models.base import ForecastModel, WindowShape, with_placeholders


class Reformer(ForecastModel):
    """An encoder that reads the window and, as its continuation, `pred_len` zeros, whose rows are the forecast.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), scaled units.

    With `attention=lsh` a step attends to those that hash alike, and with reversible layers training keeps the
    activations of one layer whatever `encoder_layers` is, and computes the others anew in the backward pass. Pre-norm;
    both streams start as the embedded sequence, their mean is normalised and read out.

    Kitaev et al. 2020, "Reformer: The efficient transformer". Differs: the paper has a language model that sees the
    past only; here, as in the Time-Series-Library, every step sees all others, so that all steps come in one pass. The
    values are embedded by a convolution that is circular over window and zeros (`TokenEmbedding`), and positions are
    sinusoids, not axial ones.

    window: the data's sizes; label_len is not used. instance_norm: brings each column of a window to mean 0 and
    deviation 1, and the forecast back (Kim et al. 2022).
    feed_forward_chunks: in how many pieces the steps go through the feed-forward network; changes memory, not numbers.
    encoder_attention: the factories of the attention.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        encoder_layers: Layers,
        feed_forward_chunks: Positive,
        embedding: CalendarEncoding,
        instance_norm: bool = False,
        encoder_attention: AttentionFactories,
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__(window, instance_norm=instance_norm)
        sizes = BlockSizes(**options)
        self.embedding = DataEmbedding(
            **window.widths,
            d_model=sizes.d_model,
            max_len=window.seq_len + window.pred_len,
            dropout=sizes.dropout,
            encoding=embedding,
        )
        self.layers = ReversibleStack(
            [
                reversible_layer(sizes, encoder_attention, layer=i, chunks=feed_forward_chunks)
                for i in range(encoder_layers)
            ]
        )
        self.norm = nn.LayerNorm(sizes.d_model)
        self.head = OutputMap(sizes.d_model, window.n_targets * window.outputs)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C), past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T)."""
        x = self.embedding(*with_placeholders(past, past_known, future_known))
        y1, y2 = self.layers(x, x)
        rows = (y1 + y2)[:, past.shape[1] :] / 2
        return self.head(self.norm(rows))


def reversible_layer(sizes: BlockSizes, attention: AttentionFactories, *, layer: int, chunks: int) -> ReversibleLayer:
    """Attention added to one stream, a feed-forward network to the other. layer: the attention's number."""
    attend = SelfAttention(sizes.attention(attention, layer=layer))
    return ReversibleLayer(
        PreNorm(attend, d_model=sizes.d_model, dropout=sizes.dropout),
        PreNorm(sizes.feed_forward(), d_model=sizes.d_model),  # it drops at its end itself
        second_pieces=chunks,
    )
