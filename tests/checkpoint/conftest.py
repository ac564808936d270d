"""One good checkpoint, to be damaged and changed."""

import pytest
import torch
from checkpoints import DEMO, LENGTHS, write_untrained


@pytest.fixture(scope="session")
def best(tmp_path_factory):
    """best.ckpt of a run folder, with the first weights."""
    folder = tmp_path_factory.mktemp("good") / "checkpoints"
    folder.mkdir()
    return write_untrained(folder / "best.ckpt", *DEMO, *LENGTHS)


@pytest.fixture
def content(best):
    """What is in it, to be changed."""
    return torch.load(best, weights_only=True)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
