"""The pytest option --golden DIR.

A plugin and not a conftest, because pytest reads `--golden DIR` before it knows where our tests are.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option; without it our own copy of the reference tensors is compared."""
    own = Path(__file__).parents[1] / "tests" / "golden"
    parser.addoption("--golden", default=str(own), metavar="DIR", help="folder of reference tensors (NAME.npz)")
