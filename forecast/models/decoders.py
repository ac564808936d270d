"""The two decoders of an Informer: from the window's last steps and the encoder's output to the forecast."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import NotCacheable
from forecast.bounds import CalendarEncoding
from forecast.layers.attention_layer import AttentionFactories, AttentionLayer, HeadMerge
from forecast.layers.blocks import BlockSizes, DecoderLayer, DecoderStack
from forecast.layers.cache import DecoderCache
from forecast.layers.causal_blocks import CausalStack
from forecast.layers.causal_embedding import CausalDataEmbedding
from forecast.layers.embedding import DataEmbedding
from forecast.layers.heads import OutputMap, merge_heads
from forecast.layers.window_scale import Padded, window_statistics
from forecast.models.base import ForecastModel, WindowShape, with_placeholders
from forecast.ops.columns import take_columns

# The next rows (B, M, C) and the calendar of the steps they predict (B, M, F) -> these steps (B, M, C), or with a
# spread the O raw numbers of each column side by side (B, M, C * O). It keeps the rows of its earlier calls in a cache.
Step = Callable[[Tensor, Tensor], Tensor]
S = TypeVar("S", bound=CausalStack | DecoderStack)  # the second beside an encoder


@torch.no_grad()  # the cache is written in place, which no gradient survives; a roll-out is not trained on
def roll_out(
    step: Step, start: Float[Tensor, "B S C"], known: Float[Tensor, "B R F"], *, window: WindowShape
) -> Float[Tensor, "B P M"]:
    """The P = R - S + 1 steps after `start`: it is read in one call of `step`, each forecast step in a further one.

    start (B, S, C), known (B, R, F): the calendar of the steps from the second of `start` on -> the targets' columns
    (B, P, T), with O = window.outputs numbers of each side by side (B, P, T * O).

    Of these the first, the point forecast, is fed back. So what a spread says of a later step holds given that the
    steps before it come as forecast: it leaves their errors out and is too narrow, the more the later the step.
    """
    first, outputs = start.shape[1], window.outputs
    steps = [step(start, known[:, :first])[:, -1:]]
    for row in range(first, known.shape[1]):
        steps.append(step(steps[-1][..., ::outputs].to(start.dtype), known[:, row : row + 1]))
    rows = torch.cat(steps, dim=1)
    if outputs == 1:
        return window.target_columns(rows)
    return window.target_columns(torch.unflatten(rows, 2, (-1, outputs))).flatten(2)


def instance_normed_rows(
    model: ForecastModel,
    rows: Callable[[Tensor, Tensor], Tensor],
    past: Float[Tensor, "B L C"],
    future: Float[Tensor, "B P C"],
    *,
    columns: Sequence[int],
    padded: Padded = None,
) -> Float[Tensor, "B R N *O"]:
    """The rows that a model makes of the true steps (B, R, N), scaled units, which training compares with these.

    With a spread its parameters (B, R, N, O). rows: from past (B, L, C) and future (B, P, C) to these rows, all in one
    unit. columns: which N of the C they are of. padded (B, L): the rows of the past that do not count. With
    instance_norm the future too is brought to the mean and deviation of the window's past, and the rows are brought
    back.
    """
    if not model.instance_norm:
        return model.as_parameters(rows(past, future), columns)
    mean, std = window_statistics(past, padded)
    predicted = model.as_parameters(rows((past - mean) / std, (future - mean) / std), columns)
    return model.moved(predicted, take_columns(mean, columns), take_columns(std, columns))


def target_calendar(past_known: Float[Tensor, "B S F"], future_known: Float[Tensor, "B P F"]) -> Float[Tensor, "B R F"]:
    """The calendar of the steps that R = S + P - 1 rows predict: of all steps but the first, (B, R, F)."""
    return torch.cat([past_known[:, 1:], future_known], dim=1)


class CausalDecoder(Generic[S]):
    """For a module with embedding, layers, norm and head in which no row depends on a later one.

    Its rows can be computed all at once (`rows`), or one after the other with a cache (`next_rows`).

    n_rows: how many a window has. memory: the encoder's output (B, M, D) and its padded steps (B, M), for layers with
    cross-attention; it must be the same in all calls with one cache.
    """

    embedding: CausalDataEmbedding
    layers: S
    norm: nn.Module
    head: OutputMap
    n_rows: int

    def rows(
        self, values: Float[Tensor, "B R C"], known: Float[Tensor, "B R F"], *memory: Tensor | None
    ) -> Float[Tensor, "B R N"]:
        """What each of the R rows predicts for the step after it (B, R, N).

        values (B, R, C): the steps; known (B, R, F): the calendar of the steps after them.
        """
        x = self.layers(self.embedding(values, known), *memory)
        predicted: Tensor = self.head(self.norm(x))
        return predicted

    def new_cache(self) -> DecoderCache:
        """The empty cache for `next_rows`, with room for all rows of a window."""
        return DecoderCache(self.embedding.new_cache(), self.layers.new_caches(self.n_rows))

    def next_rows(
        self,
        values: Float[Tensor, "B Q C"],
        known: Float[Tensor, "B Q F"],
        cache: DecoderCache,
        *memory: Tensor | None,
    ) -> Float[Tensor, "B Q N"]:
        """The rows of `rows` for the Q steps after those in the cache, which they join: (B, Q, N)."""
        x = self.embedding.next_rows(values, known, cache.rows)
        predicted: Tensor = self.head(self.norm(self.layers.next_rows(x, *memory, caches=cache.layers)))
        return predicted

    def new_step(self, *memory: Tensor | None) -> Step:
        """`next_rows` with a cache of its own."""
        cache = self.new_cache()
        return lambda values, known: self.next_rows(values, known, cache, *memory)


def check_cacheable(slot: str, layer: AttentionLayer, *, cross: bool = False) -> None:
    """Raises NotCacheable, with the slot's name, unless the layer's rows can be computed one by one."""
    mechanism = type(layer.mechanism)
    if reason := mechanism.refusal(cross=cross, cached=True):
        raise NotCacheable(f"{slot}: {mechanism.__name__} cannot serve step-by-step decoding: {reason}. Choose full")
    if layer.merge is not merge_heads:
        raise NotCacheable(f"{slot}: mixed heads let a row see later steps: set mix=false, or decode=one_shot")


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
        return self.head(self.norm(x))


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
