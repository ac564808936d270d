"""Composing and checking the real conf in tests."""

import contextlib
import copy
import dataclasses
import pickle
from collections import defaultdict
from functools import cache
from unittest import mock

import omegaconf.base
import pytest
from hydra import compose, initialize_config_dir
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType

from forecast.config.check import check_config
from forecast.config.compose import CONF, plain_values, register_rows
from forecast.config.run_config import RunConfig
from forecast.errors import UserError


class ReadOnce(CachingConfigRepository):
    """Reads a file of conf or of Hydra's own once in a session; Hydra's own reads it for each config."""

    read = {}  # noqa: RUF012

    def __init__(self, delegate):
        store = ConfigStore.instance()
        self.delegate = copy.deepcopy(delegate, {id(store): store})  # without a copy of all published rows
        self.cache = {}
        self.ours = {}

    def load_config(self, config_path):
        if config_path not in self.cache:
            self.cache[config_path] = self.copied(config_path)
        return self.cache[config_path]

    def copied(self, config_path):
        if not self.is_ours(config_path):
            return self.delegate.load_config(config_path)
        if config_path not in self.read:
            self.read[config_path] = pickle.dumps(self.delegate.load_config(config_path))
        return pickle.loads(self.read[config_path])

    def is_ours(self, config_path):
        """A file of conf or of Hydra's own, or in its store; another test's may have the same name."""
        if config_path not in self.ours:
            source = self.delegate._find_object_source(config_path, ObjectType.CONFIG)
            places = (str(CONF), "hydra.conf", *[""] * config_path.startswith("hydra/"))  # "": the store
            self.ours[config_path] = source is not None and source.path in places
        return self.ours[config_path]


hydras_merge = ConfigLoaderImpl._compose_config_from_defaults_list
_merged = {}


def merged_once(loader, defaults, repo):
    """The files of a defaults list as one config; the same files are merged once in a session."""
    files = [(default.config_path, default.package, default.primary) for default in defaults]
    foreign = [repo.load_config(path).config for path, *_ in files if not repo.is_ours(path)]
    key = pickle.dumps((files, foreign))
    if key in _merged:
        return pickle.loads(_merged[key])
    merged = hydras_merge(loader, defaults, repo)
    _merged[key] = pickle.dumps(merged)
    return merged


hydras_defaults = defaults_list.create_defaults_list
_listed = {}


def listed_once(repo, config_name, overrides_list, **options):
    """The defaults list of a command; the same choices of groups give the same, whatever the values of keys are.

    Once in a session, where all files are of conf or of Hydra's own.
    """
    overrides = defaults_list.Overrides(repo, overrides_list)
    keys = {override.input_line for override in overrides.config_overrides}
    chosen = tuple(override.input_line for override in overrides_list if override.input_line not in keys)
    key = (config_name, chosen, *sorted(options.items()), *(source.path for source in repo.get_sources()))
    if key not in _listed:
        listed = hydras_defaults(repo, config_name, overrides_list, **options)
        if not all(repo.is_ours(default.config_path) for default in listed.defaults):
            return listed
        _listed[key] = listed
    return dataclasses.replace(_listed[key], config_overrides=overrides.config_overrides)


def copied_metadata(self, memo):
    """As copy.deepcopy, which finds out anew for each of a config's nodes how such an object is copied.

    Of what it holds two dictionaries can change. Hydra copies a whole config some five times in each command.
    """
    new = object.__new__(type(self))
    new.__dict__.update(self.__dict__)
    new.flags = None if self.flags is None else dict(self.flags)
    new.resolver_cache = copy.deepcopy(self.resolver_cache, memo) if self.resolver_cache else defaultdict(dict)
    return new


@contextlib.contextmanager
def fast_hydra():
    """Lists, reads and merges the same files once, parses an interpolation once, and leaves out two looks of Hydra's.

    These are for hydra.mode and interpolated defaults. There are none in conf: to look for the first it composes each
    config once more.
    """
    internal = "hydra._internal"
    with (
        mock.patch(f"{internal}.config_loader_impl.CachingConfigRepository", ReadOnce),
        mock.patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", merged_once),
        mock.patch(f"{internal}.config_loader_impl.create_defaults_list", listed_once),
        mock.patch.object(omegaconf.base, "parse", cache(omegaconf.base.parse)),
        mock.patch.object(omegaconf.base.Metadata, "__deepcopy__", copied_metadata, create=True),
        mock.patch(f"{internal}.hydra.Hydra.get_mode", lambda *_, **__: None),
        mock.patch(f"{internal}.defaults_list._create_interpolation_map", lambda *_: None),
    ):
        yield


def refusal(overrides):
    """What check_config says of `train.py OVERRIDES`, which it refuses."""
    with pytest.raises(UserError) as error:
        check_config(composed(*overrides.split()))
    return str(error.value)


def composed(*overrides, name="train", hydra=False):
    """A copy of its own for each caller; Hydra composes the same arguments once."""
    if (key := (overrides, name, hydra)) in _composed:
        return pickle.loads(_composed[key])
    cfg = anew(*key)
    _composed[key] = pickle.dumps(cfg)
    return cfg


def run_config(*overrides):
    """The config of `train.py OVERRIDES`, its paths as they are typed."""
    return RunConfig.of(plain_values(composed(*overrides)))


_composed = {}


def anew(overrides, name, hydra):
    """What `composed` gives a copy of."""
    register_rows(overrides)
    GlobalHydra.instance().clear()
    with fast_hydra(), initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(name, overrides=list(overrides), return_hydra_config=hydra)
