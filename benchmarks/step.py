"""One training step, ours and the peers': forward, loss, backward, optimizer."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import fresh, machine, ours, timing
from benchmarks.document import print_table
from benchmarks.peers import load_peers
from benchmarks.setting import PRECISIONS, Figures, Setting, Sizes, sizes_from
from forecast.config.build import build
from forecast.errors import UserError

SIZES = (
    Sizes(seq_len=48, label_len=48, pred_len=24, factor=3),
    Sizes(seq_len=96, label_len=48, pred_len=24),
    Sizes(seq_len=336, label_len=336, pred_len=720, batch=8),
)
# Memory alone: a step of the authors' code takes a quarter of a minute on two cores.
LARGE = replace(SIZES[2], batch=32)
LARGE_NEEDS = 10.0  # 10^9 bytes
WARM_UP, WARM_UP_COMPILED = 1, 4
Step = Callable[[], None]


@dataclass(frozen=True)
class Contender:
    """Whose step, in which precision (a key of `setting.PRECISIONS`). whose: one of `ours.RECIPES`, or a peer."""

    whose: str
    precision: str
    is_peer: bool = False
    compiled: bool = False

    @property
    def name(self) -> str:
        """As it stands in tables and files."""
        return f"{'' if self.is_peer else 'ours '}{self.whose} {self.precision}{' compiled' * self.compiled}"


def run(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """A row for each size; without named sizes those of SIZES, and the memory of a large step."""
    selected, changed = contenders(setting, arguments.only), sizes_from(arguments)
    rows = []
    for sizes in [Sizes(**changed)] if changed else SIZES:
        row = {**asdict(sizes), **timed(setting, selected, sizes)}
        if not arguments.no_memory:
            for contender in selected:
                row["contenders"][contender.name] |= memory(setting, contender, sizes, steps=2)
        print_table("step", [row])
        rows.append(row)
    if not changed and not arguments.no_memory:
        rows.append(large_memory(setting, selected))
        print_table("step", rows[-1:])
    return {"step": rows}


def contenders(setting: Setting, only: Sequence[str]) -> list[Contender]:
    """Ours in both recipes, then the peers, each in both precisions; on a GPU also ours compiled.

    only: the names of those wanted, all when empty. Raises UserError when it names what is no contender.
    """
    kinds = [Contender(recipe, precision) for recipe in ours.RECIPES for precision in PRECISIONS]
    if setting.device == "cuda":
        kinds += [replace(kind, compiled=True) for kind in kinds]
    theirs = [peer.name for peer in load_peers(setting.peers, "step")]
    kinds += [Contender(name, precision, is_peer=True) for name in theirs for precision in PRECISIONS]
    names = [kind.name for kind in kinds]
    if unknown := [name for name in only if name not in names]:
        raise UserError(f"--only '{unknown[0]}': there is no such contender. It is one of {', '.join(names)}")
    return [kind for kind in kinds if not only or kind.name in only]


def timed(setting: Setting, selected: Sequence[Contender], sizes: Sizes) -> Figures:
    """The contenders in turns, between two measurements of the machine's rate.

    gflop: the matrix products of one step of our informer2020, counted; `share` is that by the seconds by the rate of
    the contender's precision.
    """
    steps = {contender.name: make_step(contender, setting, sizes) for contender in selected}
    step = make_step(Contender("informer2020", "fp32"), setting, sizes)
    with FlopCounterMode(display=False) as counter:
        step()
    gflop = float(counter.get_total_flops()) / 1e9
    before = machine.rates(setting)
    warm_up = WARM_UP_COMPILED if any(contender.compiled for contender in selected) else WARM_UP
    seconds = timing.turns(
        steps, rounds=setting.rounds, budget=setting.budget, warm_up=warm_up, synchronise=setting.synchronise()
    )
    after = machine.rates(setting)
    rates = {name: (before[name] + after[name]) / 2 for name in before}
    references = [contender.name for contender in selected if contender.is_peer]
    figures = timing.compared(seconds, references)
    for contender in selected:
        rate = rates["bf16" if contender.precision == "bf16-mixed" else "fp32"]
        figures[contender.name]["share"] = gflop / figures[contender.name]["seconds"] / rate
    return {"gflop": gflop, "rates": rates, "contenders": figures}


def make_step(contender: Contender, setting: Setting, sizes: Sizes) -> Step:
    """A training step on `ours.random_batch`, with the optimizer of conf/optim, ours fused as in a training."""
    how: dict[str, Any] = {"precision": contender.precision, "device": setting.device}
    if not contender.is_peer:
        return ours.made_step(sizes, contender.whose, compiled=contender.compiled, **how)
    torch.manual_seed(0)
    peer = next(peer for peer in load_peers(setting.peers, "step") if peer.name == contender.whose)
    model = peer.model(sizes, setting.device).train()
    forecast = peer.forecaster(model, sizes, ours.random_batch(sizes, setting.device))
    optimizer = build(ours.config_of("informer2020", sizes)["optim"])(model.parameters())
    return ours.training_step(forecast, optimizer, **how)


def memory(setting: Setting, contender: Contender, sizes: Sizes, *, steps: int) -> Figures:
    """`step_memory` in a process of its own."""
    task: Figures = {"contender": asdict(contender), "sizes": asdict(sizes), "steps": steps}
    return fresh.in_own_process(step_memory, setting.with_peer(contender.whose), **task)


def step_memory(setting: Setting, *, contender: dict[str, Any], sizes: dict[str, Any], steps: int) -> Figures:
    """The 10^6 bytes of a training at its peak: weights, gradients, the optimizer's state and activations."""
    # what is imported and set up once is no part of a step
    make_step(Contender(**{**contender, "compiled": False}), setting, replace(Sizes(**sizes), batch=1, pred_len=1))

    def train() -> None:
        step = make_step(Contender(**contender), setting, Sizes(**sizes))
        for _ in range(steps):
            step()

    return {"megabytes": fresh.peak_above(train, setting)}


def large_memory(setting: Setting, selected: Sequence[Contender]) -> Figures:
    """The peaks of one step at LARGE; contenders that the machine's memory cannot hold are named with the reason."""
    row: Figures = {**asdict(LARGE), "contenders": {}}
    for contender in (kind for kind in selected if kind.is_peer or kind.whose == "informer2020"):  # ours differ little
        free = machine.available_memory() if setting.device == "cpu" else float("inf")
        enough = free >= LARGE_NEEDS
        short = {"failed": f"{free:.1f} GB are free, {LARGE_NEEDS:.0f} GB may be needed"}
        row["contenders"][contender.name] = memory(setting, contender, LARGE, steps=1) if enough else short
    return row
