"""The plan of a training that goes on from a checkpoint: its config, with the command's overrides laid over it."""

import logging
from functools import partial

from omegaconf import DictConfig

from forecast.apps.common.inputs import rows_of, saved_source
from forecast.apps.common.parts import build_parts
from forecast.apps.common.seen_rows import check_same_data
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.check import check_config
from forecast.config.compose import choices, is_typed, plain_values, run_folder, section, task_overrides
from forecast.config.resolvers import continued_run
from forecast.config.run_config import FREE_GROUPS, RunConfig, resumed_config
from forecast.data.sources import Source
from forecast.errors import UserError
from forecast.text.overrides import typed
from forecast.training.fit import Plan
from forecast.training.record import versions

log = logging.getLogger(__name__)


def resumed_plan(cfg: DictConfig) -> Plan:
    """The plan of a command with ckpt_path.

    Raises UserError for a checkpoint from which no training can go on, for overrides that change the model or the data,
    and where the data have changed since.
    """
    start = load_checkpoint(cfg.ckpt_path)
    check_can_go_on(start)
    saved, plain = start.record.choices, dict(start.config.plain)
    if continued_run(cfg.ckpt_path) is None:  # from elsewhere: where this run writes is for its own command to say
        plain |= {group: section(plain_values(cfg), group) for group in FREE_GROUPS}
    cfg = resumed_config(plain, saved, cfg, task_overrides(), choices())
    warn_of_other_bits(start)
    check_config(cfg)
    config = RunConfig.composed(cfg)
    source = saved_source(config.data, root=str(config.data.get("root")) if is_typed("data.root") else None)
    check_start_data(start, source, source.checksum())
    parts = build_parts(config)
    return Plan(config=config, parts=parts, choices=saved, source=source, folder=run_folder(), start=start)


def check_start_data(start: Checkpoint, source: Source, checksum: str) -> None:
    """UserError where the data are not those that the run was trained on."""
    rows = partial(rows_of, start, source)
    check_same_data(start, source, checksum, rows, otherwise="start a new run without ckpt_path")


def check_can_go_on(start: Checkpoint) -> None:
    """UserError for a checkpoint that holds no state of a training."""
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
    if not start.resumable:
        raise UserError(
            f"ckpt_path={start.path} holds weights without the state of their training, so no training can go "
            "on from it. evaluate and predict take it; to train anew leave ckpt_path out."
        )


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
