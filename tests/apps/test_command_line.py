"""The command `forecast NAME ...`: one door for every command, from a checkout, an installed wheel and python -m."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from forecast.__main__ import COMMANDS, PLAIN, main, start
from forecast.apps.options import OPTIONS
from forecast.config.entry import logging_restored
from forecast.errors import UserError
from forecast.text.overrides import hydra_value

ROOT = Path(__file__).parents[2]


def test_every_command_stands_in_the_overview_with_a_line_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["forecast"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [*COMMANDS]
    assert set(OPTIONS) == set(PLAIN)


@pytest.mark.parametrize(
    ("typed", "near"),
    [("exprot", " Did you mean 'export'?"), ("check_data", " Did you mean 'check-data'?"), ("xyz", "")],
)
def test_an_unknown_command_is_a_usage_error_that_names_the_near_one(monkeypatch, capsys, typed, near):
    monkeypatch.setattr(sys, "argv", ["forecast", typed])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"forecast {typed}: no such command.{near} `forecast --help` lists them all.\n"


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_its_help_names_the_command_and_imports_nothing_heavy(monkeypatch, capsys, name):
    place = f"forecast.apps.{name.replace('-', '_')}"
    for module in [module for module in sys.modules if module.startswith(place) and not module.endswith(".options")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "argv", ["forecast", name, "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert f"usage: forecast {name} " in capsys.readouterr().out
    assert not {place, f"{place}.command"} & {
        module for module in [*sys.modules] if hasattr(sys.modules[module], "main")
    }


@pytest.mark.parametrize("name", ["attend", "export", "inspect-checkpoint"])
def test_a_checkpoint_is_named_by_its_path_or_as_the_configured_commands_name_it(name):
    parser, more = argparse.ArgumentParser(), ["out"] if name == "export" else []
    OPTIONS[name](parser)
    for typed, path in (
        ("RUN/best.ckpt", "RUN/best.ckpt"),
        ("ckpt_path=RUN/best.ckpt", "RUN/best.ckpt"),
        (f"ckpt_path={hydra_value('it, is=$x/best.ckpt')}", "it, is=$x/best.ckpt"),
        ("RUN/ckpt_path=3.ckpt", "RUN/ckpt_path=3.ckpt"),
    ):
        assert parser.parse_args([typed, *more]).checkpoint == Path(path)


@pytest.mark.parametrize("begun_by", ["/usr/bin/forecast", "/packages/forecast/__main__.py"])
def test_the_other_processes_of_a_training_can_be_started_by_the_whole_command(monkeypatch, tmp_path, begun_by):
    """Lightning starts them by sys.argv: without the word `train` they would find no command."""
    seen = []
    stub = SimpleNamespace(train=lambda cfg: seen.append((sys.argv, cfg.seed)))
    monkeypatch.setitem(sys.modules, "forecast.apps.train", stub)
    monkeypatch.chdir(tmp_path)
    words = [begun_by, "train", "seed=3", "trainer=ddp"]
    monkeypatch.setattr(sys, "argv", words)
    with logging_restored():
        main()
    assert seen == [(words, 3)]


def test_a_wrong_option_is_a_usage_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["forecast", "auto", "a.csv", "--horizon", "ab"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "argument --horizon: ab is no whole number from 1 on" in capsys.readouterr().err


def test_what_the_user_can_mend_is_one_message_and_status_1(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["forecast", "inspect-checkpoint", str(tmp_path / "none.ckpt")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "none.ckpt: no such file." in printed.err and printed.err.count("\n") == 1
    monkeypatch.setenv("FORECAST_TRACEBACK", "1")
    with pytest.raises(UserError):
        start("inspect-checkpoint")


def test_the_three_promised_files_at_the_top_of_a_checkout_are_thin():
    for name in ("train", "evaluate", "predict"):
        text = (ROOT / f"{name}.py").read_text()
        assert f'start("{name}")' in text and len(text.splitlines()) <= 6, name


def test_a_command_of_a_checkout_says_so_in_a_wheel(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "studies", None)
    monkeypatch.delitem(sys.modules, "studies.published", raising=False)
    monkeypatch.delitem(sys.modules, "studies.published.reproduce", raising=False)
    with mock.patch.object(sys, "argv", ["forecast", "reproduce", "--table", "all"]), pytest.raises(SystemExit):
        main()
    assert "forecast reproduce needs the published figures, which a checkout has" in capsys.readouterr().err


@pytest.mark.slow
def test_the_help_of_a_training_imports_neither_torch_nor_pydantic(tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "forecast", "train", "--help"]
    end = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    imported = {line.rpartition("|")[2].strip() for line in end.stderr.splitlines()}
    assert "hydra" in imported and not imported & {"torch", "pydantic", "pandas"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train", *sorted(PLAIN)])  # of train.py and its like: tests/config/test_entry.py
def test_its_help_takes_less_than_a_second(tmp_path, name):
    for _ in range(5):  # one is enough, in seconds of a processor: other processes may be at work
        before = os.times()
        command = [sys.executable, "-m", "forecast", name, "--help"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        after = os.times()
        if after.children_user + after.children_system - before.children_user - before.children_system < 1:
            return
    pytest.fail("five times it took longer")
