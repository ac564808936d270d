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
FAR_ABOVE = f"more than {FAR:g} times the median"
EDGE = 0.03  # of an axis, left free beside its ends
SPREAD = 0.5  # of the place of a name, over which its points are spread
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
        lines.append("More have failed; trials.csv has the reasons.")
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
    varied = (
        "Other keys vary too: a picture of one key shows where low errors lie, and does not prove what caused them."
    )
    errors, values = errors_chart(document), values_chart(document)
    lowest = "The lowest validation error of each trial, pruned ones among them."
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
                [chart(errors, f"{lowest} {ZOOM}") or Text("No trial has an error yet.")],
            ),
            Section("values", "Error by what was drawn", [chart(values, varied)]),
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
    """A point for each trial with an error, by its number, and the lowest so far of those that were not pruned."""
    known = _known(document)
    if not known:
        return None
    lowest, so_far, limit = math.inf, [math.inf], _limit(known)
    for trial in known:
        lowest = min(lowest, trial["error"] if trial["state"] != "pruned" else lowest)
        so_far.append(lowest if lowest <= limit else math.inf)  # infinite: not drawn
    so_far.append(math.inf)
    lines, drawn = _points(known)
    x = [known[0]["trial"] - 0.5, *(trial["trial"] for trial in known), known[-1]["trial"] + 0.5]
    return {
        "kind": "lines",
        "title": "Error by trial",
        "x": {"kind": "number", "label": "trial"},
        "y": {"label": label(document["metric"])},
        "lines": [{"name": "lowest so far", "style": "forecast"}, *lines],
        "panels": [{"x": x, "lines": [rounded([np.array(so_far)])[0], *([None, *line, None] for line in drawn)]}],
    }


def values_chart(document: StudyDocument) -> Chart | None:
    """The error of each trial by the value that was drawn for a key, a panel for each; None without an error."""
    known = _known(document)
    if not known:
        return None
    lines, drawn = _points(known)
    return {
        "kind": "lines",
        "title": "Error by what was drawn",
        "x": {"kind": "real", "label": ""},
        "y": {"label": label(document["metric"])},
        "lines": lines,
        "picks": [{"label": "Key", "names": [label(key) for key in document["space"]]}],
        "panels": [_panel(key, values, known, drawn) for key, values in document["space"].items()],
    }


def _panel(key: str, values: Choices, known: Sequence[Trial], drawn: Sequence[Sequence[float | None]]) -> Chart:
    """One key: trials in the order of their values, between the ends of what it is drawn from."""
    drawn_values = [trial["config"][key] for trial in known]
    if isinstance(values, Mapping):
        kind, scale = ("log", math.log10) if values.get("log") else ("real", float)
        axis: Chart = {"kind": kind, "label": label(key)}
        low, high = scale(values["low"]), scale(values["high"])
        ends = [low - EDGE * (high - low), high + EDGE * (high - low)]
        places: list[float] = [scale(float(value or 0)) for value in drawn_values]
    else:
        names = [_name(value) for value in values]
        axis = {"kind": "names", "label": label(key), "names": [label(name) for name in names]}
        ends = [-0.5, len(names) - 0.5]
        beside = np.linspace(-SPREAD / 2, SPREAD / 2, len(known))
        places = [names.index(_name(value)) + shift for value, shift in zip(drawn_values, beside, strict=True)]
    order = sorted(range(len(known)), key=lambda i: places[i])
    return {
        "x": [float(f"{x:.6g}") for x in (ends[0], *(places[i] for i in order), ends[1])],
        "lines": [[None, *(line[i] for i in order), None] for line in drawn],
        "axis": axis,
        "notes": ["", *(f"trial {known[i]['trial']}" for i in order), ""],
    }


def _name(value: object) -> str:
    """A choice, and the same one as a trial has it, which keeps six digits."""
    return value_of(float(f"{value:.6g}") if isinstance(value, float) else value)


def _known(document: StudyDocument) -> list[Trial]:
    """The trials that have an error; of very many some, evenly spread, and the best."""
    known = [trial for trial in document["trials"] if trial["error"] is not None and math.isfinite(trial["error"])]
    kept = set(evenly(len(known), MOST_TRIALS)) if known else set()
    return [trial for i, trial in enumerate(known) if i in kept or trial["trial"] == document["best"]["trial"]]


def _limit(known: Sequence[Trial]) -> float:
    """Above it an error would squeeze the others."""
    return FAR * float(np.median([trial["error"] for trial in known]))


def _points(known: Sequence[Trial]) -> tuple[list[Chart], list[list[float | None]]]:
    """The legend of the states that trials have ended in, and the errors of each, None for a trial of another one.

    What is far above the others would squeeze them: such trials are a line of their own, drawn on request.
    """
    limit = _limit(known)
    lines, errors = [], []
    for state, (name, style) in {**POINTS, FAR_ABOVE: (FAR_ABOVE, "other5")}.items():
        of_it = [
            trial["error"] if (trial["state"] if trial["error"] <= limit else FAR_ABOVE) == state else math.nan
            for trial in known
        ]
        if not np.isnan(of_it).all():
            far = {"far": True} if state == FAR_ABOVE else {}
            lines.append({"name": name, "style": style, "points": True, **far})
            errors.append(rounded([np.array(of_it)])[0])
    return lines, errors
