"""What a finished run says: the tables of errors, and the verdict in plain words.

The input is the plain dict that becomes metrics.json; its layout is a contract that other programs read.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecast.text.terminal import harmless, label, listed

LOG_WIDTH = 100
FLAT_COLUMNS_NAMED = 8
STEP_MSE = "mse_scaled"
# key in metrics.json: name
BASELINES = {
    "last_value": "last value",
    "seasonal_naive": "seasonal naive",
    "closed_form_nlinear": "closed-form NLinear",
}
ADVICE = "try a longer seq_len, more epochs (trainer.max_epochs) or a smaller optim.lr"


class Forecaster(NamedTuple):
    """The model or a baseline: `scores` has the keys scaled and original, each with mse and mae, where known."""

    name: str
    note: str
    scores: Mapping[str, Any]

    def error(self, name: str, units: str = "scaled") -> float | None:
        """The error ("mse", "mae") in those units ("scaled", "original"); None when absent or not finite."""
        value = (self.scores.get(units) or {}).get(name)
        return float(value) if value is not None and math.isfinite(value) else None


def scores_table(metrics: Mapping[str, Any], split: str) -> Table:
    """The scores of the model and of the baselines on the windows of `split`, one row a forecaster.

    Needs no colour and fits LOG_WIDTH columns. Raises ValueError when `split` was not evaluated.
    """
    rows = _forecasters(metrics, split)
    reference = next((row.error("mse") for row in rows if row.name == "seasonal naive"), None)
    result = _table(Text(_title(metrics, split)), "skill: 1 - MSE / MSE of seasonal naive, scaled")
    result.add_column("", overflow="fold")
    for heading in ("MSE\nscaled", "MAE\nscaled", "MSE\noriginal", "MAE\noriginal", "skill\n"):
        result.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        mse = row.error("mse")
        skill = None if mse is None or not reference else 1.0 - mse / reference
        if number == 0:  # the model's own skill is the recorded one, so that the table cannot contradict metrics.json
            skill = row.scores.get("skill")
        cells = [row.error(name, units) for units in ("scaled", "original") for name in ("mse", "mae")]
        label = f"{row.name} ({row.note})" if row.note else row.name
        result.add_row(Text(label), *map(_short_number, cells), "-" if skill is None else f"{skill:.3f}")
    return result


def steps_table(by_step: Mapping[str, Sequence[float]]) -> Table:
    """How the error grows: the MSE, scaled units, of every forecaster at a few of the P steps.

    by_step: the columns of metrics_by_step.csv, P figures each; those that end in STEP_MSE are shown.
    """
    series = {name.removesuffix(STEP_MSE).strip("_"): v for name, v in by_step.items() if name.endswith(STEP_MSE)}
    n_steps = max(map(len, series.values()))
    steps = sorted({max(1, round(n_steps * part / 4)) for part in range(5)})
    result = _table("MSE by step, scaled")
    result.add_column("")
    for step in steps:
        result.add_column(f"step {step}", justify="right")
    for name, values in series.items():
        result.add_row(name.replace("_", " ") or "the model", *(_short_number(values[step - 1]) for step in steps))
    return result


def offsets_table(metrics: Mapping[str, Any], split: str) -> Table:
    """The MSE, scaled units, of the model and the naive baselines at each offset, one row an offset, 0 first.

    An offset without figures shows dashes.
    """
    blocks = {"0": {**metrics[split], "baselines": metrics["baselines"]}, **metrics["offsets"]}
    baselines = ("last_value", "seasonal_naive")
    result = _table("MSE at offset, scaled", "offset: steps between the window and its forecast")
    for heading in ("offset", "windows", label(str(metrics["model"])), *(name.replace("_", " ") for name in baselines)):
        result.add_column(Text(heading), justify="right")
    for offset, block in blocks.items():
        if block is None:
            result.add_row(offset, *"-" * (2 + len(baselines)))
            continue
        scores = [block, *(block["baselines"][name] for name in baselines)]
        result.add_row(offset, str(block["windows"]), *(_short_number(score["scaled"]["mse"]) for score in scores))
    return result


def verdict(metrics: Mapping[str, Any], split: str) -> list[str]:
    """Whether the model is any good on `split`, by MSE in scaled units: one sentence an item.

    Raises ValueError when `split` was not evaluated.
    """
    model, *baselines = _forecasters(metrics, split)
    bounds = [row for row in baselines if row.name == "best reachable"]
    sentences = _against_baselines(model, [row for row in baselines if row not in bounds])
    if flat := metrics[split].get("flat"):
        rest = len(flat) - FLAT_COLUMNS_NAMED
        names = listed(flat[:FLAT_COLUMNS_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        sentences.append(f"Forecasts of {names} are nearly flat: they vary less than a tenth as much as the truth.")
    if "best_epoch" in metrics and metrics["best_epoch"] is None and "imported" not in metrics:
        sentences.append("No validation ran, so last.ckpt was evaluated, not the best one.")
    for row in bounds:
        mse, bound = model.scores["scaled"]["mse"], row.scores["scaled"]["mse"]
        above = f"the model's is {_percent(mse, bound) if bound else 'far'} above it."
        if mse <= bound:  # the bound is an expectation: the error on a finite sample can lie below it
            above = "the model's is not above it, so nothing is left to gain."
        sentences.append(f"No forecaster can expect an MSE below {_short_number(bound)} on this data; {above}")
    return sentences


def print_report(
    metrics: Mapping[str, Any],
    split: str,
    by_step: Mapping[str, Sequence[float]] | None = None,
    console: Console | None = None,
) -> None:
    """Print the tables and the verdict; to stdout when no console is given. by_step: see `steps_table`."""
    if console is None:
        # Without a terminal rich would assume 80 columns and squeeze the table in a log.
        console = Console(width=None if sys.stdout.isatty() else LOG_WIDTH)
    console.print(scores_table(metrics, split))
    if by_step is not None:
        console.print(steps_table(by_step))
    if "offsets" in metrics:
        console.print(offsets_table(metrics, split))
    for sentence in verdict(metrics, split):
        console.print(Text(harmless(sentence)))  # a Text: a column called "[bold]" or ":dog:" must come out as it is


def _forecasters(metrics: Mapping[str, Any], split: str) -> list[Forecaster]:
    """The model, then the baselines on the same windows, of which "best reachable" is the demo data's own bound."""
    block = metrics.get(split)
    if block is None:
        splits = [key for key, value in metrics.items() if isinstance(value, Mapping) and "windows" in value]
        raise ValueError(f"the metrics have no split '{split}'; they have {', '.join(splits) or 'none'}")
    # train records the validation scores without skill: its baselines were measured on other windows
    baselines = metrics.get("baselines", {}) if "skill" in block else {}
    period = baselines.get("seasonal_naive", {}).get("period")
    unknown = "last value: period unknown or longer than seq_len"
    notes = {
        "seasonal_naive": unknown if period is None else f"{period} steps",
        "closed_form_nlinear": f"look-back {metrics.get('seq_len', '')} = seq_len",
    }
    names = {**BASELINES, "best_reachable": "best reachable"}
    model = Forecaster(label(str(metrics.get("model", "model"))), "this run", block)
    return [
        model,
        *(Forecaster(name, notes.get(key, ""), baselines[key]) for key, name in names.items() if key in baselines),
    ]


def _title(metrics: Mapping[str, Any], split: str) -> str:
    """Three lines that say what was evaluated; keys that a run does not have are left out."""

    def line(*keys: str) -> str:
        return ", ".join(f"{key} {label(str(metrics[key]))}" for key in keys if metrics.get(key) is not None)

    file = metrics.get("evaluated_file")  # another file than the one trained on
    trained_on = label(str(metrics.get("data", "?")))
    data = line("data") if file is None else f"evaluated on {label(file)}, trained on {trained_on}"
    lines = (
        [line("model", "variant", "attention"), data, line("features")],
        [line("seq_len", "label_len", "pred_len", "seed")],
        [f"{metrics[split].get('windows', '?')} windows of {split}", line("protocol")],
    )
    return "\n".join(filter(None, (", ".join(filter(None, parts)) for parts in lines)))


def _against_baselines(model: Forecaster, baselines: Sequence[Forecaster]) -> list[str]:
    # without a period seasonal naive is last value once more
    rivals = [row for row in baselines if row.name != "seasonal naive" or row.scores.get("period") is not None]
    rivals = sorted((row for row in rivals if row.error("mse") is not None), key=_mse)
    if not rivals:
        return ["No baseline was evaluated on these windows, so nothing here says how good the model is."]
    mse, best = _mse(model), rivals[0]
    if winners := [rival for rival in rivals if _mse(rival) <= mse]:
        verb = "loses to" if _mse(best) < mse else "does not beat"
        gaps = _and([_above(mse, rival) for rival in winners])
        sentences = [
            f"The model {verb} {_and([rival.name for rival in winners])}: its MSE is {gaps}.",
            f"A practitioner should use {best.name} instead, or {ADVICE}.",
        ]
    else:
        gap = _percent(mse, _mse(best))
        sentences = [f"The model beats all baselines: its MSE is {gap} below the best of them, {best.name}."]
    # the rivals for which MAE names another winner than MSE
    mae, by_mae = model.error("mae"), [(row, error) for row in rivals if (error := row.error("mae")) is not None]
    wins = [row.name for row, error in by_mae if mae is not None and _mse(row) <= mse and mae < error]
    losses = [row.name for row, error in by_mae if mae is not None and mse < _mse(row) and error < mae]
    parts = [f"{verb} {_and(names)}" for verb, names in (("wins against", wins), ("loses to", losses)) if names]
    return [*sentences, f"MAE says otherwise: by MAE it {_and(parts)}."] if parts else sentences


def _mse(row: Forecaster) -> float:
    """Finite: an evaluation of forecasts that are not has raised."""
    return float(row.scores["scaled"]["mse"])


def _above(mse: float, rival: Forecaster) -> str:
    if mse == _mse(rival):
        return f"equal to that of {rival.name}"
    if _mse(rival) == 0.0:
        return f"above that of {rival.name}, which is zero"
    return f"{_percent(mse, _mse(rival))} above that of {rival.name}"


def _percent(value: float, reference: float) -> str:
    """How far `value` is from `reference` (not 0), without the sign."""
    percent = 100.0 * abs(value / reference - 1.0)
    return "less than 1 %" if percent < 1.0 else f"{percent:.0f} %"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _table(title: str | Text, caption: str = "") -> Table:
    return Table(
        title=title, caption=caption or None, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD
    )


def _short_number(value: float | None) -> str:
    """Four decimals, or as a power of ten where those would say little; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.4f}" if value == 0.0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"
