"""Pictures of a training, for loggers that show pictures: forecasts, and what the attentions look at."""

import time

import lightning.pytorch as pl
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from forecast.attention.base import Mechanism
from forecast.attention.maps import Maps, attention_weights
from forecast.bounds import Positive
from forecast.data.prepare import series_windows
from forecast.evaluation.evaluate import evenly_spaced
from forecast.training.datamodule import ForecastDataModule
from forecast.training.loggers import DRAWING, log_figure, log_histogram
from forecast.training.module import ForecastModule

MOST_SLOTS = 3  # of which maps are drawn: those of one Informer
PAUSE = 60.0  # seconds between pictures at least: a second's drawing is as long as a GPU's epoch


class Figures(Callback):
    """Forecasts of a few fixed validation windows, and what attentions look at in the first.

    Drawn after a validation, once a minute at most, and at the end. Of each slot it shows the map of the last layer,
    and of ProbSparse which rows are active.

    windows: how many validation windows, spread evenly over the split.
    """

    def __init__(self, *, windows: Positive = 3) -> None:
        if windows < 1:
            raise ValueError(f"callbacks.figures.windows is {windows}; it must be at least 1")
        self.windows = windows
        self.due = 0.0

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Nothing is drawn in the first minute."""
        self.due = time.monotonic() + PAUSE

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Draws when it is time again."""
        if not trainer.sanity_checking and time.monotonic() >= self.due:
            self.draw(trainer, module)
            self.due = time.monotonic() + PAUSE

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Draws the last figures."""
        self.draw(trainer, module)

    @torch.no_grad()
    def draw(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Logs the figures, where the logger shows pictures."""
        if not isinstance(trainer.logger, DRAWING):
            return
        from forecast.report.figures import forecast_figure  # with matplotlib, which takes long to import

        datamodule = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(datamodule, ForecastDataModule)
        data = datamodule.data
        windows = data.windows("val", look_back=datamodule.look_back)
        numbers = evenly_spaced(len(windows), self.windows)
        batch = trainer.precision_plugin.convert_input(windows.__getitems__(numbers).to(module.device))
        # forked: a picture must not change what the training draws next
        with torch.random.fork_rng(), trainer.precision_plugin.forward_context():
            forecast = module(batch.past, batch.past_known, batch.future_known)
        logger, step = trainer.logger, trainer.global_step
        series, origins = windows.places(numbers)
        values, timestamps = series_windows(data, series, origins)
        figure = forecast_figure(
            past=values[:, : data.seq_len],
            truth=values[:, data.seq_len :],
            forecast=data.original(forecast.float().cpu().numpy(), series),
            timestamps=[pd.DatetimeIndex(row) for row in timestamps],
            columns=data.target_names,
            title="validation windows",
        )
        log_figure(logger, "forecast/val", figure, step)
        assert isinstance(module, ForecastModule)
        if any(isinstance(part, Mechanism) for part in module.modules()):
            # of the first window alone: the maps of all layers are in memory at once
            inputs = (part[:1] for part in (batch.past, batch.past_known, batch.future_known))
            with (
                torch.random.fork_rng(),
                trainer.precision_plugin.forward_context(),
                attention_weights(module.model) as maps,
            ):
                module(*inputs)
            draw_attention(logger, maps, step)


def draw_attention(logger: Logger, maps: Maps, step: int) -> None:
    """Of each slot the last layer: the mean of its heads, and of ProbSparse how often a row is active.

    Of an ensemble the slots of the first member, at most `MOST_SLOTS` pictures.
    """
    from forecast.report.figures import active_rows_figure, map_figure

    last = {slot: (slot, layer) for slot, layer in maps}  # a later layer replaces an earlier one
    for slot, place in [*last.items()][:MOST_SLOTS]:
        weights = maps[place].float().mean((0, 1)).cpu().numpy()
        title = f"{slot}, layer {place[1]}, first window, mean of {maps[place].shape[1]} heads"
        log_figure(logger, f"attention/{slot}", map_figure(weights, title), step)
        if place in maps.active:
            active = maps.active[place]  # (B, H, Q)
            log_histogram(logger, f"active_rows/{slot}", active.nonzero()[:, 2].cpu(), step)
            share = active.float().mean((0, 1)).cpu().numpy()
            log_figure(logger, f"active_rows/{slot}", active_rows_figure(share, f"{slot}, layer {place[1]}"), step)
