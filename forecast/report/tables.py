"""The small tables of a report: how the error grows with the steps, and with what lies between window and forecast."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

STEP_MSE = "mse_scaled"


def steps_table(by_step: Mapping[str, Sequence[float]]) -> Table:
    """How the error grows: the MSE, scaled units, of every forecaster at a few of the P steps.

    by_step: the columns of metrics_by_step.csv, P figures each; those that end in STEP_MSE are shown.
    """
    series = {name.removesuffix(STEP_MSE).strip("_"): v for name, v in by_step.items() if name.endswith(STEP_MSE)}
    n_steps = max(map(len, series.values()))
    steps = sorted({max(1, round(n_steps * part / 4)) for part in range(5)})
    result = Table(title="MSE by step, scaled", title_justify="left", box=box.SIMPLE_HEAD)
    result.add_column("")
    for step in steps:
        result.add_column(f"step {step}", justify="right")
    for name, values in series.items():
        result.add_row(name.replace("_", " ") or "the model", *(short_number(values[step - 1]) for step in steps))
    return result


def offsets_table(metrics: Mapping[str, Any], split: str) -> Table:
    """The MSE, scaled units, of the model and the naive baselines at each offset, one row an offset, 0 first.

    An offset without figures shows dashes.
    """
    known = {"0": {**metrics[split], "baselines": metrics["baselines"]}, **metrics["offsets"]}
    baselines = ("last_value", "seasonal_naive")
    result = Table(title="MSE at offset, scaled", title_justify="left", box=box.SIMPLE_HEAD)
    result.caption, result.caption_justify = "offset: steps between the window and its forecast", "left"
    for heading in ("offset", "windows", str(metrics["model"]), *(name.replace("_", " ") for name in baselines)):
        result.add_column(Text(heading), justify="right")
    for offset, block in known.items():
        if block is None:
            result.add_row(offset, *"-" * (2 + len(baselines)))
            continue
        scores = [block, *(block["baselines"][name] for name in baselines)]
        result.add_row(offset, str(block["windows"]), *(short_number(score["scaled"]["mse"]) for score in scores))
    return result


def short_number(value: float | None) -> str:
    """Four decimals, or as a power of ten where those would say little; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.4f}" if value == 0.0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"
