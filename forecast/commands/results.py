"""The files that a run leaves behind, apart from checkpoints: metrics.json, errors, forecasts, pictures."""

from pathlib import Path
from typing import Any

import numpy as np

from forecast.checkpoint.load import Checkpoint
from forecast.data.prepare import PreparedData, window_values
from forecast.data.sources import DemoSource, Source
from forecast.evaluation.evaluate import MODEL, Evaluation, baseline_metrics, split_metrics, spread
from forecast.report.verdict import write_json, write_steps_csv

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


def make_metrics(
    checkpoint: Checkpoint,
    evaluation: Evaluation,
    data: PreparedData,
    *,
    split: str,
    protocol: str | None,
    best_mse: np.ndarray | None,
) -> dict[str, Any]:
    """metrics.json of a checkpoint on one split, less `cost`: what was run, in the user's names, and how well it did.

    protocol: the chosen name. best_mse (P,): see `best_reachable`.
    """
    config, choices = checkpoint.config, checkpoint.record["choices"]
    slots = slot_names(choices)
    baselines = baseline_metrics(evaluation.baselines, data)
    if best_mse is not None:
        baselines["best_reachable"] = {"scaled": {"mse": float(best_mse.mean())}}
    return {
        "status": "finished",
        "model": choices["model"],
        **({"variant": choices["variant"]} if choices.get("variant") else {}),
        "attention": choices["attention"] if slots else None,
        "attention_slots": slots,
        "data": config["data"]["name"],
        "features": config["data"]["features"],
        "protocol": protocol,
        "seed": config["seed"],
        "seq_len": config["seq_len"],
        "label_len": config["label_len"],
        "pred_len": config["pred_len"],
        "parameters": checkpoint.record["parameters"],
        "best_epoch": checkpoint.best_epoch,
        split: split_metrics(evaluation, data),
        "baselines": baselines,
    }


def best_reachable(source: Source, data: PreparedData) -> np.ndarray | None:
    """The least MSE any forecaster could reach at each step (P,), mean over columns, scaled units; None if unknown."""
    if not isinstance(source, DemoSource):
        return None
    best: np.ndarray = source.best_mse(data.frame, data.targets, data.pred_len) / data.target_std**2
    by_step: np.ndarray = best.mean(1)
    return by_step


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


def write_results(
    folder: Path,
    metrics: dict[str, Any],
    *,
    evaluation: Evaluation,
    data: PreparedData,
    by_step: dict[str, list[float]],
) -> None:
    """Writes metrics.json, metrics_by_step.csv, errors_by_window.npz, forecasts.npz and forecast.png.

    by_step: see `step_errors`.
    """
    write_steps_csv(folder / "metrics_by_step.csv", by_step)
    np.savez(
        folder / "errors_by_window.npz",
        start=evaluation.starts,
        squared_scaled=evaluation.squared,
        absolute_scaled=evaluation.absolute,
        columns=np.array(data.target_names),
    )
    shown = shown_windows(evaluation, data)
    arrays: dict[str, Any] = shown
    np.savez(folder / "forecasts.npz", **arrays)
    draw_windows(folder / "forecast.png", shown, title=f"{metrics['model']} on {metrics['data']}")
    write_json(folder / "metrics.json", metrics)  # last: where it stands, all else is complete


def shown_windows(evaluation: Evaluation, data: PreparedData) -> dict[str, np.ndarray]:
    """A few fixed windows in original units.

    past (W, L, T); truth, forecast and two baselines' forecasts (W, P, T); timestamps (W, L + P); columns (T,).
    """
    values, timestamps = window_values(data, evaluation.starts[evaluation.shown])
    return {
        "past": values[:, : data.seq_len],
        "truth": values[:, data.seq_len :],
        "forecast": data.original(evaluation.forecasts[MODEL]),
        "seasonal_naive": data.original(evaluation.forecasts["seasonal_naive"]),
        "closed_form_nlinear": data.original(evaluation.forecasts["closed_form_nlinear"]),
        "timestamps": timestamps,
        "columns": np.array(data.target_names),
    }


def draw_windows(path: Path, shown: dict[str, np.ndarray], *, title: str) -> None:
    """Draws the first DRAWN_WINDOWS of `shown_windows`."""
    import pandas as pd

    from forecast.report.figures import forecast_figure, save

    chosen = spread(len(shown["past"]), DRAWN_WINDOWS)
    figure = forecast_figure(
        past=shown["past"][chosen],
        truth=shown["truth"][chosen],
        forecast=shown["forecast"][chosen],
        timestamps=[pd.DatetimeIndex(shown["timestamps"][i]) for i in chosen],
        columns=[str(name) for name in shown["columns"]],
        title=title,
        baseline=shown["closed_form_nlinear"][chosen],
        baseline_name="closed-form NLinear",
    )
    save(figure, path)
