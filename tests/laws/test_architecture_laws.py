"""The laws of the house: what breaks them today is listed in breaches.json, and may only shrink.

A breach that is new fails; so does one that is gone while the file still has it: `python tests/laws/measures.py shrink`
lowers the file, and never raises it.
"""

import ast
import functools
import json

import pytest
from laws import measures

from forecast.__main__ import CONFIGURED, PLAIN

LAWS = (
    *("1 unions of kinds", "1 tests of kinds", "1 files of panels", "2 loops over windows"),
    *("3 Any", "3 untyped parameters", "3 untyped reads", "4 typed data as text", "5 process starters"),
    *("6 page builders", "7 imports of apps", "7 circles of folders", "8 formats of the past"),
    *("9 doubled classes", "9 pronouns", "9 docstrings that say See", "9 functions used once"),
)


@functools.cache
def now():
    return measures.breaches()


@pytest.mark.parametrize("law", LAWS)
def test_breaches_only_shrink(law):
    measured, frozen = now()[law], measures.frozen()[law]
    assert not measures.grown(measured, frozen), "new breaches of a law: mend them, breaches.json is never raised"
    assert measured == frozen, "fewer breaches: `python tests/laws/measures.py shrink` writes that down"


def test_each_law_that_is_measured_is_tested():
    assert {*LAWS} == now().keys() == measures.frozen().keys()


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
    "checkpoint/record.py": "FORMAT = 2\nFIRST_FORMAT = 1",
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
    assert measures.breaches() == {
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
        "8 formats of the past": ["FIRST_FORMAT"],
        "9 doubled classes": {"Twice": 2},
        "9 pronouns": {word: 2 * (word == "found") for word in measures.PRONOUNS},
        "9 docstrings that say See": {"begin": 1, "anywhere": 1},
        "9 functions used once": 1,
    }


def test_what_grew_is_told_from_what_shrank():
    assert measures.grown({"a": 3, "b": 1}, {"a": 2, "b": 4}) == {"a": 3}
    assert measures.grown(["x", "y"], ["y", "z"]) == ["x"]
    assert measures.grown(3, 5) == 0


def test_breaches_are_never_raised(tmp_path, monkeypatch):
    path = tmp_path / "breaches.json"
    monkeypatch.setattr(measures, "BREACHES", path)
    monkeypatch.setattr(measures, "breaches", lambda: {"law": {"a": 3}})
    path.write_text('{"law": {"a": 2}}')
    with pytest.raises(SystemExit, match="grown"):
        measures.shrink()
    path.write_text('{"law": {"a": 4}}')
    measures.shrink()
    assert json.loads(path.read_text()) == {"law": {"a": 3}}
