"""What every training begins with: its plan, its data, read and scaled, and what a checkpoint will say of them.

The plan is the checked config of the command, or that of the run that goes on.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from omegaconf import DictConfig
from torch import Tensor

from forecast.apps.common.inputs import rows_of, saved_source
from forecast.apps.common.seen_rows import check_same_data
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.checkpoint.record import Record
from forecast.config.check import check_config
from forecast.config.compose import choices, in_sweep, is_typed, run_folder, task_overrides
from forecast.config.distributed import rank
from forecast.config.resume import resumed_config
from forecast.config.run_config import Plain, RunConfig
from forecast.data.assembling.read import source_rows
from forecast.data.categories import with_train_categories
from forecast.data.known_targets import known_targets
from forecast.data.prepare import Prepared, prepare
from forecast.data.roles import names_roles
from forecast.data.scaling import fitted_facts
from forecast.data.seasonality import seasonal_period
from forecast.data.sources import Source
from forecast.data.split import panel_cuts
from forecast.errors import UserError
from forecast.evaluation.blocks import check_offsets
from forecast.evaluation.evaluate import Protocol, counted_windows
from forecast.evaluation.fitting import train_season
from forecast.text.overrides import typed
from forecast.training.combined import baselines_of, is_combined
from forecast.training.fit import Plan, check_initial_weights
from forecast.training.optimizers import dry_step
from forecast.training.record import make_record, versions
from forecast.training.shared_data import SHARED, SharedData, share_data

log = logging.getLogger(__name__)
NEW_RUN = "start a new run without ckpt_path"


class TrainingStart(NamedTuple):
    """The data of a training, how its windows count, and the record as far as it is known before the training."""

    data: Prepared
    protocol: Protocol
    record: Record


def begin(plan: Plan, *, ridge: bool = True) -> TrainingStart:
    """Reads the data of a training and fits its baselines; ridge: whether that one too, the slowest.

    Raises UserError for whatever the data do not allow, now and not after the training.
    """
    config, source = plan.config, plan.source
    protocol = config.protocol.build(Protocol)
    if in_sweep():
        share_data()
    shared = SHARED.find(source, config, read_data)
    data = shared.data
    if plan.start is not None:  # the file may have changed since the plan was made
        check_same_data(
            plan.start, source, source.checksum_of(data.frame), partial(rows_of, plan.start, source), otherwise=NEW_RUN
        )
    for split in ("val", "test"):
        counted_windows(data.windows(split), split, protocol)
    check_offsets(data, "test", protocol)
    if rank() == 0:
        warn_of_known_targets(data, config.data.node)
    fitted = baselines(plan, shared, ridge=ridge)
    return TrainingStart(data, protocol, make_record(config, plan.choices, source, data, fitted))


def warn_of_known_targets(data: Prepared, keys: Plain) -> None:
    """Warns where a column is said to be known in advance that is a target. keys: of the data, as in the config."""
    copies = known_targets(data)
    if not copies:
        return
    names = [copy.column for copy in copies]
    without: dict[str, object] = {"known": [name for name in names_in(keys, "known") if name not in names]}
    without["drop"] = [*names_in(keys, "drop"), *names]
    if not names_roles({**keys, **without}):  # features then says that the target alone is forecast
        without["features"] = "MS" if data.n_columns > len(data.targets) else "S"
    log.warning(
        "In all train rows %s. What is known in advance is an input at the steps to come (data.known), so the model is "
        "told what it forecasts, and its errors say nothing. If that is not known by then, leave it out: %s",
        *("; ".join(map(str, copies)), " ".join(typed(f"data.{key}", value) for key, value in without.items())),
    )


def names_in(keys: Plain, key: str) -> Sequence[str]:
    """The names of columns that a key of the data has."""
    names = keys.get(key)
    return names if isinstance(names, list | tuple) else ()


def baselines(plan: Plan, shared: SharedData, *, ridge: bool) -> Mapping[str, Tensor]:
    """The weights of the fitted baselines; for an ensemble those of a member with its windows, if there is one."""
    known: Mapping[str, Tensor] = {}
    if is_combined(plan.config.model):
        data = shared.data
        known = baselines_of(plan.config, data, checksum=plan.source.checksum_of(data.frame))
    return known or shared.baselines(ridge=ridge)


def read_data(source: Source, config: RunConfig, *, judged: bool = True) -> Prepared:
    """The data of a training, each series scaled by its train rows. UserError where a split holds no window.

    judged: False where no row is to be judged, so that none needs to.
    """
    frame, pred_len = source_rows(source), config.pred_len
    rows = panel_cuts(source.split, frame, pred_len=pred_len)
    frame = with_train_categories(frame, rows["train"])
    roles, targets = source.roles(frame), source.target_columns(frame)
    period = source.season or train_season(frame, rows["train"], targets, pred_len=pred_len)
    data = prepare(
        frame,
        splits=rows,
        targets=targets,
        encoding=config.encoding,
        pad=source.pad,
        scaling=source.scaling,
        season=(period or seasonal_period(frame.freq) or 1) if source.scaling == "season" else period,
        fact_scale=None if frame.facts is None else fitted_facts(frame.facts),
        covariates=() if roles is None else roles.covariates,
        hidden=() if roles is None else roles.hidden,
        floor=source.floor_of(frame),
        seq_len=config.seq_len,
        pred_len=pred_len,
    )
    data = data.but(season=period)  # a season that was only taken for the scale is none of the data
    if judged:
        data.check_enough()
    return data


def make_plan(cfg: DictConfig) -> Plan:
    """The checked config of the command line, or that of the checkpoint with the command's overrides laid over it.

    Raises UserError for a checkpoint from which no training can go on, and where its data have changed since.
    """
    options: Mapping[str, str | None] = choices()
    if cfg.ckpt_path and in_sweep():
        raise UserError("ckpt_path cannot be swept: a run goes on by itself, without -m, one command for each")
    start = load_checkpoint(cfg.ckpt_path) if cfg.ckpt_path else None
    if start is not None:
        if start.refit is not None:
            last = typed("ckpt_path", str(start.path.with_name("last.ckpt")))
            raise UserError(
                f"ckpt_path={start.path} was trained once more on more rows, and no training goes on from it. Go on "
                f"from the held-out model, which refits anew: {last}"
            )
        if (imported := start.record.imported) is not None:
            raise UserError(
                f"ckpt_path={start.path} was imported from {imported['file']}: it holds weights only, "
                "and no training can go on from them. evaluate and predict take it; train anew without ckpt_path."
            )
        cfg = resumed_config(start.config.plain, start.record.choices, cfg, task_overrides(), options)
        options = start.record.choices
        warn_of_other_bits(start)
    check_config(cfg)
    config = RunConfig.composed(cfg)
    check_initial_weights(config)
    dry_step(config)
    root = str(config.data.get("root")) if is_typed("data.root") else None
    source = config.data.build(Source) if start is None else saved_source(config.data, root=root)
    if start is not None:
        check_same_data(start, source, source.checksum(), partial(rows_of, start, source), otherwise=NEW_RUN)
    return Plan(config=config, choices=options, source=source, folder=run_folder(), start=start)


def warn_of_other_bits(start: Checkpoint) -> None:
    """Warns where a run goes on with other code, or another number of threads, than it was trained with."""
    before, now = start.record.versions, versions()
    if before.get("commit") != now["commit"]:
        log.warning(
            "%s was made by other code of this program (%s, here %s): what it goes on to may differ from what that "
            "code would have trained.",
            *(start.path, before.get("commit") or "unknown", now["commit"]),
        )
    if (threads := before.get("threads", now["threads"])) != now["threads"]:
        log.warning(
            "%s was trained with %s threads, here are %s: sums are rounded otherwise, so the run does not end with the "
            "bits that it would have had. For these: OMP_NUM_THREADS=%s",
            *(start.path, threads, now["threads"], threads),
        )
