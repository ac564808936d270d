"""The laws of the house, which nothing breaks; each breach is seen where it is planted."""

import ast

import pytest
from laws import measures

from forecast.__main__ import CONFIGURED, PLAIN


@pytest.mark.parametrize("law", measures.LAWS)
def test_nothing_breaks_a_law(law):
    places = measures.LAWS[law]()
    assert not places, f"{law} is broken in {places}"


def test_each_command_has_a_place_and_each_door_is_there():
    places = {measures.room(module) for module in measures.arrows()}
    assert {*CONFIGURED, *PLAIN} <= {place.replace("_", "-") for place in places}
    assert places - {"core", "shared", "door"} == {name.replace("-", "_") for name in {*CONFIGURED, *PLAIN}}
    assert {*measures.DOORS} <= measures.arrows().keys()


PLANTED = {
    "apps/a.py": '''
from typing import Any
import subprocess
from jinja2 import Template

Outside = dict[str, Any]
class Twice: pass

class Task(Twice):
    def go(self, data: "PreparedData | PanelData", x: None | PreparedData | PanelData, y: dict[str, Any]) -> "Any":
        """See `Twice`."""
        from forecast.apps.train import train
        found: npt.NDArray[np.floating[Any]] = self.config["x"]
        if isinstance(data, PanelData) or source.panel_form:
            return [batch.series for batch in data]
        return Template(subprocess.Popen(found.get("x"), record.get("x")))
''',
    "data/b.py": (
        "import forecast.data.low.d\nclass Twice: words = '<p>x</p>'\ndef gather(windows): return windows.in_batches(1)"
    ),
    "data/sources.py": "def read(source): return 1 if source.panel_form else 2",
    "data/low/d.py": "def low():\n    from forecast.data import b",
    "apps/train.py": """
def train(x): pass
def first(w):
    return w.__getitems__([1])
def loop(w):
    for i in range(3):
        train(w.__getitems__([i]))
def given(w):
    return lambda some: w.__getitems__(some)
def cut(w):
    return w.in_batches([1, 2], 1)
def steps(w):
    return [batch.past for batch in in_chunks(w, [1], 2, 2)]
""",
    "evaluation/panel_x.py": "",
}


@pytest.fixture
def planted(monkeypatch):
    trees = {path: ast.parse(text) for path, text in PLANTED.items()}
    caches = measures.nodes, measures.functions, measures.arrows
    monkeypatch.setattr(measures, "modules", lambda: trees)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_each_breach_is_seen_where_it_is_planted(planted):
    assert {law: measure() for law, measure in measures.LAWS.items()} == {
        "1 unions of kinds": {"apps/a.py": 2},
        "1 tests of kinds": {"apps/a.py": 2},
        "1 files of panels": ["evaluation/panel_x.py"],
        "2 loops over windows": ["apps/a.py:Task.go", *(f"apps/train.py:{name}" for name in ("cut", "given", "loop"))],
        "3 Any": {"apps/a.py": 2},
        "3 untyped parameters": {"apps/a.py": 1},
        "3 untyped reads": {"apps/a.py": 2},
        "4 typed data as text": [],
        "5 process starters": ["apps/a.py"],
        "6 page builders": ["apps/a.py", "data/b.py"],
        "7 imports of apps": ["a: apps.a -> train: apps.train"],
        "7 circles of folders": ["data -> data/low", "data/low -> data"],
        "9 doubled classes": {"Twice": 2},
        "9 pronouns": {"apps/a.py": 2},
        "9 docstrings that say See": {"apps/a.py": 1},
    }
