"""Where a sweep writes: a folder named by its experiment, or by the day it began and a hash of its words."""

import datetime
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from omegaconf import DictConfig, OmegaConf

from forecast.config import distributed
from forecast.run_folder import NOT_IDENTITY
from forecast.text.terminal import say

# Words that leave the jobs what they are. Another data.path is mostly another file, and then another sweep.
UNNAMED = tuple(path for path in NOT_IDENTITY if path not in ("hydra", "data.path"))


def sweep_dir(first: list[str], parent: str, *, _root_: DictConfig) -> str:
    """PARENT/EXPERIMENT; without an experiment, or where the experiment is what varies, PARENT/DATE-HASH.

    first: what was answered first. Hydra asks once before the jobs, then for each of them, which knows its own words
    alone; a job in another process has a copy of the list.
    """
    if not first:
        name = OmegaConf.select(_root_, "hydra.runtime.choices.experiment")
        folder = Path(parent) / str(name).replace("/", "-") if name else unnamed_folder(Path(parent), _root_)
        first.append(str(folder))
    return first[0]


def unnamed_folder(parent: Path, root: DictConfig) -> Path:
    """The folder in which a sweep of the same words began, on whatever day, else that of today; printed on stderr."""
    name = words_hash(_words(root), [str(root.hydra.job.config_name), *_users_folders(root)])
    earlier = sorted(parent.glob(f"[0-9]*-[0-9]*-[0-9]*-{name}"))
    folder = earlier[0] if earlier else parent / f"{datetime.date.today():%Y-%m-%d}-{name}"
    if distributed.rank() == 0:
        say(f"The folder of this sweep: {folder}", file=sys.stderr)
    return folder


def words_hash(overrides: Sequence[str], others: Sequence[str] = ()) -> str:
    """8 hex digits of what overrides say: in any order, `1,2` or `range(1,3)`, `+` or not; of one key the last counts.

    Words that leave the jobs what they are, such as those of Hydra itself, do not count. others: what else the jobs
    come from.
    """
    words = {}
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.get_key_element().lstrip("+")
        shown = any(f"{key}.".startswith(f"{path}.") for path in UNNAMED)
        if not shown and not override.is_hydra_override():
            words[key] = sorted({*_values(override)})
    return hashlib.sha256(json.dumps([words, *others], sort_keys=True).encode()).hexdigest()[:8]


def _values(override: Override) -> list[str]:
    if override.is_delete():
        return []
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if override.is_discrete_sweep() and override.value_type != ValueType.GLOB_CHOICE_SWEEP:
        return list(override.sweep_string_iterator())
    return [override.get_value_string()]


def _words(root: DictConfig) -> list[str]:
    """What varies by the config's own sweeper, then what was typed, which wins."""
    params = OmegaConf.select(root, "hydra.sweeper.params") or {}
    return [*(f"{key}={value}" for key, value in params.items()), *root.hydra.overrides.task]


def _users_folders(root: DictConfig) -> list[str]:
    """The folder of a user's own YAML, --config-dir."""
    return [source.path for source in root.hydra.runtime.config_sources if source.provider == "command-line"]
