"""What the decoder-only models share."""

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import Unpack

from forecast.bounds import CalendarEncoding, Layers
from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.blocks import BlockOptions, BlockSizes
from forecast.layers.causal_blocks import CausalLayer, CausalStack
from forecast.layers.causal_embedding import PointDataEmbedding
from forecast.layers.heads import OutputMap
from forecast.models.base import ForecastModel, WindowShape
from forecast.models.decoders import (
    CausalDecoder,
    check_cacheable,
    instance_normed_rows,
    roll_out,
    target_calendar,
)


class DecoderOnly(ForecastModel, CausalDecoder[CausalStack]):
    """One causal stack that predicts each step from the steps before it, and forecasts from its own predictions.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), scaled units.

    A row holds the values of a step, its position and the calendar of the next step, which it predicts: all C columns,
    as it reads them itself; the forecast are the T targets among them. All rows of a window, L + P - 1, are trained in
    one pass on the true steps. The forecast reads the window once, and then one row a step, with a cache. With a spread
    the point forecast is fed back.

    window: the data's sizes; label_len is not used, as the whole window is the start. instance_norm: brings each column
    of a window to mean 0 and deviation 1, and the forecast back (Kim et al. 2022). decoder_attention: the factories of
    the causal attention. Raises NotCacheable when its rows cannot be computed one by one.
    """

    layer: type[CausalLayer]  # of the stack
    trains_on_past = True

    def __init__(
        self,
        *,
        window: WindowShape,
        decoder_layers: Layers,
        embedding: CalendarEncoding,
        instance_norm: bool = False,
        decoder_attention: AttentionFactories,
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__(window, instance_norm=instance_norm)
        sizes = BlockSizes(**options)
        self.n_rows = window.seq_len + window.pred_len - 1
        self.embedding = PointDataEmbedding(
            **window.widths, d_model=sizes.d_model, max_len=self.n_rows, dropout=sizes.dropout, encoding=embedding
        )
        self.layers = CausalStack(self.layer(sizes, decoder_attention, layer=i) for i in range(decoder_layers))
        for layer in self.layers:
            check_cacheable("decoder_attention", layer.attention)
        self.norm = self.layer.last_norm(sizes.d_model)
        self.head = OutputMap(sizes.d_model, window.n_columns * window.outputs)
        self.draw_weights()

    def draw_weights(self) -> None:
        """Draws the first weights: torch's own, unless a model has others."""

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C), past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T), without gradient."""
        return roll_out(self.new_step(), past, target_calendar(past_known, future_known), window=self.window)

    @property
    def learned_columns(self) -> tuple[int, ...]:
        """All C."""
        return tuple(range(self.window.n_columns))

    def training_outputs(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "B R N *O"], Float[Tensor, "B R N"]]:
        """Every step of the window but its first and of the future, predicted from the true steps before it, and truth.

        (B, L + P - 1, C) twice, scaled units. All steps, as in the models' papers, and not the P forecast ones alone: a
        pass computes all rows anyway, so a window gives (L + P - 1) / P times the examples at no cost, also of how to
        start from few steps. All columns, as a roll-out feeds all of them back.
        """
        known = target_calendar(past_known, future_known)

        def rows(past: Tensor, future: Tensor) -> Tensor:
            return self.rows(torch.cat([past, future[:, :-1]], dim=1), known)

        predicted = instance_normed_rows(self, rows, past, future, columns=self.learned_columns)
        return predicted, torch.cat([past[:, 1:], future], dim=1)

    @classmethod
    def cached_slots(cls, options: Mapping[str, object]) -> tuple[str, ...]:
        """The only slot, always."""
        del options
        return ("decoder_attention",)


@torch.no_grad()
def scale_weights(layers: Iterable[nn.Module], *, deviation: Callable[[int], float]) -> None:
    """Normal weights and zero biases for the linear maps of N pre-norm layers.

    deviation: from the number of a map's inputs to the standard deviation of its weights. The two maps of a layer whose
    result is added to the sequence get it divided by sqrt(2 N), so that the sum of all does not grow with the depth.
    Radford et al. 2019, section 2.3; Child et al. 2019, section 5.2.
    """
    layers = list(layers)
    for layer in layers:
        for name, module in layer.named_modules():
            if isinstance(module, nn.Linear):
                added = name in ("attention.output", "feed_forward.narrow")
                depth = math.sqrt(2 * len(layers)) if added else 1.0
                module.weight.normal_(std=deviation(module.in_features) / depth)
                if module.bias is not None:
                    module.bias.zero_()
