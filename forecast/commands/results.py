"""The end of every evaluation: metrics.json, errors by step and window, forecasts and their picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import torch

from forecast.checkpoint.load import Checkpoint
from forecast.commands.description import description
from forecast.commands.page import origin_of, page_of, write_residuals
from forecast.commands.panel_results import panel_blocks, panel_level_shift, write_series
from forecast.comparison.bootstrap import model_less
from forecast.data.differences import SeasonalDifferences
from forecast.data.prepare import Prepared, series_windows
from forecast.data.roles import names_roles
from forecast.data.sources import DemoSource, Source
from forecast.evaluation.baselines import WEIGHTS
from forecast.evaluation.blocks import all_metrics, baseline_metrics, split_metrics
from forecast.evaluation.column_use import column_use, roles_of
from forecast.evaluation.evaluate import (
    MODEL,
    Evaluation,
    Protocol,
    evaluate,
    evenly_spaced,
)
from forecast.evaluation.horizon_offsets import offset_metrics
from forecast.evaluation.metrics import row_means
from forecast.evaluation.naive_errors import naive_errors
from forecast.evaluation.panel_evaluate import Elsewhere, PanelEvaluation
from forecast.evaluation.scored_intervals import Intervals, example_ends
from forecast.files import DECIMALS, json_text, rounded, save_arrays, together
from forecast.report.forecasters import best_baseline
from forecast.run_folder import (
    FILES,
    FORECASTS,
    METRICS,
    PAGE,
    PICTURE,
    RELIABILITY,
    RESIDUALS,
    STEP_ERRORS,
    WINDOW_ERRORS,
    sha256,
)
from forecast.run_folder.shapes import Block, Metrics, Origin, block_of

# Windows in forecast.png.
DRAWN_WINDOWS = 3


@dataclass
class Result:
    """What evaluating a checkpoint on one split gave; split: its name.

    metrics: what becomes metrics.json, rounded as there; the commands add to it. by_step: the columns of
    metrics_by_step.csv, P figures each, scaled units. origin: what the page tells of the checkpoint.
    """

    metrics: Metrics
    evaluation: Evaluation | PanelEvaluation
    data: Prepared
    by_step: dict[str, list[float]]
    split: str
    origin: Origin


def evaluate_checkpoint(
    checkpoint: Checkpoint,
    source: Source | None,
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    protocol_name: str | None,
    batch_size: int,
    device: torch.device,
    brief: Sequence[str] = (),
    intervals: Intervals | None = None,
    elsewhere: Elsewhere | None = None,
) -> Result:
    """A checkpoint on every window of `split` that the protocol counts: the one place where metrics.json is made.

    source: where the data come from; None for another file than the one trained on. protocol_name: the chosen option.
    brief: splits of which only the number of windows and the errors are kept. intervals: which of the model's are
    wanted. elsewhere: of a panel, see `evaluate_panel`. Raises UserError when no window counts, or a forecast is not
    finite.
    """
    if data.frame.id_column is not None:
        of_split, of_panel, by_step = panel_blocks(
            checkpoint,
            data,
            split=split,
            protocol=protocol,
            batch_size=batch_size,
            device=device,
            brief=brief,
            intervals=intervals,
            elsewhere=elsewhere,
        )
        block_of(of_split, split).update(
            use_of_columns(checkpoint, data, split=split, protocol=protocol, device=device)
        )
        of_run = {"status": "finished", **description(checkpoint, protocol_name), **of_split}
        return Result(rounded(of_run), of_panel, data, by_step, split, origin_of(checkpoint))
    model, data = checkpoint.model().to(device), data.on(device)
    judged = partial(evaluate, model, data, protocol=protocol, batch_size=batch_size, device=device)
    fitted = checkpoint.record.fits
    naive = saved_naive_errors(checkpoint, data if source is not None else None)
    blocks = {}
    for name in brief:
        other = judged(split=name, fitted=None)
        overall, _ = all_metrics(other.errors, data, naive, (other.own_scale or {}).get(MODEL))
        blocks[name] = {"windows": other.errors.n_windows, **overall}
    evaluation = judged(split=split, fitted=fitted, intervals=intervals)
    baselines = baseline_metrics(evaluation.baselines, data, naive, evaluation.own_scale)
    for key in fitted.keys() & WEIGHTS.keys():
        baselines[WEIGHTS[key]]["look_back"] = fitted[key].shape[-1]
    block = -(-data.pred_len // protocol.stride)  # windows whose forecasts share a row
    squared = row_means(evaluation.squared)
    known = ~np.isnan(squared)  # the others have no target that was measured
    of_baselines = {name: errors[known] for name, errors in evaluation.baseline_squared.items()}
    for name, found in model_less(squared[known], of_baselines, block=block).items():
        baselines[name]["difference"] = found
    best_mse = best_reachable(source, data)
    if best_mse is not None:
        baselines["best_reachable"] = {"scaled": {"mse": float(best_mse.mean())}}
    metrics: dict[str, object] = {
        "status": "finished",
        **description(checkpoint, protocol_name),
        split: {
            **split_metrics(evaluation, data, naive),
            "level_shift": panel_level_shift(data, split),
            **use_of_columns(checkpoint, data, split=split, protocol=protocol, device=device),
        },
        "baselines": baselines,
        "mase_scale": naive
        and {
            "period": naive.period,
            **({"rows": "before"} if protocol.mase_scale == "before" else {}),
            "columns_without": naive.without(data.target_names),
        },
        "scaling": data.scaler.how,
        **offset_metrics(
            model, data, split=split, naive=naive, protocol=protocol, batch_size=batch_size, device=device
        ),
        **blocks,
    }
    by_step = step_errors(evaluation, best_mse)
    return Result(rounded(metrics), evaluation, data, by_step, split, origin_of(checkpoint))


def use_of_columns(
    checkpoint: Checkpoint, data: Prepared, *, split: str, protocol: Protocol, device: torch.device
) -> Block:
    """The entry `covariates`, see `column_use`; nothing where the training named no roles."""
    if not names_roles(checkpoint.config.data.node):
        return {}
    roles = roles_of(data)
    model = checkpoint.model().to(device)
    found = column_use(model, data.on(device), split=split, protocol=protocol, roles=roles)
    return cast(Block, {"covariates": found})


def saved_naive_errors(checkpoint: Checkpoint, data: Prepared | None) -> SeasonalDifferences | None:
    """By what MASE and RMSSE are scaled: the train rows' errors in the checkpoint.

    data: those trained on, None for another file. An older checkpoint has no such errors: then they are those of the
    train rows in `data`, and unknown without it.
    """
    if (state := checkpoint.data.get("naive")) is not None:
        return SeasonalDifferences.from_state(**state)
    return None if data is None else naive_errors(data, "train")


def best_reachable(source: Source | None, data: Prepared) -> np.ndarray | None:
    """The least MSE any forecaster could reach at each step (P,), mean over columns, scaled units; None if unknown."""
    if not isinstance(source, DemoSource):
        return None
    mse: np.ndarray = source.best_mse(data.target_names, data.pred_len) / data.target_scale[1] ** 2
    return np.asarray(mse.mean(1))


def step_errors(evaluation: Evaluation, best_mse: np.ndarray | None) -> dict[str, list[float]]:
    """MSE and MAE, scaled units, of the model and the baselines at each step, P figures each.

    best_mse (P,): see `best_reachable`.
    """
    columns = dict(zip(("mse_scaled", "mae_scaled"), evaluation.errors.steps(), strict=True))
    for name, errors in evaluation.baselines.items():
        columns[f"{name}_mse_scaled"], columns[f"{name}_mae_scaled"] = errors.steps()
    if best_mse is not None:
        columns["best_reachable_mse_scaled"] = best_mse
    steps = {name: values.tolist() for name, values in columns.items()}
    return steps | ({} if evaluation.intervals is None else evaluation.intervals.errors.steps())


def steps_csv(by_step: dict[str, list[float]]) -> str:
    """One line a forecast step, counted from 1: the column `step`, then those of `by_step`, P figures each."""
    table = pd.DataFrame(by_step)
    table.index = pd.RangeIndex(1, len(table) + 1, name="step")
    text: str = table.to_csv(na_rep="nan", float_format=f"%.{DECIMALS}f", lineterminator="\n")
    return text


def write_results(folder: Path, result: Result) -> None:
    """Writes the files of RESULTS, errors_by_series.csv of a panel alone: all or none.

    metrics.json comes last and names the others with their SHA-256: a kill between two renames leaves files that
    `run_folder.torn` tells from a whole result.
    """
    metrics = result.metrics
    with together(folder) as beside:
        if isinstance(result.evaluation, PanelEvaluation):
            names = write_series(beside, result.evaluation, result.data, metrics)
        else:
            names = write_windows(beside, result.evaluation, result.data, metrics)
        if result.evaluation.intervals is not None:
            from forecast.report.reliability import draw_reliability

            draw_reliability(beside(RELIABILITY), metrics, result.split)
            names = [*names, RELIABILITY]
        beside(STEP_ERRORS).write_text(steps_csv(result.by_step), encoding="utf-8")
        times, signed = window_residuals(result)
        write_residuals(beside(RESIDUALS), times, signed, result.data.target_names, metrics["target"] or "")
        page = page_of(beside, metrics, result.split, result.origin)  # reads what was written so far
        beside(PAGE).write_text(page, encoding="utf-8")
        metrics[FILES] = {name: sha256(beside(name)) for name in (*names, STEP_ERRORS, RESIDUALS, PAGE)}
        beside(METRICS).write_text(json_text(metrics), encoding="utf-8")


def window_residuals(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """When the forecasts of windows begin (R,), and their mean errors (R, T), see `Residuals`."""
    evaluation, data = result.evaluation, result.data
    if isinstance(evaluation, PanelEvaluation):
        return evaluation.residual_times, evaluation.residuals.signed
    rows = evaluation.starts[evaluation.residuals.numbers] + data.seq_len
    return data.times_of(rows, np.zeros_like(rows)).to_numpy(), evaluation.residuals.signed


def write_windows(beside: Callable[[str], Path], evaluation: Evaluation, data: Prepared, metrics: Metrics) -> list[str]:
    """Writes errors_by_window.npz, forecasts.npz and forecast.png where `beside` says, and returns their names."""
    errors = {"squared_scaled": evaluation.squared, "absolute_scaled": evaluation.absolute}
    windows = example_windows(evaluation, data)
    save_arrays(beside(WINDOW_ERRORS), {"start": evaluation.starts, **errors, "columns": np.array(data.target_names)})
    save_arrays(beside(FORECASTS), windows)
    draw_windows(beside(PICTURE), windows, metrics)
    return [WINDOW_ERRORS, FORECASTS, PICTURE]


def example_windows(evaluation: Evaluation, data: Prepared) -> dict[str, np.ndarray]:
    """A few fixed windows in original units.

    past (W, L, T); truth, forecast and each baseline's forecast, by its name (W, P, T); of intervals levels (A,), lower
    and upper (W, P, T, A); timestamps (W, L + P); columns (T,).
    """
    origins = evaluation.starts[evaluation.examples] + data.seq_len
    values, timestamps = series_windows(data, np.zeros_like(origins), origins)
    return {
        "past": values[:, : data.seq_len],
        "truth": values[:, data.seq_len :],
        "forecast": data.original(evaluation.forecasts[MODEL]),
        **{name: data.original(evaluation.forecasts[name]) for name in evaluation.baselines},
        **example_ends(evaluation.intervals, data.original),
        "timestamps": timestamps,
        "columns": np.array(data.target_names),
    }


def draw_windows(path: Path, windows: dict[str, np.ndarray], metrics: Metrics) -> None:
    """Draws the first DRAWN_WINDOWS of `example_windows` beside the best baseline, data.target first."""
    from forecast.report.figures import bands_in, forecast_figure, save

    drawn = evenly_spaced(len(windows["past"]), DRAWN_WINDOWS)
    best = best_baseline(metrics)
    figure = forecast_figure(
        past=windows["past"][drawn],
        truth=windows["truth"][drawn],
        forecast=windows["forecast"][drawn],
        timestamps=[pd.DatetimeIndex(windows["timestamps"][i]) for i in drawn],
        columns=[str(name) for name in windows["columns"]],
        bands=bands_in(windows, drawn),
        title=f"{metrics['model']} on {metrics['data']}",
        baseline=windows[best.key][drawn] if best else None,
        baseline_name=best.name if best else "",
        first=metrics["target"],
    )
    save(figure, path)
