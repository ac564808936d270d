"""What evaluate.py does: a checkpoint on a split of its own data or of another file."""

import logging
import time

import pandas as pd
from omegaconf import DictConfig

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.commands.inputs import check_unchanged, find_device, history, trained_source
from forecast.commands.results import evaluate_checkpoint, write_results
from forecast.config.build import build
from forecast.config.check import read_settings
from forecast.config.entry import chosen, run_folder
from forecast.config.settings import EvaluateSettings
from forecast.data.frame import SeriesFrame
from forecast.data.prepare import PreparedData, prepare
from forecast.data.sources import Source
from forecast.data.split import split_rows
from forecast.errors import UserError, closest
from forecast.evaluation.evaluate import Protocol
from forecast.evaluation.horizon_offsets import check_offsets
from forecast.evaluation.memory import PeakMemory
from forecast.report.verdict import print_report

log = logging.getLogger(__name__)

WHOLE_FILE = "all"


def evaluate(cfg: DictConfig) -> None:
    """Evaluates a checkpoint on a split of its own data or of another file; writes and prints as train.py does."""
    settings = read_settings(cfg, EvaluateSettings)
    device = find_device(settings.device)
    checkpoint = load_checkpoint(settings.ckpt_path)
    source = trained_source(checkpoint, root=settings.data.root)
    protocol: Protocol = build(cfg.protocol)
    data = evaluated_data(checkpoint, source, settings)
    check_offsets(data, settings.split, protocol)
    started, memory = time.perf_counter(), PeakMemory()
    result = evaluate_checkpoint(
        checkpoint,
        None if settings.data.path else source,
        data,
        split=settings.split,
        protocol=protocol,
        protocol_name=chosen("protocol"),
        batch_size=settings.data.batch_size or source.batch_size,
        device=device,
    )
    result.metrics["cost"] = {
        "train_seconds": None,
        "train_samples_per_second": None,
        "evaluate_seconds": time.perf_counter() - started,
        "peak_memory_mb": memory.megabytes(device),
        "device": device.type,
        "precision": "32-true",
    }
    if settings.data.path:
        result.metrics["evaluated_file"] = data.frame.name
    if "imported" in checkpoint.record:
        result.metrics["imported"] = checkpoint.record["imported"]
    write_results(run_folder(), result)
    print_report(result.metrics, settings.split, result.by_step)
    log.info("Everything about this evaluation is in %s", run_folder())


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
