"""The parts of a training, built of the recipes of its config, and a trial of those that torch may refuse."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, ProgressBar
from lightning.pytorch.loggers import Logger
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from forecast.config.compose import options
from forecast.config.run_config import Recipe, RunConfig
from forecast.errors import UserError
from forecast.evaluation.evaluate import Protocol
from forecast.models.spread import Spread
from forecast.training.fit import Parts
from forecast.training.module import TOTAL, takes


def build_parts(config: RunConfig) -> Parts:
    """Builds them, without side effects; raises UserError for what their classes refuse, before any data are read."""
    with refusals(config.optim):
        optimizer = config.optim.factory(Optimizer)
    with refusals(config.schedule):
        schedule = config.schedule.factory(LRScheduler)
    with refusals(config.loss):
        loss = config.loss.build(nn.Module)
    callbacks = [callback.build(Callback) for callback in config.callbacks.values()]
    if config.trainer.get("enable_progress_bar") is False:  # Lightning refuses a progress bar beside it
        callbacks = [callback for callback in callbacks if not isinstance(callback, ProgressBar)]
    is_logged = bool(config.logger.node) and config.trainer.get("logger") is not False
    parts = Parts(
        loss=loss,
        optimizer=optimizer,
        schedule=schedule,
        protocol=config.protocol.build(Protocol),
        callbacks=callbacks,
        logger=partial(config.logger.build, Logger) if is_logged else None,
        trainer=partial(config.trainer.build, pl.Trainer),
    )
    dry_step(config, parts)
    return parts


def dry_step(config: RunConfig, parts: Parts) -> None:
    """One step of the loss, the optimizer and the schedule on a single weight.

    Raises UserError with torch's words for what they refuse: a learning rate that is negative, an argument that is
    missing, a loss that is no number.
    """
    weight, criterion = nn.Parameter(torch.ones(1, 1)), parts.loss
    with refusals(config.optim):
        optimizer = parts.optimizer([weight])
    with refusals(config.schedule):
        scheduler = parts.schedule(optimizer, **({TOTAL: 10} if takes(parts.schedule, TOTAL) else {}))
    with refusals(config.loss):
        if isinstance(criterion, Spread):
            raw = weight.expand(1, 1, 1, criterion.n_outputs)
            loss: Tensor = criterion(criterion.from_raw(raw), torch.zeros(1, 1, 1)).mean()
        else:
            loss = criterion(weight[None], torch.zeros(1, 1, 1))
        if loss.shape:
            raise ValueError(f"gives a tensor of the shape {tuple(loss.shape)}, and a loss is one number")
        loss.backward()  # type: ignore[no-untyped-call]
    with refusals(config.optim):
        optimizer.step(lambda: float(loss.detach()))
    with refusals(config.schedule):
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(1.0)
        else:
            scheduler.step()


@contextmanager
def refusals(recipe: Recipe) -> Iterator[None]:
    """Whatever the group's class raises becomes a UserError that names the class."""
    try:
        yield
    except Exception as error:  # each class of torch refuses in its own way
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(
            f"{recipe.place}._target_={recipe.target}: {reason}. Its arguments are keys, +{recipe.place}.NAME=VALUE; "
            f"complete is {recipe.place}=NAME, one of {', '.join(options(recipe.place))}"
        ) from error
