"""What every training begins with: its plan, its data, read and scaled, and what a checkpoint will say of them.

The plan is the checked config of the command, or that of the run that goes on.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig
from torch import Tensor

from forecast.apps.common.parts import build_parts
from forecast.apps.common.resumed import resumed_plan
from forecast.checkpoint.model import is_fitted_at_once
from forecast.checkpoint.record import Record
from forecast.config.check import check_config
from forecast.config.compose import choices, in_sweep, run_folder
from forecast.config.run_config import RunConfig
from forecast.data.prepare import Prepared, prepare
from forecast.data.read import source_rows
from forecast.data.roles import with_train_categories
from forecast.data.scaling import fitted_facts
from forecast.data.seasonality import seasonal_period
from forecast.data.sources import CsvSource, Source
from forecast.data.split import panel_cuts
from forecast.errors import UserError
from forecast.evaluation.blocks import check_offsets
from forecast.evaluation.evaluate import counted_windows
from forecast.evaluation.fitting import train_season
from forecast.evaluation.known_targets import known_targets
from forecast.run_folder import rank
from forecast.training.combined import baselines_of, is_combined
from forecast.training.fit import Plan
from forecast.training.record import make_record
from forecast.training.shared_data import SHARED, SharedData, share_data

log = logging.getLogger(__name__)


def begin(plan: Plan, *, ridge: bool = True) -> tuple[Prepared, Record]:
    """Reads the data of a training and fits its baselines; the data, and the record as far as it is known by then.

    ridge: whether that baseline is fitted too, the slowest. Raises UserError for whatever the data do not allow, now
    and not after the training.
    """
    config, source, protocol = plan.config, plan.source, plan.parts.protocol
    if in_sweep():
        share_data()
    shared = SHARED.find(source, config, read_data)
    data = shared.data
    for split in ("val", "test"):
        counted_windows(data.windows(split), split, protocol)
    check_offsets(data, "test", protocol)
    if rank() == 0:
        warn_of_known_targets(data)
    fitted = baselines(plan, shared, ridge=ridge)
    return data, make_record(config, plan.choices, source, data, fitted)


def warn_of_known_targets(data: Prepared) -> None:
    """Warns where a column is said to be known in advance that is a target."""
    if copies := known_targets(data):
        log.warning(
            "In all train rows %s. What is known in advance is an input at the steps to come (data.known), so the "
            "model is told what it forecasts, and its errors say nothing. If that is not known by then, name it in "
            "data.drop in place of data.known.",
            "; ".join(copies.values()),
        )


def baselines(plan: Plan, shared: SharedData, *, ridge: bool) -> Mapping[str, Tensor]:
    """The weights of the fitted baselines; for an ensemble those of a member with its windows, if there is one."""
    known = baselines_of(plan.config, shared.data) if is_combined(plan.config.model) else {}
    return known or shared.baselines(ridge=ridge)


def read_data(source: Source, config: RunConfig, *, judged: bool = True) -> Prepared:
    """The data of a training, each series scaled by its train rows. UserError where a split holds no window.

    judged: False where no row is to be judged, so that none needs to.
    """
    frame, pred_len = source_rows(source), config.pred_len
    rows = panel_cuts(source.split, frame, pred_len=pred_len)
    frame = with_train_categories(frame, rows["train"])
    columns, targets = source.by_role(frame), source.target_columns(frame)
    period = source.season or train_season(frame, rows["train"], targets, pred_len=pred_len)
    data = prepare(
        frame,
        splits=rows,
        targets=targets,
        encoding=config.encoding,
        pad=isinstance(source, CsvSource) and source.short == "pad",
        scaling=source.scaling,
        season=(period or seasonal_period(frame.freq) or 1) if source.scaling == "season" else period,
        fact_scale=None if frame.facts is None else fitted_facts(frame.facts),
        covariates=columns.known + columns.hidden,
        hidden=columns.hidden,
        floor=source.floor_of(frame),
        seq_len=config.seq_len,
        pred_len=pred_len,
    )
    data = replace(data, season=period)  # a season that was only taken for the scale is none of the data
    if judged:
        data.check_enough()
    return data


def make_plan(cfg: DictConfig) -> Plan:
    """The checked plan of the command line: of a new training, or of one that goes on from a checkpoint."""
    if not cfg.ckpt_path:
        check_config(cfg)
        return plan_of(RunConfig.composed(cfg), choices(), run_folder())
    if in_sweep():
        raise UserError("ckpt_path cannot be swept: a run goes on by itself, without -m, one command for each")
    return resumed_plan(cfg)


def plan_of(config: RunConfig, choices: Mapping[str, str | None], folder: Path) -> Plan:
    """The plan of a new training. Raises UserError for what cannot be built of its config."""
    check_initial_weights(config)
    parts = build_parts(config)
    return Plan(config=config, parts=parts, choices=choices, source=config.data.build(Source), folder=folder)


def check_initial_weights(config: RunConfig) -> None:
    """UserError for initial weights that are no file, and for a model that begins from nothing."""
    if not (path := config.initial_weights):
        return
    if not Path(path).is_file():
        raise UserError(f"initial_weights={path}: there is no such file. It is RUN/checkpoints/best.ckpt")
    if is_fitted_at_once(config.model):
        raise UserError(f"initial_weights={path}: this model is fitted at once, from no weights. Leave it out.")
