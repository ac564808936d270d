"""The outputs of a training step, compiled by torch or recorded on a GPU."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from forecast.errors import UserError
from forecast.models.base import ForecastModel

Outputs = Callable[..., tuple[Tensor, Tensor]]
GRAPHS = "graphs"


class FasterOutputs:
    """`training_outputs` of a model for batches of the largest size so far; a smaller one, an epoch's last, runs as is.

    mode: GRAPHS, or what torch.compile calls so. The sizes are fixed: a step that takes any number of windows is slower
    on a GPU, and compiled once more for the second number that it meets.
    """

    def __init__(self, model: ForecastModel, mode: str) -> None:
        self.model, self.mode = model, mode
        self.size = 0
        self.fast: Outputs = model.training_outputs

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Of past (B, L, C), past_known (B, L, F), future_known (B, P, F) and future (B, P, C)."""
        if len(inputs[0]) > self.size:
            self.size = len(inputs[0])
            if self.mode == GRAPHS:
                self.fast = recorded(self.model, *inputs)
            else:
                self.fast = torch.compile(self.model.training_outputs, mode=self.mode, dynamic=False)
        return (self.fast if len(inputs[0]) == self.size else self.model.training_outputs)(*inputs)


def check_recording(mode: str | None, device: torch.device, *, processes: int, gathered: int) -> None:
    """Raises UserError where a step cannot be recorded: on a CPU, by several processes, and for a sum of gradients.

    gathered: how many steps in a row make a gradient.
    """
    if mode != GRAPHS:
        return
    why = f"this one runs on a {device.type.upper()}" if device.type != "cuda" else ""
    why = f"this one runs in {processes} processes" if processes > 1 else why
    why = f"trainer.accumulate_grad_batches={gathered} adds gradients of several" if gathered > 1 else why
    if why:
        raise UserError(f"compile={GRAPHS}: a training step is recorded on one GPU, and {why}. Leave compile= out.")


class _Step(nn.Module):
    """A model whose forward pass is that of a training step."""

    def __init__(self, model: ForecastModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """What the step makes equal."""
        return self.model.training_outputs(*inputs)


def recorded(model: ForecastModel, *inputs: Tensor) -> Outputs:
    """The outputs as one CUDA graph, and their gradients as another: a launch in place of hundreds.

    The random state of the GPU and the model's buffers stay as they are. The gradients lie where the next ones will be
    written: they are read before the next step. Raises RuntimeError for a model that waits for the GPU.
    """
    device = inputs[0].device
    half = torch.autocast(
        device.type,
        dtype=torch.get_autocast_dtype(device.type),
        enabled=torch.is_autocast_enabled(device.type),
        cache_enabled=False,  # a graph must not hold weights that were cast for another
    )
    sample = tuple(part.clone() for part in inputs)  # the graph keeps them: each batch is copied there
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    # binds the context of the GPU to the thread of backward passes, of which one may begin with a product of cuBLAS's
    torch.autograd.backward(torch.ones(1, device=device, requires_grad=True).exp())
    with torch.random.fork_rng([device]), half:
        outputs = cast(Outputs, torch.cuda.make_graphed_callables(_Step(model), sample, allow_unused_input=True))
    for buffer, before in buffers:  # statistics of batches, which the steps that warm up have moved
        buffer.copy_(before)
    return outputs
