"""Errors of Hydra and of a full disk as one message: what was typed wrong, or a line above their own words."""

import contextlib
import errno
import re
from collections.abc import Sequence

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config import other_words
from forecast.config.compose import compose_config, groups
from forecast.config.values import chosen_groups, walk
from forecast.errors import UserError, closest
from forecast.text.overrides import install
from forecast.text.terminal import label

FOLDER = "hydra.run.dir=FOLDER, of a sweep hydra.sweep.dir=FOLDER"
LAUNCHER = "hydra/launcher"
EXTRAS = {"joblib": "sweep", "submitit_slurm": "slurm", "submitit_local": "slurm"}
# Refusals that are none of Hydra's own exceptions: of GROUP=null, of a search path, of a machine without SLURM.
PLAIN = ("Config group override must be a string or a list", "No config source registered", 'Could not detect "srun"')
# What a file system refuses to whoever writes; a file that is not there is a matter of its own.
UNWRITABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST),
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG),
}


def message(error: BaseException, *, config_name: str, overrides: Sequence[str]) -> str | None:
    """The text for a mistake of the user; None for anything else, which is a bug and keeps its traceback."""
    cause: BaseException | None = error
    while isinstance(cause, HydraException | OmegaConfBaseException):  # what a resolver raises comes wrapped
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, UserError | yaml.MarkedYAMLError):
        return str(cause)
    if isinstance(cause, OSError) and cause.errno in UNWRITABLE:
        place = label(str(cause.filename or "The disk"))
        return f"{place}: {cause.strerror}. Make room or choose a folder that you can write to: {FOLDER}"
    if not isinstance(error, HydraException | OmegaConfBaseException) and not str(error).startswith(PLAIN):
        return None
    text = str(error)
    if isinstance(error, MissingConfigException):
        answer = _no_option(str(error.missing_cfg_file))
        text = text.partition("\nConfig search path:")[0]
    else:
        answer = _no_key(text, config_name, overrides)
    return answer or f"forecast {config_name} {label(' '.join(overrides))}:\n{text}"


def _no_option(path: str) -> str:
    """What to say of GROUP/OPTION that there is none of; empty where no option is like it."""
    group, _, option = path.rpartition("/")
    if group == LAUNCHER and option in EXTRAS:
        return f"{group}={option} is not installed. Install it: {install(EXTRAS[option])}"
    near = closest(option, groups().get(group, []))
    typed = f"experiment={group.removeprefix('experiment/')}/" if group.startswith("experiment/") else f"{group}="
    return f"{typed}{label(option)}: there is no such choice.{near}" if near else ""


def _no_key(text: str, config_name: str, overrides: Sequence[str]) -> str:
    """What to say of a key that the config lacks, or that was not typed; empty where Hydra means something else."""
    if lacking := re.search(r"Missing mandatory value: (\S+)", text):
        value = "RUN/checkpoints/best.ckpt" if lacking[1] == "ckpt_path" else "VALUE"
        return f"{lacking[1]} is missing: say {lacking[1]}={value}"
    if not (quoted := re.match(r"Could not (?:override|delete from config\.) '([^'@]+)'", text)):
        return ""
    key, names = quoted[1], groups()
    if key in names and key not in chosen_groups(config_name):
        return f"forecast {config_name} takes its {key} from the checkpoint; another file is data.path=FILE"
    keys, parsed = [*names], OverridesParser.create().parse_overrides(list(overrides))
    chosen = [o for o in parsed if o.key_or_group in (*names, LAUNCHER) and not o.is_sweep_override()]
    with contextlib.suppress(HydraException, OmegaConfBaseException):  # which may refuse even these
        config = compose_config(config_name, [str(o.input_line) for o in chosen], hydra=key.startswith("hydra"))
        keys += [path for path, _ in walk(OmegaConf.to_container(config)) if path and "[" not in path]
    if f"model.{key}" in keys and key.endswith("_attention"):
        return f"'{key}' is a slot of the model, whose attention is chosen as a group: say attention@model.{key}=NAME"
    answer = other_words.answer(key, keys) or f".{_near(key, keys)}".rstrip(".")
    # in a sweep another of its jobs may have the key
    return f"'{key}' is no key of the config{answer}" if answer and key not in keys else ""


def _near(key: str, keys: Sequence[str]) -> str:
    """The hint for the key that is meant: of a section that there is one of its keys."""
    parent = key.rpartition(".")[0]
    siblings = [name.rpartition(".")[2] for name in keys if parent and name.rpartition(".")[0] == parent]
    if not siblings:
        return closest(key, keys)
    # the shared beginning says nothing about a wrong last part
    return closest(key.rpartition(".")[2], siblings).replace("mean '", f"mean '{parent}.")
