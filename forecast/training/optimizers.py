"""Optimizers and schedules as the training needs them, and a trial of both before it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, ReduceLROnPlateau

from forecast.checkpoint.archive import Entries
from forecast.config.annotations import parameters
from forecast.config.run_config import Recipe, RunConfig
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


def check_states(optimizers: Sequence[Entries], weights: Sequence[Tensor]) -> None:
    """Raises UserError unless the saved states of fused optimizers are of these weights, in the optimizer's order.

    A fused step takes the shape of a weight for that of its states: it would read and write behind a smaller one.
    """
    try:
        for saved in optimizers:
            fused = any(group.get("fused") for group in saved["param_groups"])
            for i, state in saved["state"].items():
                for name, value in state.items():
                    if fused and value is not None and not _fits(name, value, weights[i]):
                        raise ValueError(f"{name} of weight {i} has another shape than the weight")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _changed(error) from error


def check_step(optimizers: Sequence[Entries], weights: Sequence[Tensor], make: Callable[..., Optimizer]) -> None:
    """Raises UserError unless the saved states of an optimizer hold all that its next step needs.

    make: the optimizer of the config. With the saved settings it takes a step on a small weight of each number of axes.
    """
    try:
        small = {weight.ndim: nn.Parameter(torch.ones([1] * weight.ndim)) for weight in weights}
        for saved in optimizers:
            optimizer = make(list(small.values()))
            settings = {key: value for key, value in saved["param_groups"][0].items() if key != "params"}
            optimizer.param_groups[0].update(settings | {"capturable": False} if "capturable" in settings else settings)
            for weight in small.values():
                weight.grad = torch.ones_like(weight)
            optimizer.step(lambda: 1.0)
            for i, state in saved["state"].items():
                if lacking := set(optimizer.state.get(small[weights[i].ndim], {})) - set(state):
                    raise LookupError(f"weight {i} has no {', '.join(map(str, lacking))}")
    except Exception as error:  # each optimizer of torch refuses in its own way
        raise _changed(error) from error


def _changed(error: Exception) -> UserError:
    return UserError(
        f"ckpt_path: its entry optimizer_states was changed by other means: {error}. Go on from "
        "RUN/checkpoints/last.ckpt of another run, or train anew without ckpt_path"
    )


def _fits(name: str, value: object, weight: Tensor) -> bool:
    if not isinstance(value, Tensor):
        return False
    if name == "step":
        return value.numel() == 1
    return value.shape == weight.shape and (value.is_contiguous() or value.stride() == weight.stride())


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
