"""Keywords that a class takes as `**options: Unpack[Options]` are checked as those that it names."""

import re
import sys

import pytest
from config.composed import composed
from models.small import window_shape

from forecast.config.allow_list import resolve_target, trusting
from forecast.config.build import build
from forecast.config.check import check_config
from forecast.errors import UserError
from forecast.training.module import takes

TEXT = '''\
"""A model of mine."""

from typing_extensions import NotRequired, TypedDict, Unpack

from forecast.bounds import Positive, Share
from forecast.models.base import ForecastModel, WindowShape


class Sizes(TypedDict):
    width: Positive


class Options(Sizes):
    share: NotRequired[Share]


class Own(ForecastModel):
    def __init__(self, *, window: WindowShape, depth: int = 1, **options: Unpack[Options]) -> None:
        super().__init__(window)
        self.options = options
'''
REFUSED = {
    "+model.depth=2": "model.width is missing: say model.width=VALUE",
    "+model.width=2 +model.widht=3": "model.widht=3: unknown key. Did you mean 'width'?",
    "+model.width=2.5": "model.width=2.5: must be a valid integer",
    "+model.width=0": "model.width=0: must be at least 1",
    "+model.width=2 +model.share=1": "model.share=1: must be at least 0 and less than 1",
    "+model.width=2 +model.window=3": "model.window=3: the program sets this itself",
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """What composes the config of the model."""
    (tmp_path / "my_unpacked.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with trusting(["my_unpacked"]):
        yield lambda overrides: composed("model=nlinear", "model._target_=my_unpacked.Own", *overrides.split())
    sys.modules.pop("my_unpacked", None)


@pytest.mark.parametrize("overrides", REFUSED)
def test_a_mistake_is_refused_as_that_of_a_named_keyword(own, overrides):
    with pytest.raises(UserError, match=f"^{re.escape(REFUSED[overrides])}$"):
        check_config(own(overrides))


@pytest.mark.parametrize("overrides", ["+model.width=2", "+model.width=2 +model.share=0.5 +model.depth=3"])
def test_what_works_is_accepted(own, overrides):
    cfg = own(overrides)
    check_config(cfg)
    assert build(cfg.model, window=window_shape()).options["width"] == 2


def test_a_factory_is_asked_for_them_by_name(own):
    target = resolve_target(own("+model.width=2").model._target_)
    assert [takes(target, name) for name in ("width", "share", "options")] == [True, True, False]
