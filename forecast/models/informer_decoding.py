"""The two ways in which an Informer's decoder goes on from its start token."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.layers.causal_embedding import CausalDataEmbedding
from forecast.layers.embedding import DataEmbedding
from forecast.models.autoregressive import check_cacheable, check_feedback, roll_out, taught_rows
from forecast.models.base import ForecastModel, with_placeholders

if TYPE_CHECKING:  # informer.py imports this file; below its name is written out, or beartype would not find it
    import forecast.models.informer


class Decoding:
    """A way to go on. embedding: what makes the decoder's rows of values and calendar.

    can_skip_ahead: see `ForecastModel.can_skip_ahead`.
    """

    embedding: type[DataEmbedding]
    can_skip_ahead: bool

    def n_forecast_rows(self, pred_len: int) -> int:
        """How many rows follow the start token."""
        raise NotImplementedError

    def check(self, model: "forecast.models.informer.Informer") -> None:
        """Raises ValueError where the model cannot go on in this way."""

    def decode(
        self,
        model: "forecast.models.informer.Informer",
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
    ) -> Float[Tensor, "B P T"]:
        """The forecast (B, P, T), see `ForecastModel.forecast`."""
        raise NotImplementedError

    def training_pair(
        self,
        model: "forecast.models.informer.Informer",
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "B R N"], Float[Tensor, "B R N"]]:
        """What is trained and its truth, see `ForecastModel.training_pair`: the forecast, unless a way has its own."""
        return ForecastModel.training_pair(model, past, past_known, future_known, future)


class Generative(Decoding):
    """All steps in one pass: the start token is followed by P zeros, whose rows are the forecast.

    A row holds the calendar of its own step. Zhou et al. 2021, "Generative Inference".
    """

    embedding = DataEmbedding
    can_skip_ahead = True

    def n_forecast_rows(self, pred_len: int) -> int:
        """A row of zeros for each step."""
        return pred_len

    def decode(
        self,
        model: "forecast.models.informer.Informer",
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
    ) -> Float[Tensor, "B P T"]:
        """The forecast (B, P, T), see `ForecastModel.forecast`."""
        start = past.shape[1] - model.label_len
        rows = with_placeholders(past[:, start:], past_known[:, start:], future_known)
        return model.forecast_rows(*rows, model.encode(past, past_known))


class Dynamic(Decoding):
    """Step by step: each row predicts the next step, which becomes the next row.

    A row holds the calendar of the step that it predicts. The last row of the start token predicts the first step, so
    the decoder reads S + P - 1 rows. It is trained on the true steps in one pass, and forecasts with a cache: each row
    is computed once, and so are the keys and values of the encoder's output.

    Zhou et al. 2021, section 5 and Table 6, where the generative decoder is compared with it; the authors' code has no
    such decoder. The convolution of the decoder's values is causal here.
    """

    embedding = CausalDataEmbedding
    can_skip_ahead = False  # a step is made from the one right before it

    def n_forecast_rows(self, pred_len: int) -> int:
        """One less: the first step is predicted by the start token."""
        return pred_len - 1

    def check(self, model: "forecast.models.informer.Informer") -> None:
        """Raises ValueError where a forecast step cannot be fed back, NotCacheable where a row needs later ones."""
        check_feedback(model.window)
        for layer in model.decoder:
            check_cacheable("decoder_attention", layer.self_attention)
            check_cacheable("cross_attention", layer.cross_attention, cross=True)

    def decode(
        self,
        model: "forecast.models.informer.Informer",
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
    ) -> Float[Tensor, "B P T"]:
        """The forecast (B, P, T), see `ForecastModel.forecast`; without gradient."""
        start = past.shape[1] - model.label_len
        known = torch.cat([past_known[:, start + 1 :], future_known], dim=1)
        return roll_out(model.new_step(model.encode(past, past_known)), past[:, start:], known)

    def training_pair(
        self,
        model: "forecast.models.informer.Informer",
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "B R N"], Float[Tensor, "B R N"]]:
        """Each forecast step as predicted from the true steps before it, and its truth, (B, P, T) each, scaled units.

        Of the forecast steps alone, as in the generative way: what the decoder is for, after the whole start token.
        """
        start = past.shape[1] - model.label_len
        known = torch.cat([past_known[:, start + 1 :], future_known], dim=1)

        def rows(past: Tensor, future: Tensor) -> Tensor:
            values = torch.cat([past[:, start:], future[:, :-1]], dim=1)
            return model.forecast_rows(values, known, model.encode(past, past_known))

        return taught_rows(model, rows, past, future), future
