"""What every training begins with: its data, read and scaled, and what a checkpoint will say of them."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from forecast.apps.common.growth import has_grown, what_now
from forecast.apps.common.inputs import rows_of
from forecast.checkpoint.load import Checkpoint
from forecast.checkpoint.record import Record
from forecast.config.distributed import rank
from forecast.config.run_config import Plain, RunConfig
from forecast.data.assembling.read import source_rows
from forecast.data.categories import with_train_categories
from forecast.data.known_targets import known_targets
from forecast.data.prepare import Prepared, prepare
from forecast.data.roles import names_roles
from forecast.data.scaling import fitted_facts
from forecast.data.seasonality import seasonal_period
from forecast.data.sources import Source
from forecast.data.target_rows import panel_cuts
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines
from forecast.evaluation.evaluate import Protocol, counted_windows
from forecast.evaluation.fitting import train_season
from forecast.evaluation.horizon_offsets import check_offsets
from forecast.text.overrides import typed
from forecast.training.combined import baselines_of, is_combined
from forecast.training.fit import Plan
from forecast.training.record import make_record

log = logging.getLogger(__name__)


class TrainingStart(NamedTuple):
    """The data of a training, how its windows count, and the record as far as it is known before the training."""

    data: Prepared
    protocol: Protocol
    record: Record


def begin(plan: Plan, *, ridge: bool = True) -> TrainingStart:
    """Reads the data of a training and fits its baselines; ridge: that one too, which takes longer than all else.

    Raises UserError for whatever the data do not allow, now and not after the training.
    """
    config, source = plan.config, plan.source
    protocol = config.protocol.build(Protocol)
    data = read_data(source, config)
    if plan.start is not None:  # the file may have changed since the plan was made
        check_same_data(plan.start, source, source.checksum_of(data.frame))
    for split in ("val", "test"):
        counted_windows(data.windows(split), split, protocol)
    check_offsets(data, "test", protocol)
    if rank() == 0:
        warn_of_known_targets(data, config.data.node)
    fitted = baselines(plan, data, ridge=ridge)
    return TrainingStart(data, protocol, make_record(config, plan.choices, source, data, fitted))


def warn_of_known_targets(data: Prepared, keys: Plain) -> None:
    """Warns where a column is said to be known in advance that is a target. keys: of the data, as in the config."""
    copies = known_targets(data)
    if not copies:
        return
    names = [copy.column for copy in copies]
    without: dict[str, object] = {"known": [name for name in names_in(keys, "known") if name not in names]}
    without["drop"] = [*names_in(keys, "drop"), *names]
    if not names_roles({**keys, **without}):  # the target alone stays what is forecast
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


def baselines(plan: Plan, data: Prepared, *, ridge: bool) -> Mapping[str, Tensor]:
    """The weights of the fitted baselines; of an ensemble those that a member has of the same windows."""
    known: Mapping[str, Tensor] = {}
    if is_combined(plan.config.model):
        known = baselines_of(plan.config, data, checksum=plan.source.checksum_of(data.frame))
    return known or fit_baselines(data, ridge=ridge)


def check_same_data(start: Checkpoint, source: Source, now: str) -> None:
    """Raises UserError unless `now`, the checksum of the data, is that of those which a checkpoint was trained on."""
    if (before := start.data["checksum"]) != now:
        path = source.path_used()
        if has_grown(start, rows_of(start, source)):
            raise UserError(
                f"{path} has grown since {start.path} was trained on it, and a training goes on with the "
                f"rows that it began with (checksum {before}). {what_now(start, path)}"
            )
        raise UserError(
            f"{start.path} was trained on other data: {start.data['path'] or start.data['name']} had checksum "
            f"{before}, now it is {now}. Restore the file, or start a new run without ckpt_path."
        )


def read_data(source: Source, config: RunConfig) -> Prepared:
    """The data of a training, each series scaled by its train rows. UserError where a split holds no window."""
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
        seq_len=config.seq_len,
        pred_len=pred_len,
    )
    data = data.but(season=period)
    data.check_enough()
    return data
