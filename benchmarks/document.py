"""Figures as the tables of docs/performance.md, which scripts/benchmark.py prints as well.

The table writer is imported where it is called: it brings SciPy, which a process that measures need not load.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.setting import PRECISIONS, print_now

Figures = Mapping[str, Any]
Columns = Mapping[str, Callable[[Figures], str]]
KINDS = {"cpu": "On a CPU", "cuda": "On a GPU"}
AUTHORS = "informer2020"
BOTH = "forward+backward"
# Key in a file of figures: heading, and what is measured.
SECTIONS = {
    "step": (
        "A training step",
        "Forward, loss, backward and optimizer; seq_len/label_len/pred_len, batch. graph: all of it recorded once and "
        "replayed",
    ),
    "duel": ("Attention beside the peers'", "Forward and backward of the mechanism alone, float32"),
    "attention": ("Every attention by length", "Forward and backward, batch 1: time and memory, and growth of time"),
    "data": ("Windows", "A shuffled epoch of train windows"),
    "epoch": ("An epoch", "From the CSV file to the first validation metric"),
    "evaluation": ("Evaluation", "Every test window of ETTh1, by the same weights"),
    "predict": ("predict.py", "From the shell to the CSV file, a full-size checkpoint"),
    "panels": ("Many series", ""),
    "panel_peer": ("Many series beside neuralforecast", ""),
}
NOT_RUN = {"panels": "python scripts/benchmark.py panels --peer neuralforecast --json results/performance/cpu.json"}


def document_lines(files: Mapping[str, Figures]) -> list[str]:
    """All tables. files: "cpu" and "cuda", what there is of them, as `record.read` gives it."""
    lines: list[str] = []
    for kind in (kind for kind in KINDS if kind in files):
        machine, parts = files[kind]["machine"], files[kind]["parts"]
        lines += [f"## {KINDS[kind]}", "", f"{machine_line(machine)}.", ""]
        if summary := summary_lines(parts):
            note = "Times the authors' code, medians; spreads are in the tables below."
            lines += ["### In short", "", note, "", *summary, ""]
        for part, (title, _) in SECTIONS.items():
            if part in parts:
                text = described(part, parts[part])
                lines += [f"### {title}", "", f"{text}.", "", *part_table(part, parts[part]), ""]
                lines += rates_lines(machine, part)
            elif part in NOT_RUN and kind == "cpu":
                lines += [f"### {title}", "", f"Not run yet: `{NOT_RUN[part]}`.", ""]
    return lines[:-1] or ["Nothing has been measured yet."]


def described(part: str, figures: Any) -> str:
    """What was measured, with the sizes that it was measured with."""
    text = SECTIONS[part][1]
    if part == "epoch" and figures["fraction"] < 1.0:
        return f"{text}, {figures['fraction']:.0%} of its batches"
    if part == "panels":
        windows, predicted = figures["windows"], figures["predicted"]
        lengths = "/".join(str(figures[f"predicted_{name}"]) for name in ("seq_len", "label_len", "pred_len"))
        return (
            f"{figures['series']:,} made-up daily series of {figures['rows']} rows in one Parquet file, `data.cache`, "
            f"an Informer of {widths(figures)}, windows of {size(figures).replace(' x', ' in batches of')}. converted: "
            "once, into the cache. opened: from there to splits and scales. baselines: fitted. an epoch: of "
            f"{windows:,} windows. windows alone: as many, with no model, one thread. predict: {predicted:,} series of "
            f"{figures['predicted_rows']} rows at {lengths}, in two processes with a thread each, from the shell to "
            "the merged CSV. memory: of a whole process, mapped pages of files among it"
        )
    if part == "panel_peer":
        row = figures[0]
        return (
            f"{row['series']:,} made-up daily series of {row['rows']} rows, an Informer of {widths(row)} on both "
            f"sides, {row['steps']} steps of {row['batch']} windows {size(row).partition(' ')[0]}, series scaled one "
            "by one. prepare: from the file to the first step; train: the steps; predict: every series, as a table; "
            "memory: of the whole process. Ours reads the calendar too, which theirs is not given, looks for leaks and "
            "writes a checkpoint; its baselines are not counted"
        )
    return text


def widths(figures: Figures) -> str:
    """The model's sizes."""
    return f"d_model {figures['d_model']}, {figures['n_heads']} heads, d_ff {figures['d_ff']}"


def print_table(part: str, figures: Any) -> None:
    """Prints the table of a part, and below it what could not be measured."""
    print_now("", *part_table(part, figures))
    for row in figures if isinstance(figures, list) else []:
        for name, contender in row["contenders"].items():
            if "failed" in contender:
                print_now(f"{name}: {time_and_memory(contender)}")


def part_table(part: str, figures: Any) -> list[str]:
    """What a file has under a part's key as Markdown, a line for each contender.

    Of every attention: forward and backward, a line for each, with a column for each length.
    """
    from forecast.comparison.tables import markdown

    if part == "attention":
        lengths = sorted({row["L"] for sweep in figures.values() for row in sweep["rows"]})
        cells = [["attention", *(f"L {length}" for length in lengths), "time grows as"]]
        for name, sweep in figures.items():
            both = {row["L"]: row[BOTH] for row in sweep["rows"] if "seconds" in row.get(BOTH, {})}
            exponent = sweep["growth"].get(BOTH)
            texts = [time_and_memory(both[length]) if length in both else "-" for length in lengths]
            cells.append([name, *texts, f"L^{exponent:.2f}" if exponent else "-"])
        return markdown(cells)
    rows: list[Figures] = figures if isinstance(figures, list) else [figures]
    before, after = COLUMNS.get(part, ({}, {}))
    ratios = [contender.get("ratios", {}) for row in rows for contender in row["contenders"].values()]
    references = list(dict.fromkeys(name for names in ratios for name in names))
    whose = "what" if part == "panels" else "whose"
    cells = [[*before, whose, "time", *(f"times {name}" for name in references), *after]]
    for row in rows:
        for name, contender in row["contenders"].items():
            own = [contender.get("ratios", {}).get(other) for other in references]
            spreads = [f"{r['median']:.2f} ({r['low']:.2f} to {r['high']:.2f})" if r else "-" for r in own]
            labels, more = [make(row) for make in before.values()], [make(contender) for make in after.values()]
            cells.append([*labels, name, time(contender), *spreads, *more])
    return markdown(cells, left=len(before) + 1)


def summary_lines(parts: Figures) -> list[str]:
    """The medians beside the authors' code as a table; nothing where they were not measured."""
    from forecast.comparison.tables import markdown

    rows = [[what, ", ".join(figures)] for what, figures in summary(parts) if {*figures} - {"-"}]
    return markdown([["what", "measured"], *rows]) if rows else []


def summary(parts: Figures) -> Iterator[tuple[str, list[str]]]:
    """What was measured, and the figures, "-" for one that is missing."""
    steps: list[Figures] = parts.get("step", [])
    for way, precision in itertools.product(("", "graph"), PRECISIONS):
        ratios = {size(row): times(row, f"ours {AUTHORS} {precision} {way}".strip(), "fp32") for row in steps}
        ratios = {name: ratio for name, ratio in ratios.items() if ratio != "-"}
        yield f"training step {', '.join(ratios)}, {precision}{', replayed' * bool(way)}", [*ratios.values()]
    for causal in (False, True):
        duel, form = [row for row in parts.get("duel", []) if row["causal"] == causal], "causal, " * causal
        lengths = ", ".join(f"{row['L']:,}" for row in duel)
        for name in ("prob", "prob_informer2020"):
            yield f"`attention={name}`, {form}L {lengths}", [times(row, f"ours {name}") for row in duel]
        pairs = [(row["contenders"].get("ours full"), row["contenders"].get("ours prob")) for row in duel]
        beside = [f"{full['seconds'] / prob['seconds']:.1f}" for full, prob in pairs if full and prob]
        yield f"`attention=prob` beside our full attention, {form}the same", beside
    for precision in (*PRECISIONS, "bf16-mixed graphs") if "epoch" in parts else ():
        what = f"from the CSV to the validation metric, {parts['epoch']['fraction']:.0%} of an epoch, {precision}"
        yield what, [times(parts["epoch"], f"ours {AUTHORS} {precision}", "fp32")]
    yield "window pipeline", [times(parts.get("data", {}), "ours")]
    yield "evaluation of the ETTh1 test split, fp32", [times(parts.get("evaluation", {}), "ours")]
    if "predict" in parts:
        yield (
            "predict.py from the shell to the CSV",
            [f"{parts['predict']['contenders']['predict.py']['seconds']:.1f} s"],
        )
    for row in (row for row in steps if row["seq_len"] == max(row["seq_len"] for row in steps)):
        names = (f"ours {AUTHORS} fp32", f"{AUTHORS} fp32")
        ours, theirs = (row["contenders"].get(name, {}).get("megabytes") for name in names)
        yield f"memory of a step {size(row)} by theirs, fp32", [f"{ours / theirs:.3f}"] if ours and theirs else []
    exponent = parts.get("attention", {}).get("prob", {}).get("growth", {}).get(BOTH)
    yield "exponent with which prob's time grows with the length", [f"{exponent:.2f}"] if exponent else []


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


def rate(figures: Figures) -> str:
    """How many windows or series a second."""
    return f"{figures['rate']:,.0f} {figures['of']}/s" if "rate" in figures else "-"


# The columns before name, time and ratios, of a row, and after them, of a contender.
COLUMNS: Mapping[str, tuple[Columns, Columns]] = {
    "step": (
        {"sizes": lambda row: size(row).replace(" x", ",")},
        {"share": lambda figures: f"{figures['share']:.0%}" if "share" in figures else "-", "memory": memory},
    ),
    "duel": (
        {"form": lambda row: "causal" if row["causal"] else "not causal", "L": lambda row: str(row["L"])},
        {"memory": memory},
    ),
    "panels": ({}, {"rate": rate, "memory": memory}),
    "panel_peer": ({"stage": lambda row: str(row["stage"])}, {"memory": memory}),
    "data": ({}, {"windows/s": lambda figures: f"{figures['windows_per_second']:,.0f}"}),
}
