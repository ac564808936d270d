"""The Informer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.blocks import BlockSizes, DecoderLayer, EncoderLayer
from forecast.layers.distil import Distil
from forecast.layers.embedding import CalendarEncoding, DataEmbedding
from forecast.layers.feed_forward import Activation
from forecast.layers.heads import merge_heads, mix_heads
from forecast.models.base import ForecastModel, WindowShape


class Informer(ForecastModel):
    """Encoder-decoder that forecasts all steps in one pass.

    The encoder reads the window; between its layers the sequence is halved (distilling). The decoder reads the last
    `label_len` steps of the window followed by `pred_len` zeros, with the calendar of both, and its rows for the zeros
    are the forecast. Post-norm; positions count from 0 in encoder and decoder.

    Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting". With
    `attention=prob_informer2020` and `mix=true` it is the authors' code at 29f2a73 (tests/golden).

    window: the data's sizes. instance_norm: see `ForecastModel`.
    mix: merge the decoder's self-attention heads in the authors' scrambled order, see `mix_heads`.
    encoder_attention, decoder_attention, cross_attention: the factories for each slot.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        d_model: int,
        n_heads: int,
        d_ff: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        activation: Activation,
        distil: bool,
        mix: bool,
        embedding: CalendarEncoding,
        instance_norm: bool = False,
        encoder_attention: AttentionFactories,
        decoder_attention: AttentionFactories,
        cross_attention: AttentionFactories,
    ) -> None:
        super().__init__(window, instance_norm=instance_norm)
        self.label_len, self.pred_len = window.label_len, window.pred_len
        inputs = {"n_columns": window.n_columns, "n_known": window.n_known, "d_model": d_model}
        sizes = BlockSizes(d_model=d_model, n_heads=n_heads, d_ff=d_ff, dropout=dropout, activation=activation)

        self.encoder_embedding = DataEmbedding(**inputs, max_len=window.seq_len, dropout=dropout, encoding=embedding)
        self.encoder = distilling_encoder(sizes, encoder_attention, n_layers=encoder_layers, distil=distil)
        self.decoder_embedding = DataEmbedding(
            **inputs, max_len=self.label_len + self.pred_len, dropout=dropout, encoding=embedding
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                sizes,
                self_attention=decoder_attention,
                cross_attention=cross_attention,
                layer=encoder_layers + 2 * i,
                merge=mix_heads if mix else merge_heads,
            )
            for i in range(decoder_layers)
        )
        self.decoder_norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, window.n_targets)

    def forecast(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
    ) -> Float[Tensor, "B P T"]:
        """Past (B, L, C), past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T)."""
        encoded = self.encoder(self.encoder_embedding(past, past_known))
        start = past.shape[1] - self.label_len
        placeholder = past.new_zeros(past.shape[0], self.pred_len, past.shape[2])
        x = self.decoder_embedding(
            torch.cat([past[:, start:], placeholder], dim=1),
            torch.cat([past_known[:, start:], future_known], dim=1),
        )
        for layer in self.decoder:
            x = layer(x, encoded)
        forecast: Tensor = self.head(self.decoder_norm(x[:, self.label_len :]))
        return forecast


def distilling_encoder(
    sizes: BlockSizes, attention: AttentionFactories, *, n_layers: int, distil: bool
) -> nn.Sequential:
    """Encoder layers with a distilling step between each two and a norm at the end.

    (B, L, D) -> (B, M, D), L halved (rounded up) n_layers - 1 times when `distil`.
    """
    steps: list[nn.Module] = []
    for i in range(n_layers):
        if i and distil:
            steps.append(Distil(sizes.d_model))
        steps.append(EncoderLayer(sizes, attention, layer=i))
    return nn.Sequential(*steps, nn.LayerNorm(sizes.d_model))
