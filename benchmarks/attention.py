"""Attention mechanisms alone: ours and the peers' ProbSparse in turns, and every one of ours by length."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks import ours, timing
from benchmarks.fresh import in_own_process, measured, peak_above
from benchmarks.peers import load_peers
from benchmarks.setting import Setting

DUEL = ("prob", "prob_informer2020", "full")
FACTOR = 5
OURS = "ours "  # before the names of our contenders
GROWTH_FROM = 1024  # the growth exponent is fitted from this length on
PASSES = ("forward", "forward+backward")
Call = Callable[[], None]


def duel(
    setting: Setting,
    *,
    lengths: Sequence[int],
    memory_lengths: Sequence[int],
    only: Sequence[str],
    batch: int,
    heads: int,
    width: int,
    tell: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """Forward and backward of ours and of each peer's ProbSparse, a row for each form and length.

    B, H, E are batch, heads, width. memory_lengths: where peaks are measured, each in a process of its own. Equal work:
    the same numbers in q, k, v, the same factor, no dropout, training mode.
    """
    references = [peer.name for peer in load_peers(setting.peers, "attention")]
    names = [*(f"{OURS}{name}" for name in DUEL if not only or name in only), *references]
    rows = []
    for causal in (False, True):
        for length in sorted(lengths):
            sizes: dict[str, Any] = {"batch": batch, "heads": heads, "length": length, "width": width, "causal": causal}
            contenders = duel_contenders(setting, names, **sizes)
            seconds = timing.turns(
                contenders, rounds=setting.rounds, budget=setting.budget, synchronise=setting.synchronise()
            )
            figures = timing.compared(seconds, references)
            row = {"L": length, "causal": causal, "contenders": figures}
            if length in memory_lengths:
                for name in names:
                    figures[name] |= in_own_process(duel_memory, setting.with_peer(name), name=name, sizes=sizes)
            tell(row)
            rows.append(row)
    return rows


def duel_contenders(
    setting: Setting, names: Sequence[str], *, batch: int, heads: int, length: int, width: int, causal: bool
) -> dict[str, Call]:
    """Name -> one forward and backward pass. Each layout is made beforehand: (B, H, L, E) of ours, (B, L, H, E)."""
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(batch, heads, length, width, generator=generator).to(setting.device) for _ in range(3)]

    def both_passes(mechanism: Any, *, by_head: bool, mask: bool) -> Call:
        inputs = [each if by_head else each.transpose(1, 2).contiguous() for each in drawn]
        q, k, v = (each.detach().clone().requires_grad_() for each in inputs)
        ones = torch.ones_like(q)

        def run() -> None:
            context = mechanism(q, k, v, None)[0] if mask else mechanism(q, k, v)
            gradient = ones if context.shape == ones.shape else ones.transpose(1, 2)
            torch.autograd.grad(context, (q, k, v), gradient)

        return run

    found: dict[str, Call] = {}
    for name in (name.removeprefix(OURS) for name in names if name.startswith(OURS)):
        settings = [] if name == "full" else [f"factor={FACTOR}"]
        mechanism = ours.mechanism(name, causal=causal, settings=settings, device=setting.device)
        found[f"{OURS}{name}"] = both_passes(mechanism, by_head=True, mask=False)
    for peer in (peer for peer in load_peers(setting.peers, "attention") if peer.name in names):
        mechanism = peer.attention(causal=causal, factor=FACTOR).to(setting.device)
        found[peer.name] = both_passes(mechanism, by_head=peer.by_head, mask=True)
    return found


def duel_memory(setting: Setting, *, name: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """The 10^6 bytes that one pass of one contender takes above its inputs."""
    return {"megabytes": peak_above(duel_contenders(setting, [name], **sizes)[name], setting)}


def sweep(
    setting: Setting,
    *,
    only: Sequence[str],
    lengths: Sequence[int],
    passes: Sequence[str],
    limit: float,
    sizes: dict[str, Any],
    tell: Callable[[str, dict[str, Any]], None],
) -> dict[str, dict[str, Any]]:
    """Every attention by length: {"rows": [...], "growth": {pass: exponent}} for each, in processes of their own.

    A row ends an attention's series when its last pass takes more than `limit` seconds or cannot be measured.
    """
    found = {}
    for name in only or ours.attentions():
        rows: list[dict[str, Any]] = []
        for length in sorted(lengths):
            row: dict[str, Any] = {"L": length}
            for which in passes:
                row[which] = in_own_process(sweep_pass, setting, name=name, length=length, which=which, **sizes)
                if "failed" in row[which]:
                    break
            rows.append(row)
            tell(name, row)
            last = row.get(passes[-1], {})
            if last.get("seconds", math.inf) > limit:
                break
        found[name] = {"rows": rows, "growth": {which: growth(series(rows, which)) for which in passes}}
    return found


def sweep_pass(
    setting: Setting,
    *,
    name: str,
    length: int,
    which: str,
    batch: int,
    heads: int,
    width: int,
    causal: bool,
    settings: Sequence[str],
) -> dict[str, float]:
    """Seconds and 10^6 bytes of one pass of an attention at one length."""
    mechanism = ours.mechanism(name, causal=causal, settings=settings, device=setting.device)
    heads, width = (1, heads * width) if name == "single_head" else (heads, width)
    shape = (batch, heads, length, width)
    q, k, v = (torch.randn(shape, device=setting.device, requires_grad=True) for _ in range(3))

    def forward() -> None:
        with torch.no_grad():
            mechanism(q, k, v)

    def both() -> None:
        torch.autograd.grad(mechanism(q, k, v).sum(), (q, k, v))

    return measured(forward if which == "forward" else both, setting)


def series(rows: Sequence[dict[str, Any]], which: str, figure: str = "seconds") -> dict[int, float]:
    """Length -> figure of one pass, where it was measured."""
    return {row["L"]: row[which][figure] for row in rows if figure in row.get(which, {})}


def growth(seconds: dict[int, float]) -> float | None:
    """The exponent e of seconds ~ L^e, fitted to the lengths from GROWTH_FROM on; None for fewer than two."""
    points = [(math.log(length), math.log(value)) for length, value in seconds.items() if length >= GROWTH_FROM]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None
