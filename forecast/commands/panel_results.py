"""The end of every evaluation of a panel: its part of metrics.json, errors by series, some forecasts, their picture."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import torch

from forecast.checkpoint.load import Checkpoint
from forecast.comparison.bootstrap import model_less
from forecast.data.prepare import Prepared, series_windows
from forecast.data.scaling import cell_means
from forecast.evaluation.baselines import WEIGHTS
from forecast.evaluation.evaluate import MODEL, Protocol
from forecast.evaluation.horizon_offsets import offset_metrics
from forecast.evaluation.panel_evaluate import (
    Elsewhere,
    PanelEvaluation,
    evaluate_panel,
    panel_baseline_metrics,
    panel_metrics,
)
from forecast.evaluation.scored_intervals import Intervals, example_ends
from forecast.files import DECIMALS, save_arrays
from forecast.report.forecasters import best_baseline
from forecast.run_folder import FORECASTS, PICTURE, SERIES_ERRORS, WINDOW_ERRORS
from forecast.run_folder.shapes import Metrics


def panel_blocks(
    checkpoint: Checkpoint,
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    batch_size: int,
    device: torch.device,
    brief: Sequence[str] = (),
    intervals: Intervals | None = None,
    elsewhere: Elsewhere | None = None,
) -> tuple[Metrics, PanelEvaluation, dict[str, list[float]]]:
    """What a checkpoint is worth on a panel: the blocks of metrics.json, the evaluation, and the errors by step.

    As `results.evaluate_checkpoint`, whose metrics the blocks become. elsewhere: see `evaluate_panel`.
    """
    model = checkpoint.model().to(device)
    judged = partial(evaluate_panel, model, data, protocol=protocol, batch_size=batch_size, device=device)
    fitted = checkpoint.record.fits
    blocks = {}
    for name in brief:
        other = judged(split=name, fitted=None)
        blocks[name] = {"windows": other.errors.n_windows, **other.errors.overall(other.naive)}
    evaluation = judged(split=split, fitted=fitted, intervals=intervals, elsewhere=elsewhere)
    baselines = panel_baseline_metrics(evaluation, data)
    for key in fitted.keys() & WEIGHTS.keys():
        baselines[WEIGHTS[key]]["look_back"] = fitted[key].shape[-1]
    of_series = {name: errors.shares() for name, errors in evaluation.baselines.items()}
    for name, found in model_less(evaluation.errors.shares(), of_series, block=1).items():
        baselines[name]["difference"] = found
    metrics = {
        split: {**panel_metrics(evaluation, data), "level_shift": panel_level_shift(data, split)},
        "baselines": baselines,
        "mase_scale": {
            "period": evaluation.naive.period,
            "columns_without": evaluation.naive.without(data.target_names),
            "by_series": True,
        },
        "scaling": data.scaler.how,
        **offset_metrics(
            model,
            data.on(device),
            split=split,
            protocol=protocol,
            batch_size=batch_size,
            device=device,
            naive=evaluation.naive,
        ),
        **blocks,
    }
    return cast(Metrics, metrics), evaluation, panel_step_errors(evaluation)


def panel_level_shift(data: Prepared, split: str) -> float | None:
    """How far the mean of a series' rows in a split lies from what it is scaled by, in standard deviations.

    The root mean square over the targets, the median over the series that have such rows.
    """
    rows, columns = data.splits[split], list(data.targets)
    count, mean, _ = cell_means(data.frame, rows.first, rows.stop)
    known = (count[:, columns] > 0).all(1)
    shift = (mean - data.scaler.mean)[known][:, columns] / data.scaler.std[known][:, columns]
    return float(np.median(np.sqrt(np.square(shift).mean(1)))) if known.any() else None


def panel_step_errors(evaluation: PanelEvaluation) -> dict[str, list[float]]:
    """MSE and MAE, scaled units, of the model and the baselines at each step, P figures each."""
    forecasters = {"": evaluation.errors, **{f"{name}_": errors for name, errors in evaluation.baselines.items()}}
    columns = {}
    for prefix, errors in forecasters.items():
        columns[f"{prefix}mse_scaled"], columns[f"{prefix}mae_scaled"] = errors.steps()
    steps = {name: values.tolist() for name, values in columns.items()}
    return steps | ({} if evaluation.intervals is None else evaluation.intervals.errors.steps())


def write_series(
    beside: Callable[[str], Path], evaluation: PanelEvaluation, data: Prepared, metrics: Metrics
) -> list[str]:
    """Writes errors_by_window.npz, errors_by_series.csv, forecasts.npz and forecast.png; returns their names.

    beside: from the name of a file to where it is written. metrics: with the block of the evaluated split.
    """
    windows = example_series(evaluation, data)
    save_series_errors(beside(WINDOW_ERRORS), evaluation, data)
    beside(SERIES_ERRORS).write_text(series_csv(evaluation, data), encoding="utf-8")
    save_arrays(beside(FORECASTS), windows)
    draw_series(beside(PICTURE), windows, metrics, worst=len(evaluation.worst))
    return [WINDOW_ERRORS, SERIES_ERRORS, FORECASTS, PICTURE]


def save_series_errors(path: Path, evaluation: PanelEvaluation, data: Prepared) -> None:
    """The errors of each evaluated series as `errors_by_window.npz` has those of each window.

    start (E,): the numbers of the series; squared_scaled, absolute_scaled (E, T): their means over windows and steps.
    """
    errors, evaluated = evaluation.errors, evaluation.errors.evaluated()
    by_series = errors.series(evaluation.naive)
    arrays = {"squared_scaled": by_series["mse"][evaluated], "absolute_scaled": by_series["mae"][evaluated]}
    names = {"columns": np.array(data.target_names), "series": data.frame.ids[evaluated]}
    save_arrays(path, {"start": np.flatnonzero(evaluated), **arrays, **names})


def series_csv(evaluation: PanelEvaluation, data: Prepared) -> str:
    """A line for each evaluated series: its id, its windows, its errors, means over the targets that have one."""
    errors, evaluated = evaluation.errors, evaluation.errors.evaluated()
    table = {
        f"{name}_scaled" if name in ("mse", "mae") else name: v for name, v in errors.table(evaluation.naive).items()
    }
    columns = [data.frame.ids[evaluated].tolist(), errors.windows.numpy()[evaluated].tolist()]
    for values in table.values():
        rounded = values[evaluated].round(DECIMALS).tolist()
        columns.append(["" if math.isnan(value) else value for value in rounded])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # pandas takes twice as long
    writer.writerow([data.frame.id_column, "windows", *table])
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def example_series(evaluation: PanelEvaluation, data: Prepared) -> dict[str, np.ndarray]:
    """The last windows of the worst and the best series in original units, as `results.example_windows` gives windows.

    series (W,): their ids. Values that no file held are NaN.
    """
    values, timestamps = series_windows(data, evaluation.shown, evaluation.origins)
    return {
        "past": values[:, : data.seq_len],
        "truth": values[:, data.seq_len :],
        "forecast": data.original(evaluation.forecasts[MODEL], evaluation.shown),
        **{name: data.original(evaluation.forecasts[name], evaluation.shown) for name in evaluation.baselines},
        **example_ends(evaluation.intervals, lambda ends: data.original(ends, evaluation.shown)),
        "timestamps": timestamps,
        "columns": np.array(data.target_names),
        "series": data.frame.ids[evaluation.shown],
    }


def draw_series(path: Path, windows: dict[str, np.ndarray], metrics: Metrics, *, worst: int) -> None:
    """Draws the worst and the best series beside the best baseline. worst: how many of the windows are of the worst."""
    from forecast.report.figures import bands_in, forecast_figure, save

    drawn = [0, worst] if worst < len(windows["past"]) else [0]
    best = best_baseline(metrics)
    figure = forecast_figure(
        past=windows["past"][drawn],
        truth=windows["truth"][drawn],
        forecast=windows["forecast"][drawn],
        timestamps=[pd.DatetimeIndex(windows["timestamps"][i]) for i in drawn],
        columns=[str(name) for name in windows["columns"]],
        bands=bands_in(windows, drawn),
        title=f"{metrics['model']} on {metrics['data']}: the series with the largest and the least MASE",
        baseline=windows[best.key][drawn] if best else None,
        baseline_name=best.name if best else "",
        first=metrics["target"],
        names=[str(windows["series"][i]) for i in drawn],
    )
    save(figure, path)
