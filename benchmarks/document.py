"""Figures as the tables of docs/performance.md, which scripts/benchmark.py prints as well.

The table writer is imported where it is called: it brings SciPy, which a process that measures need not load.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.setting import print_now

Figures = Mapping[str, Any]
Columns = Mapping[str, Callable[[Figures], str]]
KINDS = {"cpu": "On a CPU", "cuda": "On a GPU"}
AUTHORS = "informer2020"
BOTH = "forward+backward"
# Key in a file of figures: heading, and what is measured.
SECTIONS = {
    "step": ("A training step", "Forward, loss, backward and optimizer; seq_len/label_len/pred_len, batch"),
    "duel": ("Attention beside the peers'", "Forward and backward of the mechanism alone, float32"),
    "attention": ("Every attention by length", "Forward and backward, batch 1: time and memory, and growth of time"),
    "data": ("Windows", "A shuffled epoch of train windows"),
    "epoch": ("An epoch", "From the CSV file to the first validation metric"),
    "evaluation": ("Evaluation", "Every test window of ETTh1, by the same weights"),
    "predict": ("predict.py", "From the shell to the CSV file, a full-size checkpoint"),
}


def document_lines(files: Mapping[str, Figures]) -> list[str]:
    """All tables. files: "cpu" and "cuda", what there is of them, as `record.read` gives it."""
    lines: list[str] = []
    for kind in (kind for kind in KINDS if kind in files):
        machine, parts = files[kind]["machine"], files[kind]["parts"]
        lines += [f"## {KINDS[kind]}", "", f"{machine_line(machine)}.", ""]
        if summary := summary_lines(parts):
            note = "Times the authors' code, medians; spreads are in the tables below."
            lines += ["### In short", "", note, "", *summary, ""]
        for part, (title, text) in SECTIONS.items():
            if part in parts:
                fraction = parts[part].get("fraction", 1.0) if isinstance(parts[part], Mapping) else 1.0
                share = f", {fraction:.0%} of its batches" if fraction < 1.0 else ""
                lines += [f"### {title}", "", f"{text}{share}.", ""]
                lines += [*table(part, parts[part]), "", *rates_lines(machine, part)]
    return lines[:-1] or ["Nothing has been measured yet."]


def print_table(part: str, figures: Any) -> None:
    """Prints the table of a part, and below it what could not be measured."""
    print_now("", *table(part, figures))
    for row in figures if isinstance(figures, list) else []:
        for name, contender in row["contenders"].items():
            if "failed" in contender:
                print_now(f"{name}: {time_and_memory(contender)}")


def table(part: str, figures: Any) -> list[str]:
    """As Markdown a line for each contender; for each attention, forward and backward, with a column for each length.

    figures: what the file has under a part's key.
    """
    from forecast.comparison.tables import markdown

    if part == "attention":
        lengths = sorted({row["L"] for sweep in figures.values() for row in sweep["rows"]})
        cells = [["attention", *(f"L {length}" for length in lengths), "time grows as"]]
        for name, sweep in figures.items():
            both = {row["L"]: row.get(BOTH, {}) for row in sweep["rows"]}
            measured = (both.get(length, {}) for length in lengths)
            exponent = sweep["growth"].get(BOTH)
            texts = [time_and_memory(figure) if "seconds" in figure else "-" for figure in measured]
            cells.append([name, *texts, f"L^{exponent:.2f}" if exponent else "-"])
        return markdown(cells)
    rows: Sequence[Figures] = figures if isinstance(figures, list) else [figures]
    before, after = COLUMNS.get(part, ({}, {}))
    every = [contender for row in rows for contender in row["contenders"].values()]
    references = list(dict.fromkeys(name for contender in every for name in contender.get("ratios", {})))
    cells = [[*before, "whose", "time", *(f"times {name}" for name in references), *after]]
    for row in rows:
        for name, contender in row["contenders"].items():
            ratios = (contender.get("ratios", {}).get(other) for other in references)
            spreads = [f"{r['median']:.2f} ({r['low']:.2f} to {r['high']:.2f})" if r else "-" for r in ratios]
            labels, more = [make(row) for make in before.values()], [make(contender) for make in after.values()]
            cells.append([*labels, name, time(contender), *spreads, *more])
    return markdown(cells, left=len(before) + 1)


def summary_lines(parts: Figures) -> list[str]:
    """The medians beside the authors' code as a table; nothing where they were not measured."""
    from forecast.comparison.tables import markdown

    rows = [list(row) for row in summary_rows(parts) if row[1] != "-"]
    return markdown([["what", "measured"], *rows]) if rows else []


def summary_rows(parts: Figures) -> Iterator[tuple[str, str]]:
    """What was measured, and the figure, "-" for none."""
    for precision in ("fp32", "bf16-mixed"):
        steps = {size(row): times(row, f"ours {AUTHORS} {precision}", "fp32") for row in parts.get("step", [])}
        steps = {name: ratio for name, ratio in steps.items() if ratio != "-"}
        yield f"training step {', '.join(steps)}, {precision}", ", ".join(steps.values()) or "-"
    for causal in (False, True):
        duel, form = [row for row in parts.get("duel", []) if row["causal"] == causal], "causal, " * causal
        lengths = ", ".join(f"{row['L']:,}" for row in duel)
        for name in ("prob", "prob_informer2020"):
            ratios = [times(row, f"ours {name}") for row in duel]
            yield f"`attention={name}`, {form}L {lengths}", ", ".join(ratios) if {*ratios} - {"-"} else "-"
        pairs = [(row["contenders"].get("ours full"), row["contenders"].get("ours prob")) for row in duel]
        beside = [f"{full['seconds'] / prob['seconds']:.1f}" for full, prob in pairs if full and prob]
        yield f"`attention=prob` beside our full attention, {form}the same", ", ".join(beside) or "-"
    for precision in ("fp32", "bf16-mixed") if "epoch" in parts else ():
        share = f"{parts['epoch'].get('fraction', 1.0):.0%}"
        what = f"from the CSV to the validation metric, {share} of an epoch, {precision}"
        yield what, times(parts["epoch"], f"ours {AUTHORS} {precision}", "fp32")
    yield "window pipeline", times(parts.get("data", {}), "ours")
    yield "evaluation of the ETTh1 test split, fp32", times(parts.get("evaluation", {}), "ours")
    if "predict" in parts:
        yield "predict.py from the shell to the CSV", f"{parts['predict']['contenders']['predict.py']['seconds']:.1f} s"
    longest = max((row["seq_len"] for row in parts.get("step", [])), default=0)
    for row in (row for row in parts.get("step", []) if row["seq_len"] == longest):
        names = (f"ours {AUTHORS} fp32", f"{AUTHORS} fp32")
        ours, theirs = (row["contenders"].get(name, {}).get("megabytes") for name in names)
        if ours and theirs:
            yield f"memory of a step {size(row)} by theirs, fp32", f"{ours / theirs:.3f}"
    exponent = parts.get("attention", {}).get("prob", {}).get("growth", {}).get(BOTH)
    yield "exponent with which prob's time grows with the length", f"{exponent:.2f}" if exponent else "-"


def times(row: Figures, ours: str, precision: str = "") -> str:
    """How many times faster than the authors' code, the median."""
    contender = row.get("contenders", {}).get(ours, {})
    ratio = contender.get("ratios", {}).get(f"{AUTHORS} {precision}".strip())
    return f"{ratio['median']:.2f}" if ratio else "-"


def size(row: Figures) -> str:
    """Lengths and batch of a step."""
    return f"{row['seq_len']}/{row['label_len']}/{row['pred_len']} x {row['batch']}"


def machine_line(machine: Figures) -> str:
    """The machine, its versions and the date."""
    threads = f", {machine['threads']} threads" if machine["kind"] == "cpu" else ""
    return f"{machine['device']}{threads}, torch {machine['torch']}, Python {machine['python']}, {machine['date']}"


def rates_lines(machine: Figures, part: str) -> list[str]:
    """The machine's matrix products around a part, and the commit."""
    rates = machine.get("rates", {}).get(part)
    if not rates:
        return []
    pairs = [f"{rates['before'][name]:.0f} and {rates['after'][name]:.0f} in {name}" for name in rates["before"]]
    measured = f"{rates['date']}, commit {rates['commit'] or '-'}"
    return [f"Matrix products before and after, GFLOP/s: {', '.join(pairs)}. {measured}.", ""]


def time_and_memory(figures: Figures) -> str:
    """Both, or why they could not be measured."""
    return f"not measured: {figures['failed']}" if "failed" in figures else f"{time(figures)}, {memory(figures)}"


def time(figures: Figures) -> str:
    """Median time, three digits."""
    seconds = figures.get("seconds")
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds:.3g} s"


def memory(figures: Figures) -> str:
    """10^6 bytes."""
    return "-" if figures.get("megabytes") is None else f"{figures['megabytes']:,.0f} MB"


# The columns before name, time and ratios, of a row, and behind them, of a contender.
COLUMNS: Mapping[str, tuple[Columns, Columns]] = {
    "step": (
        {"sizes": lambda row: size(row).replace(" x", ",")},
        {"share": lambda figures: f"{figures['share']:.0%}" if "share" in figures else "-", "memory": memory},
    ),
    "duel": (
        {"form": lambda row: "causal" if row["causal"] else "not causal", "L": lambda row: str(row["L"])},
        {"memory": memory},
    ),
    "data": ({}, {"windows/s": lambda figures: f"{figures['windows_per_second']:,.0f}"}),
}
