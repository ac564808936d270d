"""What a finished run says: its tables, and the verdict in plain words, with a command for what to do instead.

The input is the plain dict that becomes metrics.json; its layout is a contract that other programs read.
"""

import math
from collections.abc import Mapping, Sequence

from forecast.report.forecasters import BOUND, ScoredForecaster, baseline_name, forecasters, is_itself, models_of
from forecast.report.tables import (
    ReportTable,
    columns_table,
    covariates_table,
    offsets_table,
    scores_table,
    series_table,
    short_number,
    steps_table,
    table_lines,
    titled_table,
)
from forecast.run_folder.shapes import Metrics, is_many
from forecast.text.terminal import is_quiet, label, listed, paragraph, say

# Keys of roles that models refuse which may be advised: these, and the others.
REFUSED = dict.fromkeys(("ridge", "boosted_trees"), ("data.past=",))
REFUSED_ELSE = ("data.known=", "data.past=", "data.static", "data.holidays=")
FLAT_COLUMNS_NAMED = 8
TARGETS_NAMED = 4
TRAIN = "forecast train"
# key of a baseline: the words of train that make the same forecaster, "{}" its look-back
WORDS = {
    "closed_form_nlinear": [
        *("model=ridge", "model.look_back={}", "model.naive=last", "model.strength=0.001", "model.columns=shared"),
        *("model.tolerance=0", "model.intercept=1"),
    ],
}
COVARIATES = ("data.known=", "data.static", "data.holidays=")  # with any the ridge has a map for each target
EVERY_WINDOW = "all_windows"  # the usual protocol
TRIAL = (
    "This was a trial (trainer.fast_dev_run): it shows that everything runs, and says nothing of how good the model is."
)
SHARED_ROWS = (
    "There are too few rows for validation and a test: the errors are of the rows that have chosen the model, and it "
    "errs more on new ones."
)
# So many times another error are no longer told in percent.
MANY_TIMES = 10
NARROW, WIDE = 2.0, 5.0  # points of coverage below and above a level from which on that is said


def verdict(metrics: Metrics, split: str) -> list[str]:
    """Whether the model is any good on `split`, by MSE in scaled units, and what to do if not: one sentence an item.

    The first is in the units of the file. Of a trial nothing is said but that. Raises ValueError when `split` was not
    evaluated.
    """
    model, *baselines = forecasters(metrics, split)
    if metrics.get("trial"):
        return [TRIAL]
    bounds = [row for row in baselines if row.key == BOUND]
    sentences = [SHARED_ROWS] if metrics.get("validation_judges") else []
    sentences += _in_units(model, str(metrics.get("target")))
    sentences += _against_baselines(metrics, split, model, [row for row in baselines if row not in bounds])
    sentences += coverage_sentences(metrics, split)
    if flat := metrics[split].get("flat"):
        rest = len(flat) - FLAT_COLUMNS_NAMED
        names = listed(flat[:FLAT_COLUMNS_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        sentences.append(f"Forecasts of {names} are nearly flat: they vary less than a tenth as much as the truth.")
    if "best_epoch" in metrics and metrics["best_epoch"] is None and "imported" not in metrics:
        sentences.append("No validation ran, so last.ckpt was evaluated, not the best one.")
    for row in bounds:
        mse, bound = _mse(model), _mse(row)
        above = f"the model's is {beyond(mse, bound, 'it') if bound else 'far above it'}."
        if mse <= bound:  # the bound is an expectation: the error on a finite sample can lie below it
            above = "the model's is not above it, so nothing is left to gain."
        sentences.append(f"No forecaster can expect an MSE below {short_number(bound)} on this data; {above}")
    return sentences


def print_report(metrics: Metrics, split: str, by_step: Mapping[str, Sequence[float]] | None = None) -> None:
    """Print the tables and the verdict. by_step: metrics_by_step.csv."""
    for table in [] if is_quiet() else _tables(metrics, split, by_step):
        say(table_lines(table))
    for sentence in verdict(metrics, split):
        say(sentence if TRAIN in sentence else paragraph(sentence))  # a command in one line, to be copied


def _tables(metrics: Metrics, split: str, by_step: Mapping[str, Sequence[float]] | None) -> list[ReportTable]:
    """All that there are, in their order."""
    tables = [
        of(metrics, split) for of in (scores_table, columns_table, series_table, covariates_table, intervals_table)
    ]
    tables += [None if by_step is None else steps_table(by_step)]
    tables += [offsets_table(metrics, split) if "offsets" in metrics else None]
    return [table for table in tables if table is not None]


def _in_units(model: ScoredForecaster, target: str) -> list[str]:
    """How far the forecasts of each column are off, in the units of the file, data.target first; nothing if unknown."""
    columns = sorted(model.scores.get("columns") or (), key=lambda name: name != target)
    errors = {name: model.error("columns", name, "original", "mae") for name in columns}
    known = [f"of {label(name)} by {error:.4g}" for name, error in errors.items() if error is not None]
    if not known:
        return []
    more = f" and of {len(known) - TARGETS_NAMED} more columns" if len(known) > TARGETS_NAMED else ""
    first = ", ".join(known[:TARGETS_NAMED]).replace(" by ", " are off by ", 1)
    return [f"Forecasts {first}{more} on average, in the units of the file (MAE)."]


def _against_baselines(
    metrics: Metrics, split: str, model: ScoredForecaster, baselines: Sequence[ScoredForecaster]
) -> list[str]:
    # without a period seasonal naive is last value once more; a model is no rival of itself
    rivals = [row for row in baselines if row.key != "seasonal_naive" or row.scores.get("period") is not None]
    rivals = sorted((row for row in rivals if row.mse is not None), key=_mse)
    mse = _mse(model)
    itself = [row for row in rivals if any(is_itself(kind, mse, row.key, _mse(row)) for kind in models_of(metrics))]
    rivals = [row for row in rivals if row not in itself]
    if not rivals:
        return ["No baseline was evaluated on these windows, so nothing here says how good the model is."]
    best, unsure = rivals[0], [row for row in rivals if not _is_sure(row)]
    if winners := [rival for rival in rivals if _mse(rival) <= mse]:
        unsure = [row for row in winners if row in unsure and _mse(row) < mse]
        verb = "loses to" if _mse(best) < mse and not unsure else "does not beat"
        gaps = _and([_above(mse, rival) for rival in winners])
        sentences = [f"The model {verb} {_and([rival.name for rival in winners])}: its MSE is {gaps}."]
        advice = _advice(metrics, best)
    elif unsure:
        gap, other = percent(mse, _mse(best)), "other " if itself else ""
        sentences = [f"The MSE of the model is {gap} below that of the best {other}baseline, {best.name}."]
        advice = []
    else:
        gap = percent(mse, _mse(best))
        beats = "beats all baselines"
        if itself:
            beats = f"is the baseline {baseline_name(itself[0].key)} itself, and beats all others"
        sentences = [f"The model {beats}: its MSE is {gap} below the best of them, {best.name}."]
        advice = []
    sentences += [*_doubt(unsure, many=is_many(metrics, split)), *advice]
    sentences += _otherwise(model, rivals, "MAE", "scaled", "mae")
    lost = [
        label(name)
        for name in (model.scores.get("columns") or () if mse < _mse(best) else ())
        if (model.error("columns", name, "mase") or 0.0) > (best.error("columns", name, "mase") or math.inf)
    ]
    if lost:  # in one column, though it errs less over all of them
        sentences.append(f"Of {_and(lost[:FLAT_COLUMNS_NAMED])} alone {best.name} errs less, by MASE.")
    if is_many(metrics, split):  # in which each series of a panel counts alike, whatever it is scaled by
        sentences += _otherwise(model, rivals, "MASE", "mase")
    return sentences


def _is_sure(row: ScoredForecaster) -> bool:
    """Whether the windows tell which errs less, the model or a baseline; so too where nobody has looked.

    As a backtest says it: the interval of the difference leaves 0 out.
    """
    difference = row.scores.get("difference")
    if difference is None:
        return True
    low, high = difference["low"], difference["high"]
    return low is not None and high is not None and not low <= 0.0 <= high


def _doubt(unsure: Sequence[ScoredForecaster], *, many: bool) -> list[str]:
    """A sentence on the baselines that the windows, or many series, do not tell from the model; nothing of none."""
    if not unsure:
        return []
    difference = unsure[0].scores["difference"]
    if difference["low"] is None:
        why = f"too few {'series' if many else 'windows without overlap'}, {difference['blocks']}"
    else:
        of = "" if len(unsure) == 1 else f" to {unsure[0].name}"
        why = f"the 95 % interval of the difference in MSE{of} is {difference['low']:+.4f} to {difference['high']:+.4f}"
    return [f"Whether the model errs less or more than {_and([row.name for row in unsure])} is not sure: {why}."]


def _otherwise(model: ScoredForecaster, rivals: Sequence[ScoredForecaster], name: str, *place: str) -> list[str]:
    """The rivals for which another metric names another winner than MSE; nothing where there are none."""
    mse, own = _mse(model), model.error(*place)
    theirs = [(row, error) for row in rivals if (error := row.error(*place)) is not None]
    wins = [row.name for row, error in theirs if own is not None and _mse(row) <= mse and own < error]
    losses = [row.name for row, error in theirs if own is not None and mse < _mse(row) and error < own]
    parts = [f"{verb} {_and(names)}" for verb, names in (("wins against", wins), ("loses to", losses)) if names]
    return [f"{name} says otherwise: by {name} it {_and(parts)}."] if parts else []


def _mse(row: ScoredForecaster) -> float:
    """Finite: an evaluation of forecasts that are not has raised."""
    mse = row.mse
    assert mse is not None
    return mse


def _above(mse: float, rival: ScoredForecaster) -> str:
    if mse == _mse(rival):
        return f"equal to that of {rival.name}"
    if _mse(rival) == 0.0:
        return f"above that of {rival.name}, which is zero"
    return beyond(mse, _mse(rival), f"that of {rival.name}")


def _advice(metrics: Metrics, best: ScoredForecaster) -> list[str]:
    """The best baseline, as a command where one is known."""
    data = metrics.get("same_data")
    command = f": {TRAIN} {' '.join(advised(metrics, best, data))}" if data else "."
    advice = f"A practitioner should use {best.name} instead"
    if not _is_sure(best):
        advice = f"Take {best.name} instead, which errs no more here and is simpler"
    return [f"{advice}{command}"]


def advised(metrics: Metrics, best: ScoredForecaster, data: Sequence[str]) -> list[str]:
    """The words of the training that is a baseline, on the same data and windows.

    data: the words that choose them.
    """
    kept = without_roles(best.key, data)
    look_back = best.scores.get("look_back", metrics.get("seq_len"))
    words = [word.format(look_back) for word in WORDS.get(best.key, [f"model={best.key}"])]
    if best.key == "ridge" and not any(word.lstrip("'\"").startswith(COVARIATES) for word in kept):
        words.append("model.columns=shared")
    protocol = metrics.get("protocol")
    return [*words, *kept, *([f"protocol={protocol}"] if protocol not in (None, EVERY_WINDOW) else [])]


def without_roles(option: str, data: Sequence[str]) -> list[str]:
    """The keys of the data less the roles that a baseline refuses; without any left, and one target, it alone is read.

    A target among several columns without roles is what data.features=S reads.
    """
    refused = REFUSED.get(option, REFUSED_ELSE)
    kept = [word for word in data if not word.lstrip("'\"").startswith(refused)]
    roles = any(word.lstrip("'\"").startswith((*REFUSED_ELSE, "data.target=[")) for word in kept)
    return kept if roles or len(kept) == len(data) else [*kept, "data.features=S"]


def beyond(value: float, reference: float, of: str) -> str:
    """`12 % above OF`, or `355 times OF`; reference above 0 and not above `value`."""
    if value >= MANY_TIMES * reference:
        return f"{value / reference:,.0f} times {of}"
    return f"{percent(value, reference)} above {of}"


def percent(value: float, reference: float) -> str:
    """How far `value` is from `reference` (not 0), without the sign."""
    hundredths = 100.0 * abs(value / reference - 1.0)
    return "less than 1 %" if hundredths < 1.0 else f"{hundredths:.0f} %"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def intervals_table(metrics: Metrics, split: str) -> ReportTable | None:
    """Coverage, width and score at each level; None where there are no intervals."""
    intervals = metrics[split].get("intervals")
    if not intervals or not intervals["levels"]:
        return None
    crossed = "; each half by the epoch that the other half chose" if intervals["crossed"] else ""
    apart = f"{intervals['blocks']} of which do not overlap{crossed}"
    result = titled_table(
        f"Intervals on {split}, {intervals['calibration']}",
        f"calibrated on {intervals['windows']} validation windows, {apart}",
        spare=("MSIS\n", "pinball\nscaled"),
    )
    for heading in ("level\n%", "coverage\n%", "width\nscaled", "pinball\nscaled", "MSIS\n"):
        result.add_column(heading, justify="right", no_wrap=True)
    for level, row in intervals["levels"].items():
        held = "-" if row["coverage"] is None else f"{100.0 * row['coverage']:.1f}"
        result.add_row(level, held, *(short_number(row[key]) for key in ("width", "pinball", "msis")))
    return result


def coverage_sentences(metrics: Metrics, split: str) -> list[str]:
    """Which intervals hold clearly less, or far more, than they say; nothing where all hold what they should."""
    sentences = []
    if not (intervals := metrics[split].get("intervals")):
        return []
    if intervals.get("together"):
        levels = ", ".join(intervals["levels"])
        return [f"{levels} % intervals may well be too narrow: they come from the errors of few validation windows."]
    for level, row in intervals["levels"].items():
        if row["coverage"] is None:
            continue
        beyond = 100.0 * row["coverage"] - float(level)
        first, finding = row["narrow_from"], f"{level} % intervals held {100.0 * row['coverage']:.0f} % of the truths"
        if beyond < -NARROW:
            steps = "" if first is None else " at every step" if first == 1 else f" from step {first} on"
            sentences.append(f"{finding} on {split}: too narrow{steps}.")
        elif beyond > WIDE:
            sentences.append(f"{finding} on {split}: wider than they need be.")
    if any("too narrow" in sentence for sentence in sentences) and intervals["calibration"] == "static":
        sentences.append("Where the data drift, calibration=adaptive follows them, window after window.")
    return sentences
