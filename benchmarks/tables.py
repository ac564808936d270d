"""Figures as lines of text."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.attention import GROWTH_FROM
from benchmarks.machine import Rates

NAME_WIDTH = 34


def duel_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """A row of the duel, a line a contender."""
    yield f"L {row['L']}, {'causal' if row['causal'] else 'not causal'}"
    yield from contender_lines(row["contenders"])


def step_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """A row of the steps."""
    work = f", {row['gflop']:.3g} GFLOP of products" if "gflop" in row else ", memory of one step"
    yield f"{row['seq_len']}/{row['label_len']}/{row['pred_len']} batch {row['batch']}{work}"
    yield from contender_lines(row["contenders"])


def contender_lines(contenders: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """One line each: time, ratio to the first peer, share of the machine's rate, memory, whatever there is."""
    for name, figures in contenders.items():
        yield f"  {name:{NAME_WIDTH}} " + "  ".join(filter(None, cells(figures)))


def changes_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """A line for each precision and change."""
    for precision in (key for key, value in found.items() if isinstance(value, dict)):
        for name, figures in found[precision].items():
            slower = figures["slower"]
            spread = f"{slower['median']:.3f}x ({slower['low']:.3f} to {slower['high']:.3f})"
            yield f"  {precision:11} {name:{NAME_WIDTH}} {milliseconds(figures['seconds'])}  {spread}"


def cells(figures: Mapping[str, Any]) -> Iterator[str]:
    """The figures of one contender, each with its unit."""
    if "seconds" in figures:
        yield f"{milliseconds(figures['seconds'])} ({figures['rounds']} rounds)"
    if "windows_per_second" in figures:
        yield f"{figures['windows_per_second']:,.0f} windows/s"
    for other, ratio in figures.get("ratios", {}).items():
        yield f"{ratio['median']:.2f}x ({ratio['low']:.2f} to {ratio['high']:.2f}) of {other}"
    if "share" in figures:
        yield f"{figures['share']:.0%} of the machine"
    if figures.get("megabytes") is not None:
        yield f"{figures['megabytes']:.1f} MB"
    for key, unit in (("mse", "MSE"), ("val_mse", "validation MSE")):
        if figures.get(key) is not None:
            yield f"{unit} {figures[key]:.4f}"
    if "failed" in figures:
        yield f"not measured: {figures['failed']}"


def sweep_line(name: str, row: Mapping[str, Any]) -> str:
    """One length of one attention."""
    passes = [figures for key, figures in row.items() if key != "L"]
    failed = [f"{key} not measured: {row[key]['failed']}" for key in row if key != "L" and "failed" in row[key]]
    shown = [f"{each['seconds'] * 1e3:10.2f} ms {each['megabytes']:9.1f} MB" for each in passes if "seconds" in each]
    return f"{name:18} L {row['L']:6}  " + "  |  ".join([*shown, *failed])


def growth_line(name: str, growth: Mapping[str, float | None]) -> str:
    """The exponents of one attention."""
    exponents = " | ".join("-" if each is None else f"L^{each:.2f}" for each in growth.values())
    return f"{name:18} growth of time from L = {GROWTH_FROM}: {exponents}"


def decoding_line(row: Mapping[str, Any]) -> str:
    """One pred_len."""
    both = [row[how] for how in ("cached", "uncached") if how in row]
    failed = next((each["failed"] for each in both if "failed" in each), None)
    if failed:
        return f"P {row['pred_len']:4}  not measured: {failed}"
    times = "  |  ".join(f"{each['seconds']:8.3f} s {each['rows']:6} rows" for each in both)
    faster = both[1]["seconds"] / both[0]["seconds"]
    return f"P {row['pred_len']:4}  cached | not: {times}  |  {faster:.1f} times"


def machine_line(machine: Mapping[str, Any]) -> str:
    """What is measured on."""
    threads = f", {machine['threads']} threads" if machine["kind"] == "cpu" else ""
    return f"{machine['device']}{threads}, torch {machine['torch']}, Python {machine['python']}, {machine['date']}"


def rates_line(when: str, rates: Rates) -> str:
    """The machine's matrix products."""
    shown = ", ".join(f"{rate:.0f} GFLOP/s {name}" for name, rate in rates.items())
    return f"Matrix products {when}: {shown}"


def milliseconds(seconds: float) -> str:
    """With the digits that count."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds:.3g} s"
