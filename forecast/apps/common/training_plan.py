"""What a training is to do: the checked config of a command, or that of the run that goes on."""

import logging
from collections.abc import Mapping

from omegaconf import DictConfig

from forecast.apps.common.inputs import saved_source
from forecast.apps.common.training_data import check_same_data
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.check import check_config
from forecast.config.compose import choices, in_sweep, is_typed, run_folder, task_overrides
from forecast.config.resume import resumed_config
from forecast.config.run_config import RunConfig
from forecast.data.sources import Source
from forecast.errors import UserError
from forecast.text.overrides import typed
from forecast.training.fit import Plan, check_initial_weights
from forecast.training.optimizers import dry_step
from forecast.training.record import versions

log = logging.getLogger(__name__)


def make_plan(cfg: DictConfig) -> Plan:
    """The checked config of the command line, or that of the checkpoint with the command's overrides laid over it.

    Raises UserError for a checkpoint that holds no optimizer to go on with, and where its data have changed since.
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
        check_same_data(start, source, source.checksum())
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
