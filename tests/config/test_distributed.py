"""Which process this is and which folder it shares, by what the launchers leave in the environment."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from forecast import run_folder
from forecast.config import resolvers
from forecast.errors import UserError

ROOT = OmegaConf.create()  # of a config that is only looked at


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)


def set_all(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, 0),
        ({"RANK": "5", "LOCAL_RANK": "1"}, 5),  # torchrun, second machine
        ({"LOCAL_RANK": "1"}, 1),  # started by Lightning
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}, 3),
        ({"SLURM_PROCID": "3"}, 0),  # python without srun in a job of several tasks
    ],
)
def test_the_rank_is_what_the_launcher_says(monkeypatch, environment, rank):
    set_all(monkeypatch, environment)
    assert resolvers.rank() == rank


TORCHRUN = {"TORCHELASTIC_RUN_ID": "abc"}
SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1"}


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, None),
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "0"}, "torchrun-abc"),
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "2"}, "torchrun-abc-restart2"),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "2"}, "slurm-77-1"),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, None),
    ],
)
def test_processes_share_the_folder_of_their_launchers_id_and_one_alone_none(monkeypatch, environment, folder):
    set_all(monkeypatch, environment)
    assert run_folder.shared_folder() == (folder and Path(folder))


def test_only_the_first_process_writes_hydras_folder_and_each_has_its_log(monkeypatch):
    assert resolvers.hydra_dir(None, _root_=OmegaConf.create()) == ".hydra"
    assert resolvers.log_name("train") == "train.log"
    monkeypatch.setenv("RANK", "2")
    assert resolvers.hydra_dir(None, _root_=OmegaConf.create()) is None
    names = [resolvers.log_name(name) for name in ("train", "train_ddp_process_2")]
    assert names == ["train-process2.log"] * 2


def test_without_an_id_torchrun_is_refused_with_the_option_that_gives_one(monkeypatch):
    set_all(monkeypatch, {"TORCHELASTIC_RUN_ID": "none"})
    with pytest.raises(UserError, match=r"say torchrun --standalone, on several machines torchrun --rdzv-id=NAME"):
        run_folder.shared_folder()
