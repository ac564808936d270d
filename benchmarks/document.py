"""The figures of a file as tables of docs/performance.md."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import summary
from benchmarks.setting import AS_IT_IS, PRECISIONS
from benchmarks.tables import machine_line, milliseconds

KINDS = {"cpu": "On a CPU", "cuda": "On a GPU"}
# Parts with one list of contenders: heading, and what is timed.
SIMPLE = {
    "data": ("Windows", "a shuffled epoch of train windows"),
    "epoch": ("An epoch", "from the CSV file to the first validation metric"),
    "evaluation": ("Evaluation", "every test window of ETTh1, by the same weights"),
    "predict": ("predict.py", "from the shell to the CSV file, a full-size checkpoint"),
    "startup": ("Starting", "from the shell"),
}
Table = Iterator[str]


def document_lines(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All tables. files: "cpu" and "cuda", what there is of them, as `record.read` gives it."""
    if not files:
        return ["Nothing has been measured yet."]
    lines: list[str] = []
    for kind in (kind for kind in KINDS if kind in files):
        machine, parts = files[kind]["machine"], files[kind]["parts"]
        lines += [f"## {KINDS[kind]}", "", f"{machine_line(machine)}.", "", *summary_lines(parts, kind)]
        makers: dict[str, Callable[[Any], Table]] = {
            "step": step_table,
            "duel": duel_table,
            "attention": sweep_table,
            "decoding": decoding_table,
            "changes": changes_table,
        }
        for part in ("step", "changes", "duel", "attention", *SIMPLE, "decoding"):
            if part in parts:
                made = makers[part](parts[part]) if part in makers else simple_table(part, parts[part])
                lines += [*made, *rates_lines(machine, part), ""]
    return lines[:-1]


def summary_lines(parts: Mapping[str, Any], kind: str) -> list[str]:
    """What was asked and what came, where the authors' code was measured beside us."""
    found = list(summary.rows(parts, kind))
    if not any(came != "-" for _, _, came in found):
        return []
    says = "Times the authors' code, medians; spreads are in the tables below"
    return [*heading("In short", says), *header(["what", "asked", "came"]), *map(line, found), ""]


def rates_lines(machine: Mapping[str, Any], part: str) -> list[str]:
    """The machine's matrix products around a part, and the commit."""
    rates = machine.get("rates", {}).get(part)
    if not rates:
        return []
    shown = ", ".join(
        f"{rates['before'][name]:.0f} and {rates['after'][name]:.0f} in {name}" for name in rates["before"]
    )
    return [
        "",
        f"Matrix products before and after, GFLOP/s: {shown}. {rates['date']}, commit {rates['commit'] or '-'}.",
    ]


def step_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each size and contender."""
    references = references_of(rows)
    yield from heading("A training step", "forward, loss, backward and optimizer; seq_len/label_len/pred_len, batch")
    yield from header(["sizes", "whose", "time", *(f"times {name}" for name in references), "share", "memory"])
    for row in rows:
        sizes = f"{row['seq_len']}/{row['label_len']}/{row['pred_len']}, {row['batch']}"
        for name, figures in row["contenders"].items():
            yield line([sizes, name, time(figures), *ratios(figures, references), share(figures), memory(figures)])


def duel_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each form, length and contender."""
    references = references_of(rows)
    yield from heading("Attention beside the peers'", "forward and backward of the mechanism alone, float32")
    yield from header(["form", "L", "whose", "time", *(f"times {name}" for name in references), "memory"])
    for row in rows:
        form = "causal" if row["causal"] else "not causal"
        for name, figures in row["contenders"].items():
            yield line([form, str(row["L"]), name, time(figures), *ratios(figures, references), memory(figures)])


def sweep_table(attentions: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line for each attention, a column for each length: time and memory of forward and backward."""
    lengths = sorted({row["L"] for each in attentions.values() for row in each["rows"]})
    which = "forward+backward"
    yield from heading(
        "Every attention by length", "forward and backward, batch 1: time and memory, and growth of time"
    )
    yield from header(["attention", *(f"L {length}" for length in lengths), "time grows as"])
    for name, each in attentions.items():
        found = {row["L"]: row.get(which, {}) for row in each["rows"]}
        cells = [f"{time(found.get(length, {}))}, {memory(found.get(length, {}))}" for length in lengths]
        exponent = each["growth"].get(which)
        yield line([name, *(cell.replace("-, -", "-") for cell in cells), f"L^{exponent:.2f}" if exponent else "-"])


def decoding_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line for each pred_len."""
    yield from heading("Decoding", "a forecast of a batch, step by step")
    yield from header(["model", "batch", "pred_len", "with the cache", "without"])
    for row in rows:
        both = [time(row.get(how, {})) for how in ("cached", "uncached")]
        yield line([row["model"], str(row["batch"]), str(row["pred_len"]), *both])


def simple_table(part: str, found: Mapping[str, Any]) -> Table:
    """A line for each contender."""
    references = references_of([found])
    title, says = SIMPLE[part]
    fraction = found.get("fraction", 1.0)
    yield from heading(title, says + (f", {fraction:.0%} of its batches" if fraction < 1.0 else ""))
    more = ["windows/s"] if part == "data" else []
    yield from header(["", "time", *(f"times {name}" for name in references), *more])
    for name, figures in found["contenders"].items():
        rate = [f"{figures['windows_per_second']:,.0f}"] if more else []
        yield line([name, time(figures), *ratios(figures, references), *rate])


def changes_table(recipes: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line for each recipe and change, a column for each precision."""
    yield from heading(
        "What each change of a step is worth", "how many times slower our step is with one of them undone, 96/48/24"
    )
    precisions = list(PRECISIONS)
    yield from header(["model", "without", *precisions])
    for recipe, found in recipes.items():
        for name in found[precisions[0]]:
            each = [found[precision][name] for precision in precisions]
            if name == AS_IT_IS:
                yield line([recipe, name, *(time(figures) for figures in each)])
            else:
                yield line([recipe, name, *(spread(figures["slower"]) for figures in each)])


def spread(ratio: Mapping[str, float]) -> str:
    """A ratio with its deciles."""
    return f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def references_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The peers that ratios refer to, in their order."""
    every = [each for row in rows for figures in row["contenders"].values() for each in figures.get("ratios", {})]
    return list(dict.fromkeys(every))


def heading(title: str, says: str) -> Table:
    """A title, and one sentence."""
    yield from (f"### {title}", "", f"{says[0].upper()}{says[1:]}.", "")


def header(names: Sequence[str]) -> Table:
    """The head of a table."""
    yield line(names)
    yield "|" + "---|" * len(names)


def line(cells: Sequence[str]) -> str:
    """One row."""
    return f"| {' | '.join(cells)} |"


def ratios(figures: Mapping[str, Any], references: Sequence[str]) -> list[str]:
    """How many times faster than each reference, with the spread."""
    found = figures.get("ratios", {})
    return [spread(found[name]) if name in found else "-" for name in references]


def time(figures: Mapping[str, Any]) -> str:
    """Median time."""
    return milliseconds(figures["seconds"]) if figures.get("seconds") is not None else "-"


def share(figures: Mapping[str, Any]) -> str:
    """Of the machine's rate."""
    return f"{figures['share']:.0%}" if figures.get("share") is not None else "-"


def memory(figures: Mapping[str, Any]) -> str:
    """10^6 bytes."""
    return f"{figures['megabytes']:,.0f} MB" if figures.get("megabytes") is not None else "-"
