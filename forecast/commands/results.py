"""The end of every evaluation: metrics.json, errors by step and window, forecasts and their picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.checkpoint.load import Checkpoint
from forecast.data.prepare import PreparedData, window_values
from forecast.data.sources import DemoSource, Source
from forecast.evaluation.baselines import WEIGHTS
from forecast.evaluation.evaluate import (
    MODEL,
    Evaluation,
    Protocol,
    baseline_metrics,
    evaluate,
    evenly_spaced,
    split_metrics,
)
from forecast.evaluation.horizon_offsets import offset_metrics
from forecast.files import DECIMALS, json_text, save_arrays, together
from forecast.run_folder import FILES, FORECASTS, METRICS, PICTURE, RESULTS, STEP_ERRORS, WINDOW_ERRORS, sha256

# Windows in forecast.png.
DRAWN_WINDOWS = 3


def slot_names(choices: dict[str, str | None]) -> dict[str, str]:
    """The attention in each slot of the model: {"encoder": "prob", ...}; empty for a model without slots."""
    prefix, suffix = "attention@model.", "_attention"
    slots = {key: name for key, name in choices.items() if key.startswith(prefix) and key.endswith(suffix)}
    return {
        key.removeprefix(prefix).removesuffix(suffix): str(choices["attention"] if name == "inherit" else name)
        for key, name in slots.items()
    }


@dataclass
class Result:
    """What evaluating a checkpoint on one split gave.

    metrics: what becomes metrics.json; the commands add to it. by_step: the columns of metrics_by_step.csv, P figures
    each, scaled units.
    """

    metrics: dict[str, Any]
    evaluation: Evaluation
    data: PreparedData
    by_step: dict[str, list[float]]


def evaluate_checkpoint(
    checkpoint: Checkpoint,
    source: Source | None,
    data: PreparedData,
    *,
    split: str,
    protocol: Protocol,
    protocol_name: str | None,
    batch_size: int,
    device: torch.device,
    brief: Sequence[str] = (),
) -> Result:
    """A checkpoint on every window of `split` that the protocol counts: the one place where metrics.json is made.

    source: where the data come from; None for another file than the one trained on. protocol_name: the chosen option.
    brief: splits of which only the number of windows and the errors are kept. Raises UserError when no window counts,
    or a forecast is not finite.
    """
    model, data = checkpoint.model().to(device), data.on(device)
    common: Any = {"protocol": protocol, "batch_size": batch_size, "device": device}
    fitted = {key: checkpoint.record[key] for key in WEIGHTS if key in checkpoint.record}
    blocks = {}
    for name in brief:
        block = split_metrics(evaluate(model, data, split=name, fitted=fitted, **common), data)
        blocks[name] = {key: block[key] for key in ("windows", "scaled", "original")}
    evaluation = evaluate(model, data, split=split, fitted=fitted, **common)
    baselines = baseline_metrics(evaluation.baselines, data)
    best_mse = best_reachable(source, data)
    if best_mse is not None:
        baselines["best_reachable"] = {"scaled": {"mse": float(best_mse.mean())}}
    metrics = {
        "status": "finished",
        **description(checkpoint, protocol_name),
        split: split_metrics(evaluation, data),
        "baselines": baselines,
        **offset_metrics(model, data, split=split, **common),
        **blocks,
    }
    return Result(metrics, evaluation, data, step_errors(evaluation, best_mse))


def description(checkpoint: Checkpoint, protocol_name: str | None) -> dict[str, Any]:
    """What was run, in the user's names; a model of a class of the user's own by that class."""
    config, choices = checkpoint.config, checkpoint.record["choices"]
    target = config["model"]["_target_"]
    slots = slot_names(choices)
    return {
        "model": choices["model"] if target.startswith("forecast.") else target,
        **({"variant": choices["variant"]} if choices.get("variant") else {}),
        "attention": choices["attention"] if slots else None,
        "attention_slots": slots,
        "data": config["data"]["name"],
        "features": config["data"]["features"],
        "protocol": protocol_name,
        **{key: config[key] for key in ("seed", "seq_len", "label_len", "pred_len")},
        "parameters": checkpoint.record["parameters"],
        "best_epoch": checkpoint.best_epoch,
    }


def best_reachable(source: Source | None, data: PreparedData) -> np.ndarray | None:
    """The least MSE any forecaster could reach at each step (P,), mean over columns, scaled units; None if unknown."""
    if not isinstance(source, DemoSource):
        return None
    mse: np.ndarray = source.best_mse(data.frame, data.targets, data.pred_len) / data.target_std**2
    return np.asarray(mse.mean(1))


def step_errors(evaluation: Evaluation, best_mse: np.ndarray | None) -> dict[str, list[float]]:
    """MSE and MAE, scaled units, of the model and the baselines at each step, P figures each.

    best_mse (P,): see `best_reachable`.
    """
    columns = dict(zip(("mse_scaled", "mae_scaled"), evaluation.errors.by_step(), strict=True))
    for name, errors in evaluation.baselines.items():
        columns[f"{name}_mse_scaled"], columns[f"{name}_mae_scaled"] = errors.by_step()
    if best_mse is not None:
        columns["best_reachable_mse_scaled"] = best_mse
    return {name: values.tolist() for name, values in columns.items()}


def steps_csv(by_step: dict[str, list[float]]) -> str:
    """One line a forecast step, counted from 1: the column `step`, then those of `by_step`, P figures each."""
    table = pd.DataFrame(by_step)
    table.index = pd.RangeIndex(1, len(table) + 1, name="step")
    text: str = table.to_csv(na_rep="nan", float_format=f"%.{DECIMALS}f", lineterminator="\n")
    return text


def write_results(folder: Path, result: Result) -> None:
    """Writes errors_by_window.npz, forecasts.npz, metrics_by_step.csv, forecast.png and metrics.json: all or none.

    metrics.json comes last and names the others with their SHA-256: a kill between two renames leaves files that
    `run_folder.torn` tells from a whole result.
    """
    evaluation, data = result.evaluation, result.data
    errors = {"squared_scaled": evaluation.squared, "absolute_scaled": evaluation.absolute}
    columns = np.array(data.target_names)
    windows = example_windows(evaluation, data)
    with together(folder) as beside:
        save_arrays(beside(WINDOW_ERRORS), {"start": evaluation.starts, **errors, "columns": columns})
        save_arrays(beside(FORECASTS), windows)
        beside(STEP_ERRORS).write_text(steps_csv(result.by_step), encoding="utf-8")
        draw_windows(beside(PICTURE), windows, title=f"{result.metrics['model']} on {result.metrics['data']}")
        result.metrics[FILES] = {name: sha256(beside(name)) for name in RESULTS if name != METRICS}
        beside(METRICS).write_text(json_text(result.metrics), encoding="utf-8")


def example_windows(evaluation: Evaluation, data: PreparedData) -> dict[str, np.ndarray]:
    """A few fixed windows in original units.

    past (W, L, T); truth, forecast and two baselines' forecasts (W, P, T); timestamps (W, L + P); columns (T,).
    """
    values, timestamps = window_values(data, evaluation.starts[evaluation.examples])
    return {
        "past": values[:, : data.seq_len],
        "truth": values[:, data.seq_len :],
        "forecast": data.original(evaluation.forecasts[MODEL]),
        "seasonal_naive": data.original(evaluation.forecasts["seasonal_naive"]),
        "closed_form_nlinear": data.original(evaluation.forecasts["closed_form_nlinear"]),
        "timestamps": timestamps,
        "columns": np.array(data.target_names),
    }


def draw_windows(path: Path, windows: dict[str, np.ndarray], *, title: str) -> None:
    """Draws the first DRAWN_WINDOWS of `example_windows`."""
    from forecast.report.figures import forecast_figure, save

    drawn = evenly_spaced(len(windows["past"]), DRAWN_WINDOWS)
    figure = forecast_figure(
        past=windows["past"][drawn],
        truth=windows["truth"][drawn],
        forecast=windows["forecast"][drawn],
        timestamps=[pd.DatetimeIndex(windows["timestamps"][i]) for i in drawn],
        columns=[str(name) for name in windows["columns"]],
        title=title,
        baseline=windows["closed_form_nlinear"][drawn],
        baseline_name="closed-form NLinear",
    )
    save(figure, path)
