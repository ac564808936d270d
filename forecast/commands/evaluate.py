"""What evaluate.py and predict.py do: a checkpoint, a file, and the answer. Nothing here imports Lightning."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from omegaconf import DictConfig

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.commands.results import best_reachable, make_metrics, step_errors, write_results
from forecast.config.build import build
from forecast.config.check import read_settings
from forecast.config.entry import chosen, run_folder
from forecast.config.settings import EvaluateSettings, PredictSettings
from forecast.data.frame import SeriesFrame, read_columns, read_frame
from forecast.data.prepare import PreparedData, prepare
from forecast.data.sources import Source
from forecast.data.split import split_rows
from forecast.errors import UserError, closest
from forecast.evaluation.evaluate import Protocol
from forecast.evaluation.evaluate import evaluate as evaluate_windows
from forecast.evaluation.memory import PeakMemory
from forecast.evaluation.offsets import check_offsets, offset_metrics
from forecast.evaluation.predict import predict as predict_steps
from forecast.report.verdict import print_report, verdict

log = logging.getLogger(__name__)

WHOLE_FILE = "all"


def evaluate(cfg: DictConfig) -> None:
    """Evaluates a checkpoint on a split of its own data or of another file; writes and prints as train.py does."""
    settings = read_settings(cfg, EvaluateSettings)
    device = find_device(settings.device)
    checkpoint = load_checkpoint(settings.ckpt_path)
    source = data_source(checkpoint, root=settings.data.root)
    protocol = build_protocol(cfg)
    data = evaluated_data(checkpoint, source, settings)
    check_offsets(data, settings.split, protocol)
    started, memory = time.perf_counter(), PeakMemory()
    model, data = checkpoint.model().to(device), data.on(device)
    batch_size = settings.data.batch_size or source.batch_size
    evaluation = evaluate_windows(
        model,
        data,
        split=settings.split,
        protocol=protocol,
        nlinear_weight=checkpoint.record["nlinear_weight"],
        batch_size=batch_size,
        device=device,
    )
    offsets = offset_metrics(model, data, split=settings.split, protocol=protocol, batch_size=batch_size, device=device)
    best_mse = None if settings.data.path else best_reachable(source, data)
    metrics = {
        **make_metrics(
            checkpoint, evaluation, data, split=settings.split, protocol=chosen("protocol"), best_mse=best_mse
        ),
        **offsets,
        "cost": cost(time.perf_counter() - started, memory, device),
    }
    if settings.data.path:
        metrics["evaluated_file"] = data.frame.name
    if "imported" in checkpoint.record:
        metrics["imported"] = checkpoint.record["imported"]
    by_step = step_errors(evaluation, best_mse)
    write_results(run_folder(), metrics, evaluation=evaluation, data=data, by_step=by_step)
    print_report(metrics, settings.split, by_step)
    log.info("Everything about this evaluation is in %s", run_folder())


def cost(seconds: float, memory: PeakMemory, device: torch.device) -> dict[str, Any]:
    """The block `cost` of an evaluation that took so many seconds; nothing was trained."""
    return {
        "train_seconds": None,
        "train_samples_per_second": None,
        "evaluate_seconds": seconds,
        "peak_memory_mb": memory.megabytes(device),
        "device": device.type,
        "precision": "32-true",
    }


def predict(cfg: DictConfig) -> None:
    """Forecasts the steps after the end of a file, or of the data trained on; writes a CSV and a picture."""
    settings = read_settings(cfg, PredictSettings)
    device = find_device(settings.device)
    output = checked_output(settings.output, settings.data.path)
    checkpoint = load_checkpoint(settings.ckpt_path)
    source = data_source(checkpoint, root=settings.data.root)
    frame = history(checkpoint, source, settings.data.path)
    lengths = {"seq_len": checkpoint.config["seq_len"], "pred_len": checkpoint.config["pred_len"]}
    names = checkpoint.data["targets"]
    targets = [frame.columns.index(name) for name in names]
    future, values = predict_steps(
        checkpoint.model().to(device),
        frame,
        scaler=checkpoint.scaler,
        targets=targets,
        encoding=checkpoint.encoding,
        device=device,
        **lengths,
    )
    table = pd.DataFrame(values, columns=names)
    table.insert(0, source.time_column, future)
    try:
        write_table(output, table)
        picture = draw_future(output.with_suffix(".png"), frame.tail(lengths["seq_len"]), table)
    except OSError as error:
        raise UserError(f"output={output} cannot be written: {error.strerror}.") from error
    print(f"{len(future)} steps from {future[0]} to {future[-1]} are in {output}, drawn in {picture}.")
    for sentence in known_verdict(checkpoint):
        print(f"best.ckpt of this run on its test windows: {sentence}")


def find_device(name: str) -> torch.device:
    """Auto (a GPU when there is one), cpu or cuda. Raises UserError for another word, or for cuda without a GPU."""
    devices = ("auto", "cpu", "cuda")
    if name not in devices:
        raise UserError(f"device={name}: choose one of {', '.join(devices)}.{closest(name, devices)}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device=cuda: torch sees no GPU here. Use device=cpu, or install torch's CUDA build.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def data_source(checkpoint: Checkpoint, *, root: str | None) -> Source:
    """The source that the checkpoint was trained on. root: where its file lies now, None: where it lay."""
    config = checkpoint.config["data"]
    source: Source = build(config | {"root": root} if root and "root" in config else config)
    return source


def build_protocol(cfg: DictConfig) -> Protocol:
    """The protocol that the config names."""
    protocol: Protocol = build(cfg.protocol)
    return protocol


def evaluated_data(checkpoint: Checkpoint, source: Source, settings: EvaluateSettings) -> PreparedData:
    """The frame and the split to evaluate, scaled as in training.

    Raises UserError for a split that is not there, and when the trained file has changed: its splits would have moved.
    """
    frame = history(checkpoint, source, settings.data.path)
    lengths = {"seq_len": checkpoint.config["seq_len"], "pred_len": checkpoint.config["pred_len"]}
    if settings.data.path and settings.split == WHOLE_FILE:
        splits = whole_file(frame, **lengths)
    elif settings.data.path:
        splits = split_rows(frame, source.split, **lengths)
    else:
        check_unchanged(checkpoint, source)
        splits = {name: range(*rows) for name, rows in checkpoint.data["splits"].items()}
    if settings.split not in splits:
        valid = [*splits, WHOLE_FILE] if settings.data.path else list(splits)
        hint = " split=all needs data.path=FILE." if settings.split == WHOLE_FILE else closest(settings.split, valid)
        raise UserError(f"split={settings.split}: {frame.name} has the splits {', '.join(valid)}.{hint}")
    seen = (frame.timestamps <= pd.Timestamp(checkpoint.data["trained_until"])).sum()
    if settings.data.path and seen > splits[settings.split].start:
        log.warning(
            "Some of the evaluated rows are not later than %s, up to where the model was trained: on rows that it "
            "has seen its error is no forecast error.",
            checkpoint.data["trained_until"],
        )
    return prepare(
        frame,
        splits=splits,
        targets=tuple(frame.columns.index(name) for name in checkpoint.data["targets"]),
        encoding=checkpoint.encoding,
        scaler=checkpoint.scaler,
        **lengths,
    )


def whole_file(frame: SeriesFrame, *, seq_len: int, pred_len: int) -> dict[str, range]:
    """All windows of a file as one split."""
    rows = len(frame.values)
    if rows < seq_len + pred_len:
        raise UserError(
            f"{frame.name} has {rows} rows; one window needs seq_len + pred_len = {seq_len} + {pred_len} rows."
        )
    return {WHOLE_FILE: range(rows)}


def check_unchanged(checkpoint: Checkpoint, source: Source) -> None:
    """Raises UserError when the data trained on are no longer what they were."""
    found, expected = source.checksum(), checkpoint.data["checksum"]
    if found != expected:
        path = source.path_used()
        raise UserError(
            f"{path}: checksum {found}, but the model was trained on {expected}: the file has changed, and with it its "
            f"splits. Restore it, or evaluate it as another file: data.path={path} split=all"
        )


def history(checkpoint: Checkpoint, source: Source, path: str | None) -> SeriesFrame:
    """The checkpoint's columns from another file, or, path None, the data trained on.

    Raises UserError for a missing column and for another frequency than the one trained on.
    """
    if path is None:
        return source.frame()
    other = source.with_file(path)
    columns = checkpoint.data["columns"]
    layout = {"time_column": other.time_column, "separator": other.separator}
    unused = [name for name in read_columns(path, **layout) if name not in columns]
    if unused:
        log.info("%s: the model was not trained on the columns %s; they are not read.", path, ", ".join(unused))
    freq = checkpoint.data["freq"]
    return read_frame(path, columns=columns, decimal=other.decimal, freq=freq, gaps=other.gaps, **layout)


def checked_output(name: str, history_path: str | None) -> Path:
    """The path of the forecast. Raises UserError when it cannot be written there, or the history stands there."""
    output = Path(name)
    if output.suffix != ".csv":
        raise UserError(f"output={name}: the forecast is a CSV, so its name must end in .csv")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UserError(f"output={name}: there is no folder {output.absolute().parent} to write it in.")
    if history_path and output.resolve() == Path(history_path).resolve():
        raise UserError(
            f"output={name} is the history itself (data.path) and would be overwritten; choose another name."
        )
    return output


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Writes a CSV beside its place and renames it, so that a half one is never seen."""
    unfinished = path.with_name(path.name + ".part")
    table.to_csv(unfinished, index=False)
    unfinished.replace(path)


def draw_future(path: Path, past: SeriesFrame, forecast: pd.DataFrame) -> Path:
    """Draws the end of the history and the forecast: a column of timestamps, then the targets, original units."""
    from forecast.report.figures import forecast_figure, save

    names = [str(name) for name in forecast.columns[1:]]
    figure = forecast_figure(
        past=past.values[None][:, :, [past.columns.index(name) for name in names]],
        truth=None,
        forecast=forecast[names].to_numpy()[None],
        timestamps=[pd.DatetimeIndex(past.timestamps.append(pd.DatetimeIndex(forecast.iloc[:, 0])))],
        columns=names,
        title=f"forecast after {past.timestamps[-1]}",
    )
    save(figure, path)
    return path


def known_verdict(checkpoint: Checkpoint) -> list[str]:
    """What the run that made the checkpoint said of it; empty when its metrics.json is not beside it any more."""
    path = checkpoint.path.absolute().parent.parent / "metrics.json"
    try:
        return verdict(json.loads(path.read_text()), "test")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
