"""One training step, ours and the peers': forward, loss, backward, optimizer."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import ours, timing
from benchmarks.document import print_table
from benchmarks.peers import load_peer
from benchmarks.setting import PRECISIONS, Figures, Setting, Sizes
from forecast.evaluation.metrics import mean_squared_error
from forecast.training.optimizers import fused_keyword

SIZES = (
    Sizes(seq_len=48, label_len=48, pred_len=24, factor=3),
    Sizes(seq_len=96, label_len=48, pred_len=24),
    Sizes(seq_len=336, label_len=336, pred_len=720, batch=8),
)
# Memory alone: a step of the authors' code takes a quarter of a minute on two cores.
LARGE = replace(SIZES[2], batch=32)


def run(setting: Setting) -> Figures:
    """A row for each size; without named sizes those of SIZES, and the memory of a large step."""
    contenders = contenders_of(setting)
    rows = []
    for sizes in [Sizes(**setting.sizes)] if setting.sizes else SIZES:
        row = {**asdict(sizes), **timed(setting, contenders, sizes)}
        for name, how in contenders.items():
            row["contenders"][name] |= memory(setting, how, sizes, steps=2)
        print_table("step", [row])
        rows.append(row)
    if not setting.sizes:
        large = {
            name: how for name, how in contenders.items() if not name.startswith("ours prob")
        }  # ours differ little
        peaks = {name: memory(setting, how, LARGE, steps=1) for name, how in large.items()}
        rows.append({**asdict(LARGE), "contenders": peaks})
        print_table("step", rows[-1:])
    return {"step": rows}


def contenders_of(setting: Setting) -> dict[str, Figures]:
    """Name in tables and files -> what `make_step` takes: ours, on a GPU also compiled, then the peers'."""
    contenders: dict[str, Figures] = {}
    for compiled in (False, True) if setting.device == "cuda" else (False,):
        for recipe, precision in itertools.product(ours.RECIPES, PRECISIONS):
            name = f"ours {recipe} {precision}{' compiled' * compiled}"
            contenders[name] = {"recipe": recipe, "precision": precision, "compiled": compiled}
    for peer, precision in itertools.product(setting.peers, PRECISIONS):
        contenders[f"{load_peer(peer).name} {precision}"] = {"peer": peer, "precision": precision}
    return contenders


def timed(setting: Setting, contenders: Mapping[str, Figures], sizes: Sizes) -> Figures:
    """The contenders in turns, between two measurements of the machine's rate.

    gflop: the matrix products of one step of our informer2020, counted; `share` is that by the seconds by the rate of
    the contender's precision.
    """
    steps = {name: make_step(setting, sizes, **how) for name, how in contenders.items()}
    step = make_step(setting, sizes, precision="fp32", recipe="informer2020")
    with FlopCounterMode(display=False) as counter:
        step()
    gflop = float(counter.get_total_flops()) / 1e9
    before = timing.machine_rates(setting)
    seconds = timing.turns(steps, setting, warm_up=4 if setting.device == "cuda" else 1)  # torch.compile needs more
    after = timing.machine_rates(setting)
    rates = {name: (before[name] + after[name]) / 2 for name in before}
    figures = timing.compared(seconds, [name for name, how in contenders.items() if "peer" in how])
    for name, how in contenders.items():
        rate = rates[how["precision"].removesuffix("-mixed")]
        figures[name]["share"] = gflop / figures[name]["seconds"] / rate
    return {"gflop": gflop, "rates": rates, "contenders": figures}


def make_step(
    setting: Setting, sizes: Sizes, *, precision: str, recipe: str = "", compiled: bool = False, peer: str = ""
) -> Callable[[], None]:
    """A training step on `ours.random_batch` with fresh weights and the optimizer of conf/optim, ours in one pass.

    Of one of `ours.RECIPES`, or of the peer that --peer names. Forward, loss, backward and optimizer are the same code
    for both. Autocast covers forward and loss, as Lightning's bf16-mixed does.
    """
    torch.manual_seed(0)
    batch, make = ours.random_batch(sizes, setting.device), ours.values().optim.factory(torch.optim.Optimizer)
    if peer:
        theirs = load_peer(peer)
        model = theirs.model(sizes, setting.device).train()
        forecast, optimizer = theirs.forecaster(model, sizes, batch), make(model.parameters())
    else:
        own = ours.model_of(recipe, sizes).to(setting.device).train()
        inputs = (batch.past, batch.past_known, batch.future_known, batch.future)
        outputs = torch.compile(own.training_outputs) if compiled else own.training_outputs
        forecast = lambda: outputs(*inputs)  # noqa: E731
        optimizer = make(own.parameters(), **fused_keyword(make, may=True))

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(setting.device, dtype=torch.bfloat16, enabled=precision == "bf16-mixed"):
            loss = mean_squared_error(*forecast())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def memory(setting: Setting, how: Figures, sizes: Sizes, *, steps: int) -> Figures:
    """`step_memory` in a process of its own."""
    return timing.in_own_process(step_memory, setting, how=how, sizes=asdict(sizes), steps=steps)


def step_memory(setting: Setting, *, how: Figures, sizes: dict[str, Any], steps: int) -> Figures:
    """The 10^6 bytes of a training at its peak: weights, gradients, the optimizer's state and activations."""
    # what is imported and set up once is no part of a step
    make_step(setting, replace(Sizes(**sizes), batch=1, pred_len=1), **{**how, "compiled": False})

    def train() -> None:
        step = make_step(setting, Sizes(**sizes), **how)
        for _ in range(steps):
            step()

    return {"megabytes": timing.peak_above(train, setting)}
