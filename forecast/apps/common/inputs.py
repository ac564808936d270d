"""What evaluating and forecasting begin with: a device, the data trained on, or another file."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from forecast.apps.common.seen_rows import NEW_ROWS, WHOLE_FILE, check_later, grown_splits, train_again, trained_splits
from forecast.checkpoint.load import Checkpoint
from forecast.config.run_config import DataRecipe, Plain
from forecast.data.panel import STEP_FREQ, PanelFrame
from forecast.data.prepare import Prepared, prepare
from forecast.data.read import read_panel, source_rows
from forecast.data.reading.timestamps import AmbiguousTime
from forecast.data.roles import with_categories, with_holidays
from forecast.data.sources import CatalogSource, CsvSource, MadeUpSource, Source
from forecast.data.split import TargetRows, panel_cuts
from forecast.data.values.cells import Flags
from forecast.errors import UserError, closest
from forecast.evaluation.history import report_far
from forecast.text.terminal import listed

log = logging.getLogger(__name__)


def find_device(name: str) -> torch.device:
    """Auto (a GPU when there is one), cpu or cuda. Raises UserError for another word, or for cuda without a GPU."""
    devices = ("auto", "cpu", "cuda")
    if name not in devices:
        raise UserError(f"device={name}: choose one of {', '.join(devices)}.{closest(name, devices)}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device=cuda: torch sees no GPU here. Use device=cpu, or install torch's CUDA build.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def trained_source(recipe: DataRecipe, *, root: str | None) -> Source:
    """The source of a checkpoint's config. root: the command's, to which a published file may be downloaded.

    Its data.cache counts where panels of this program lie already: no checkpoint says where files are made.
    """
    unused = {key for key in ("static_path", "static_on") if recipe.get(key) is None}  # of checkpoints of 1.0
    recipe = replace(recipe, node={key: value for key, value in recipe.node.items() if key not in unused})
    changes: dict[str, object] = {
        **({"root": root} if root and "root" in recipe.node else {}),
        # by null a training refuses what is not clear; it has read its rows
        **({"decimal": "."} if recipe.node.get("decimal", ".") is None else {}),
    }
    cache = recipe.get("cache")
    if cache and not list(Path(str(cache)).glob("panel-*/meta.json")):
        changes["cache"] = None
    source = recipe.with_(**changes).build(Source)
    if isinstance(source, CatalogSource) and not root:
        return source.with_file(source.path or Path(source.root) / f"{source.name}.csv")
    return source


def check_horizon(checkpoint: Checkpoint, pred_len: int | None) -> None:
    """Raises UserError for another pred_len than the checkpoint's. None: none was typed."""
    trained = checkpoint.config.pred_len
    if pred_len not in (None, trained):
        raise UserError(
            f"pred_len={pred_len}: {checkpoint.path} was trained to forecast pred_len = {trained} steps. For another "
            f"horizon train a model of its own: {train_again(checkpoint, pred_len=pred_len)}"
        )


def read_source(source: Source, path: Path | str | None, reading: Plain | None = None) -> CsvSource:
    """The file that a history is read from, and how. source: trained on, a file itself where path is None.

    reading: as in `history`. Raises UserError for columns, of which the model has its own.
    """
    if "columns" in (reading or {}):
        raise UserError(
            "data.columns: the model reads the columns that it was trained on, whatever else a file has. Leave it out."
        )
    if path is not None:
        return source.with_file(path, **{"columns": None, "drop": (), **(reading or {})})
    assert isinstance(source, CsvSource)
    return source.located()


def rows_of(
    checkpoint: Checkpoint,
    source: Source,
    path: Path | str | None = None,
    reading: Plain | None = None,
    *,
    leave_out: bool = False,
) -> PanelFrame:
    """The checkpoint's columns of all series of the data trained on, path None, or of another file.

    reading: keys of a `Layout` in which that file differs from the one trained on. leave_out: of many series those with
    gaps, where gaps are refused. UserError for a missing column and for another frequency than the one trained on.
    """
    if path is None and isinstance(source, MadeUpSource):
        return source_rows(source)
    file = read_source(source, path, reading)
    book = checkpoint.codebook(file)
    if file.panel_form in (None, "long"):  # only such a file has other columns
        file = replace(file, columns=[*checkpoint.read_columns, *checkpoint.fact_columns])
    read = partial(read_panel, freq=checkpoint.data["freq"], book=book, leave_out=leave_out)
    try:
        frame = read(file)
    except AmbiguousTime as error:
        trained = checkpoint.data.get("time_format")  # few rows may not tell day from month, as those trained on did
        if {"data.time_format": trained} not in error.candidates:
            raise
        log.info("%s: the time is read as in training, data.time_format=%r.", path, trained)
        frame = read(replace(file, time_format=trained))
    frame = with_holidays(frame, file.holidays)
    for name in checkpoint.data["columns"]:
        if name not in frame.columns:
            raise UserError(
                f"{frame.name}: there is no column '{name}' among {listed(frame.columns)}, which the model was trained "
                f"on.{closest(name, frame.columns)}"
            )
    return with_categories(frame.of(checkpoint.data["columns"]), checkpoint.categories)


def evaluated_data(
    checkpoint: Checkpoint,
    source: Source,
    path: Path | str | None,
    *,
    split: str,
    reading: Plain | None = None,
) -> Prepared:
    """The rows and the split to evaluate, scaled as in training. reading: as in `history`.

    Raises UserError for a split that is not there, or holds no window, and when the trained file has changed: its
    splits would have moved.
    """
    frame, other_file = rows_of(checkpoint, source, path, reading), path is not None
    if split == NEW_ROWS:
        splits = grown_splits(checkpoint, frame)
    elif other_file and split == WHOLE_FILE:
        splits = {split: TargetRows(frame.offsets[:-1], frame.offsets[1:])}
    elif other_file:
        splits = panel_cuts(source.split, frame, pred_len=checkpoint.config.pred_len)
    else:
        splits = trained_splits(checkpoint, frame)
    if split not in splits:
        valid = [*splits, NEW_ROWS, WHOLE_FILE] if other_file else [*splits, NEW_ROWS]
        hint = " split=all needs data.path=FILE." if split == WHOLE_FILE else closest(split, valid)
        raise UserError(f"split={split}: {frame.name} has the splits {', '.join(valid)}.{hint}")
    scaler = checkpoint.scale.scaler(frame, context=checkpoint.config.seq_len, together=len(checkpoint.covariates))
    if count := int(scaler.own.sum()):
        log.info("%d of %d series were not in the training: scaled by their own first rows", count, len(frame))
        splits = after_first_rows(splits, frame, scaler.own, checkpoint.config.seq_len)
    data = prepare(
        frame,
        splits=splits,
        targets=tuple(frame.columns.index(name) for name in checkpoint.data["targets"]),
        encoding=checkpoint.encoding,
        covariates=checkpoint.covariates,
        hidden=checkpoint.hidden,
        fact_scale=checkpoint.fact_scale,
        pad=checkpoint.record.series.pad,
        scaler=scaler,
        season=checkpoint.data.get("season"),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
    )
    data.check_enough(*([split] if split == NEW_ROWS else []))
    first = first_forecast(data, split)
    if other_file and split != NEW_ROWS:  # of each series those after its own last one
        check_later(checkpoint, split, first)
    known = other_file and first is not None and frame.freq != STEP_FREQ  # steps are no times to compare
    if known and first <= pd.Timestamp(checkpoint.trained_until):
        log.warning(
            "Some of the evaluated rows are not later than %s, up to where the model was trained: on rows that it "
            "has seen its error is no forecast error.",
            checkpoint.trained_until,
        )
    if len(frame) == 1 and (other_file or split == NEW_ROWS):
        values = frame.values[splits[split].first[0] : splits[split].stop[0]]
        report_far(values, frame.columns, scaler.mean[0], scaler.std[0], where=f"{frame.name}, the rows of {split}")
    return data


def after_first_rows(
    splits: Mapping[str, TargetRows], frame: PanelFrame, unseen: Flags, count: int
) -> dict[str, TargetRows]:
    """The splits without the first `count` rows of unseen series (S,), which padding would forecast: their scale."""
    begin = frame.offsets[:-1] + np.where(unseen, np.minimum(count, frame.lengths), 0)
    return {
        name: TargetRows(np.maximum(rows.first, np.minimum(begin, rows.stop)), rows.stop)
        for name, rows in splits.items()
    }


def first_forecast(data: Prepared, split: str) -> pd.Timestamp | None:
    """The time of the first row that any window of a split forecasts; None without a window."""
    frame, origins = data.frame, data.origins(split)
    steps = (origins.first - frame.offsets[:-1] + frame.steps)[origins.counts > 0]
    return frame.shown(frame.calendar()[[int(steps.min())]])[0] if len(steps) else None
