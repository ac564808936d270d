"""YAML of a folder given by --config-dir is data: what it says of `hydra` is refused before anything is written."""

from pathlib import Path

import pytest
from config.composed import hydras_defaults, hydras_merge
from program import BRIEF, TINY, call, refusal

from forecast.config import resolvers
from forecast.config.trials import train_config

GLOBAL = "# @package _global_\n"
HANDLER = "{class: logging.FileHandler, filename: victim}"
# For each way the files of the folder, what is typed, and the key that is named.
WAYS = {
    "block": ({"experiment/best": GLOBAL + "hydra: {run: {dir: elsewhere}}"}, "experiment=best", "hydra.run.dir"),
    "sweep folder": (
        {"experiment/best": GLOBAL + "hydra: {sweep: {dir: elsewhere}}"},
        "experiment=best",
        "hydra.sweep.dir",
    ),
    "log handler": (
        {"experiment/best": GLOBAL + f"hydra: {{job_logging: {{handlers: {{file: {HANDLER}}}}}}}"},
        "experiment=best",
        "hydra.job_logging.handlers.file.class",
    ),
    "hydra's log": (
        {"experiment/best": GLOBAL + f"hydra: {{hydra_logging: {{handlers: {{f: {HANDLER}}}}}}}"},
        "experiment=best",
        "hydra.hydra_logging.handlers.f.class",
    ),
    "package in the header": (
        {"experiment/best": f"# @package hydra.job_logging\nhandlers: {{file: {HANDLER}}}"},
        "experiment=best",
        "hydra.job_logging.handlers.file.class",
    ),
    "package of a default": (
        {
            "experiment/best": GLOBAL + "defaults: [/logs@hydra.job_logging: evil]",
            "logs/evil": f"handlers: {{file: {HANDLER}}}",
        },
        "experiment=best",
        "hydra.job_logging",
    ),
    "package of a default of a default": (
        {
            "experiment/best": "defaults: [/a@_global_.hydra: evil]",
            "a/evil": "defaults: [/b@run: evil]",
            "b/evil": "dir: elsewhere",
        },
        "experiment=best",
        "hydra",
    ),
    "package that is typed": ({"logs/evil": "dir: elsewhere"}, "+logs@hydra.run=evil", "hydra.run.dir"),
    "defaults that override": (
        {"experiment/best": GLOBAL + "defaults: [override /hydra/job_logging: none]"},
        "experiment=best",
        "hydra/job_logging",
    ),
    "another launcher": (
        {"experiment/best": GLOBAL + "defaults: [override /hydra/launcher: joblib]"},
        "experiment=best",
        "hydra/launcher",
    ),
    "defaults that add": (
        {"experiment/best": GLOBAL + "defaults: [/hydra/env: evil]", "hydra/env/evil": "{}"},
        "experiment=best",
        "hydra/env",
    ),
    "option of Hydra's group": (
        {"hydra/job_logging/evil": f"version: 1\nhandlers: {{file: {HANDLER}}}"},
        "hydra/job_logging=evil",
        "hydra.job_logging.version",
    ),
    "launcher of its own": (
        {"hydra/launcher/evil": "_target_: os.system"},
        "hydra/launcher=evil",
        "hydra.launcher._target_",
    ),
    "callbacks": (
        {"experiment/best": GLOBAL + "hydra: {callbacks: {a: {_target_: builtins.print}}}"},
        "experiment=best",
        "hydra.callbacks.a._target_",
    ),
    "environment": (
        {"experiment/best": GLOBAL + "hydra: {job: {env_set: {A: b}}}"},
        "experiment=best",
        "hydra.job.env_set.A",
    ),
    "an interpolation": (
        {"experiment/best": GLOBAL + "evil: {run: {dir: elsewhere}}\nhydra: ${evil}"},
        "experiment=best",
        "hydra",
    ),
    "a resolver": (
        {"experiment/best": GLOBAL + "hydra: {run: {dir: '${oc.env:HOME}/elsewhere'}}"},
        "experiment=best",
        "hydra.run.dir",
    ),
    "swept": (
        {"experiment/best": GLOBAL + "hydra: {sweeper: {params: {hydra.run.dir: elsewhere}}}"},
        "-m experiment=best",
        "hydra.sweeper.params.hydra.run.dir",
    ),
    "swept with a sign": (
        {"experiment/best": GLOBAL + "hydra: {sweeper: {params: {'++hydra.sweep.subdir': elsewhere}}}"},
        "-m experiment=best",
        "hydra.sweeper.params.++hydra.sweep.subdir",
    ),
    "swept into a package": (
        {
            "experiment/best": GLOBAL + "hydra: {sweeper: {params: {+logs@hydra.run: evil}}}",
            "logs/evil": "dir: elsewhere",
        },
        "-m experiment=best",
        "hydra.sweeper.params.+logs@hydra.run",
    ),
    "search path of a main file": (
        {"evil": "defaults: [train, _self_]\nhydra: {searchpath: ['pkg://forecast_evil_package']}"},
        "--config-name evil",
        "hydra.searchpath",
    ),
    "main file": (
        {"evil": "defaults: [train, _self_]\nhydra: {run: {dir: elsewhere}}"},
        "--config-name evil",
        "hydra.run.dir",
    ),
}


@pytest.fixture(autouse=True)
def hydras_own(monkeypatch):
    """Nothing that another test has composed is taken for what these files compose to."""
    monkeypatch.setattr("config.composed.merged_once", hydras_merge)
    monkeypatch.setattr("config.composed.listed_once", hydras_defaults)


def laid(folder, files):
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(("files", "typed", "key"), WAYS.values(), ids=WAYS)
def test_hydra_takes_nothing_from_a_foreign_file(files, typed, key, tmp_path, *, monkeypatch, capsys):
    foreign = laid(tmp_path / "foreign", files)
    here = tmp_path / "here"
    here.mkdir()
    (here / "victim").write_text("of somebody")
    monkeypatch.chdir(here)
    text = refusal(capsys, "train", "--config-dir", str(foreign), *typed.split(), *TINY)
    assert f": {key} " in text and str(foreign) in text and "\n" not in text.strip()
    assert [path.name for path in here.iterdir()] == ["victim"] and Path("victim").read_text() == "of somebody"
    assert not list(tmp_path.rglob("elsewhere"))


def test_a_folder_of_the_search_path_is_foreign_too(tmp_path, monkeypatch, capsys):
    foreign = laid(tmp_path / "foreign", WAYS["block"][0])
    monkeypatch.chdir(tmp_path)
    text = refusal(capsys, "train", f"hydra.searchpath=[file://{foreign}]", "experiment=best", *TINY)
    assert ": hydra.run.dir " in text
    resolvers.register()
    with pytest.raises(ValueError, match=r"hydra\.run\.dir"):
        train_config(["experiment=best"], [str(foreign)])


def test_a_job_of_a_sweep_takes_nothing_either(tmp_path, monkeypatch, capsys):
    laid(tmp_path / "foreign", {"experiment/a": GLOBAL, "experiment/b": GLOBAL + "hydra: {sweep: {subdir: ../../x}}"})
    monkeypatch.chdir(tmp_path)
    text = refusal(capsys, "train", "-m", "--config-dir", "foreign", "experiment=b,a", *TINY)
    assert ": hydra.sweep.subdir " in text and not (tmp_path / "x").exists() and not list(tmp_path.rglob("*.log"))


def test_a_foreign_file_may_say_what_a_sweep_varies(tmp_path, monkeypatch, capsys):
    files = {"experiment/mine": GLOBAL + "hydra: {sweeper: {params: {seed: '1,2'}}}"}
    monkeypatch.chdir(tmp_path)
    laid(tmp_path / "foreign", files)
    call("train", "-m", "--config-dir", "foreign", "experiment=mine", *BRIEF)
    assert len(list(tmp_path.glob("multirun/mine/*/metrics.json"))) == 2


MADE = '"${seed}"'  # of another key
CALLBACK = "{_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: %s}"
# What is written to a place that nobody has typed, or goes on in one; and the key that is named.
PLACES = {
    "a run goes on": ("ckpt_path: victim", "ckpt_path"),
    "a path of a callback": (f"callbacks: {{x: {CALLBACK % '/tmp/x'}}}", "callbacks.x.dirpath"),
    "a folder here": (f"callbacks: {{x: {CALLBACK % 'elsewhere'}}}", "callbacks.x.dirpath"),
    "made of others": (f"callbacks: {{x: {CALLBACK % MADE}}}", "callbacks.x.dirpath"),
    "callbacks of others": ("callbacks: ${optim}", "callbacks"),
    "a logger's name": ("logger: {name: ../elsewhere}", "logger.name"),
    "a logger's version": ("logger: {version: /tmp/x}", "logger.version"),
    "a server": ("logger: {tracking_uri: 'http://elsewhere'}", "logger.tracking_uri"),
    "a profile": (
        "trainer: {profiler: {_target_: lightning.pytorch.profilers.SimpleProfiler, dirpath: /tmp, filename: x}}",
        "trainer.profiler.dirpath",
    ),
    "a converted panel": ("data: {cache: elsewhere}", "data.cache"),
    "a forecast": ("output: victim.csv", "output"),
}


@pytest.mark.parametrize("text,key", PLACES.values(), ids=PLACES)
def test_where_one_writes_is_not_taken_from_a_folder(text, key, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    laid(tmp_path / "foreign", {"experiment/best": GLOBAL + text})
    said = refusal(capsys, "train", "--config-dir", "foreign", "experiment=best", *TINY)
    assert f"best.yaml: {key} says where a command writes" in said and said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["foreign"]


def test_names_and_numbers_of_loggers_and_trainers_are_taken(tmp_path, capsys):
    files = {"experiment/mine": GLOBAL + "logger: {name: mine}\ntrainer: {precision: 32-true, max_epochs: 2}"}
    cfg = train_config(["experiment=mine"], [str(laid(tmp_path / "own", files))]).values
    assert (cfg.logger.name, cfg.trainer.precision, cfg.trainer.max_epochs) == ("mine", "32-true", 2)


BROKEN = {
    "no mapping": "optim: [1",
    "a tab": "optim:\n\t- 1",
    "an object": "a: !!python/object/apply:os.system ['true']",
    "text": GLOBAL + "root:x:0:0:root:/root:/bin/bash " * 40,
    "a list": GLOBAL + "- 1\n- 2",
    "deep": "a: " + "[" * 5000,
    "NUL": "a: \0",
    "no UTF-8": b"a: \xff\xfe",
    "defaults of text": "defaults: no",
    "defaults of numbers": "defaults: [1, 2]",
    "a wrong package": "# @package a..b.${c}\nx: 1",
    "a twofold key": "a: 1\na: 2",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_yaml_is_refused_in_a_sentence(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = laid(tmp_path / "foreign", {"experiment/best": ""}) / "experiment/best.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    said = refusal(capsys, "train", "--config-dir", "foreign", "experiment=best", *TINY)
    assert len(said) < 600 + len(str(tmp_path)) and said.count("\n") == 1
