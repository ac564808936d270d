"""A training step made faster: its outputs compiled by torch, or all of it recorded on a GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor, nn
from torch.optim import Optimizer

from forecast.data.windows import Batch
from forecast.models.base import ForecastModel
from forecast.training.checkpoint import get_states, processor_states, set_states

Outputs = Callable[..., tuple[Tensor, Tensor]]
GRAPHS, EAGER = "graphs", "none"
WARM_UP = 3  # steps before a recording: they make the optimizer's state, and cuBLAS's memory on the recording's stream
INSIDE = ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step")


class FasterOutputs:
    """`training_outputs` of a model for batches of the largest size so far; a smaller one, an epoch's last, runs as is.

    mode: what torch.compile calls so. The sizes are fixed: a step that takes any number of windows is slower on a GPU,
    and compiled once more for the second number that it meets.
    """

    def __init__(self, model: ForecastModel, mode: str) -> None:
        self.model, self.mode = model, mode
        self.size = 0
        self.fast: Outputs = model.training_outputs

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Of past (B, L, C), past_known (B, L, F), future_known (B, P, F) and future (B, P, C)."""
        if len(inputs[0]) > self.size:
            self.size = len(inputs[0])
            self.fast = torch.compile(self.model.training_outputs, mode=self.mode, dynamic=False)
        return (self.fast if len(inputs[0]) == self.size else self.model.training_outputs)(*inputs)


def eager_reason(trainer: pl.Trainer, optimizer: Optimizer) -> str:
    """Why the steps of a training cannot be recorded; "" where they can be."""
    device, gathered = trainer.strategy.root_device, trainer.accumulate_grad_batches
    others = (c for c in trainer.callbacks if not type(c).__module__.startswith("forecast."))  # type: ignore[attr-defined]
    inside = [type(c).__name__ for c in others if any(is_overridden(hook, c, Callback) for hook in INSIDE)]
    reasons = {
        f"the training runs on a {device.type.upper()}": device.type != "cuda",
        f"the training runs in {trainer.world_size} processes": trainer.world_size > 1,
        f"trainer.accumulate_grad_batches={gathered} adds gradients of several": gathered > 1,
        f"trainer.precision={trainer.precision} reads a scale after each": str(trainer.precision).startswith("16"),
        f"{type(optimizer).__name__} has no form for it": not is_recordable(optimizer.param_groups[0]),
        f"{', '.join(inside)} looks into each": bool(inside),
    }
    return next((why for why, holds in reasons.items() if holds), "")


def is_recordable(group: dict[str, object]) -> bool:
    """Whether the optimizer of a group of parameters takes its step in one pass, and keeps its numbers on the GPU."""
    return bool(group.get("fused")) and "capturable" in group


@contextmanager
def rates_on_gpu(optimizer: Optimizer, rates: list[Tensor]) -> Iterator[None]:
    """Inside, the rates of the optimizer are those tensors, with its own numbers: what is recorded keeps no number.

    Outside they are numbers, to schedules and in checkpoints.
    """
    groups = [group for group in optimizer.param_groups if is_recordable(group)]
    before = [group["lr"] for group in groups]
    for group, rate in zip(groups, rates, strict=False):
        rate.fill_(group["lr"])
        group.update(lr=rate, capturable=True)
    try:
        yield
    finally:
        for group, number in zip(groups, before, strict=True):
            group.update(lr=number, capturable=False)


class Recorder(Protocol):
    """Runs a step apart from all others, and records one."""

    def run(self, step: Callable[[], Tensor], *, strict: bool) -> Tensor:
        """The step as it is. strict: RuntimeError where it waits for the device."""

    def record(self, step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """What repeats the step, and where its loss then lies. RuntimeError where it cannot be recorded."""


class CudaGraphs:
    """A `Recorder` of CUDA graphs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def run(self, step: Callable[[], Tensor], *, strict: bool) -> Tensor:
        """On the stream of the recording."""
        mode = torch.cuda.get_sync_debug_mode()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            torch.cuda.set_sync_debug_mode("error" if strict else mode)
            with torch.cuda.stream(self.stream):
                loss = step()
        finally:
            torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return loss

    def record(self, step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Forward, backward, clipping and the optimizer's step as one graph: a launch in place of hundreds."""
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[self.device.index or 0]
        spare = generator.clone_state()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                loss = step()
        except RuntimeError:
            generator.graphsafe_set_state(spare)  # one that a failed recording has taken draws no more
            raise
        return graph.replay, loss


class RecordedStep:
    """A training step that runs as it is a few times, is recorded, and from then on replayed for batches of that size.

    All are steps of the training, to the same bits: where it is resumed does not matter. A batch of another size, an
    epoch's last, runs as it is; a larger one is recorded anew. What cannot be recorded runs as it is from there on.

    step: changes the weights by a batch, and returns the loss. module: whose buffers the step changes. fail: is told
    why there is no recording.
    """

    def __init__(
        self, step: Callable[[Batch], Tensor], module: nn.Module, recorder: Recorder, fail: Callable[[str], None]
    ) -> None:
        self.step, self.module, self.recorder, self.fail = step, module, recorder, fail
        self.size = self.steps_before = 0
        self.sizes: list[torch.Size | None] = []
        self.sample: Batch | None = None  # where a recorded step reads its batch
        self.replay: Callable[[], None] | None = None
        self.loss = torch.empty(0)
        self.fails = False

    def __call__(self, batch: Batch) -> Tensor:
        """The loss."""
        sizes = [None if part is None else part.shape for part in batch]
        if len(batch.target) > self.size:
            self.size, self.steps_before, self.sizes = len(batch.target), 0, sizes
            self.replay = self.sample = None
        if self.fails or sizes != self.sizes:
            return self.step(batch)
        self.steps_before += 1
        if self.steps_before < WARM_UP:
            return self.recorder.run(lambda: self.step(batch), strict=False)
        if self.steps_before == WARM_UP:
            return self._try_step(batch)
        if self.sample is None:
            self.sample = sample = Batch(*(None if part is None else part.clone() for part in batch))  # type: ignore[arg-type]
            try:
                self.replay, self.loss = self.recorder.record(lambda: self.step(sample))
            except RuntimeError as error:
                self._give_up(str(error))
                return self.step(batch)
        assert self.replay is not None
        for place, part in zip(self.sample, batch, strict=True):
            if place is not None and part is not None:
                place.copy_(part, non_blocking=True)
        self.replay()
        return self.loss

    def _try_step(self, batch: Batch) -> Tensor:
        """The loss of a step that must not wait for the device, nor draw from a generator of the processor.

        A recording that fails would leave the GPU's generator unusable, and a number that was drawn would stay the same
        in each replay.
        """
        states, drawn = get_states(batch.target.device), processor_states()
        buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]
        try:
            loss = self.recorder.run(lambda: self.step(batch), strict=True)
        except RuntimeError as error:
            for buffer, before in buffers:
                buffer.copy_(before)
            set_states(states)
            self._give_up(str(error))
            return self.step(batch)
        if processor_states() != drawn:
            self._give_up("it draws from a generator of the processor")
        return loss

    def _give_up(self, why: str) -> None:
        self.fails = True
        self.fail(why.strip().partition("\n")[0])
