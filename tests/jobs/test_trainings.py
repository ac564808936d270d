"""Trainings that another command runs in its own process."""

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser

from forecast.config.compose import run_folder, task_overrides
from forecast.errors import UserError
from forecast.jobs.fresh_process import is_lost
from forecast.jobs.trainings import train
from forecast.run_folder import checkpoint_path, write_run_info


def stopped(folder, **info):
    """A run that was stopped with a checkpoint, which is the last one of nothing."""
    checkpoint_path(folder, "last").parent.mkdir(parents=True)
    checkpoint_path(folder, "last").touch()
    write_run_info(folder, {"status": "interrupted", "overrides": ["seed=1"], "job": None, **info})


@pytest.mark.parametrize("name", ["my runs", "lr=1,2", "it's", 'a "b"', "a[1]{2}", "1e3", "ä:b"])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_folder_of_any_name_reaches_the_training(tmp_path, name, resumed):
    folder = tmp_path / name
    if resumed:
        stopped(folder)
        (folder / ".hydra").mkdir()
    seen = []
    train(lambda cfg: seen.append((run_folder(), task_overrides(), cfg.ckpt_path)), ("seed=1",), folder)
    ((place, words, checkpoint),) = seen
    assert place == folder
    assert checkpoint == (str(checkpoint_path(folder, "last")) if resumed else None)
    assert OverridesParser.create().parse_overrides(words)


def test_a_training_goes_on_with_the_threads_that_it_was_begun_with(tmp_path):
    """A launcher may have given it others than this process has."""
    stopped(tmp_path, versions={"threads": "3"})
    (tmp_path / ".hydra").mkdir()
    before, seen = torch.get_num_threads(), []
    train(lambda cfg: seen.append(torch.get_num_threads()), (), tmp_path)
    assert seen == [3] and torch.get_num_threads() == before


def test_one_that_fails_ends_alone_and_what_it_went_on_from_is_laid_aside(tmp_path):
    stopped(tmp_path)
    (tmp_path / ".hydra").mkdir()

    def fail(cfg):
        raise RuntimeError("no such weights")

    run = train(fail, (), tmp_path)
    assert (run.state, run.reason) == ("failed", "no such weights")
    assert not checkpoint_path(tmp_path, "last").exists()
    assert (tmp_path / "checkpoints" / "last.failed.ckpt").is_file()
    assert "Traceback" in (tmp_path / "output.txt").read_text()


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("CUDA error: an illegal memory access was encountered", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasSgemm", True),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", False),
        ("CUDA error: out of memory", False),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_a_gpu_is_lost_by_any_error_of_cuda_but_a_lack_of_memory(text, lost):
    error = UserError("the training failed")
    error.__cause__ = RuntimeError(text)
    assert is_lost(error) == lost
