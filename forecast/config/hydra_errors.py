"""Errors as one message to the user: Hydra's, each with what to type instead, and those of a full or closed disk."""

import contextlib
import errno
import itertools
from collections.abc import Mapping, Sequence

import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config import other_words
from forecast.config.compose import compose_config, groups
from forecast.config.values import CONF, as_typed, chosen_groups, walk, yaml_reason
from forecast.errors import UserError, closest, nearest
from forecast.text.overrides import install
from forecast.text.terminal import label

# So many combinations of a sweep that Hydra has refused are looked at for the reason.
COMBINATIONS = 50
LONGEST_OVERRIDE = 20_000  # characters
MOST_JOBS = 10_000  # of a range
# A group of more options than MANY is answered with the NEAR nearest of them.
MANY, NEAR = 30, 5

LAUNCHER = "hydra/launcher"
EXTRAS = {"joblib": "sweep", "submitit_slurm": "slurm", "submitit_local": "slurm"}

# What a file system refuses to whoever writes; a file that is not there is a matter of its own.
UNWRITABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST),
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG),
}


def message(error: BaseException, *, config_name: str, overrides: list[str], multirun: bool) -> str | None:
    """The text for a mistake of the user; None for anything else, which is a bug and keeps its traceback."""
    cause: BaseException | None = error
    while isinstance(cause, HydraException | OmegaConfBaseException):  # what a resolver raises comes wrapped
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, UserError):
        return str(cause)
    if isinstance(cause, yaml.MarkedYAMLError) and cause.problem_mark:
        return f"{cause.problem_mark.name} cannot be read: {yaml_reason(cause)}. Mend the file."
    if isinstance(cause, OSError) and cause.errno in UNWRITABLE:
        where = f"{label(str(cause.filename))}: " if cause.filename else ""
        key = "hydra.sweep.dir" if multirun else "hydra.run.dir"
        return f"{where}{cause.strerror}. Make room or choose a folder that you can write to: {key}=FOLDER"
    if isinstance(cause, RuntimeError) and 'Could not detect "srun"' in str(cause):  # submitit's
        return (
            f"{LAUNCHER}=submitit_slurm: there is no srun here, so this machine is none of a SLURM cluster. Start the "
            f"command on its login node, or try it here with {LAUNCHER}=submitit_local"
        )
    # Hydra's refusals of GROUP=null and of a search path are none of its own exceptions.
    plain = str(error).startswith(("Config group override must be a string or a list", "No config source registered"))
    if not isinstance(error, HydraException | OmegaConfBaseException) and not plain:
        return None
    lines = diagnose(overrides, config_name=config_name, multirun=multirun)
    if not lines:  # the last resort: Hydra's own text with that of its cause
        texts = f"{error}\n{error.__cause__ or ''}".splitlines()
        lines = list(dict.fromkeys(line for line in texts if line.strip()))
    return "\n".join(lines)


def check_overrides(overrides: Sequence[str]) -> None:
    """Raises UserError for an override that Hydra would not answer, or not within a day."""
    parser = OverridesParser.create()
    for text in overrides:
        if len(text) > LONGEST_OVERRIDE:
            raise UserError(
                f"{label(text)}: an override of so many characters is none; it has {LONGEST_OVERRIDE} at most. Write "
                "key=value"
            )
        try:
            override = parser.parse_override(text)
        except HydraException:  # `diagnose` explains it
            continue
        except RecursionError as error:
            raise UserError(f"{label(text)}: its brackets stand too deep in each other. Write fewer") from error
        if not override.key_or_group:
            raise UserError(f"'{label(text)}' cannot be read: it names no key. Write key=value")
        swept = override.value()
        if isinstance(swept, RangeSweep) and _jobs(swept) > MOST_JOBS:
            raise UserError(f"{label(text)} are more than {MOST_JOBS} jobs. Give a shorter range, or a longer step")


def _jobs(swept: RangeSweep) -> float:
    return ((swept.stop or 0) - (swept.start or 0)) / (abs(swept.step or 1))


def diagnose(overrides: list[str], *, config_name: str, multirun: bool) -> list[str]:
    """One line for each override that cannot be right, then for each top-level key that is missing."""
    parser, names = OverridesParser.create(), groups()
    parsed: list[Override] = []
    lines, choices = [], []
    for text in overrides:
        try:
            parsed += parser.parse_overrides([text])
        except HydraException as error:
            reason = str(error.__cause__ or error).splitlines()[0]  # the cause: of `a(b)`, which calls a function
            lines.append(
                f"'{label(text)}' cannot be read: {label(reason)}. Write key=value; put quotes around special "
                "characters: 'key=\"a b, c\"'"
            )
    for override in parsed:
        if line := _not_here(override, names, config_name, multirun) or _unknown_option(override, names):
            lines.append(line)
        elif override.key_or_group in (*names, LAUNCHER) and not override.is_sweep_override():
            choices.append(override)
    if lines:
        return lines
    config = None
    for tried in (choices, [override for override in choices if override.package is None]):
        with contextlib.suppress(HydraException, OmegaConfBaseException):  # Hydra may refuse even these
            config = config or compose_config(config_name, [str(override.input_line) for override in tried], hydra=True)
    if config is None:
        return []
    places = [str(place) for place in config.hydra.runtime.choices]
    # unresolved, so that a node which repeats another one is text and has no keys of its own
    paths = [path for path, _ in walk(OmegaConf.to_container(config)) if path and "[" not in path]
    ours = [path for path in paths if path.split(".")[0] != "hydra"]
    keys = [*ours, *(path for path in paths if path.startswith("hydra.launcher.") and not path.endswith("._target_"))]
    lines = [line for override in parsed if (line := _unknown_key(override, places, keys, names))]
    if not lines:
        typed = {override.key_or_group for override in parsed}
        missing = sorted(str(key) for key in config if OmegaConf.is_missing(config, str(key)) and key not in typed)
        example = {"ckpt_path": "RUN/checkpoints/best.ckpt"}
        lines = [f"{key} is missing: say {key}={example.get(key, 'VALUE')}" for key in missing]
    return lines or _combination(parsed, config_name=config_name)


def _combination(parsed: list[Override], *, config_name: str) -> list[str]:
    """What is wrong with the first of a sweep's combinations that cannot be, though each of its values can."""
    swept = [o for o in parsed if o.is_sweep_override() and o.is_discrete_sweep()]
    if not swept:
        return []
    rest = [str(o.input_line) for o in parsed if o not in swept]
    values = [[f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()] for o in swept]
    for job in itertools.islice(itertools.product(*values), COMBINATIONS):
        if lines := diagnose([*job, *rest], config_name=config_name, multirun=False):
            return [f"{' '.join(job)}: {line}" for line in lines]
    return []


def _not_here(override: Override, names: Mapping[str, list[str]], config_name: str, multirun: bool) -> str:
    """Several values without -m, or a group that evaluate and predict find in the checkpoint."""
    line, key = override.input_line, override.key_or_group
    if override.is_sweep_override() and not multirun:
        return f"'{line}' has several values: add -m to run each of them, or write {key}='[...]' for one list"
    group = key.split("/")[0]
    if key not in names or override.is_add() or not (CONF / f"{config_name}.yaml").is_file():
        return ""
    if group in chosen_groups(config_name):
        return ""
    another = "; another file is data.path=FILE" if group == "data" else ""
    return f"{line}: forecast {config_name} takes its {group} from the checkpoint{another}"


def _unknown_option(override: Override, names: Mapping[str, list[str]]) -> str:
    """A group's option that does not exist, or a group that does not exist but nearly."""
    key = override.key_or_group
    values: list[object]
    if override.is_sweep_override():
        values = list(override.sweep_iterator()) if override.is_discrete_sweep() else []
    else:
        values = [] if override.is_delete() else [override.value()]
    if key not in names:
        if key.startswith("hydra"):
            return no_launcher(str(values[0])) if key == LAUNCHER and len(values) == 1 else ""
        near = closest(key, [name for name in names if set(map(str, values)) & set(names[name])])
        if near or override.package:
            return f"'{key}' is no group of the config.{near or closest(key, names)}"
        return ""
    name = f"{key}@{override.package}" if override.package else key
    # A list chooses several at once, which is Hydra's own affair.
    return next((line for value in values if not isinstance(value, list) and (line := no_option(name, value))), "")


def no_option(name: str, value: object) -> str:
    """What is wrong with `name=value`, name a group or group@place; empty where there is such an option."""
    group, at, _ = name.partition("@")
    valid = groups()[group]
    if group == "experiment":  # its folders are chosen from as experiment=FOLDER/NAME
        inside = [f"{folder}/{option}" for folder, names in groups().items() for option in names]
        valid = sorted(path.removeprefix("experiment/") for path in inside if path.startswith("experiment/"))
    if value in valid:
        return ""
    text = as_typed(value)
    valid = [option for option in valid if at or option != "inherit"]
    listed = valid if len(valid) <= MANY else (nearest(text, valid) or valid)[:NEAR]
    more = f" and {len(valid) - len(listed)} others: see --help" if len(valid) > len(listed) else ""
    if value is None:
        return f"{name}=null: choose one of {', '.join(listed)}{more}"
    return f"{name}={text}: there is no such choice.{closest(text, valid)} {group} is one of {', '.join(listed)}{more}"


def no_launcher(name: str) -> str:
    """What is wrong with hydra/launcher=NAME: not installed, or none; empty where Hydra has it."""
    Plugins.instance()  # fills the store
    known = sorted(name.removesuffix(".yaml") for name in ConfigStore.instance().list(LAUNCHER))
    if name in known:
        return ""
    if extra := EXTRAS.get(name):
        return f"{LAUNCHER}={name} is not installed. Install it: {install(extra)}"
    names = sorted({*known, *EXTRAS})
    return f"{LAUNCHER}={as_typed(name)}: there is no such launcher.{closest(name, names)} Choose of {', '.join(names)}"


def _unknown_key(override: Override, places: list[str], keys: list[str], names: Mapping[str, list[str]]) -> str:
    """A key that the config lacks, or a group laid where none is: attention@model.cros_attention."""
    key, place = override.key_or_group, f"{override.key_or_group}@{override.package}"
    if override.is_add():
        return ""
    if override.package is not None and place not in places:
        return f"'{place}' is no place of the group '{key}'.{closest(place, places)}"
    of_hydra = key.startswith("hydra") and not key.startswith("hydra.launcher.")
    if key in names or key in keys or of_hydra or override.is_force_add():
        return ""
    if answer := other_words.answer(key, [*keys, *names]):
        return f"'{key}' is no key of the config{answer}"
    parent = key.rpartition(".")[0]
    siblings = [name.rpartition(".")[2] for name in keys if parent and name.rpartition(".")[0] == parent]
    if not siblings:
        keys = [name for name in keys if not any(other.startswith(f"{name}.") for other in keys)]
        return f"'{key}' is no key of the config.{closest(key, keys)}"
    # The shared beginning says nothing about a wrong last part.
    near = closest(key.rpartition(".")[2], siblings).replace("mean '", f"mean '{parent}.")
    return f"'{key}' is no key of the config.{near or f' {parent} has ' + ', '.join(siblings)}"
