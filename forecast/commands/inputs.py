"""What evaluating and forecasting begin with: a device, the data trained on, or another file."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from forecast.checkpoint.load import Checkpoint
from forecast.config.build import build
from forecast.data.frame import SeriesFrame, read_columns, read_frame
from forecast.data.prepare import PreparedData, prepare
from forecast.data.sources import CatalogSource, SavedCatalogSource, Source
from forecast.data.split import split_rows
from forecast.errors import UserError, closest

log = logging.getLogger(__name__)

WHOLE_FILE = "all"


def find_device(name: str) -> torch.device:
    """Auto (a GPU when there is one), cpu or cuda. Raises UserError for another word, or for cuda without a GPU."""
    devices = ("auto", "cpu", "cuda")
    if name not in devices:
        raise UserError(f"device={name}: choose one of {', '.join(devices)}.{closest(name, devices)}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device=cuda: torch sees no GPU here. Use device=cpu, or install torch's CUDA build.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def trained_source(checkpoint: Checkpoint, *, root: str | None) -> Source:
    """The source that the checkpoint was trained on. root: where its file lies now, None: where it lay."""
    return saved_source(checkpoint.config["data"], root=root)


def saved_source(config: dict[str, Any], *, root: str | None) -> Source:
    """The source of a checkpoint's config. root: the command's, to which a published file may be downloaded."""
    source: Source = build(config | {"root": root} if root and "root" in config else config)
    return source if root or not isinstance(source, CatalogSource) else SavedCatalogSource(**vars(source))


def check_unchanged(checkpoint: Checkpoint, source: Source) -> None:
    """Raises UserError when the data trained on are no longer what they were."""
    now, expected = source.checksum(), checkpoint.data["checksum"]
    if now != expected:
        path = source.path_used()
        raise UserError(
            f"{path}: checksum {now}, but the model was trained on {expected}: the file has changed, and with it its "
            f"splits. Restore it, or evaluate it as another file: data.path={path} split=all"
        )


def history(checkpoint: Checkpoint, source: Source, path: Path | str | None) -> SeriesFrame:
    """The checkpoint's columns from another file, or, path None, the data trained on.

    Raises UserError for a missing column and for another frequency than the one trained on.
    """
    columns = checkpoint.data["columns"]
    if path is None:
        frame = source.frame()
        if list(frame.columns) != columns:
            raise UserError(
                f"ckpt_path={checkpoint.path}: its columns {', '.join(columns)} are not those of {frame.name}, "
                f"{', '.join(frame.columns)}: the checkpoint was changed. Use another one of its run."
            )
        return frame
    other = source.with_file(path)
    layout = {"time_column": other.time_column, "separator": other.separator}
    unused = [name for name in read_columns(path, **layout) if name not in columns]
    if unused:
        log.info("%s: the model was not trained on the columns %s; they are not read.", path, ", ".join(unused))
    freq = checkpoint.data["freq"]
    return read_frame(path, columns=columns, decimal=other.decimal, freq=freq, gaps=other.gaps, **layout)


def evaluated_data(checkpoint: Checkpoint, source: Source, path: Path | str | None, *, split: str) -> PreparedData:
    """The frame and the split to evaluate, scaled as in training.

    Raises UserError for a split that is not there, and when the trained file has changed: its splits would have moved.
    """
    frame = history(checkpoint, source, path)
    lengths = {"seq_len": checkpoint.config["seq_len"], "pred_len": checkpoint.config["pred_len"]}
    if path and split == WHOLE_FILE:
        splits = whole_file(frame, **lengths)
    elif path:
        splits = split_rows(frame, source.split, **lengths)
    else:
        check_unchanged(checkpoint, source)
        splits = {name: range(*rows) for name, rows in checkpoint.data["splits"].items()}
    if split not in splits:
        valid = [*splits, WHOLE_FILE] if path else list(splits)
        hint = " split=all needs data.path=FILE." if split == WHOLE_FILE else closest(split, valid)
        raise UserError(f"split={split}: {frame.name} has the splits {', '.join(valid)}.{hint}")
    seen = (frame.timestamps <= pd.Timestamp(checkpoint.data["trained_until"])).sum()
    if path and seen > splits[split].start:
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
