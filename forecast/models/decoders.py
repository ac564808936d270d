"""The two decoders of an Informer: from the window's last steps and the encoder's output to the forecast."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import CalendarEncoding
from forecast.layers.attention_layer import AttentionFactories, HeadMerge
from forecast.layers.blocks import BlockSizes, DecoderLayer, DecoderStack
from forecast.layers.causal_embedding import CausalDataEmbedding
from forecast.layers.embedding import DataEmbedding
from forecast.layers.output_map import OutputMap
from forecast.models.autoregressive import CausalDecoder, check_cacheable, roll_out, target_calendar
from forecast.models.base import WindowShape, with_placeholders

# the encoder's output (B, K, D), and which of its steps attention does not see, (B, K) or None
Memory = tuple[Tensor, Tensor | None]


class Decoder(nn.Module):
    """Embedding, layers with cross-attention, norm and head. It reads the last `label_len` steps, the start token, and
    one row for each step that follows and is not predicted by the start token itself.

    window: the data's sizes. encoding: the calendar's. first: the number of its first attention layer in the model.
    merge: how the heads of the self-attention are merged.
    """

    embedding_type: type[DataEmbedding] = DataEmbedding
    steps_of_start: int = 0  # how many steps the start token itself predicts
    supports_horizon_offset: bool  # whether the calendar says which steps to forecast
    cached_slots: tuple[str, ...] = ()  # the attention slots that must be able to decode row by row

    def __init__(
        self,
        window: WindowShape,
        sizes: BlockSizes,
        *,
        n_layers: int,
        first: int,
        encoding: CalendarEncoding,
        self_attention: AttentionFactories,
        cross_attention: AttentionFactories,
        merge: HeadMerge,
    ) -> None:
        super().__init__()
        self.label_len, self.pred_len = window.label_len, window.pred_len
        self.n_rows = window.label_len + window.pred_len - self.steps_of_start
        self.embedding = self.embedding_type(
            **window.widths, d_model=sizes.d_model, max_len=self.n_rows, dropout=sizes.dropout, encoding=encoding
        )
        self.layers = DecoderStack(
            DecoderLayer(
                sizes, self_attention=self_attention, cross_attention=cross_attention, layer=first + 2 * i, merge=merge
            )
            for i in range(n_layers)
        )
        self.norm: nn.Module = nn.LayerNorm(sizes.d_model)
        self.window = window
        self.head = OutputMap(sizes.d_model, len(self.columns) * window.outputs)
        self.check(window)

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the columns, of the C, that its rows are of: the T targets."""
        return self.window.targets

    def check(self, window: WindowShape) -> None:
        """Raises ValueError, or NotCacheable with the slot's name, where it cannot decode in its way."""
        if window.label_len > window.seq_len:
            raise ValueError(
                f"label_len ({window.label_len}) must be at most seq_len ({window.seq_len}): it is the window's tail"
            )

    def forecast(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        memory: Memory,
    ) -> Float[Tensor, "B P M"]:
        """The forecast (B, P, T) in the units of `past`, with a spread (B, P, T * O).

        memory: what the encoder makes of `past`.
        """
        raise NotImplementedError

    def training_rows(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
        memory: Memory,
    ) -> Float[Tensor, "B P M"]:
        """The P steps (B, P, T), of `columns`, on which training takes the loss; here the forecast, without `future`.

        future (B, P, C): the true steps, for a decoder that learns each step from those before it.
        """
        del future
        return self.forecast(past, past_known, future_known, memory)

    def last_rows(
        self, values: Float[Tensor, "B R C"], known: Float[Tensor, "B R F"], memory: Memory
    ) -> Float[Tensor, "B P M"]:
        """The last P rows (B, P, T) that it makes of R: values (B, R, C), known (B, R, F)."""
        x = self.layers(self.embedding(values, known), *memory, last=self.pred_len)
        rows: Tensor = self.head(self.norm(x))
        return rows


class OneShotDecoder(Decoder):
    """All steps in one pass: the start token is followed by P zeros, whose rows are the forecast.

    A row holds the calendar of its own step. Zhou et al. 2021, "Generative Inference".
    """

    supports_horizon_offset = True

    def forecast(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        memory: Memory,
    ) -> Float[Tensor, "B P M"]:
        """The forecast (B, P, T) in one pass."""
        start = past.shape[1] - self.label_len
        return self.last_rows(*with_placeholders(past[:, start:], past_known[:, start:], future_known), memory)


class AutoregressiveDecoder(Decoder, CausalDecoder[DecoderStack]):
    """Step by step: each row predicts the next step, which becomes the next row.

    A row holds the calendar of the step that it predicts. It is trained on the true steps in one pass, and forecasts
    with a cache: each row is computed once, and so are the keys and values of the encoder's output.

    As a row holds all C columns, it predicts and learns all of them, and returns the targets. With a spread the point
    forecast is fed back.

    Zhou et al. 2021, section 5 and Table 6, where the one-shot decoder is compared with it; the authors' code has no
    such decoder. The convolution of the decoder's values is causal here.
    """

    embedding: CausalDataEmbedding
    embedding_type = CausalDataEmbedding
    steps_of_start = 1  # its last row predicts the first
    supports_horizon_offset = False  # a step is made from the one right before it
    cached_slots = ("decoder_attention", "cross_attention")

    @property
    def columns(self) -> tuple[int, ...]:
        """All C."""
        return tuple(range(self.window.n_columns))

    def check(self, window: WindowShape) -> None:
        """Raises as well where there is no row to start from, or a row needs later ones: ValueError, NotCacheable."""
        super().check(window)
        if window.label_len == 0:
            raise ValueError(
                "decode=autoregressive with label_len=0 has no row to start from: set label_len=1 or more, or "
                "decode=one_shot"
            )
        for layer in self.layers:
            check_cacheable("decoder_attention", layer.self_attention)
            check_cacheable("cross_attention", layer.cross_attention, cross=True)

    def forecast(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        memory: Memory,
    ) -> Float[Tensor, "B P M"]:
        """The forecast (B, P, T), a step after the other, without gradient."""
        start = past.shape[1] - self.label_len
        known = target_calendar(past_known[:, start:], future_known)
        return roll_out(self.new_step(*memory), past[:, start:], known, window=self.window)

    def training_rows(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
        memory: Memory,
    ) -> Float[Tensor, "B P M"]:
        """Each of the P steps, of all columns (B, P, C), as predicted from the true steps before it.

        Rows inside the start token predict steps too, but are left out of the loss: a forecast always begins after the
        whole start token, as in the one-shot decoder.
        """
        start = past.shape[1] - self.label_len
        values = torch.cat([past[:, start:], future[:, :-1]], dim=1)
        return self.last_rows(values, target_calendar(past_known[:, start:], future_known), memory)
