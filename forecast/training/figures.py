"""Pictures of a training, for loggers that show pictures: forecasts, and what the attentions look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, runtime_checkable

import lightning.pytorch as pl
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from torch import Tensor, nn

from forecast.attention.base import Mechanism
from forecast.bounds import Positive
from forecast.evaluation.evaluate import evenly_spaced
from forecast.training.datamodule import ForecastDataModule
from forecast.training.loggers import DRAWING, log_figure, log_histogram


class Figures(Callback):
    """After each validation: forecasts of a few fixed validation windows, and a look into each ProbSparse layer.

    Of a layer it shows which rows are active, as a histogram over positions, and its attention map.

    windows: how many validation windows, spread evenly over the split.
    """

    def __init__(self, *, windows: Positive = 3) -> None:
        if windows < 1:
            raise ValueError(f"callbacks.figures.windows is {windows}; it must be at least 1")
        self.windows = windows

    @torch.no_grad()
    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Draws the figures."""
        if trainer.sanity_checking or not isinstance(trainer.logger, DRAWING):
            return
        from forecast.report.figures import forecast_figure  # with matplotlib, which takes long to import

        datamodule = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(datamodule, ForecastDataModule)
        data = datamodule.data
        windows = data.windows("val", look_back=datamodule.look_back)
        numbers = evenly_spaced(len(windows), self.windows)
        batch = trainer.precision_plugin.convert_input(windows.__getitems__(numbers).to(module.device))
        # forked: a picture must not change what the training draws next
        with recorded_inputs(module) as inputs, torch.random.fork_rng(), trainer.precision_plugin.forward_context():
            forecast = module(batch.past, batch.past_known, batch.future_known)
        logger, step = trainer.logger, trainer.global_step
        values, timestamps = data.shown("val", numbers)
        series = None if batch.series is None else batch.series.cpu().numpy()
        figure = forecast_figure(
            past=values[:, : data.seq_len],
            truth=values[:, data.seq_len :],
            forecast=data.original(forecast.float().cpu().numpy(), series),
            timestamps=[pd.DatetimeIndex(row) for row in timestamps],
            columns=data.target_names,
            title="validation windows",
        )
        log_figure(logger, "forecast/val", figure, step)
        for name, mechanism, queries_keys in inputs:
            if isinstance(mechanism, Selecting):
                with torch.random.fork_rng():
                    _draw_prob(logger, step, name, mechanism, queries_keys)


@runtime_checkable
class Selecting(Protocol):
    """A mechanism that chooses rows of its queries (B, H, Q, E), as ProbSparse does."""

    def selected(self, q: Tensor, k: Tensor) -> Tensor:
        """The numbers of the rows (B, H, U); -1 for none."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The attention."""


@contextmanager
def recorded_inputs(module: nn.Module) -> Iterator[list[tuple[str, object, tuple[Tensor, Tensor]]]]:
    """A list that fills, inside the block, with each call of a mechanism: its name, itself, queries and keys."""
    inputs: list[tuple[str, object, tuple[Tensor, Tensor]]] = []

    def record(name: str, mechanism: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        q, k, *_ = arguments
        inputs.append((name.removeprefix("model.").removesuffix(".mechanism"), mechanism, (q, k)))

    mechanisms = [(name, part) for name, part in module.named_modules() if isinstance(part, Mechanism)]
    hooks = [part.register_forward_pre_hook(partial(record, name)) for name, part in mechanisms]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def _draw_prob(logger: Logger, step: int, name: str, mechanism: Selecting, queries_keys: tuple[Tensor, Tensor]) -> None:
    """The active rows and the attention map of a ProbSparse layer, from its queries (B, H, Q, E) and keys."""
    q, k = queries_keys
    from forecast.report.figures import active_rows_figure, attention_figure

    active = mechanism.selected(q, k)  # (B, H, U)
    active = active[active >= 0]  # an unused slot is -1
    log_histogram(logger, f"active_rows/{name}", active.cpu(), step)
    share = torch.bincount(active, minlength=q.shape[2]).cpu().numpy() / (q.shape[0] * q.shape[1])
    log_figure(logger, f"active_rows/{name}", active_rows_figure(share, name), step)
    first_q, first_k = q[:1, :1], k[:1, :1]
    seed = torch.initial_seed()  # the same keys twice, also with eval_seed=null
    # the identity as values: what comes out are the weights
    identity = torch.eye(k.shape[2], dtype=q.dtype, device=q.device).expand(1, 1, -1, -1)
    torch.manual_seed(seed)
    weights = mechanism(first_q, first_k, identity)[0, 0].float().cpu().numpy()
    torch.manual_seed(seed)
    rows = mechanism.selected(first_q, first_k)[0, 0].cpu().numpy()
    rows = rows[rows >= 0]
    figure = attention_figure(weights, rows, f"{name}, first window, head 0")
    log_figure(logger, f"attention/{name}", figure, step)
