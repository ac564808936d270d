"""What a study of `forecast tune` came to: in sentences, and as report.html. document: trials.json."""

from collections.abc import Mapping, Sequence

from forecast.comparison.study_charts import errors_chart, value_of, values_chart
from forecast.report.page.document import Section, document, facts, paragraph
from forecast.report.page.parts import NO_SCRIPT, ZOOM, Drawing, far_note, tiles, verdict_box
from forecast.report.page.tables import Strong, plain_table
from forecast.report.tables import short_number
from forecast.run_folder.shapes import Ends, Scalar, StudyDocument, Trial
from forecast.text.terminal import label

STATES = {"finished": "finished", "pruned": "pruned", "cut": "cut off", "failed": "failed", "running": "running"}
MOST_REASONS, LONGEST = 3, 400


def sentences(found: StudyDocument) -> list[str]:
    """How many trials there were, which is the best, by how much, and how to train with it."""
    best, states = found["best"], found["states"]
    counts = ", ".join(f"{states[state]} {name}" for state, name in STATES.items() if state in states)
    of = f"{found['model']} on {found['data']} in {found['seconds'] / 60:.1f} minutes"
    lowest = f"The lowest error ({found['metric']}) is {short_number(best['error'])}, of trial {best['trial']}:"
    said = [f"{lowest} {point(best)}"]
    first = found["trials"][0]
    if first["trial"] == 0 and first["error"] and best["error"] is not None and best["trial"] != 0:
        gap = 100 * (1 - best["error"] / first["error"])
        said.append(f"That is {gap:.1f} % below the first trial, {short_number(first['error'])}.")
    said.append(f"{_many(len(found['trials']), 'trial')} of {of}: {counts}. {found['why']}")
    if best["state"] == "cut":
        said.append(
            f"No trial was trained to its end: this one was cut off after {_many(best['epochs'] or 0, 'epoch')}. More "
            "tune.minutes would tell more."
        )
    failed = _failed(found)
    for reason, of in list(failed.items())[:MOST_REASONS]:
        said.append(f"{f'Trials {of} have' if ',' in of else f'Trial {of} has'} failed: {label(reason, LONGEST)}")
    if len(failed) > MOST_REASONS:
        said.append("More have failed; trials.csv has the reasons.")
    said.append(f"Train with it: {best['command']}")
    return said


def point(trial: Trial) -> str:
    """What was drawn for a trial, as one types it."""
    return label(" ".join(f"{key}={value_of(value)}" for key, value in trial["config"].items()), LONGEST)


def study_page(found: StudyDocument) -> str:
    """The page: the best trial first, then how the error fell, every trial, what was varied."""
    draw = Drawing()
    best = found["best"]
    boxes = {
        "lowest error": short_number(best["error"]),
        "of trial": str(best["trial"]),
        "trials": str(len(found["trials"])),
        "minutes": _minutes(found),
    }
    settings = [
        ("model", label(str(found["model"]))),
        ("data", label(str(found["data"]))),
        ("judged by", found["metric"]),
        ("asked for", _asked(found)),
        ("taken", f"{found['seconds'] / 60:.1f} minutes, {_many(len(found['trials']), 'trial')}"),
        ("ended", found["why"]),
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
            Section("values", "Error by what was drawn", _values(found, draw)),
            Section("best", "The best config", _best(found)),
            Section("trials", "All trials", _trials(found)),
            Section("study", "The study", [facts(settings)]),
        ],
        charts=draw.charts,
    )


def _errors(found: StudyDocument, draw: Drawing) -> list[str]:
    made = errors_chart(found)
    if made is None:
        return [paragraph("No trial has an error yet.")]
    says = "The lowest validation error of each trial, pruned ones among them."
    return [paragraph(f"{says} {ZOOM}"), far_note(made), draw(made)]


def _values(found: StudyDocument, draw: Drawing) -> list[str]:
    made = values_chart(found)
    if made is None:
        return []
    says = "Other keys vary too: a picture of one key shows where low errors lie, and does not prove what caused them."
    return [paragraph(says), far_note(made), draw(made)]


def _best(found: StudyDocument) -> list[str]:
    drawn = found["best"]["config"]
    rows = [[key, value_of(drawn[key]), _drawn_from(values)] for key, values in found["space"].items()]
    table = plain_table(["key", "best", "drawn from"], rows, ["", "number", ""])
    return [table, paragraph(f"As a file of this folder: {found['best']['file']}. The command above trains with it.")]


def _trials(found: StudyDocument) -> list[str]:
    """All trials by their error, then why some have failed: beside the others that would make rows of many lines."""
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
            *(value_of(trial["config"].get(key)) for key in keys),
        ]
        rows.append([str(trial["trial"]), *cells])
    heads = ["trial", "error", "state", "seconds", "epochs", *keys]
    kinds = ["number", "number", "", "number", "number", *["number"] * len(keys)]
    whole = plain_table(heads, rows, kinds, found["metric"])
    reasons = [[of, label(reason, LONGEST)] for reason, of in _failed(found).items()]
    return [whole, plain_table(["failed", "with"], reasons, ["", ""]) if reasons else ""]


def _failed(found: StudyDocument) -> dict[str, str]:
    """Each reason for which trials have failed -> their numbers: 1, 4."""
    numbers: dict[str, list[str]] = {}
    for trial in found["trials"]:
        if trial["state"] == "failed":
            numbers.setdefault(trial["reason"] or "not known", []).append(str(trial["trial"]))
    return {reason: ", ".join(of) for reason, of in numbers.items()}


def _minutes(found: StudyDocument) -> str:
    """What was taken, of what was asked for."""
    taken = f"{found['seconds'] / 60:.1f}"
    return taken if found["minutes"] is None else f"{taken} of {found['minutes']:g}"


def _asked(found: StudyDocument) -> str:
    """The budget: minutes, trials, or both."""
    minutes = [] if found["minutes"] is None else [f"{found['minutes']:g} minutes"]
    most = found.get("most_trials")  # not in studies of former programs
    return ", ".join([*minutes, *([] if most is None else [f"{_many(most, 'trial')} at most"])]) or "-"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _drawn_from(values: Sequence[Scalar] | Ends) -> str:
    if isinstance(values, Mapping):
        drawn = f"{value_of(values['low'])} to {value_of(values['high'])}"
        step = f", by {value_of(values['step'])}" if values.get("step") else ""
        return drawn + step + (", by the logarithm" if values.get("log") else "")
    return ", ".join(map(value_of, values))
