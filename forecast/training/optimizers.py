"""Optimizers and schedules as the training needs them, and a trial of both before it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, ReduceLROnPlateau

from forecast.config.run_config import Recipe, RunConfig
from forecast.config.schema import parameters
from forecast.config.values import options
from forecast.errors import UserError
from forecast.models.spread import Spread

# torch.optim.lr_scheduler has one class whose steps are batches though it does not ask for their number.
BY_STEP = (CyclicLR,)
TOTAL = "total_steps"


def fused_keyword(make: Callable[..., Optimizer], *, may: bool) -> dict[str, bool]:
    """The keyword by which an optimizer of torch changes all weights in one pass over them, where it has one.

    may: not, where Lightning clips gradients in mixed precision, which it refuses to do beside a fused optimizer. A
    partial function whose keywords name `fused` keeps its own.
    """
    return {"fused": True} if may and takes(make, "fused") else {}


def takes(make: Callable[..., object], name: str) -> bool:
    """Whether a class or function has a parameter `name`; not where a partial function's keywords give it a value."""
    keywords = getattr(make, "keywords", {})
    return name in parameters(getattr(make, "func", make)) and keywords.get(name) is None


def is_stepwise(make: Callable[..., LRScheduler]) -> bool:
    """Whether a schedule changes the rate after every step: of all others a step is an epoch."""
    target = getattr(make, "func", make)
    return TOTAL in parameters(target) or target in BY_STEP


def dry_step(config: RunConfig) -> None:
    """One step of the config's loss, optimizer and schedule on a single weight.

    Raises UserError with torch's words for what they refuse, before any data are read: a learning rate that is
    negative, an argument that is missing, a loss that is no number.
    """
    weight = nn.Parameter(torch.ones(1, 1))
    with _refused(config.optim):
        optimizer = config.optim.factory(Optimizer)([weight])
    with _refused(config.schedule):
        make = config.schedule.factory(LRScheduler)
        scheduler = make(optimizer, **({TOTAL: 10} if takes(make, TOTAL) else {}))
    with _refused(config.loss):
        criterion = config.loss.build(nn.Module)
        if isinstance(criterion, Spread):
            raw = weight.expand(1, 1, 1, criterion.n_outputs)
            loss: Tensor = criterion(criterion.from_raw(raw), torch.zeros(1, 1, 1)).mean()
        else:
            loss = criterion(weight[None], torch.zeros(1, 1, 1))
        if loss.shape:
            raise ValueError(f"gives a tensor of the shape {tuple(loss.shape)}, and a loss is one number")
        loss.backward()  # type: ignore[no-untyped-call]
    with _refused(config.optim):
        optimizer.step(lambda: float(loss.detach()))
    with _refused(config.schedule):
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(1.0)
        else:
            scheduler.step()


@contextmanager
def _refused(recipe: Recipe) -> Iterator[None]:
    """Whatever the group's class raises becomes a UserError that names the class."""
    try:
        yield
    except Exception as error:  # each class of torch refuses in its own way
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(
            f"{recipe.place}._target_={recipe.target}: {reason}. Its arguments are keys, +{recipe.place}.NAME=VALUE; "
            f"complete is {recipe.place}=NAME, one of {', '.join(options(recipe.place))}"
        ) from error
