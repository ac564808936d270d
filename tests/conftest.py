"""Where reference files and the ETT data are, and which reference file belongs to which test."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch


def pytest_addoption(parser):
    """--golden=DIR: other reference tensors than our own copy (`pytest tests --golden=DIR`)."""
    own = Path(__file__).parent / "golden"
    parser.addoption("--golden", default=str(own), metavar="DIR", help="folder of reference tensors (NAME.npz)")


def pytest_configure(config):
    # two threads beside another busy process are many times slower than one
    torch.set_num_threads(1)


def pytest_generate_tests(metafunc):
    """A test marked golden_family(prefix, ...) runs once for each reference file whose name begins so."""
    marker = metafunc.definition.get_closest_marker("golden_family")
    if marker is None:
        return
    folder = Path(metafunc.config.getoption("--golden"))
    files = [f for prefix in marker.args for f in sorted(folder.glob(f"{prefix}*.npz"))]
    reason = f"no {' or '.join(marker.args)} file in {folder}"
    cases = files or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    metafunc.parametrize("golden_file", cases, ids=lambda f: f.stem if f else "none")


@pytest.fixture(scope="session")
def golden(request):
    """The folder of reference files."""
    folder = Path(request.config.getoption("--golden"))
    if not any(folder.glob("*.npz")):
        pytest.fail(f"--golden {folder} holds no .npz file: nothing would be compared")
    return folder


@pytest.fixture
def case(golden, golden_file):
    """The content of a reference file; its `config` is a JSON string."""
    with np.load(golden_file) as arrays:
        return dict(arrays)


@pytest.fixture(scope="session")
def ett_root():
    """The folder of ETTh1.csv and ETTh2.csv; they are licensed and not part of the project."""
    root = os.environ.get("FORECAST_DATA")
    if not root or not (Path(root) / "ETTh1.csv").exists():
        pytest.skip("FORECAST_DATA does not name a folder with ETTh1.csv and ETTh2.csv")
    return Path(root)
