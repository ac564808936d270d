"""Reversible layers: in training no layer's input is stored; each is computed from the output."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from forecast.ops.autocast import autocast, autocast_dtype
from forecast.ops.context import Context


class ReversibleLayer(nn.Module):
    """Two streams: y1 = x1 + first(x2), y2 = x2 + second(y1); so x2 = y2 - second(y1) and x1 = y1 - first(x2).

    Gomez et al. 2017, "The reversible residual network". `first` and `second` map (B, L, D) to (B, L, D), hold no state
    from call to call, and draw random numbers from torch's global generators only.

    second_pieces: `second`, which must treat each step by itself, gets the steps in this many pieces, one after the
        other, forward and backward: of what is wide inside it one piece exists at a time. Kitaev et al. 2020,
        "Chunking". With dropout the pieces draw other numbers than the whole would.
    """

    def __init__(self, first: nn.Module, second: nn.Module, *, second_pieces: int = 1) -> None:
        super().__init__()
        self.first = first
        self.second = second
        self.second_pieces = second_pieces

    def forward(
        self, x1: Float[Tensor, "B L D"], x2: Float[Tensor, "B L D"]
    ) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B L D"]]:
        """(B, L, D) twice -> (B, L, D) twice."""
        y1 = x1 + self.first(x2)
        return y1, x2 + torch.cat([self.second(piece) for piece in self.cut(y1)], dim=1)

    def cut(self, x: Float[Tensor, "B L D"]) -> tuple[Tensor, ...]:
        """The pieces of a sequence (B, L, D) along time; fewer where it is too short for so many."""
        return x.chunk(self.second_pieces, dim=1)


class ReversibleStack(nn.Module):
    """Reversible layers, one after the other. Between forward and backward only the outputs of the last are stored.

    The backward pass computes each layer's inputs from its outputs, then the layer once more for its gradients, with
    the random numbers and the autocast of the forward pass. The inputs come back with a rounding error, so the
    gradients are those of plain autograd up to rounding: a choice inside an attention (which key is among the largest)
    can turn out differently where two were that close, and streams in bfloat16 (`precision=bf16-true`; not bf16-mixed)
    come back coarsely. Besides the outputs, two states of the random generators are stored for each layer, 5 kB each.
    """

    def __init__(self, layers: Sequence[ReversibleLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(
        self, x1: Float[Tensor, "B L D"], x2: Float[Tensor, "B L D"]
    ) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B L D"]]:
        """(B, L, D) twice -> (B, L, D) twice."""
        if torch.is_grad_enabled():
            # the parameters are named so that autograd knows that the outputs depend on them
            y1, y2 = _Reversible.apply(list(self.layers), x1, x2, *self.layers.parameters())  # type: ignore[no-untyped-call]
            return y1, y2
        for layer in self.layers:
            x1, x2 = layer(x1, x2)
        return x1, x2


class Kept(NamedTuple):
    """What the backward pass needs beside tensors. draws: the random states before both parts of each layer."""

    layers: list[ReversibleLayer]
    parameters: tuple[Tensor, ...]
    draws: list[tuple["RandomState", "RandomState"]]
    autocast_dtype: torch.dtype | None


class _Reversible(torch.autograd.Function):
    """The layers as one step of the graph."""

    @staticmethod
    def forward(
        ctx: Context[Kept], layers: list[ReversibleLayer], x1: Tensor, x2: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.kept = Kept(layers, parameters, [], autocast_dtype(x1.device))
        for layer in layers:
            # both states are taken before the draws that they must repeat; nothing else of this layer is stored
            before_first = RandomState(x1.device)
            y1 = x1 + traced(layer.first, x2)[1].detach()
            ctx.kept.draws.append((before_first, RandomState(x1.device)))
            pieces = [traced(layer.second, piece)[1].detach() for piece in layer.cut(y1)]
            x1, x2 = y1, x2 + torch.cat(pieces, dim=1)
        # the parameters so that autograd refuses a backward pass after they changed
        ctx.save_for_backward(x1, x2, *parameters)
        return x1, x2

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[Kept], d1: Tensor, d2: Tensor) -> tuple[Tensor | None, ...]:
        y1, y2, *_ = ctx.saved_tensors
        kept = ctx.kept
        gradients = Gradients()
        # autograd calls this outside the autocast of the forward pass: other roundings would give other inputs back
        with autocast(y1.device, kept.autocast_dtype):
            for layer, (before_first, before_second) in zip(reversed(kept.layers), reversed(kept.draws), strict=True):
                # second first: x2 = y2 - second(y1) needs y1 alone, and x1 = y1 - first(x2) needs that x2
                with before_second.replayed():
                    pieces = [
                        gradients.pull_back(layer.second, y, d)
                        for y, d in zip(layer.cut(y1), layer.cut(d2), strict=True)
                    ]
                value, through = (torch.cat(parts, dim=1) for parts in zip(*pieces, strict=True))
                x2, d1 = y2 - value, d1 + through  # y1 reaches the loss by itself and through second
                with before_first.replayed():
                    value, through = gradients.pull_back(layer.first, x2, d1)
                y1, y2, d2 = y1 - value, x2, d2 + through  # the inputs: outputs of the layer before
        return None, d1, d2, *(gradients.sums.get(id(parameter)) for parameter in kept.parameters)


class Gradients:
    """Sums up the gradients of parameters over the modules that use them; frozen and unused ones have none."""

    def __init__(self) -> None:
        self.sums: dict[int, Tensor] = {}  # by the id of the parameter

    def pull_back(
        self, module: nn.Module, x: Float[Tensor, "B L D"], gradient: Float[Tensor, "B L D"]
    ) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B L D"]]:
        """module(x) for x (B, L, D), and the gradient of x given that of module(x): (B, L, D) twice."""
        weights = [p for p in module.parameters() if p.requires_grad]
        leaf, value = traced(module, x)
        of_x, *of_weights = torch.autograd.grad(value, (leaf, *weights), gradient, allow_unused=True)
        for weight, addend in zip(weights, of_weights, strict=True):
            # a weight of two layers, or of several pieces, has a gradient from each
            if addend is not None:
                self.sums[id(weight)] = self.sums[id(weight)] + addend if id(weight) in self.sums else addend
        return value.detach(), torch.zeros_like(x) if of_x is None else of_x


def traced(module: nn.Module, x: Float[Tensor, "B L D"]) -> tuple[Float[Tensor, "B L D"], Float[Tensor, "B L D"]]:
    """A leaf that equals x (B, L, D), and module(leaf) with its graph.

    The forward pass is made with it too, and drops the graph: without one torch may choose another kernel, which would
    draw other numbers for the same dropout.
    """
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return leaf, module(leaf)


class RandomState:
    """The states of torch's generators: the CPU's, and a GPU's for a sequence that lies there."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Inside, the generators draw again what they drew from this state on; afterwards they are as before."""
        with torch.random.fork_rng(devices=[] if self.gpu is None else [self.device]):
            torch.set_rng_state(self.cpu)
            if self.gpu is not None:
                torch.cuda.set_rng_state(self.gpu, self.device)
            yield
