"""One training step, ours and the peers': forward, loss, backward, optimizer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import machine, ours, timing
from benchmarks.fresh import in_own_process, peak_above
from benchmarks.machine import available_memory
from benchmarks.peers import load_peers
from benchmarks.setting import PRECISIONS, Setting, Sizes
from forecast.config.build import build
from forecast.errors import UserError

SIZES = (
    Sizes(seq_len=48, label_len=48, pred_len=24, factor=3),
    Sizes(seq_len=96, label_len=48, pred_len=24),
    Sizes(seq_len=336, label_len=336, pred_len=720, batch=8),
)
# Memory alone: a step of the authors' code takes a quarter of a minute on two cores.
LARGE = SIZES[2].but(batch=32)
LARGE_NEEDS = 10.0  # 10^9 bytes
COMPILED = "compiled"
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
        words = [*([] if self.is_peer else ["ours"]), self.whose, self.precision, *([COMPILED] * self.compiled)]
        return " ".join(words)


def contenders(setting: Setting) -> list[Contender]:
    """Ours in both recipes, then the peers, each in both precisions; on a GPU also ours compiled."""
    kinds = [Contender(recipe, precision) for recipe in ours.RECIPES for precision in PRECISIONS]
    if setting.device == "cuda":
        kinds += [Contender(each.whose, each.precision, compiled=True) for each in kinds]
    theirs = [peer.name for peer in load_peers(setting.peers, "step")]
    return kinds + [Contender(name, precision, is_peer=True) for name in theirs for precision in PRECISIONS]


def compare(
    setting: Setting,
    *,
    sizes: Sequence[Sizes],
    only: Sequence[str],
    memory: bool,
    tell: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """A row for each of `sizes`: times in turns, shares of the machine's rate, peaks of processes of their own.

    Raises UserError when `only` names what is no contender.
    """
    every = contenders(setting)
    names = [each.name for each in every]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise UserError(f"--only '{unknown[0]}': there is no such contender. It is one of {', '.join(names)}")
    chosen = [each for each in every if not only or each.name in only]
    rows = []
    for size in sizes:
        row = {**size.plain(), **timed(setting, chosen, size)}
        if memory:
            for each in chosen:
                row["contenders"][each.name] |= in_own_process(
                    step_memory, setting.with_peer(each.whose), contender=vars(each), sizes=size.plain(), steps=2
                )
        tell(row)
        rows.append(row)
    return rows


def timed(setting: Setting, chosen: Sequence[Contender], sizes: Sizes) -> dict[str, Any]:
    """The contenders in turns, between two measurements of the machine's rate.

    gflop: the matrix products of one step of our informer2020, counted; `share` is that by the seconds by the rate of
    the contender's precision.
    """
    steps = {each.name: make_step(each, setting, sizes) for each in chosen}
    gflop = counted_gflop(setting, sizes)
    before = machine.rates(setting)
    warm_up = WARM_UP_COMPILED if any(each.compiled for each in chosen) else WARM_UP
    seconds = timing.turns(
        steps, rounds=setting.rounds, budget=setting.budget, warm_up=warm_up, synchronise=setting.synchronise()
    )
    rates = machine.mean_rates(before, machine.rates(setting))
    references = [each.name for each in chosen if each.is_peer]
    figures = timing.compared(seconds, references)
    for each in chosen:
        rate = rates["bf16" if each.precision == "bf16-mixed" else "fp32"]
        figures[each.name]["share"] = gflop / figures[each.name]["seconds"] / rate
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


def counted_gflop(setting: Setting, sizes: Sizes) -> float:
    """10^9 floating-point operations in the matrix products and convolutions of one step of our informer2020."""
    step = make_step(Contender("informer2020", "fp32"), setting, sizes)
    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops()) / 1e9


def step_memory(setting: Setting, *, contender: dict[str, Any], sizes: dict[str, Any], steps: int) -> dict[str, Any]:
    """The 10^6 bytes of a training at its peak: weights, gradients, the optimizer's state and activations."""
    once = make_step(Contender(**{**contender, "compiled": False}), setting, Sizes(**sizes).but(batch=1, pred_len=1))
    del once  # what is imported and set up once is no part of a step

    def run() -> None:
        step = make_step(Contender(**contender), setting, Sizes(**sizes))
        for _ in range(steps):
            step()

    return {"megabytes": peak_above(run, setting)}


def large_memory(setting: Setting, *, only: Sequence[str]) -> dict[str, Any]:
    """The peaks of one step at LARGE; contenders that the machine's memory cannot hold are named with the reason."""
    row: dict[str, Any] = {**LARGE.plain(), "contenders": {}}
    alike = (each for each in contenders(setting) if each.is_peer or each.whose == "informer2020")  # ours differ little
    for each in (each for each in alike if not only or each.name in only):
        free = available_memory() if setting.device == "cpu" else float("inf")
        if free < LARGE_NEEDS:
            row["contenders"][each.name] = {"failed": f"{free:.1f} GB are free, {LARGE_NEEDS:.0f} GB may be needed"}
            continue
        row["contenders"][each.name] = in_own_process(
            step_memory, setting.with_peer(each.whose), contender=vars(each), sizes=LARGE.plain(), steps=1
        )
    return row
