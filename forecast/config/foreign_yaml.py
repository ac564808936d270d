"""Hydra's loader of YAML, which takes from a file that is not of conf/ nothing about Hydra, and no place to write.

What stands under `hydra` says where files are written, what is logged to where, and what is imported and started. What
conf itself says of loggers, trainer and callbacks is taken: by it a text from elsewhere is known to be no place.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import hydra._internal.hydra
import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import ConfigDefault, GroupDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf

from forecast.config.values import CONF, option_of, plain_values, walk, yaml_reason
from forecast.errors import UserError
from forecast.text.terminal import label

ALLOWED = "hydra.sweeper.params"  # what a sweep varies, but for keys of Hydra itself
PLACES = ("ckpt_path", "output", "overwrite", "data.cache")  # what a command goes on with, and where it writes
# So classes of Lightning call them, beside all texts that are no plain name.
FOLDERS = ("dirpath", "dir", "save_dir", "root_dir", "default_root_dir", "filename", "sub_dir", "artifact_location")
# Hydra's names for the folders of --config-dir, --config-path and hydra.searchpath.
_TYPED = ("main", "command-line", "hydra.searchpath in command-line", "hydra.searchpath in main")
# How long and under whose eyes a run trains, and where its file lies: the model and the data stay.
FREE_GROUPS = ("trainer", "callbacks", "logger")
PLAIN_NAME = re.compile(r"(\w[\w .,:=+-]*)?")  # no path, and no address


class _Repository(ConfigRepository):
    """Raises UserError for a foreign file that cannot be read, or that names something of Hydra in what it brings."""

    def load_config(self, config_path: str) -> ConfigResult | None:
        try:
            loaded = super().load_config(config_path)
        except (OSError, ValueError, TypeError, AssertionError, yaml.YAMLError, RecursionError) as error:
            raise UserError(
                f"{self._file(config_path)} cannot be read: {yaml_reason(error)}. Mend the file."
            ) from error
        if loaded is not None and _is_foreign(loaded):
            _check([*_defaults(loaded.defaults_list or ()), *_keys(loaded.config)], loaded, config_path)
        return loaded

    def _file(self, config_path: str) -> str:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        return f"{'' if source is None else source.path}/{config_path}.yaml"


class CheckedLoader(ConfigLoaderImpl):
    """Raises UserError for a file of a user's own folder that says something of Hydra, before any of it is used."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = _Repository(config_search_path)

    def _load_single_config(self, default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        loaded = super()._load_single_config(default, repo)
        if _is_foreign(loaded):  # now in its place, which other files may have chosen
            _check(_keys(loaded.config), loaded, default.config_path)
            for key in _places(loaded.config):
                raise UserError(
                    f"{loaded.path.removeprefix('file://')}/{default.config_path}.yaml: {label(key)} says where a "
                    "command writes, or with what it goes on, and is not taken from a file of this folder. Leave it "
                    "out of the file; where it is meant, type it behind the command."
                )
        return loaded


def install() -> None:
    """Has Hydra use the checked loader, which no setting does. A job in another process gets the loader itself."""
    setattr(hydra._internal.hydra, "ConfigLoaderImpl", CheckedLoader)  # noqa: B010 - mypy refuses the plain assignment


def _is_foreign(loaded: ConfigResult) -> bool:
    return loaded.provider in _TYPED and loaded.path != f"file://{CONF}"


def _check(keys: Iterable[str], loaded: ConfigResult, name: str | None) -> None:
    """UserError for the first of the keys, which are Hydra's."""
    for key in keys:
        raise UserError(
            f"{loaded.path.removeprefix('file://')}/{name}.yaml: {label(key)} is a setting of Hydra, which writes "
            "files and starts programs, and is not taken from a file of this folder. Leave it out of the file; where "
            "it is meant, type it behind the command."
        )


def _keys(config: object) -> Iterator[str]:
    """The keys of a file's own that are Hydra's."""
    if not isinstance(config, DictConfig) or "hydra" not in config:
        return
    for path, value in _leaves(OmegaConf.to_container(OmegaConf.masked_copy(config, "hydra"))):
        inside = path.removeprefix(f"{ALLOWED}.")
        if path == inside or _of_hydra(inside) or isinstance(value, list):
            yield path


def _places(config: object) -> Iterator[str]:
    """The keys of a file by which something would be written in a place that nobody has typed."""
    if not isinstance(config, DictConfig):
        return
    for path, text in walk(OmegaConf.to_container(config)):
        name = path.rpartition(".")[2]
        if path in PLACES and text:
            yield path
        if path.partition(".")[0] not in FREE_GROUPS or not isinstance(text, str) or name == "_target_":
            continue
        if not is_shipped(path, text) and (name in FOLDERS or not PLAIN_NAME.fullmatch(text)):
            yield path


def _leaves(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The values inside mappings, an empty mapping among them, by their dotted keys."""
    if not isinstance(node, dict) or not node:
        yield path, node
        return
    for key, value in node.items():
        yield from _leaves(value, f"{path}.{key}" if path else str(key))


def _defaults(defaults: Iterable[object]) -> Iterator[str]:
    """The entries of a defaults list that choose or place something of Hydra's own."""
    for entry in defaults:
        if isinstance(entry, GroupDefault):
            options = [entry.value] if isinstance(entry.value, str) else entry.value or []
            named = [entry.group, entry.package, *options]
        else:
            named = [entry.path, entry.package] if isinstance(entry, ConfigDefault) else []
        yield from (name.removeprefix("_global_.").lstrip("/") for name in named if name and _of_hydra(name))


def _of_hydra(name: str) -> bool:
    return "hydra" in re.split(r"[\s./@:+~]+", name)


def is_shipped(path: str, text: str) -> bool:
    """Whether conf has this text at this place of FREE_GROUPS."""
    return _place(path, text) in _shipped_texts()


def _place(path: str, text: str) -> tuple[str, str]:
    """What a text of conf is known by: a class by its group, another text by its key."""
    return (path.partition(".")[0], text) if path.endswith("._target_") else (path, text)


@cache
def shipped() -> dict[str, Mapping[str, object]]:
    """Every option of FREE_GROUPS as plain values: {"logger/csv": {...}, ...}."""
    files = [file for group in FREE_GROUPS for file in (CONF / group).glob("*.yaml")]
    nodes = {f"{file.parent.name}/{file.stem}": option_of(file.parent.name, file.stem) for file in files}
    return {option: plain_values(node, resolve=False) for option, node in nodes.items()}


@cache
def _shipped_texts() -> frozenset[tuple[str, str]]:
    """Every text in them, as `_place` knows it."""
    parts = (part for option, values in shipped().items() for part in walk(values, option.partition("/")[0]))
    return frozenset(_place(path, text) for path, text in parts if isinstance(text, str))
