"""What was asked of the speed, and what came beside the authors' code."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Parts = Mapping[str, Any]
Row = tuple[str, str, str]  # what, asked, came
PEER = "informer2020"
# How many times faster than the authors' code was asked for, by kind of machine.
ASKED: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "fp32": "1.1",
        "bf16-mixed": "3",
        "prob": "4, from 1,440 on 8",
        "prob_informer2020": "2",
        "epoch fp32": "1.1",
        "epoch bf16-mixed": "3",
        "data": "50",
        "evaluation": "1.5",
    },
    "cuda": {
        "fp32": "2",
        "bf16-mixed": "5",
        "prob": "4",
        "prob_informer2020": "3",
        "epoch fp32": "-",
        "epoch bf16-mixed": "8",
        "data": "-",
        "evaluation": "8",
    },
}


def rows(parts: Parts, kind: str) -> Iterator[Row]:
    """A row for each of ASKED of which there is a figure. parts: of a file of `record`; kind: of the machine."""
    asked = ASKED[kind]
    for precision in ("fp32", "bf16-mixed"):
        steps = [row for row in parts.get("step", []) if f"ours {PEER} {precision}" in row["contenders"]]
        timed = [row for row in steps if times(row, f"ours {PEER} {precision}", f"{PEER} fp32") != "-"]
        if timed:
            each = [times(row, f"ours {PEER} {precision}", f"{PEER} fp32") for row in timed]
            yield f"training step {', '.join(map(size, timed))}, {precision}", asked[precision], ", ".join(each)
    yield from duel_rows(parts.get("duel", []), asked)
    for precision in ("fp32", "bf16-mixed"):
        if "epoch" in parts:
            share = parts["epoch"].get("fraction", 1.0)
            came = times(parts["epoch"], f"ours {PEER} {precision}", f"{PEER} fp32")
            yield (
                f"from the CSV to the validation metric, {share:.0%} of an epoch, {precision}",
                asked[f"epoch {precision}"],
                came,
            )
    for part, what in (("data", "window pipeline"), ("evaluation", "evaluation of the ETTh1 test split, fp32")):
        if part in parts:
            yield what, asked[part], times(parts[part], "ours", PEER)
    if "predict" in parts:
        yield (
            "predict.py from the shell to the CSV",
            "below 5 s",
            f"{parts['predict']['contenders']['predict.py']['seconds']:.1f} s",
        )
    yield from memory_rows(parts.get("step", []))
    growth = parts.get("attention", {}).get("prob", {}).get("growth", {}).get("forward+backward")
    if growth:
        yield "growth of prob's time with the length", "exponent 1.2", f"{growth:.2f}"


def duel_rows(duel: Sequence[Mapping[str, Any]], asked: Mapping[str, str]) -> Iterator[Row]:
    """The attentions by length, not causal and causal."""
    for causal in (False, True):
        chosen = [row for row in duel if row["causal"] == causal]
        lengths = ", ".join(f"{row['L']:,}" for row in chosen)
        form = "causal, " if causal else ""
        for name in ("prob", "prob_informer2020"):
            each = [times(row, f"ours {name}", PEER) for row in chosen]
            if any(came != "-" for came in each):
                yield f"`attention={name}`, {form}L {lengths}", asked[name], ", ".join(each)
        if chosen and all({"ours full", "ours prob"} <= row["contenders"].keys() for row in chosen):
            both = [(row["contenders"]["ours full"], row["contenders"]["ours prob"]) for row in chosen]
            each = [f"{full['seconds'] / prob['seconds']:.1f}" for full, prob in both]
            yield f"`attention=prob` beside our full attention, {form}the same", "1", ", ".join(each)


def memory_rows(steps: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Our peak by theirs at the longest window."""
    found = [row for row in steps if row["seq_len"] == max(each["seq_len"] for each in steps)]
    for row in found:
        ours, theirs = (
            row["contenders"].get(name, {}).get("megabytes") for name in (f"ours {PEER} fp32", f"{PEER} fp32")
        )
        if ours and theirs:
            yield f"memory of a step {size(row)} by theirs, fp32", "at most 0.5", f"{ours / theirs:.3f}"


def size(row: Mapping[str, Any]) -> str:
    """Lengths and batch of a step."""
    return f"{row['seq_len']}/{row['label_len']}/{row['pred_len']} x {row['batch']}"


def times(row: Mapping[str, Any], ours: str, theirs: str) -> str:
    """How many times faster, the median."""
    ratio = row["contenders"].get(ours, {}).get("ratios", {}).get(theirs)
    return f"{ratio['median']:.2f}" if ratio else "-"
