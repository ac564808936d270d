"""What a finished run says: the table of scores, and the verdict in plain words.

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

from forecast.report.tables import offsets_table, short_number, steps_table

LOG_WIDTH = 100
FLAT_COLUMNS_NAMED = 8
ADVICE = "try a longer seq_len, more epochs (trainer.max_epochs) or a smaller optim.lr"


class Row(NamedTuple):
    """One forecaster: `scores` has the keys scaled and original, each with mse and mae, where known."""

    name: str
    note: str
    scores: Mapping[str, Any]

    def get(self, error: str, units: str = "scaled") -> float | None:
        """The error ("mse", "mae") in those units ("scaled", "original"); None when absent or not finite."""
        value = (self.scores.get(units) or {}).get(error)
        return float(value) if value is not None and math.isfinite(value) else None


class Rival(NamedTuple):
    """A baseline to be beaten: its errors in scaled units."""

    name: str
    mse: float
    mae: float | None


def table(metrics: Mapping[str, Any], split: str) -> Table:
    """The scores of the model and of the baselines on the windows of `split`, one row a forecaster.

    Needs no colour and fits LOG_WIDTH columns. Raises ValueError when `split` was not evaluated.
    """
    block = _block(metrics, split)
    rows = [_model(metrics, block), *_baselines(metrics, block), *_best_reachable(metrics, block)]
    reference = next((row.get("mse") for row in rows if row.name == "seasonal naive"), None)
    result = Table(title=Text(_title(metrics, split)), title_justify="left", box=box.SIMPLE_HEAD)
    result.caption, result.caption_justify = "skill: 1 - MSE / MSE of seasonal naive, scaled", "left"
    result.add_column("", overflow="fold")
    for heading in ("MSE\nscaled", "MAE\nscaled", "MSE\noriginal", "MAE\noriginal", "skill\n"):
        result.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        # The model's own skill is the recorded one, so that the table cannot contradict metrics.json.
        skill = block.get("skill") if number == 0 else _skill(row.get("mse"), reference)
        cells = [row.get(error, units) for units in ("scaled", "original") for error in ("mse", "mae")]
        label = f"{row.name} ({row.note})" if row.note else row.name
        result.add_row(Text(label), *map(short_number, cells), "-" if skill is None else f"{skill:.3f}")
    return result


def verdict(metrics: Mapping[str, Any], split: str) -> list[str]:
    """Whether the model is any good on `split`, by MSE in scaled units: one sentence an item.

    Raises ValueError when `split` was not evaluated.
    """
    block = _block(metrics, split)
    model = _model(metrics, block)
    sentences = _against_baselines(model, _rivals(metrics, block))
    if flat := block.get("flat"):
        named = ", ".join(flat[:FLAT_COLUMNS_NAMED])
        rest = len(flat) - FLAT_COLUMNS_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        sentences.append(
            f"Forecasts of {named}{more} are nearly flat: they vary less than a tenth as much as the truth."
        )
    if "best_epoch" in metrics and metrics["best_epoch"] is None and "imported" not in metrics:
        sentences.append("No validation ran, so last.ckpt was evaluated, not the best one.")
    return sentences + [_against_the_best(model, best) for best in _best_reachable(metrics, block)]


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
    console.print(table(metrics, split))
    if by_step is not None:
        console.print(steps_table(by_step))
    if "offsets" in metrics:
        console.print(offsets_table(metrics, split))
    for sentence in verdict(metrics, split):
        console.print(Text(sentence))  # a Text: a column called "[bold]" or ":dog:" must come out as it is


def _block(metrics: Mapping[str, Any], split: str) -> Mapping[str, Any]:
    block: Mapping[str, Any] | None = metrics.get(split)
    if block is None:
        there = [key for key, value in metrics.items() if isinstance(value, Mapping) and "windows" in value]
        raise ValueError(f"the metrics have no split '{split}'; they have {', '.join(there) or 'none'}")
    return block


def _title(metrics: Mapping[str, Any], split: str) -> str:
    """Three lines that say what was evaluated; keys that a run does not have are left out."""

    def line(*keys: str) -> str:
        return ", ".join(f"{key} {metrics[key]}" for key in keys if metrics.get(key) is not None)

    file = metrics.get("evaluated_file")  # evaluate.py on another file than the one trained on
    data = line("data") if file is None else f"evaluated on {file}, trained on {metrics.get('data', '?')}"
    lines = (
        [line("model", "variant", "attention"), data, line("features")],
        [line("seq_len", "label_len", "pred_len", "seed")],
        [f"{metrics[split].get('windows', '?')} windows of {split}", line("protocol")],
    )
    return "\n".join(filter(None, (", ".join(filter(None, parts)) for parts in lines)))


def _model(metrics: Mapping[str, Any], block: Mapping[str, Any]) -> Row:
    return Row(str(metrics.get("model", "model")), "this run", block)


def _known(metrics: Mapping[str, Any], block: Mapping[str, Any]) -> Mapping[str, Any]:
    # train records the validation scores without skill: its baselines were measured on other windows.
    known: Mapping[str, Any] = metrics.get("baselines", {}) if "skill" in block else {}
    return known


def _baselines(metrics: Mapping[str, Any], block: Mapping[str, Any]) -> list[Row]:
    known = _known(metrics, block)
    period = known.get("seasonal_naive", {}).get("period")
    unknown = "last value: period unknown or longer than seq_len"
    rows = {
        "last_value": ("last value", ""),
        "seasonal_naive": ("seasonal naive", unknown if period is None else f"{period} steps"),
        "closed_form_nlinear": ("closed-form NLinear", f"look-back {metrics.get('seq_len', '')} = seq_len"),
    }
    return [Row(name, note, known[key]) for key, (name, note) in rows.items() if key in known]


def _rivals(metrics: Mapping[str, Any], block: Mapping[str, Any]) -> list[Rival]:
    """The baselines to be beaten, lowest MSE first; those without an MSE are left out."""
    rows = _baselines(metrics, block)
    if _known(metrics, block).get("seasonal_naive", {}).get("period") is None:
        rows = [row for row in rows if row.name != "seasonal naive"]  # it is last value once more
    rivals = [Rival(row.name, mse, row.get("mae")) for row in rows if (mse := row.get("mse")) is not None]
    return sorted(rivals, key=lambda rival: rival.mse)


def _best_reachable(metrics: Mapping[str, Any], block: Mapping[str, Any]) -> list[Row]:
    """The demo data's own bound as a row; empty for data without one."""
    known = _known(metrics, block)
    return [Row("best reachable", "", known["best_reachable"])] if "best_reachable" in known else []


def _skill(mse: float | None, reference: float | None) -> float | None:
    return None if mse is None or not reference else 1.0 - mse / reference


def _against_baselines(model: Row, rivals: Sequence[Rival]) -> list[str]:
    mse = model.scores["scaled"]["mse"]  # finite: an evaluation of forecasts that are not has raised
    if not rivals:
        return ["No baseline was evaluated on these windows, so nothing here says how good the model is."]
    best = rivals[0]
    winners = [rival for rival in rivals if rival.mse <= mse]
    if winners:
        verb = "loses to" if best.mse < mse else "does not beat"
        gaps = _and([_above(mse, rival) for rival in winners])
        sentences = [
            f"The model {verb} {_and([rival.name for rival in winners])}: its MSE is {gaps}.",
            f"A practitioner should use {best.name} instead, or {ADVICE}.",
        ]
    else:
        gap = _percent(mse, best.mse)
        sentences = [f"The model beats all baselines: its MSE is {gap} below the best of them, {best.name}."]
    return sentences + _mae_disagrees(model.get("mae"), mse, rivals)


def _mae_disagrees(mae: float | None, mse: float, rivals: Sequence[Rival]) -> list[str]:
    """A sentence about the rivals for which MAE and MSE name different winners; none when they agree."""
    against, to = [], []
    for rival in rivals:
        if mae is None or rival.mae is None:
            continue
        if rival.mse <= mse and mae < rival.mae:
            against.append(rival.name)
        elif mse < rival.mse and rival.mae < mae:
            to.append(rival.name)
    parts = [f"{verb} {_and(names)}" for verb, names in (("wins against", against), ("loses to", to)) if names]
    return [f"MAE says otherwise: by MAE it {_and(parts)}."] if parts else []


def _against_the_best(model: Row, best: Row) -> str:
    mse, bound = model.scores["scaled"]["mse"], best.scores["scaled"]["mse"]
    start = f"No forecaster can expect an MSE below {short_number(bound)} on this data"
    if mse <= bound:  # the bound is an expectation: the error on a finite sample can lie below it
        return f"{start}; the model's is not above it, so nothing is left to gain."
    return f"{start}; the model's is {_percent(mse, bound) if bound else 'far'} above it."


def _above(mse: float, rival: Rival) -> str:
    if mse == rival.mse:
        return f"equal to that of {rival.name}"
    if rival.mse == 0.0:
        return f"above that of {rival.name}, which is zero"
    return f"{_percent(mse, rival.mse)} above that of {rival.name}"


def _percent(value: float, reference: float) -> str:
    """How far `value` is from `reference` (not 0), without the sign."""
    percent = 100.0 * abs(value / reference - 1.0)
    return "less than 1 %" if percent < 1.0 else f"{percent:.0f} %"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
