"""What Hydra refuses before main runs, said once and with what to type instead."""

import errno
import itertools
from collections.abc import Mapping
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config.recipes import published_tables
from forecast.config.values import CONF, chosen_groups, options, shown
from forecast.errors import UserError, closest

_NO_OPTION = "Config group override must be a string or a list"


# So many combinations of a sweep that Hydra has refused are looked at for the reason.
COMBINATIONS = 50

# What a file system refuses to whoever writes; a file that is not there is a matter of its own.
UNWRITABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST),
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
}


def message(error: BaseException, *, config_name: str, overrides: list[str], multirun: bool) -> str | None:
    """The text for a mistake of the user; None for anything else, which is a bug and keeps its traceback."""
    own = _own(error)
    if own is not None:
        return str(own)
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}. Make room or choose a folder that you can write to: hydra.run.dir=FOLDER"
    # Hydra's refusal of GROUP=null is none of its own exceptions.
    if not isinstance(error, HydraException | OmegaConfBaseException) and not str(error).startswith(_NO_OPTION):
        return None
    found = diagnose(overrides, config_name=config_name, multirun=multirun)
    return "\n".join(found) if found else _plain(error)


def _own(error: BaseException | None) -> UserError | None:
    """The UserError that Hydra or OmegaConf wrapped, as they do when a resolver raises it."""
    while error is not None:
        if isinstance(error, UserError):
            return error
        if not isinstance(error, HydraException | OmegaConfBaseException):
            return None
        error = error.__cause__ or error.__context__
    return None


def _plain(error: BaseException) -> str:
    """Hydra's own text with that of its cause: the last resort."""
    texts = [str(error), str(error.__cause__ or "")]
    return "\n".join(dict.fromkeys(line for text in texts for line in text.splitlines() if line.strip()))


def diagnose(overrides: list[str], *, config_name: str, multirun: bool) -> list[str]:
    """One line for each override that cannot be right, then for each top-level key that is missing."""
    parsed, lines = _parse(overrides)
    names = groups()
    good = []
    for override in parsed:
        line = _sweep(override, multirun) or _foreign(override, names, config_name) or _group(override, names)
        if line:
            lines.append(line)
        elif override.key_or_group in names and not override.is_sweep_override():
            good.append(override)
    if lines:
        return lines
    config = _compose(config_name, good) or _compose(config_name, [o for o in good if o.package is None])
    if config is None:
        return []
    places = [str(place) for place in config.hydra.runtime.choices]
    keys = dotted_keys(config)
    lines = [line for override in parsed if (line := _place(override, places) or _key(override, keys, names))]
    return lines or _missing(config, parsed) or _combination(parsed, config_name=config_name)


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


def _parse(overrides: list[str]) -> tuple[list[Override], list[str]]:
    parser = OverridesParser.create()
    parsed: list[Override] = []
    lines = []
    for text in overrides:
        try:
            parsed += parser.parse_overrides([text])
        except OverrideParseException as error:
            reason = str(error).splitlines()[0]
            lines.append(
                f"'{text}' cannot be read: {reason}. Write key=value; put quotes around special characters: "
                "'key=\"a b, c\"'"
            )
    return parsed, lines


def _sweep(override: Override, multirun: bool) -> str:
    if multirun or not override.is_sweep_override():
        return ""
    line, key = override.input_line, override.key_or_group
    return f"'{line}' has several values: add -m to run each of them, or write {key}='[...]' for one list"


def groups() -> dict[str, list[str]]:
    """Every config group with its options; a group inside a group as data/split, a published table as a group too."""
    folders = [folder.relative_to(CONF).as_posix() for folder in CONF.rglob("*") if folder.is_dir()]
    tables = {f"experiment/{name}": list(table["rows"]) for name, table in published_tables().items()}
    return {folder: options(folder) for folder in folders} | tables


def _chosen(override: Override) -> list[Any]:
    if override.is_delete():
        return []
    if override.is_sweep_override():
        return list(override.sweep_iterator()) if override.is_discrete_sweep() else []
    return [override.value()]


def _foreign(override: Override, names: Mapping[str, list[str]], config_name: str) -> str:
    """A choice of a group by evaluate.py or predict.py, which find it in the checkpoint."""
    group = override.key_or_group.split("/")[0]
    if override.key_or_group not in names or override.is_add() or not (CONF / f"{config_name}.yaml").is_file():
        return ""
    if group in chosen_groups(config_name):
        return ""
    program = f"{override.input_line}: {config_name}.py takes its"
    if group == "data":
        return f"{program} data from the checkpoint; another file is data.path=FILE"
    return f"{program} {group} from the checkpoint"


def _group(override: Override, names: Mapping[str, list[str]]) -> str:
    """A group's option that does not exist, or a group that does not exist but nearly."""
    key = override.key_or_group
    if key in names:
        wrong = [line for value in _chosen(override) if (line := _option(override, value))]
        return wrong[0] if wrong else ""
    if key.startswith("hydra"):
        return ""
    near = closest(key, [name for name in names if set(map(str, _chosen(override))) & set(names[name])])
    if near:
        return f"'{key}' is no group of the config.{near}"
    return f"'{key}' is no group of the config.{closest(key, names)}" if override.package else ""


def _option(override: Override, value: Any) -> str:
    """An option that does not exist. A list is Hydra's own affair: it chooses several at once."""
    key = override.key_or_group
    valid = _all_options(key)
    if isinstance(value, list) or value in valid:
        return ""
    name = f"{key}@{override.package}" if override.package else key
    valid = [option for option in valid if override.package or option != "inherit"]
    if value is None:
        return f"{name}=null: choose one of {', '.join(valid)}"
    near = closest(shown(value), valid)
    return f"{name}={shown(value)}: there is no such choice.{near} {key} is one of {', '.join(valid)}"


def _all_options(group: str) -> list[str]:
    if group != "experiment":  # a folder inside another group is a group of its own
        return options(group)
    inside = {name: found for name, found in groups().items() if name.split("/")[0] == group}
    return sorted(f"{name}/{option}".removeprefix(f"{group}/") for name, found in inside.items() for option in found)


def _compose(config_name: str, overrides: list[Override]) -> DictConfig | None:
    """The config with the given choices of groups; None when Hydra refuses even these."""
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            lines = [str(override.input_line) for override in overrides]
            return compose(config_name, overrides=lines, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException):
        return None


def dotted_keys(node: DictConfig, path: str = "") -> list[str]:
    """Every key of a config, inner nodes too, as one types it; a node that repeats another is not entered."""
    keys = []
    for key in node:
        here = f"{path}.{key!s}" if path else str(key)
        if here == "hydra":
            continue
        keys.append(here)
        if not OmegaConf.is_interpolation(node, str(key)) and not OmegaConf.is_missing(node, str(key)):
            value = node[key]
            if isinstance(value, DictConfig):
                keys += dotted_keys(value, here)
    return keys


def _place(override: Override, places: list[str]) -> str:
    """attention@model.cros_attention: a group laid where none is."""
    place = f"{override.key_or_group}@{override.package}"
    if override.package is None or place in places or override.is_add():
        return ""
    return f"'{place}' is no place of the group '{override.key_or_group}'.{closest(place, places)}"


def _key(override: Override, keys: list[str], names: Mapping[str, list[str]]) -> str:
    key = override.key_or_group
    if key in names or key in keys or key.startswith("hydra.") or override.is_add() or override.is_force_add():
        return ""
    parent = key.rpartition(".")[0]
    inside = [name for name in keys if parent and name.rpartition(".")[0] == parent]
    if not inside:
        keys = [name for name in keys if not any(other.startswith(f"{name}.") for other in keys)]
        return f"'{key}' is no key of the config.{closest(key, keys)}"
    valid = [name.rpartition(".")[2] for name in inside]
    # The shared beginning says nothing about a wrong last part.
    near = closest(key.rpartition(".")[2], valid).replace("mean '", f"mean '{parent}.")
    return f"'{key}' is no key of the config.{near or f' {parent} has ' + ', '.join(valid)}"


def _missing(config: DictConfig, parsed: list[Override]) -> list[str]:
    given = {override.key_or_group for override in parsed}
    missing = sorted(str(key) for key in config if OmegaConf.is_missing(config, str(key)) and key not in given)
    example = {"ckpt_path": "ckpt_path=RUN/checkpoints/best.ckpt"}
    return [f"{key} is missing: say {example.get(key, f'{key}=VALUE')}" for key in missing]
