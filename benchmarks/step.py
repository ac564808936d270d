"""One training step, ours and the peers': forward, loss, backward, optimizer."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import ours, timing
from benchmarks.document import print_table
from benchmarks.peers import load_peer
from benchmarks.setting import PRECISIONS, Figures, Setting, Sizes
from forecast.config.build import build
from forecast.evaluation.metrics import mean_squared_error
from forecast.training.optimizers import fused_keyword

SIZES = (
    Sizes(seq_len=48, label_len=48, pred_len=24, factor=3),
    Sizes(seq_len=96, label_len=48, pred_len=24),
    Sizes(seq_len=336, label_len=336, pred_len=720, batch=8),
)
# Memory alone: a step of the authors' code takes a quarter of a minute on two cores.
LARGE = replace(SIZES[2], batch=32)


@dataclass(frozen=True)
class Contender:
    """Whose step, in which precision (a key of `PRECISIONS`). whose: one of `ours.RECIPES`, or a peer."""

    whose: str
    precision: str
    is_peer: bool = False
    compiled: bool = False

    @property
    def name(self) -> str:
        """As it stands in tables and files."""
        return f"{'' if self.is_peer else 'ours '}{self.whose} {self.precision}{' compiled' * self.compiled}"


def run(setting: Setting) -> Figures:
    """A row for each size; without named sizes those of SIZES, and the memory of a large step."""
    contenders = [Contender(recipe, precision) for recipe in ours.RECIPES for precision in PRECISIONS]
    if setting.device == "cuda":
        contenders += [replace(contender, compiled=True) for contender in contenders]
    theirs = [load_peer(peer).name for peer in setting.peers]
    contenders += [Contender(name, precision, is_peer=True) for name in theirs for precision in PRECISIONS]
    rows = []
    for sizes in [Sizes(**setting.sizes)] if setting.sizes else SIZES:
        row = {**asdict(sizes), **timed(setting, contenders, sizes)}
        for contender in contenders:
            row["contenders"][contender.name] |= memory(setting, contender, sizes, steps=2)
        print_table("step", [row])
        rows.append(row)
    if not setting.sizes:
        large = [one for one in contenders if one.is_peer or one.whose == "informer2020"]  # ours differ little
        rows.append({**asdict(LARGE), "contenders": {one.name: memory(setting, one, LARGE, steps=1) for one in large}})
        print_table("step", rows[-1:])
    return {"step": rows}


def timed(setting: Setting, contenders: Sequence[Contender], sizes: Sizes) -> Figures:
    """The contenders in turns, between two measurements of the machine's rate.

    gflop: the matrix products of one step of our informer2020, counted; `share` is that by the seconds by the rate of
    the contender's precision.
    """
    steps = {contender.name: make_step(contender, setting, sizes) for contender in contenders}
    step = make_step(Contender("informer2020", "fp32"), setting, sizes)
    with FlopCounterMode(display=False) as counter:
        step()
    gflop = float(counter.get_total_flops()) / 1e9
    before = timing.machine_rates(setting)
    seconds = timing.turns(steps, setting, warm_up=4 if setting.device == "cuda" else 1)  # torch.compile needs more
    after = timing.machine_rates(setting)
    rates = {name: (before[name] + after[name]) / 2 for name in before}
    figures = timing.compared(seconds, [contender.name for contender in contenders if contender.is_peer])
    for contender in contenders:
        rate = rates[contender.precision.removesuffix("-mixed")]
        figures[contender.name]["share"] = gflop / figures[contender.name]["seconds"] / rate
    return {"gflop": gflop, "rates": rates, "contenders": figures}


def make_step(contender: Contender, setting: Setting, sizes: Sizes) -> Callable[[], None]:
    """A training step on `ours.random_batch` with fresh weights and the optimizer of conf/optim, ours in one pass.

    Forward, loss, backward and optimizer are the same code for us and for every peer. Autocast covers forward and loss,
    as Lightning's bf16-mixed does.
    """
    torch.manual_seed(0)
    batch, make = ours.random_batch(sizes, setting.device), build(ours.values()["optim"])
    if contender.is_peer:
        peer = load_peer(setting.with_peer(contender.whose).peers[0])
        model = peer.model(sizes, setting.device).train()
        forecast, optimizer = peer.forecaster(model, sizes, batch), make(model.parameters())
    else:
        own = ours.model_of(contender.whose, sizes).to(setting.device).train()
        inputs = (batch.past, batch.past_known, batch.future_known, batch.future)
        outputs = torch.compile(own.training_outputs) if contender.compiled else own.training_outputs
        forecast = lambda: outputs(*inputs)  # noqa: E731
        optimizer = make(own.parameters(), **fused_keyword(make, may=True))

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(setting.device, dtype=torch.bfloat16, enabled=contender.precision == "bf16-mixed"):
            loss = mean_squared_error(*forecast())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def memory(setting: Setting, contender: Contender, sizes: Sizes, *, steps: int) -> Figures:
    """`step_memory` in a process of its own."""
    task: Figures = {"contender": asdict(contender), "sizes": asdict(sizes), "steps": steps}
    return timing.in_own_process(step_memory, setting.with_peer(contender.whose), **task)


def step_memory(setting: Setting, *, contender: dict[str, Any], sizes: dict[str, Any], steps: int) -> Figures:
    """The 10^6 bytes of a training at its peak: weights, gradients, the optimizer's state and activations."""
    # what is imported and set up once is no part of a step
    make_step(Contender(**{**contender, "compiled": False}), setting, replace(Sizes(**sizes), batch=1, pred_len=1))

    def train() -> None:
        step = make_step(Contender(**contender), setting, Sizes(**sizes))
        for _ in range(steps):
            step()

    return {"megabytes": timing.peak_above(train, setting)}
