"""A checkpoint in use, and what an evaluation leaves: metrics.json, errors by step and window, forecasts, a picture."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import torch

from forecast.apps.common.inputs import evaluated_data, find_device, trained_source
from forecast.apps.common.intervals import wanted
from forecast.apps.common.page import description, origin_of, page_of
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.comparison.bootstrap import model_less
from forecast.config.run_config import Plain
from forecast.data.prepare import Prepared, series_windows
from forecast.data.roles import names_roles
from forecast.data.scaling import SeasonalDifferences
from forecast.data.sources import MadeUpSource, Source
from forecast.evaluation.baselines import baseline_look_backs, season
from forecast.evaluation.blocks import baseline_metrics, check_offsets, offset_metrics, split_metrics
from forecast.evaluation.column_use import column_use, roles_of
from forecast.evaluation.evaluate import (
    MODEL,
    Evaluation,
    Protocol,
    evaluate,
    evenly_spaced,
)
from forecast.evaluation.metrics import MaseScale, naive_errors
from forecast.evaluation.scored_intervals import Intervals
from forecast.files import DECIMALS, json_text, rounded, save_arrays, together
from forecast.report.forecasters import best_baseline
from forecast.run_folder import (
    FILES,
    FORECASTS,
    METRICS,
    PAGE,
    PICTURE,
    SERIES_ERRORS,
    STEP_ERRORS,
    WINDOW_ERRORS,
    sha256,
)
from forecast.run_folder.shapes import Block, Metrics, Origin
from forecast.training.shared_data import SHARED

# Windows in forecast.png.
DRAWN_WINDOWS = 3


@dataclass
class Result:
    """What evaluating a checkpoint on one split gave; split: its name.

    metrics: what becomes metrics.json, rounded as there; the commands add to it. by_step: the columns of
    metrics_by_step.csv, P figures each, scaled units. origin: what the page tells of the checkpoint.
    """

    metrics: Metrics
    evaluation: Evaluation
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
) -> Result:
    """A checkpoint on every window of `split` that the protocol counts: the one place where metrics.json is made.

    source: where the data come from; None for another file than the one trained on. protocol_name: the chosen option.
    brief: splits of which only the number of windows and the errors are kept. intervals: which of the model's are
    wanted. Raises UserError when no window counts, or a forecast is not finite.
    """
    model, data = checkpoint.model().to(device), data.on(device)
    judged = partial(evaluate, model, data, protocol=protocol, batch_size=batch_size, device=device)
    fitted = checkpoint.record.fits
    blocks = {}
    for name in brief:
        other = judged(split=name, fitted=None, naive=naive_of(checkpoint, data, name, protocol.mase_scale))
        blocks[name] = {"windows": other.errors.n_windows, **other.errors.overall(other.naive)}
    scale = naive_of(checkpoint, data, split, protocol.mase_scale)
    pass_settings = {"split": split, "batch_size": batch_size, **vars(protocol)}
    known = SHARED.scores(model, data, fitted, device, **pass_settings)
    evaluation = judged(split=split, fitted=fitted, intervals=intervals, naive=scale, known=known)
    naive, names = evaluation.naive, data.target_names
    baselines = baseline_metrics(evaluation.baselines, data, naive)
    for name, rows in baseline_look_backs(fitted).items():
        baselines[name]["look_back"] = rows
    for name, difference in differences(evaluation, data, protocol).items():
        baselines[name]["difference"] = difference
    best_mse = best_reachable(source, data)
    if best_mse is not None:
        baselines["best_reachable"] = {"scaled": {"mse": float(best_mse.mean())}}
    of_split = split_metrics(evaluation, data, split)
    columns = cast(Block, of_split)["columns"]
    metrics: dict[str, object] = {
        "status": "finished",
        **description(checkpoint, protocol_name),
        split: {**of_split, **use_of_columns(checkpoint, data, split=split, protocol=protocol, device=device)},
        "baselines": baselines,
        "mase_scale": {
            "period": season(data) or 1,
            "rows": protocol.mase_scale,
            "columns_without": [name for name in names if columns[name]["mase"] is None],
        },
        "scaling": data.scaler.how,
        **({"validation_judges": True} if split == "test" and data.validation_judges else {}),
        **offset_metrics(
            model, data, split=split, naive=naive, protocol=protocol, batch_size=batch_size, device=device
        ),
        **blocks,
    }
    by_step = step_errors(evaluation, best_mse)
    return Result(cast(Metrics, rounded(metrics)), evaluation, data, by_step, split, origin_of(checkpoint))


def differences(evaluation: Evaluation, data: Prepared, protocol: Protocol) -> dict[str, Block]:
    """How much lower the MSE is than that of each baseline: by blocks of windows of one series, by series of several.

    Of one with too many windows there is no interval.
    """
    if len(data.frame) > 1 or evaluation.squared is None:
        of_series = {name: errors.shares() for name, errors in evaluation.baselines.items()}
        return model_less(evaluation.errors.shares(), of_series, block=1)
    measured = ~np.isnan(evaluation.squared[MODEL])  # the others have no target that was
    by_window = {name: errors[measured] for name, errors in evaluation.squared.items()}
    block = -(-data.pred_len // protocol.stride)  # windows whose forecasts share a row
    return model_less(by_window.pop(MODEL), by_window, block=block)


def use_of_columns(
    checkpoint: Checkpoint, data: Prepared, *, split: str, protocol: Protocol, device: torch.device
) -> Block:
    """The entry `covariates`, what each column is worth; nothing where the training named no roles."""
    if not names_roles(checkpoint.config.data.node):
        return {}
    model, roles = checkpoint.model().to(device), roles_of(data)
    return {"covariates": column_use(model, data.on(device), split=split, protocol=protocol, roles=roles)}


def naive_of(checkpoint: Checkpoint, data: Prepared, split: str, rule: MaseScale) -> SeasonalDifferences:
    """By what MASE and RMSSE are scaled.

    Of a file that has not the train rows the checkpoint's errors over them stand for those of the series trained on.
    """
    naive = naive_errors(data, split, rule)
    if rule == "split" or "train" in data.splits:
        return naive
    return checkpoint.scale.naive_errors(naive, data.frame.ids)


def best_reachable(source: Source | None, data: Prepared) -> np.ndarray | None:
    """The least MSE any forecaster could reach at each step (P,), mean over columns, scaled units; None if unknown."""
    if not isinstance(source, MadeUpSource):
        return None
    mse: np.ndarray = source.best_mse(data.target_names, data.pred_len) / data.target_scale[1] ** 2
    return np.asarray(mse.mean(1))


def step_errors(evaluation: Evaluation, best_mse: np.ndarray | None) -> dict[str, list[float]]:
    """MSE and MAE, scaled units, of the model and the baselines at each step, P figures each.

    best_mse (P,): the least that any forecaster could reach; None if unknown.
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
    """Writes the files of RESULTS: all or none; errors_by_window.npz where they are few enough.

    metrics.json comes last and names the others with their SHA-256: a kill between two renames leaves files that
    `run_folder.torn` tells from a whole result.
    """
    metrics, evaluation, data = result.metrics, result.evaluation, result.data
    names = [SERIES_ERRORS, FORECASTS, PICTURE, STEP_ERRORS, PAGE]
    with together(folder) as beside:
        if evaluation.windows is not None:
            names = [WINDOW_ERRORS, *names]
            save_arrays(beside(WINDOW_ERRORS), {**evaluation.windows.arrays(), "columns": np.array(data.target_names)})
        beside(SERIES_ERRORS).write_text(series_csv(evaluation, data), encoding="utf-8")
        windows = example_windows(evaluation, data)
        save_arrays(beside(FORECASTS), windows)
        draw_windows(beside(PICTURE), windows, metrics, worst=len(evaluation.worst))
        beside(STEP_ERRORS).write_text(steps_csv(result.by_step), encoding="utf-8")
        page = page_of(beside, metrics, result.split, result.origin)  # reads what was written so far
        beside(PAGE).write_text(page, encoding="utf-8")
        metrics[FILES] = {name: sha256(beside(name)) for name in names}
        beside(METRICS).write_text(json_text(metrics), encoding="utf-8")


def series_csv(evaluation: Evaluation, data: Prepared) -> str:
    """A line for each evaluated series: its id, its windows, its errors, means over the targets that have one."""
    errors, evaluated = evaluation.errors, evaluation.errors.evaluated()
    table = {
        f"{name}_scaled" if name in ("mse", "mae") else name: v for name, v in errors.table(evaluation.naive).items()
    }
    columns = [data.frame.ids[evaluated].tolist(), errors.windows.numpy()[evaluated].tolist()]
    for values in table.values():
        cells = values[evaluated].round(DECIMALS).tolist()
        columns.append(["" if math.isnan(value) else value for value in cells])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # pandas takes twice as long
    writer.writerow([data.frame.id_column or "id", "windows", *table])
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def example_windows(evaluation: Evaluation, data: Prepared) -> dict[str, np.ndarray]:
    """The windows that are shown, in original units.

    past (W, L, T); truth, forecast and each baseline's forecast, by its name (W, P, T), NaN where no file held a value;
    of intervals levels (A,), lower and upper (W, P, T, A); timestamps (W, L + P); columns (T,); of several series
    series (W,): their ids.
    """
    shown, intervals = evaluation.shown, evaluation.intervals
    values, timestamps = series_windows(data, shown, evaluation.origins)
    return {
        "past": values[:, : data.seq_len],
        "truth": values[:, data.seq_len :],
        "forecast": data.original(evaluation.forecasts[MODEL], shown),
        **{name: data.original(evaluation.forecasts[name], shown) for name in evaluation.baselines},
        **({} if intervals is None else intervals.examples(lambda ends: data.original(ends, shown))),
        "timestamps": timestamps,
        "columns": np.array(data.target_names),
        **({"series": data.frame.ids[shown]} if len(data.frame) > 1 else {}),
    }


def draw_windows(path: Path, windows: dict[str, np.ndarray], metrics: Metrics, *, worst: int = 0) -> None:
    """Draws some of `example_windows` beside the best baseline, data.target first.

    Of one series the first, the last and one between, of several the worst and the best. worst: how many of the windows
    are of the worst.
    """
    from forecast.report.figures import bands_in, forecast_figure, save

    drawn, title, ids = evenly_spaced(len(windows["past"]), DRAWN_WINDOWS), "", list[str]()
    if "series" in windows:
        drawn = [0, worst] if worst < len(windows["past"]) else [0]
        title, ids = ": the series with the largest and the least MASE", [str(windows["series"][i]) for i in drawn]
    best = best_baseline(metrics)
    figure = forecast_figure(
        past=windows["past"][drawn],
        truth=windows["truth"][drawn],
        forecast=windows["forecast"][drawn],
        timestamps=[pd.DatetimeIndex(windows["timestamps"][i]) for i in drawn],
        columns=[str(name) for name in windows["columns"]],
        bands=bands_in(windows, drawn),
        title=f"{metrics['model']} on {metrics['data']}{title}",
        baseline=windows[best.key][drawn] if best else None,
        baseline_name=best.name if best else "",
        first=metrics["target"],
        names=ids,
    )
    save(figure, path)


@dataclass(frozen=True)
class LoadedModel:
    """A trained model and a device. root: where a published data set's file lies now, None: where it lay."""

    checkpoint: Checkpoint
    device: torch.device
    root: str | None = None

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto", root: str | None = None) -> "LoadedModel":
        """That of a checkpoint. device: auto, cpu or cuda, checked before the file. UserError for either."""
        return cls(device=find_device(device), checkpoint=load_checkpoint(path), root=root)

    def source(self) -> Source:
        """Where the data trained on come from."""
        return trained_source(self.checkpoint.config.data, root=self.root)

    def result(
        self,
        path: Path | str | None,
        *,
        split: str,
        protocol: Protocol,
        protocol_name: str | None = None,
        batch_size: int | None = None,
        reading: Plain | None = None,
        calibration: str | None = None,
        level: Sequence[float] | None = None,
    ) -> Result:
        """All that an evaluation gives, of the data trained on or of the file `path`.

        calibration, level: of the intervals, as typed; None: as in training. The rest is that of `evaluate_checkpoint`.
        """
        source = self.source()
        data = evaluated_data(self.checkpoint, source, path, split=split, reading=reading)
        check_offsets(data, split, protocol)
        return evaluate_checkpoint(
            self.checkpoint,
            None if path else source,
            data,
            split=split,
            protocol=protocol,
            protocol_name=protocol_name,
            batch_size=batch_size or source.batch_size,
            device=self.device,
            intervals=wanted(self.checkpoint, how=calibration, level=level),
        )
