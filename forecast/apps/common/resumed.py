"""The plan of a training that goes on from a checkpoint: its config, with the command's overrides laid over it."""

import logging
import re
from collections.abc import Mapping

from omegaconf import DictConfig, OmegaConf

from forecast.apps.common.inputs import rows_of, trained_source
from forecast.apps.common.parts import build_parts
from forecast.apps.common.seen_rows import check_same_data
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.build import as_typed
from forecast.config.check import check_config
from forecast.config.compose import choices, groups, is_typed, parsed, plain_values, run_folder, section, task_overrides
from forecast.config.run_config import Choices, RunConfig
from forecast.errors import UserError
from forecast.run_folder import continued_run
from forecast.text.overrides import typed
from forecast.training.fit import Plan
from forecast.training.record import versions

log = logging.getLogger(__name__)

# How long and under whose eyes a run trains, and where its file lies: the model and the data stay.
FREE_GROUPS = ("trainer", "callbacks", "logger")
FREE_KEYS = ("data.root", "data.path", "ckpt_path", "checks.leakage", "compile", "refit", "process_timeout", "tags")


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
    source = trained_source(config.data, root=str(config.data.get("root")) if is_typed("data.root") else None)
    check_same_data(start, rows_of(start, source), otherwise="start a new run without ckpt_path")
    parts = build_parts(config)
    return Plan(config=config, parts=parts, choices=saved, source=source, folder=run_folder(), start=start)


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


def resumed_config(
    saved: Mapping[str, object], saved_choices: Choices, composed: DictConfig, overrides: list[str], choices: Choices
) -> DictConfig:
    """The config that a continued run has.

    saved, saved_choices: the resolved config and the chosen options in the checkpoint. composed, overrides, choices:
    what this command asks for. Repeating what is already so is fine, numbers compared by value.

    Raises one UserError that lists all overrides which would change the model or the data.
    """
    config, names, lines = OmegaConf.create({**saved}), groups(), []
    for override in sorted(
        parsed(overrides), key=lambda o: o.key_or_group not in names
    ):  # groups first: keys lie over them
        key = override.key_or_group
        room = re.split("[./]", key)[0]
        if room == "hydra":
            continue
        if room in FREE_GROUPS or key in FREE_KEYS:
            parent, _, name = key.rpartition(".")
            if override.is_delete():
                OmegaConf.select(config, parent, default=config).pop(name, None)
            else:
                OmegaConf.update(config, key, _value(composed, key), merge=False, force_add=True)
            continue
        if key in names:
            key = f"{key}@{override.package}" if override.package else key
            pair: tuple[object, object] = (_choice(saved_choices, key), _choice(choices, key))
        else:
            pair = _value(config, key), _value(composed, key)
        before, now = pair
        if before != now:
            lines.append(f"{override.input_line}: the saved run has {key}={as_typed(before)}")
    if lines:
        raise UserError(
            "\n".join(lines) + "\nA continued run keeps its model and data. Start a new run without ckpt_path, or "
            f"change only {', '.join(f'{name}.*' for name in FREE_GROUPS)}, {', '.join(FREE_KEYS)}"
        )
    config.ckpt_path = composed.ckpt_path
    return config


def _choice(options: Choices, name: str) -> str | None:
    """Hydra names a group inside a group by its place too: data/split@data.split for data/split."""
    inner = next((option for key, option in options.items() if key.partition("@")[0] == name), None)
    return options.get(name, inner)


def _value(config: DictConfig, key: str) -> object:
    value = OmegaConf.select(config, key)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
