"""Attention mechanisms alone: ours and the peers' ProbSparse in turns, and every one of ours by length."""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks import ours, timing
from benchmarks.document import BOTH, print_table, time_and_memory
from benchmarks.peers import load_peer
from benchmarks.setting import Figures, Setting, print_now
from forecast.config.compose import options

DUEL = ("prob", "prob_informer2020", "full")
DUEL_BATCH, SWEEP_BATCH, HEADS, WIDTH = 4, 1, 8, 64
DUEL_LENGTHS = (96, 336, 720, 1440, 2880, 5760)
DUEL_MEMORY_LENGTHS = (1440, 5760)
FACTOR = 5  # conf/attention has the same
GROWTH_FROM = 1024  # the growth exponent is fitted from this length on


def run(setting: Setting) -> Figures:
    """The duel and the sweep."""
    return {"duel": duel(setting), "attention": sweep(setting)}


def duel(setting: Setting) -> list[Figures]:
    """Forward and backward of ours and of each peer's ProbSparse, a row for each form and length.

    Equal work: the same numbers in q, k, v, the same factor, no dropout, training mode. Peaks of memory are measured
    each in a process of its own.
    """
    tasks: dict[str, Figures] = {f"ours {name}": {"name": name} for name in DUEL if name in (setting.only or DUEL)}
    peers: dict[str, Figures] = {load_peer(peer).name: {"peer": peer} for peer in setting.peers}
    print_now(f"Forward and backward, B {DUEL_BATCH}, H {HEADS}, E {WIDTH}, float32")
    rows = []
    for causal, length in itertools.product((False, True), DUEL_LENGTHS):
        form: Figures = {"shape": (DUEL_BATCH, HEADS, length, WIDTH), "causal": causal}
        contenders = {name: duel_contender(setting, **task, **form) for name, task in {**tasks, **peers}.items()}
        figures = timing.compared(timing.turns(contenders, setting), list(peers))
        for name, task in {**tasks, **peers}.items() if length in DUEL_MEMORY_LENGTHS else ():
            figures[name] |= timing.in_own_process(duel_memory, setting, **task, **form)
        rows.append({"L": length, "causal": causal, "contenders": figures})
        print_table("duel", rows[-1:])
    return rows


def duel_contender(
    setting: Setting, *, shape: Sequence[int], causal: bool, name: str = "", peer: str = ""
) -> Callable[[], None]:
    """One forward and backward pass of our mechanism of that name, or of that peer's.

    shape: (B, H, L, E); a peer's (B, L, H, E) is made beforehand.
    """
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(*shape, generator=generator).to(setting.device) for _ in range(3)]
    mechanism: Any
    if peer:
        mechanism = load_peer(peer).attention(causal=causal, factor=FACTOR).to(setting.device)
        tensors = [x.transpose(1, 2).contiguous() for x in tensors]
    else:
        mechanism = ours.mechanism(name, causal=causal, device=setting.device)
    q, k, v = (x.requires_grad_() for x in tensors)
    ones = torch.ones_like(q)

    def run() -> None:
        context: Tensor = mechanism(q, k, v, None)[0] if peer else mechanism(q, k, v)
        gradient = ones if context.shape == ones.shape else ones.transpose(1, 2)
        torch.autograd.grad(context, (q, k, v), gradient, allow_unused=True)  # none and mean read no query

    return run


def duel_memory(setting: Setting, **task: Any) -> Figures:
    """The 10^6 bytes that one pass of one contender takes above its inputs."""
    return {"megabytes": timing.peak_above(duel_contender(setting, **task), setting)}


def sweep(setting: Setting) -> dict[str, Figures]:
    """Every attention by length: {"rows": [...], "growth": {BOTH: exponent}} for each, in processes of their own.

    A row ends an attention's series when it takes more than `limit` seconds or cannot be measured.
    """
    print_now(f"B {SWEEP_BATCH}, H {HEADS}, E {WIDTH}, not causal, float32")
    figures: dict[str, Figures] = {}
    for name in setting.only or options("attention", but="inherit"):
        # single_head: in a layer of the same width
        heads, width = (1, HEADS * WIDTH) if name == "single_head" else (HEADS, WIDTH)
        rows: list[Figures] = []
        for length in sorted(setting.lengths):
            shape = (SWEEP_BATCH, heads, length, width)
            measured = timing.in_own_process(both_passes, setting, name=name, shape=shape)
            rows.append({"L": length, BOTH: measured})
            print_now(f"{name:18} L {length:6}  {BOTH} {time_and_memory(measured)}")
            if measured.get("seconds", math.inf) > setting.limit:
                break
        figures[name] = {"rows": rows, "growth": {BOTH: growth(series(rows))}}
    return figures


def both_passes(setting: Setting, *, name: str, shape: Sequence[int]) -> Figures:
    """Seconds and 10^6 bytes of forward and backward of an attention. shape: (B, H, L, E)."""
    mechanism = ours.mechanism(name, causal=False, device=setting.device)
    q, k, v = (torch.randn(*shape, device=setting.device, requires_grad=True) for _ in range(3))

    def run() -> None:
        torch.autograd.grad(mechanism(q, k, v).sum(), (q, k, v), allow_unused=True)

    megabytes = timing.peak_above(run, setting)  # the call that warms up
    return {"seconds": timing.repeated(run, setting.device), "megabytes": megabytes}


def series(rows: Sequence[Mapping[str, Any]], figure: str = "seconds") -> dict[int, float]:
    """Length -> figure of forward and backward, where it was measured."""
    return {row["L"]: row[BOTH][figure] for row in rows if figure in row.get(BOTH, {})}


def growth(seconds: Mapping[int, float]) -> float | None:
    """The exponent e of seconds ~ L^e, fitted to the lengths from GROWTH_FROM on; None for fewer than two."""
    points = [(math.log(length), math.log(value)) for length, value in seconds.items() if length >= GROWTH_FROM]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None
