"""Attention mechanisms alone: ours and the peers' ProbSparse in turns, and every one of ours by length."""

import argparse
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from benchmarks import fresh, ours, timing
from benchmarks.document import print_table, time_and_memory
from benchmarks.peers import load_peers
from benchmarks.setting import Figures, Setting, print_now
from forecast.config.values import options

DUEL = ("prob", "prob_informer2020", "full")
FACTOR = 5
OURS = "ours "  # before the names of our contenders
GROWTH_FROM = 1024  # the growth exponent is fitted from this length on
PASSES = ("forward", "forward+backward")


def run(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """The duel and the sweep, or one of them."""
    figures: Figures = {}
    if "duel" in arguments.tables:
        figures["duel"] = duel(setting, arguments)
    if "sweep" in arguments.tables:
        figures["attention"] = sweep(setting, arguments)
    return figures


def duel(setting: Setting, arguments: argparse.Namespace) -> list[Figures]:
    """Forward and backward of ours and of each peer's ProbSparse, a row for each form and length.

    Equal work: the same numbers in q, k, v, the same factor, no dropout, training mode. Peaks of memory are measured
    at `memory_lengths`, each in a process of its own.
    """
    references = [peer.name for peer in load_peers(setting.peers, "attention")]
    names = [*(f"{OURS}{name}" for name in DUEL if not arguments.only or name in arguments.only), *references]
    print_now(f"Forward and backward, B {arguments.duel_batch}, H {arguments.heads}, E {arguments.width}, float32")
    rows = []
    for causal, length in itertools.product((False, True), sorted(arguments.duel_lengths)):
        shape = (arguments.duel_batch, arguments.heads, length, arguments.width)
        seconds = timing.turns(
            duel_contenders(setting, names, shape=shape, causal=causal),
            rounds=setting.rounds,
            budget=setting.budget,
            synchronise=setting.synchronise(),
        )
        row: Figures = {"L": length, "causal": causal, "contenders": timing.compared(seconds, references)}
        if length in (arguments.memory_lengths or arguments.duel_lengths):
            task: Figures = {"shape": shape, "causal": causal}
            for name in names:
                memory = fresh.in_own_process(duel_memory, setting.with_peer(name), name=name, **task)
                row["contenders"][name] |= memory
        print_table("duel", [row])
        rows.append(row)
    return rows


def duel_contenders(
    setting: Setting, names: Sequence[str], *, shape: Sequence[int], causal: bool
) -> dict[str, Callable[[], None]]:
    """Name -> one forward and backward pass. shape: (B, H, L, E); a peer's (B, L, H, E) is made beforehand."""
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(*shape, generator=generator).to(setting.device) for _ in range(3)]

    def both_passes(mechanism: Any, *, by_head: bool, mask: Sequence[None]) -> Callable[[], None]:
        inputs = [x if by_head else x.transpose(1, 2).contiguous() for x in tensors]
        q, k, v = (x.detach().clone().requires_grad_() for x in inputs)
        ones = torch.ones_like(q)

        def run() -> None:
            output = mechanism(q, k, v, *mask)
            context = output[0] if mask else output
            gradient = ones if context.shape == ones.shape else ones.transpose(1, 2)
            torch.autograd.grad(context, (q, k, v), gradient)

        return run

    contenders = {}
    for name in (name for name in names if name.startswith(OURS)):
        option = name.removeprefix(OURS)
        settings = [] if option == "full" else [f"factor={FACTOR}"]
        mechanism = ours.mechanism(option, causal=causal, settings=settings, device=setting.device)
        contenders[name] = both_passes(mechanism, by_head=True, mask=())
    for peer in (peer for peer in load_peers(setting.peers, "attention") if peer.name in names):
        mechanism = peer.attention(causal=causal, factor=FACTOR).to(setting.device)
        contenders[peer.name] = both_passes(mechanism, by_head=False, mask=(None,))
    return contenders


def duel_memory(setting: Setting, *, name: str, shape: Sequence[int], causal: bool) -> Figures:
    """The 10^6 bytes that one pass of one contender takes above its inputs."""
    call = duel_contenders(setting, [name], shape=shape, causal=causal)[name]
    return {"megabytes": fresh.peak_above(call, setting)}


def sweep(setting: Setting, arguments: argparse.Namespace) -> dict[str, Figures]:
    """Every attention by length: {"rows": [...], "growth": {pass: exponent}} for each, in processes of their own.

    A row ends an attention's series when its last pass takes more than `limit` seconds or cannot be measured.
    """
    passes = PASSES[1:] if arguments.both_only else PASSES
    form = "causal" if arguments.causal else "not causal"
    print_now(f"B {arguments.batch}, H {arguments.heads}, E {arguments.width}, {form}, float32")
    figures: dict[str, Figures] = {}
    for name in arguments.only or options("attention", but="inherit"):
        heads, width = arguments.heads, arguments.width
        if name == "single_head":  # in a layer of the same width
            heads, width = 1, heads * width
        task: Figures = {"name": name, "causal": arguments.causal, "settings": arguments.set}
        rows: list[Figures] = []
        for length in sorted(arguments.lengths):
            row: Figures = {"L": length}
            for which in passes:
                shape = (arguments.batch, heads, length, width)
                row[which] = fresh.in_own_process(sweep_pass, setting, which=which, shape=shape, **task)
                if "failed" in row[which]:
                    break
            rows.append(row)
            cells = "  |  ".join(f"{which} {time_and_memory(row[which])}" for which in passes if which in row)
            print_now(f"{name:18} L {length:6}  {cells}")
            if row.get(passes[-1], {}).get("seconds", math.inf) > arguments.limit:
                break
        figures[name] = {"rows": rows, "growth": {which: growth(series(rows, which)) for which in passes}}
    return figures


def sweep_pass(
    setting: Setting, *, name: str, which: str, shape: Sequence[int], causal: bool, settings: Sequence[str]
) -> dict[str, float]:
    """Seconds and 10^6 bytes of one pass of an attention. shape: (B, H, L, E)."""
    mechanism = ours.mechanism(name, causal=causal, settings=settings, device=setting.device)
    q, k, v = (torch.randn(*shape, device=setting.device, requires_grad=True) for _ in range(3))

    def forward() -> None:
        with torch.no_grad():
            mechanism(q, k, v)

    def both() -> None:
        torch.autograd.grad(mechanism(q, k, v).sum(), (q, k, v))

    return fresh.measured(forward if which == "forward" else both, setting)


def series(rows: Sequence[Mapping[str, Any]], which: str, figure: str = "seconds") -> dict[int, float]:
    """Length -> figure of one pass, where it was measured."""
    return {row["L"]: row[which][figure] for row in rows if figure in row.get(which, {})}


def growth(seconds: Mapping[int, float]) -> float | None:
    """The exponent e of seconds ~ L^e, fitted to the lengths from GROWTH_FROM on; None for fewer than two."""
    points = [(math.log(length), math.log(value)) for length, value in seconds.items() if length >= GROWTH_FROM]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None
