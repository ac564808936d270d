"""The Informer."""

from collections.abc import Mapping
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import NotRequired, Unpack

from forecast.bounds import CalendarEncoding, Layers
from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.blocks import BlockOptions, BlockSizes, EncoderLayer
from forecast.layers.distil import Distil, pooled_mask
from forecast.layers.embedding import DataEmbedding
from forecast.layers.heads import merge_heads, mix_heads
from forecast.models.base import ForecastModel, WindowShape
from forecast.models.decoders import AutoregressiveDecoder, Decoder, Memory, OneShotDecoder, instance_normed_rows
from forecast.ops.columns import take_columns

DecodeName = Literal["one_shot", "autoregressive"]
DECODERS: Mapping[str, type[Decoder]] = {"one_shot": OneShotDecoder, "autoregressive": AutoregressiveDecoder}


class InformerOptions(BlockOptions):
    """Keywords of an `Informer` that its subclasses and `InformerPlus` take too and pass on unchanged."""

    decoder_layers: Layers
    embedding: CalendarEncoding
    encoder_attention: AttentionFactories
    decoder_attention: AttentionFactories
    cross_attention: AttentionFactories
    mask_padding: NotRequired[bool]


class Informer(ForecastModel):
    """Encoder-decoder that forecasts all steps in one pass, or step by step.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), scaled units.

    The encoder reads the window; between its layers the sequence is halved (distilling). The decoder reads the last
    `label_len` steps of the window and goes on from there as `decode` says. Post-norm; positions count from 0 in
    encoder and decoder.

    Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting". With
    `attention=prob_informer2020` and `mix=true` it is the authors' code at 29f2a73 (tests/golden).

    window: the data's sizes. instance_norm: brings each column of a window to mean 0 and deviation 1, and the
        forecast back (Kim et al. 2022).
    mix: merge the decoder's self-attention heads in the authors' order, which scrambles heads and time.
    decode: one_shot, all steps in one pass from zeros behind the start token, the paper's own; autoregressive, each
        step from the one before it, the paper's comparison.
    mask_padding: hide the rows that fill a window in front of a short series (`window.padding`) from the encoder's
        self-attention and from the cross-attention, where the mechanism can mask keys, and from `instance_norm`. The
        start token stays whole.
    encoder_attention, decoder_attention, cross_attention: the factories for each slot.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        encoder_layers: Layers,
        decoder_layers: Layers,
        distil: bool,
        mix: bool,
        embedding: CalendarEncoding,
        instance_norm: bool = False,
        decode: DecodeName = "one_shot",  # older checkpoints, which lack the key, are one-shot
        mask_padding: bool = False,  # as they were trained
        encoder_attention: AttentionFactories,
        decoder_attention: AttentionFactories,
        cross_attention: AttentionFactories,
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__(window, instance_norm=instance_norm, mask_padding=mask_padding)
        sizes = BlockSizes(**options)

        self.encoder_embedding = DataEmbedding(
            **window.widths, d_model=sizes.d_model, max_len=window.seq_len, dropout=sizes.dropout, encoding=embedding
        )
        self.encoder = self.make_encoder(sizes, encoder_attention, n_layers=encoder_layers, distil=distil)
        self.decoder = DECODERS[decode](
            window,
            sizes,
            n_layers=decoder_layers,
            first=encoder_layers,
            encoding=embedding,
            self_attention=decoder_attention,
            cross_attention=cross_attention,
            merge=mix_heads if mix else merge_heads,
        )

    def make_encoder(
        self, sizes: BlockSizes, attention: AttentionFactories, *, n_layers: int, distil: bool
    ) -> nn.Module:
        """An encoder as `DistillingEncoder` is one, its attention layers numbered from 0 to n_layers - 1."""
        return DistillingEncoder(sizes, attention, n_layers=n_layers, distil=distil)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C), past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T)."""
        return self.decoder.forecast(past, past_known, future_known, self.encode(past, past_known))

    def training_outputs(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "B R N *O"], Float[Tensor, "B R N"]]:
        """The forecast steps as they are made in training, and their truth, (B, P, T) each, scaled units.

        Of all C columns where the decoder feeds them back.
        """
        decode, columns = self.decoder.training_rows, self.learned_columns
        predicted = instance_normed_rows(
            self,
            # a lambda: the tests' shape checks would wrap a function at each call, which torch.compile refuses
            lambda past, future: decode(past, past_known, future_known, future, self.encode(past, past_known)),
            past,
            future,
            columns=columns,
            padded=self.padded(past_known),
        )
        return predicted, take_columns(future, columns)

    @property
    def learned_columns(self) -> tuple[int, ...]:
        """The targets, or all C where the decoder feeds them back."""
        return self.decoder.columns

    def encode(self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"]) -> Memory:
        """What the encoder makes of the window: past (B, L, C), past_known (B, L, F)."""
        return self.encoder(self.encoder_embedding(past, past_known), self.padded(past_known))

    def supports_horizon_offset(self) -> bool:
        """When all steps are made in one pass, each from its own calendar."""
        return self.decoder.supports_horizon_offset

    @classmethod
    def has_start_token(cls) -> bool:
        """The decoder begins with the last `label_len` steps of the window."""
        return True

    @classmethod
    def cached_slots(cls, options: Mapping[str, object]) -> tuple[str, ...]:
        """Both attentions of the decoder when it goes step by step."""
        # the config check calls this before it has checked the value
        return DECODERS.get(str(options.get("decode")), Decoder).cached_slots


class DistillingEncoder(nn.Sequential):
    """Encoder layers with a distilling step between each two and a norm at the end.

    (B, L, D) -> (B, M, D), L halved (rounded up) n_layers - 1 times when `distil`. first: the number of the first
    layer's attention in the model.
    """

    def __init__(
        self, sizes: BlockSizes, attention: AttentionFactories, *, n_layers: int, distil: bool, first: int = 0
    ) -> None:
        steps: list[nn.Module] = []
        for i in range(n_layers):
            if i and distil:
                steps.append(Distil(sizes.d_model))
            steps.append(EncoderLayer(sizes, attention, layer=first + i))
        super().__init__(*steps, nn.LayerNorm(sizes.d_model))

    def forward(
        self, x: Float[Tensor, "B L D"], key_padding_mask: Bool[Tensor, "B L"] | None = None
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"] | None]:
        """X (B, L, D), the steps that are masked (B, L) -> (B, M, D), and those that are of the M (B, M)."""
        for part in self:
            if isinstance(part, EncoderLayer):
                x = part(x, key_padding_mask)
                continue
            x = part(x)
            if isinstance(part, Distil) and key_padding_mask is not None:
                key_padding_mask = pooled_mask(key_padding_mask)
        return x, key_padding_mask
