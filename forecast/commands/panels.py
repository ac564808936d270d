"""The series of a panel for a training, an evaluation or a forecast."""

import logging
from dataclasses import replace

import pandas as pd

from forecast.bounds import CalendarEncoding
from forecast.checkpoint.load import Checkpoint
from forecast.commands.growth import NEW_ROWS, WHOLE_FILE, check_unchanged, grown_splits
from forecast.commands.refit import check_later
from forecast.config.run_config import RunConfig
from forecast.data.categories import told_facts, with_categories, with_train_categories
from forecast.data.holidays import with_holidays
from forecast.data.panel.fact_scale import fitted_facts
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.read import read_panel
from forecast.data.prepare import Prepared, prepare
from forecast.data.seasonality import seasonal_period
from forecast.data.sources import CsvSource, Source
from forecast.data.target_rows import TargetRows, panel_cuts
from forecast.errors import UserError, closest
from forecast.evaluation.fitting import train_season
from forecast.text.terminal import listed

log = logging.getLogger(__name__)


def training_panel(source: CsvSource, config: RunConfig) -> Prepared:
    """The panel of a training, each series scaled by its train rows. UserError as `read_panel`."""
    frame = used_columns(source, with_holidays(read_panel(source), source.holidays))
    pred_len = config.pred_len
    rows = panel_cuts(source.split, frame, pred_len=pred_len)
    if source.has_roles:
        frame = with_train_categories(frame, rows["train"])
    data = prepared_for(
        source,
        frame,
        rows,
        targets=source.target_columns(frame),
        seq_len=config.seq_len,
        pred_len=pred_len,
        encoding=config.encoding,
    )
    data.check_enough()
    return data


def prepared_for(
    source: Source,
    frame: PanelFrame,
    rows: dict[str, TargetRows],
    *,
    targets: tuple[int, ...],
    seq_len: int,
    pred_len: int,
    encoding: CalendarEncoding,
) -> Prepared:
    """A frame that is cut, prepared for a training as its source says."""
    roles = source.roles(frame)
    period = source.season or train_season(frame, rows["train"], targets, pred_len=pred_len)
    data = prepare(
        frame,
        splits=rows,
        targets=targets,
        seq_len=seq_len,
        pred_len=pred_len,
        encoding=encoding,
        pad=source.pad,
        scaling=source.scaling,
        season=(period or seasonal_period(frame.freq) or 1) if source.scaling == "season" else period,
        fact_scale=None if frame.facts is None else fitted_facts(frame.facts),
        covariates=() if roles is None else roles.covariates,
        hidden=() if roles is None else roles.hidden,
    )
    return data.but(season=period)


def used_columns(source: CsvSource, frame: PanelFrame) -> PanelFrame:
    """The target alone for data.features=S, else all columns; with roles in the order of `Columns`."""
    if source.has_roles:
        return frame.of(source.by_role(frame).all)
    if source.features != "S":
        return frame
    (target,) = source.target_columns(frame)
    return frame.of([frame.columns[target]])


def evaluated_panel(checkpoint: Checkpoint, source: CsvSource, *, split: str, other_file: bool) -> Prepared:
    """The panel to evaluate, cut as `source` says and scaled as in training.

    source: the file trained on, or another one. Raises UserError for a split that is not there, for other columns, and
    when the trained file has changed.
    """
    frame = panel_history(checkpoint, source)
    if not other_file and split != NEW_ROWS:
        check_unchanged(checkpoint, source, frame)
    scaler = checkpoint.scale.scaler(frame, context=checkpoint.config.seq_len, together=len(checkpoint.covariates))
    if count := int(scaler.own.sum()):
        log.info("%d of %d series were not in the training: scaled by their own first rows", count, len(frame))
    if split == NEW_ROWS:
        rows = grown_splits(checkpoint, frame)
    elif other_file and split == WHOLE_FILE:
        rows = {split: TargetRows(frame.offsets[:-1], frame.offsets[1:])}
    else:
        rows = panel_cuts(source.split, frame, pred_len=checkpoint.config.pred_len)
    data = prepare(
        frame,
        splits=rows,
        targets=tuple(frame.columns.index(name) for name in checkpoint.data["targets"]),
        encoding=checkpoint.encoding,
        covariates=checkpoint.covariates,
        hidden=checkpoint.hidden,
        fact_scale=checkpoint.fact_scale,
        pad=source.pad,
        scaler=scaler,
        season=checkpoint.data.get("season"),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
    )
    data.check_enough()
    if split not in data.splits:
        names = [*data.splits, NEW_ROWS, *([WHOLE_FILE] if other_file else [])]
        hint = " split=all needs data.path=FILE." if split == WHOLE_FILE else closest(split, names)
        raise UserError(f"split={split}: the panel has the splits {', '.join(names)}.{hint}")
    if other_file:
        check_later(checkpoint, split, first_forecast(data, split))
    return data


def first_forecast(data: Prepared, split: str) -> pd.Timestamp | None:
    """The time of the first row that any window of a split forecasts; None without a window."""
    frame, origins = data.frame, data.origins(split)
    steps = (origins.first - frame.offsets[:-1] + frame.steps)[origins.counts > 0]
    return frame.calendar()[int(steps.min())] if len(steps) else None


def panel_history(checkpoint: Checkpoint, source: CsvSource, *, leave_out: bool = False) -> PanelFrame:
    """The checkpoint's columns of all series of a source. UserError for one that is missing.

    leave_out: see `read_panel`.
    """
    columns = checkpoint.data["columns"]
    book = checkpoint.codebook(source)
    frame = read_panel(source, freq=checkpoint.data["freq"], book=book, leave_out=leave_out)
    frame = with_holidays(frame, source.holidays)
    for name in columns:
        if name not in frame.columns:
            raise UserError(
                f"{frame.name}: there is no column '{name}' among {listed(frame.columns)}, which the model was trained "
                f"on.{closest(name, frame.columns)}"
            )
    frame = with_categories(frame.of(columns), checkpoint.categories)
    return frame if frame.facts is None else replace(frame, facts=told_facts(frame, checkpoint.categories))


def trained_columns(checkpoint: Checkpoint, source: CsvSource) -> CsvSource:
    """A source of which no other column is read than the model was trained on.

    Only a long file has others: else a column, or a cell of a line, is no name of a target.
    """
    if source.panel_form != "long":
        return source
    return replace(source, columns=[*checkpoint.read_columns, *checkpoint.fact_columns], drop=())
