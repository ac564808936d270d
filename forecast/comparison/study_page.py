"""What a study of `forecast tune` came to: in sentences, and as report.html. document: trials.json."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from forecast.report.page.charts import FAR, Chart, evenly, rounded
from forecast.report.page.document import Card, Cards, PageTable, Piece, Section, Strong, Text, chart, facts, render
from forecast.report.page.parts import ZOOM, verdict
from forecast.report.tables import short_number
from forecast.run_folder.shapes import Block, StudyDocument, Trial
from forecast.text.terminal import label

Choices = Sequence[object] | Block  # the values to choose from, or the ends of a range
# State of a trial -> its name in a legend, and its style there.
POINTS = {"finished": ("finished", "other1"), "cut": ("cut off", "other3"), "pruned": ("pruned", "past")}
MOST_TRIALS = 1000
STATES = {"finished": "finished", "pruned": "pruned", "cut": "cut off", "failed": "failed", "running": "running"}
MOST_REASONS, LONGEST = 3, 400


def sentences(document: StudyDocument) -> list[str]:
    """How many trials there were, which is the best, by how much, and how to train with it."""
    best = document["best"]
    of = f"{document['model']} on {document['data']} in {document['seconds'] / 60:.1f} minutes"
    lowest = f"The lowest error ({document['metric']}) is {short_number(best['error'])}, of trial {best['trial']}:"
    lines = [f"{lowest} {point(best)}"]
    first = document["trials"][0]
    if first["trial"] == 0 and first["error"] and best["trial"] != 0:
        gap = 100 * (1 - best["error"] / first["error"])
        lines.append(f"That is {gap:.1f} % below the first trial, {short_number(first['error'])}.")
    lines.append(f"{_many(len(document['trials']), 'trial')} of {of}: {_counts(document)}. {document['why']}")
    if best["state"] == "cut":
        lines.append(
            f"No trial was trained to its end: this one was cut off after {_many(best['epochs'] or 0, 'epoch')}. More "
            "tune.minutes would tell more."
        )
    failed = _failed(document)
    for reason, of in list(failed.items())[:MOST_REASONS]:
        lines.append(f"{f'Trials {of} have' if ',' in of else f'Trial {of} has'} failed: {label(reason, LONGEST)}")
    if len(failed) > MOST_REASONS:
        lines.append("More have failed; trials.json has the reasons.")
    lines.append(f"Train with it: {best['command']}")
    return lines


def _counts(document: StudyDocument) -> str:
    """How many trials ended how: 3 finished, 1 failed."""
    states = document["states"]
    return ", ".join(f"{states[state]} {name}" for state, name in STATES.items() if state in states)


def point(trial: Trial) -> str:
    """What was drawn for a trial, as one types it."""
    return label(" ".join(f"{key}={value_of(value)}" for key, value in trial["config"].items()), LONGEST)


def study_page(document: StudyDocument) -> str:
    """The page: the best trial first, then how the error fell, every trial, what was varied."""
    best, trials, name = document["best"], document["trials"], label(str(document["model"]))
    taken = f"{document['seconds'] / 60:.1f}"
    of = "" if document["minutes"] is None else f" of {document['minutes']:g}"
    settings = [
        ("model", name),
        ("data", label(str(document["data"]))),
        ("judged by", document["metric"]),
        ("asked for", _budget(document)),
        ("taken", f"{taken} minutes, {_many(len(trials), 'trial')}"),
        ("ended", document["why"]),
        *([] if "seq_len" in document["space"] else [("seq_len", str(document["seq_len"]))]),
        ("pred_len", str(document["pred_len"])),
        ("seed", str(document["seed"])),
    ]
    lowest = f"The lowest validation error of each trial, pruned ones among them, up to {FAR:g} times the median."
    rows = [[key, value_of(best["config"][key]), _drawn_from(drawn)] for key, drawn in document["space"].items()]
    return render(
        title=f"Tuning of {name} on {label(str(document['data']))}",
        subtitle=[f"{_many(len(trials), 'trial')}, judged by validation alone; no trial saw a test row."],
        sections=[
            Section(
                "",
                "",
                [
                    verdict(sentences(document)),
                    Cards(
                        [
                            Card(
                                "lowest error",
                                short_number(best["error"]),
                                f"{document['metric']}, on validation windows",
                            ),
                            Card("of trial", str(best["trial"]), "counted from 0"),
                            Card("trials", str(len(trials)), _counts(document)),
                            Card("minutes", f"{taken}{of}", "of the clock, all trainings together"),
                        ]
                    ),
                ],
            ),
            Section(
                "errors",
                "Error by trial",
                [chart(errors_chart(document), f"{lowest} {ZOOM}") or Text("No trial has an error yet.")],
            ),
            Section(
                "best",
                "The best config",
                [PageTable(rows, ["key", "best", "drawn from"], words=(0, 2))],
            ),
            Section("trials", "All trials", _trials(document)),
            Section("study", "The study", [facts(settings)]),
        ],
    )


def _trials(document: StudyDocument) -> list[Piece | None]:
    """All trials by their error, then why some have failed: beside the others that would make rows of many lines."""
    keys = list(document["space"])
    in_order = sorted(
        document["trials"], key=lambda trial: (trial["error"] is None, trial["error"] or 0.0, trial["trial"])
    )
    rows = []
    for trial in in_order:
        error = "-" if trial["error"] is None else short_number(trial["error"])
        cells = [
            Strong(error) if trial["trial"] == document["best"]["trial"] else error,
            STATES.get(trial["state"], trial["state"]),
            "-" if trial["seconds"] is None else f"{trial['seconds']:.1f}",
            str(trial["epochs"] or "-"),
            *(value_of(trial["config"].get(key)) for key in keys),
        ]
        rows.append([str(trial["trial"]), *cells])
    heads = ["trial", "error", "state", "seconds", "epochs", *keys]
    reasons = [[of, label(reason, LONGEST)] for reason, of in _failed(document).items()]
    return [
        PageTable(rows, heads, words=(2,), caption=document["metric"]),
        PageTable(reasons, ["failed", "with"], words=(0, 1)) if reasons else None,
    ]


def _failed(document: StudyDocument) -> dict[str, str]:
    """Each reason for which trials have failed -> their numbers: 1, 4."""
    numbers: dict[str, list[str]] = {}
    for trial in document["trials"]:
        if trial["state"] == "failed":
            numbers.setdefault(trial["reason"] or "not known", []).append(str(trial["trial"]))
    return {reason: ", ".join(of) for reason, of in numbers.items()}


def _budget(document: StudyDocument) -> str:
    """The budget: minutes, trials, or both."""
    minutes = [] if document["minutes"] is None else [f"{document['minutes']:g} minutes"]
    most = document["most_trials"]
    return ", ".join([*minutes, *([] if most is None else [f"{_many(most, 'trial')} at most"])]) or "-"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _drawn_from(values: Choices) -> str:
    if isinstance(values, Mapping):
        drawn = f"{value_of(values['low'])} to {value_of(values['high'])}"
        step = f", by {value_of(values['step'])}" if values.get("step") else ""
        return drawn + step + (", on a logarithmic scale" if values.get("log") else "")
    return ", ".join(map(value_of, values))


def value_of(value: object) -> str:
    """A drawn value as one types it, with four digits."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def errors_chart(document: StudyDocument) -> Chart | None:
    """A point for each trial with an error, by its number, and the lowest so far of those that were not pruned.

    Errors far above the others would squeeze them and are left to the table; of very many trials some are drawn, evenly
    spread, and the best.
    """
    finite = [trial for trial in document["trials"] if trial["error"] is not None and math.isfinite(trial["error"])]
    if not finite:
        return None
    limit = FAR * float(np.median([trial["error"] for trial in finite]))
    near = [trial for trial in finite if trial["error"] <= limit]
    some = set(evenly(len(near), MOST_TRIALS))
    drawn = [trial for i, trial in enumerate(near) if i in some or trial["trial"] == document["best"]["trial"]]
    lowest, so_far = math.inf, list[float]()
    for trial in drawn:
        lowest = min(lowest, trial["error"] if trial["state"] != "pruned" else lowest)
        so_far.append(lowest)
    lines: list[Chart] = [{"name": "lowest so far", "style": "forecast"}]
    curves = [so_far]
    for state, (name, style) in POINTS.items():
        errors = [trial["error"] if trial["state"] == state else math.nan for trial in drawn]
        if not np.isnan(errors).all():
            lines.append({"name": name, "style": style, "points": True})
            curves.append(errors)
    x = [drawn[0]["trial"] - 0.5, *(trial["trial"] for trial in drawn), drawn[-1]["trial"] + 0.5]
    return {
        "kind": "lines",
        "title": "Error by trial",
        "x": {"kind": "number", "label": "trial"},
        "y": {"label": label(document["metric"])},
        "lines": lines,
        "panels": [{"x": x, "lines": [[None, *rounded([np.array(curve)])[0], None] for curve in curves]}],
    }
