"""What is advised to type begins as the program was started."""

import sys

import pytest

from forecast.text.program import command

STARTED = {
    "forecast check-data": ("forecast train", "forecast check-data"),
    "/usr/bin/forecast": ("forecast train", "forecast check-data"),
    "/site-packages/pytest/__main__.py": ("forecast train", "forecast check-data"),
    "": ("forecast train", "forecast check-data"),
    "train.py": ("python train.py", "python scripts/check_data.py"),
    "/opt/checkout/evaluate.py": ("python /opt/checkout/train.py", "python /opt/checkout/scripts/check_data.py"),
    "scripts/check_data.py": ("python train.py", "python scripts/check_data.py"),
    "../scripts/report.py": ("python ../train.py", "python ../scripts/check_data.py"),
}


@pytest.mark.parametrize(("first", "expected"), STARTED.items())
def test_a_command_begins_as_the_program_was_started(monkeypatch, first, expected):
    monkeypatch.setattr(sys, "argv", [first])
    assert (command("train"), command("check-data")) == expected
