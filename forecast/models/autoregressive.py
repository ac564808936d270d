"""Forecasting step by step: predict a step, append it, repeat.

Row t of a decoder holds the values of step t and the calendar of step t + 1, which it predicts: the calendar of the
future is known, and the one of step t says nothing more once the values are there.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import NotCacheable
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.heads import merge_heads
from forecast.models.base import ForecastModel, WindowShape, window_statistics

# The next rows (B, M, C) and the calendar of the steps they predict (B, M, F) -> these steps (B, M, C). It knows the
# rows of its calls before.
Step = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()  # the cache is written in place, which no gradient survives; a roll-out is not trained on
def roll_out(step: Step, start: Float[Tensor, "B S C"], known: Float[Tensor, "B R F"]) -> Float[Tensor, "B P C"]:
    """The P = R - S + 1 steps after `start`: it is read in one call of `step`, each forecast step in a further one.

    start (B, S, C), known (B, R, F): the calendar of the steps from the second of `start` on -> (B, P, C).
    """
    first = start.shape[1]
    steps = [step(start, known[:, :first])[:, -1:]]
    for row in range(first, known.shape[1]):
        steps.append(step(steps[-1].to(start.dtype), known[:, row : row + 1]))
    return torch.cat(steps, dim=1)


@torch.no_grad()
def roll_out_uncached(
    new_step: Callable[[], Step], start: Float[Tensor, "B S C"], known: Float[Tensor, "B R F"]
) -> Float[Tensor, "B P C"]:
    """What `roll_out` gives, by reading all rows again for each step: what the cache is measured against.

    new_step: makes a step that knows no rows.
    """
    rows = start
    for n_rows in range(start.shape[1], known.shape[1] + 1):
        step = new_step()(rows, known[:, :n_rows])[:, -1:]
        rows = torch.cat([rows, step.to(start.dtype)], dim=1)
    return rows[:, start.shape[1] :]


def taught_rows(
    model: ForecastModel,
    rows: Callable[[Tensor, Tensor], Tensor],
    past: Float[Tensor, "B L C"],
    future: Float[Tensor, "B P C"],
) -> Float[Tensor, "B R C"]:
    """The rows that a model makes of the true steps (B, R, C), scaled units; see `ForecastModel.training_pair`.

    rows: from past (B, L, C) and future (B, P, C) to these rows, all in one unit. With instance_norm the future too is
    brought to the mean and deviation of the window's past, and the rows are brought back.
    """
    if not model.instance_norm:
        return rows(past, future)
    mean, std = window_statistics(past)
    return rows((past - mean) / std, (future - mean) / std) * std + mean


def check_feedback(window: WindowShape) -> None:
    """Raises ValueError unless decode=dynamic has a row to start from and forecasts all that it reads."""
    if window.label_len == 0:
        raise ValueError(
            "decode=dynamic with label_len=0 has no row to start from: say label_len=1 or more, or decode=generative"
        )
    if window.targets != tuple(range(window.n_columns)):
        raise ValueError(
            f"decode=dynamic feeds each forecast step back, which needs all {window.n_columns} columns, and "
            f"{window.n_targets} of them is forecast: say data.features=M or S, or decode=generative"
        )


def check_cacheable(slot: str, layer: AttentionLayer, *, cross: bool = False) -> None:
    """Raises NotCacheable, with the slot's name, unless the layer's rows can be computed one by one."""
    mechanism = type(layer.mechanism)
    if reason := mechanism.refusal(cross=cross, cached=True):
        raise NotCacheable(f"{slot}: {mechanism.__name__} cannot serve step-by-step decoding: {reason}. Choose full")
    if layer.merge is not merge_heads:
        raise NotCacheable(f"{slot}: mixed heads let a row see later steps: say mix=false, or decode=generative")
