"""Modules of a user's own, written into the current folder of a test."""

import importlib
import sys

import pytest

MODELS = '''\
"""Models of mine, and what a module may hold besides."""

import builtins
import os
from os import system
from threading import Thread

import torch
from lightning.pytorch import Callback
from torch import nn

from forecast.attention.full import FullAttention
from forecast.data.sources import DemoSource
from forecast.models.base import ForecastModel
from forecast.models.nlinear import NLinear

open({imported!r}, "a").close()


class Drift(ForecastModel):
    def __init__(self, *, window, scale: float = 1.0):
        super().__init__(window)
        self.scale = scale
        self.drift = nn.Parameter(torch.zeros(window.pred_len))

    def forecast(self, past, past_known, future_known):
        last = past[:, -1:, list(self.window.targets)]
        return last + self.scale * self.drift[None, :, None]


class Sharper(FullAttention):
    pass


class Made(DemoSource):
    pass


class Slow(torch.optim.Adam):
    pass


class Origin(Callback):
    pass


class Runs:
    def __init__(self, command):
        os.system(command)


class _Private(Drift):
    pass


class Disguised(Thread):
    pass


drift = Drift


def make(command):
    os.system(command)


def __getattr__(name):
    if name == "lazy":
        return os.system
    raise AttributeError(name)
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty working directory with my_package/models.py and neighbours; returns the file that an import leaves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    imported = tmp_path / "imported"
    text = MODELS.format(imported=str(imported))
    for name in ("my_package", "my_packagex"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "models.py").write_text(text)
    (tmp_path / "my_package" / "models_too.py").write_text(text)
    (tmp_path / "my_broken.py").write_text("raise RuntimeError('no weather')\n")
    importlib.invalidate_caches()
    before = {*sys.modules}
    yield imported
    for name in {*sys.modules} - before:
        if name.startswith("my_"):
            del sys.modules[name]
