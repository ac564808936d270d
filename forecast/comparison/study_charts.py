"""Pictures of a study: the error of each trial, and beside each value that was drawn."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from forecast.report.page.charts import FAR, Chart, evenly, rounded
from forecast.run_folder.shapes import Ends, Scalar, StudyDocument, Trial
from forecast.text.terminal import label

# State of a trial -> its name in a legend, and its style there.
POINTS = {"finished": ("finished", "other1"), "cut": ("cut off", "other3"), "pruned": ("pruned", "past")}
MOST_TRIALS = 1000
FAR_ABOVE = f"more than {FAR:g} times the median"
EDGE = 0.03  # of an axis, left free beside its ends
SPREAD = 0.5  # of the place of a name, over which its points are spread


def value_of(value: Scalar) -> str:
    """A drawn value as one types it, with four digits."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def errors_chart(found: StudyDocument) -> Chart | None:
    """A point for each trial with an error, by its number, and the lowest so far of those that were not pruned."""
    known = _known(found)
    if not known:
        return None
    lowest, so_far, limit = math.inf, [math.inf], _limit(known)
    for trial in known:
        lowest = min(lowest, _error(trial) if trial["state"] != "pruned" else lowest)
        so_far.append(lowest if lowest <= limit else math.inf)  # infinite: not drawn
    so_far.append(math.inf)
    lines, drawn = _points(known)
    x: list[float] = [known[0]["trial"] - 0.5, *(trial["trial"] for trial in known), known[-1]["trial"] + 0.5]
    return {
        "kind": "lines",
        "title": "Error by trial",
        "x": {"kind": "number", "label": "trial"},
        "y": {"label": label(found["metric"])},
        "lines": [{"name": "lowest so far", "style": "forecast"}, *lines],
        "panels": [{"x": x, "lines": [rounded([np.array(so_far)])[0], *([None, *line, None] for line in drawn)]}],
    }


def values_chart(found: StudyDocument) -> Chart | None:
    """The error of each trial by the value that was drawn for a key, a panel for each; None without an error."""
    known = _known(found)
    if not known:
        return None
    lines, drawn = _points(known)
    return {
        "kind": "lines",
        "title": "Error by what was drawn",
        "x": {"kind": "real", "label": ""},
        "y": {"label": label(found["metric"])},
        "lines": lines,
        "picks": [{"label": "Key", "names": [label(key) for key in found["space"]]}],
        "panels": [_panel(key, values, known, drawn) for key, values in found["space"].items()],
    }


def _panel(
    key: str, values: Sequence[Scalar] | Ends, known: Sequence[Trial], drawn: Sequence[Sequence[float | None]]
) -> Chart:
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


def _name(value: Scalar) -> str:
    """A choice, and the same one as a trial has it, which keeps six digits."""
    return value_of(float(f"{value:.6g}") if isinstance(value, float) else value)


def _known(found: StudyDocument) -> list[Trial]:
    """The trials that have an error; of very many some, evenly spread, and the best."""
    known = [trial for trial in found["trials"] if trial["error"] is not None and math.isfinite(trial["error"])]
    kept = set(evenly(len(known), MOST_TRIALS)) if known else set()
    return [trial for i, trial in enumerate(known) if i in kept or trial["trial"] == found["best"]["trial"]]


def _error(trial: Trial) -> float:
    assert trial["error"] is not None
    return trial["error"]


def _limit(known: Sequence[Trial]) -> float:
    """Above it an error would squeeze the others."""
    return FAR * float(np.median([_error(trial) for trial in known]))


def _points(known: Sequence[Trial]) -> tuple[list[Chart], list[list[float | None]]]:
    """The legend of the states that trials have ended in, and the errors of each, None for a trial of another one.

    What is far above the others would squeeze them: such trials are a line of their own, drawn on request.
    """
    limit = _limit(known)
    lines, errors = [], []
    for state, (name, style) in {**POINTS, FAR_ABOVE: (FAR_ABOVE, "other5")}.items():
        of_it = [
            _error(trial) if (trial["state"] if _error(trial) <= limit else FAR_ABOVE) == state else math.nan
            for trial in known
        ]
        if not np.isnan(of_it).all():
            far = {"far": True} if state == FAR_ABOVE else {}
            lines.append({"name": name, "style": style, "points": True, **far})
            errors.append(rounded([np.array(of_it)])[0])
    return lines, errors
