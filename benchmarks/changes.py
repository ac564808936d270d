"""Our training step with each of its changes for speed undone alone: what each is worth."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import torch.nn.functional as F
from torch import Tensor

from benchmarks import ours, timing
from benchmarks.setting import AS_IT_IS, PRECISIONS, Setting, Sizes
from forecast.attention import prob
from forecast.layers import dropout
from forecast.layers.blocks import DecoderStack
from forecast.layers.circular_conv import CircularConv
from forecast.layers.distil import Distil
from forecast.ops import rows, softmax

Undo = Callable[[], AbstractContextManager[Any]]


def torchs_dropout(x: Tensor, p: float, *, training: bool, inplace: bool = False) -> Tensor:
    """A random number for each element."""
    return F.dropout(x, p, training=training, inplace=inplace)


def torchs_dropout_alike(count: int, p: float, *, training: bool) -> Callable[[Tensor], Tensor]:
    """The same; nothing is made again at the sizes measured here."""
    del count
    return lambda x: F.dropout(x, p, training=training)


all_rows = DecoderStack.forward


def last_of_all_rows(stack: DecoderStack, x: Tensor, encoded: Tensor, *, last: int | None = None) -> Tensor:
    """All rows, of which the last are taken."""
    every = all_rows(stack, x, encoded)
    return every if last is None else every[:, -last:]


def torchs_convolution(conv: CircularConv, x: Tensor) -> Tensor:
    """Padded and convolved with time last."""
    padded = F.pad(x.transpose(1, 2), (1, 1), mode="circular")
    return F.conv1d(padded, conv.weight, conv.bias).transpose(1, 2)


def distilled_with_time_last(distil: Distil, x: Tensor) -> Tensor:
    """Normalised, activated and pooled with time last."""
    normed: Tensor = distil.norm(distil.conv(x).transpose(1, 2))
    return F.max_pool1d(distil.activation(normed), 3, stride=2, padding=1).transpose(1, 2)


def scattered(x: Tensor, numbers: Tensor, values: Tensor) -> Tensor:
    """Element by element."""
    return x.scatter(2, numbers.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]), values.to(x.dtype))


def scattered_beside(rest: Tensor, numbers: Tensor, values: Tensor, *, length: int) -> Tensor:
    """Element by element."""
    return scattered(rest.expand(-1, -1, length, -1), numbers, values)


# What the step is without: the parts that stand for it, in the modules that call them.
UNDONE: dict[str, Sequence[Undo]] = {
    "dropout that draws what it drops": [
        lambda: patch.object(dropout, "drop", torchs_dropout),
        lambda: patch.object(softmax, "drop_alike", torchs_dropout_alike),
    ],
    "no rows that nobody reads": [lambda: patch.object(DecoderStack, "forward", last_of_all_rows)],
    "convolution as one product": [
        lambda: patch.object(CircularConv, "forward", torchs_convolution),
        lambda: patch.object(Distil, "forward", distilled_with_time_last),
    ],
    "scores in three products": [lambda: patch.object(softmax, "in_three_products", lambda *_: False)],
    "rows copied whole": [
        lambda: patch.object(prob, "take_rows", rows.gathered),
        lambda: patch.object(prob, "put_rows", scattered),
        lambda: patch.object(prob, "put_rows_beside", scattered_beside),
    ],
}
OPTIMIZER, KEYS = "optimizer in one pass", "keys of a head"


def compare(setting: Setting, *, sizes: Sizes, recipe: str) -> dict[str, Any]:
    """The step in turns, as it is and without each change; the ratio says how many times slower it is without."""
    found: dict[str, Any] = {**sizes.plain(), "recipe": recipe}
    for precision in PRECISIONS:
        make = partial(ours.made_step, sizes, recipe, precision=precision, device=setting.device)
        steps = {AS_IT_IS: make()}
        for name, undo in UNDONE.items():
            steps[name] = undoing(make(), undo)
        steps[OPTIMIZER] = make(fused=False)
        if recipe == "prob":
            steps[KEYS] = make(more=("attention.mechanism.keys=distinct",))
        seconds = timing.turns(steps, rounds=setting.rounds, budget=setting.budget, synchronise=setting.synchronise())
        found[precision] = {
            name: {**figures, "slower": timing.ratio(seconds[name], seconds[AS_IT_IS])}
            for name, figures in timing.compared(seconds, []).items()
        }
    return found


def undoing(step: Callable[[], None], undo: Sequence[Undo]) -> Callable[[], None]:
    """The step with the parts replaced while it runs."""

    def run() -> None:
        with ExitStack() as stack:
            for make in undo:
                stack.enter_context(make())
            step()

    return run
