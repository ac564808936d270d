"""A precision that a processor emulates is said to be slow, with what to set instead."""

import os
import subprocess
import sys

import pytest
import torch
from program import BRIEF, call

from forecast.training import precision

CPU = torch.device("cpu")
SECONDS = {torch.float32: 0.001, torch.bfloat16: 0.09, torch.float16: 0.002}


@pytest.mark.parametrize(
    ("name", "device", "slow"),
    [
        (
            "bf16-mixed",
            CPU,
            "bf16-mixed: this processor has no products of bfloat16 numbers and takes 90 times as long",
        ),
        ("bf16-true", CPU, "Train with trainer.precision=32-true"),
        ("16-true", CPU, ""),  # that one is no slower here
        ("32-true", CPU, ""),
        ("64-true", CPU, ""),
        ("bf16-mixed", torch.device("cuda"), ""),
    ],
)
def test_a_precision_is_slow_where_its_products_are(monkeypatch, name, device, slow):
    monkeypatch.setattr(precision, "product_seconds", SECONDS.__getitem__)
    said = precision.slow_precision(name, device)
    assert slow in said and bool(said) == bool(slow)


def test_products_that_are_emulated_take_many_times_as_long():
    """As on a processor without them, which oneDNN is told to be."""
    code = "import torch; from forecast.training.precision import *; p = product_seconds;"
    code += "print(p(torch.bfloat16) / p(torch.float32))"
    emulated = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=emulated)
    if float(done.stdout) < precision.SLOW:
        pytest.skip("this build of torch has other products of bfloat16")


def test_it_is_said_before_the_training(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(precision, "product_seconds", SECONDS.__getitem__)
    call("train", *BRIEF, "trainer.precision=bf16-mixed", "trainer.fast_dev_run=true", f"hydra.run.dir={tmp_path}")
    printed = "".join(capsys.readouterr())
    assert 0 < printed.index("products of bfloat16") < printed.index("This was a trial")
