"""What a study of `forecast tune` came to: in sentences, and as report.html. document: trials.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.report.page.charts import folds_chart
from forecast.report.page.document import Section, document, facts, paragraph
from forecast.report.page.parts import NO_SCRIPT, Drawing, tiles, verdict_box
from forecast.report.page.tables import Strong, plain_table
from forecast.report.tables import short_number
from forecast.text.terminal import label

Document = Mapping[str, Any]
STATES = {"finished": "finished", "pruned": "pruned", "cut": "cut off", "failed": "failed", "running": "running"}
MOST_REASONS, LONGEST = 3, 400


def sentences(found: Document) -> list[str]:
    """How many trials there were, which is the best, by how much, and how to train with it."""
    best, states = found["best"], found["states"]
    counts = ", ".join(f"{states[state]} {name}" for state, name in STATES.items() if state in states)
    of = f"{found['model']} on {found['data']} in {found['seconds'] / 60:.1f} minutes"
    lowest = f"The lowest error ({found['metric']}) is {short_number(best['error'])}, of trial {best['trial']}:"
    said = [f"{lowest} {point(best)}"]
    first = found["trials"][0]
    if first["trial"] == 0 and first["error"] and best["trial"] != 0:
        gap = 100 * (1 - best["error"] / first["error"])
        said.append(f"That is {gap:.1f} % below the first trial, {short_number(first['error'])}.")
    said.append(f"{_many(len(found['trials']), 'trial')} of {of}: {counts}. {found['why']}")
    if best["state"] == "cut":
        said.append(
            f"No trial was trained to its end: this one was cut off after {_many(best['epochs'], 'epoch')}. More "
            "tune.minutes would tell more."
        )
    failed = [trial for trial in found["trials"] if trial["state"] == "failed"]
    said += [f"Trial {trial['trial']} has failed: {label(trial['reason'], LONGEST)}" for trial in failed[:MOST_REASONS]]
    if len(failed) > MOST_REASONS:
        said.append(f"{len(failed) - MOST_REASONS} more have failed; trials.csv has the reasons.")
    said.append(f"Train with it: {best['command']}")
    return said


def point(trial: Document) -> str:
    """What was drawn for a trial, as one types it."""
    return label(" ".join(f"{key}={_value(value)}" for key, value in trial["config"].items()), LONGEST)


def study_page(found: Document) -> str:
    """The page: the best trial first, then how the error fell, every trial, what was varied."""
    draw = Drawing()
    best = found["best"]
    boxes = {
        "lowest error": short_number(best["error"]),
        "of trial": str(best["trial"]),
        "trials": str(len(found["trials"])),
        "minutes": f"{found['seconds'] / 60:.1f}",
    }
    settings = [
        ("model", label(str(found["model"]))),
        ("data", label(str(found["data"]))),
        ("judged by", found["metric"]),
        *([] if "seq_len" in found["space"] else [("seq_len", str(found["seq_len"]))]),
        ("pred_len", str(found["pred_len"])),
        ("seed", str(found["seed"])),
    ]
    return document(
        title=f"Tuning of {label(str(found['model']))} on {label(str(found['data']))}",
        subtitle=[f"{_many(len(found['trials']), 'trial')}, judged by validation alone; no trial saw a test row."],
        lead=[verdict_box(sentences(found)), tiles(boxes), paragraph(NO_SCRIPT, "note drawless")],
        sections=[
            Section("errors", "Error by trial", _errors(found, draw)),
            Section("best", "The best config", [_best(found)]),
            Section("trials", "All trials", [_trials(found)]),
            Section("study", "The study", [facts(settings)]),
        ],
        charts=draw.charts,
    )


def _errors(found: Document, draw: Drawing) -> list[str]:
    known = [trial for trial in found["trials"] if trial["error"] is not None]
    lowest, so_far = float("inf"), []
    for trial in known:
        lowest = min(lowest, trial["error"] if trial["state"] != "pruned" else lowest)
        so_far.append(None if lowest == float("inf") else lowest)
    lines: dict[str, Sequence[float | None]] = {"trial": [trial["error"] for trial in known], "best so far": so_far}
    styles = {"trial": "past", "best so far": "forecast"}
    x, axis = [trial["trial"] for trial in known], {"kind": "number", "label": "trial"}
    says = "The lowest validation error of each trial, pruned ones among them."
    return [paragraph(says), draw(folds_chart("Error by trial", x, {found["metric"]: lines}, styles, axis=axis))]


def _best(found: Document) -> str:
    config = found["best"]["config"]
    rows = [[key, _value(config[key]), _drawn_from(values)] for key, values in found["space"].items()]
    return plain_table(["key", "best", "drawn from"], rows, ["", "number", ""])


def _trials(found: Document) -> str:
    keys = list(found["space"])
    in_order = sorted(found["trials"], key=lambda one: (one["error"] is None, one["error"] or 0.0, one["trial"]))
    rows = []
    for trial in in_order:
        error = "-" if trial["error"] is None else short_number(trial["error"])
        cells = [
            Strong(error) if trial["trial"] == found["best"]["trial"] else error,
            STATES.get(trial["state"], trial["state"]),
            "-" if trial["seconds"] is None else f"{trial['seconds']:.1f}",
            str(trial["epochs"] or "-"),
            *(_value(trial["config"].get(key)) for key in keys),
            label(trial["reason"] or ""),
        ]
        rows.append([str(trial["trial"]), *cells])
    heads = ["trial", "error", "state", "seconds", "epochs", *keys, "reason"]
    kinds = ["number", "number", "", "number", "number", *["number"] * len(keys), ""]
    return plain_table(heads, rows, kinds, found["metric"])


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _drawn_from(values: Any) -> str:
    if isinstance(values, Mapping):
        drawn = f"{_value(values['low'])} to {_value(values['high'])}"
        step = f", by {_value(values['step'])}" if values.get("step") else ""
        return drawn + step + (", by the logarithm" if values.get("log") else "")
    return ", ".join(map(_value, values))
