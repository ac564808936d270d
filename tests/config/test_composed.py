"""What makes Hydra fast in tests changes none of its answers."""

import copy

from config.composed import composed
from omegaconf import OmegaConf
from omegaconf.base import Metadata


def nodes(config):
    """Every node of a config, itself the first."""
    yield config
    content = config.__dict__.get("_content")
    for node in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from nodes(node)


def test_a_copy_of_a_config_is_what_omegaconf_makes_and_shares_nothing_that_can_change(monkeypatch):
    config = composed("data=demo", "model=ridge", hydra=True)
    quick = copy.deepcopy(config)
    with monkeypatch.context() as patched:
        patched.delattr(Metadata, "__deepcopy__")
        expected = copy.deepcopy(config)
    assert quick == expected
    for own, ours, theirs in zip(nodes(config), nodes(quick), nodes(expected), strict=True):
        assert type(ours) is type(theirs) and ours._metadata == theirs._metadata
        assert ours._metadata.flags is not own._metadata.flags
        assert ours._metadata.resolver_cache is not own._metadata.resolver_cache
    OmegaConf.set_readonly(quick.model, True)
    assert not OmegaConf.is_readonly(config.model) and OmegaConf.is_readonly(quick.model)
