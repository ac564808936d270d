"""Several processes on one machine train one model: real ones, started by Lightning, by torchrun and as SLURM does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
import torch
from program import ONE_COLUMN, call, refusal

from forecast.run_folder import read_run

ROOT = Path(__file__).parents[2]
DDP = ["trainer=ddp", "trainer.accelerator=cpu"]
TWO = [*DDP, "trainer.devices=2"]
# one step changes each weight by its gradient; nothing that draws, and no statistics of a batch
PLAIN = [
    *("attention=full", "model.dropout=0.0", "model.distil=false"),
    *("optim._target_=torch.optim.SGD", "~optim.betas", "~optim.eps", "optim.lr=0.05"),
]

pytestmark = pytest.mark.slow


def launch(folder, *command, real=False, **environment):
    """Runs a command in a folder; returns its output. It must succeed. One of Python is forked, unless it is real."""
    variables = {k: v for k, v in os.environ.items() if k not in ("PL_GLOBAL_SEED", "LOCAL_RANK", "WORLD_SIZE")}
    options = {"cwd": folder, "env": variables | {"OMP_NUM_THREADS": "1", **environment}, "timeout": 300}
    begin = forked.run if command[0] == sys.executable and not real else subprocess.run
    done = begin([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def torchrun(folder, *arguments, real=False):
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", ROOT / "train.py"]
    return launch(folder, *start, *arguments, real=real)


def only_run(folder):
    (run,) = {path.parent for path in folder.glob("outputs/**/train*.log")}
    return run


def checkpoint(run, name="last"):
    return torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)


def metrics(run):
    values = json.loads((run / "metrics.json").read_text())
    values.pop("cost")
    return values


def largest_difference(run, other):
    weights = checkpoint(other)["state_dict"]
    return max((value - weights[name]).abs().max().item() for name, value in checkpoint(run)["state_dict"].items())


@pytest.fixture(scope="module")
def by_lightning(tmp_path_factory):
    """`train.py trainer=ddp trainer.devices=2` with batches of 16: its folder and output."""
    folder = tmp_path_factory.mktemp("lightning")
    text = launch(folder, sys.executable, ROOT / "train.py", *ONE_COLUMN, *PLAIN, "data.batch_size=16", *TWO)
    return only_run(folder), text


@pytest.fixture(scope="module")
def by_torchrun(tmp_path_factory):
    """The same under torchrun, with interpreters of their own: what each imports knows its number from the start."""
    folder = tmp_path_factory.mktemp("torchrun")
    text = torchrun(folder, *ONE_COLUMN, *DDP, *PLAIN, "data.batch_size=16", real=True)
    return only_run(folder), text


@pytest.mark.parametrize("how", ["by_lightning", "by_torchrun"])
def test_two_processes_write_one_folder_one_log_each_and_one_report(how, request):
    run, text = request.getfixturevalue(how)
    assert {path.name for path in run.glob("*.log")} == {"train.log", "train-process1.log"}
    assert (run / ".hydra" / "config.yaml").exists()
    assert len(list(run.glob("tensorboard/events*"))) == 2  # of the training, and of the hyper-parameters at its end
    assert text.count("MSE by step") == 1
    assert text.count("Everything about this run is in") == 1
    assert "GLOBAL_RANK: 1" in (run / "train-process1.log").read_text()
    assert metrics(run)["status"] == "finished"


@pytest.mark.parametrize("how", ["by_lightning", "by_torchrun"])
def test_two_processes_end_where_one_ends_with_batches_twice_as_large(how, request, tmp_path):
    """Each step has the gradient of both batches together. Every window once in each epoch, none twice: the last,
    smaller steps would show it.
    """
    run, _ = request.getfixturevalue(how)
    call("train", *ONE_COLUMN, *PLAIN, "data.batch_size=32", f"hydra.run.dir={tmp_path / 'one'}")
    assert checkpoint(run)["global_step"] == checkpoint(tmp_path / "one")["global_step"] == 15  # of 466 windows
    assert largest_difference(run, tmp_path / "one") <= 1e-6
    two, one = metrics(run), metrics(tmp_path / "one")
    assert two["test"]["windows"] == one["test"]["windows"] == 136
    for split in ("test", "val"):
        assert two[split]["scaled"] == pytest.approx(one[split]["scaled"], abs=2e-6)  # both are rounded to six decimals


def test_the_validation_error_that_chooses_the_best_is_that_over_all_windows(by_torchrun):
    run, _ = by_torchrun
    monitored = checkpoint(run, "best")["callbacks"]["CheckpointFiles"]["best_mse"]
    assert monitored == pytest.approx(metrics(run)["val"]["scaled"]["mse"], abs=1e-6)


def test_the_test_metrics_are_those_of_one_process(by_torchrun, tmp_path):
    run, _ = by_torchrun
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", f"hydra.run.dir={tmp_path / 'one'}")
    assert metrics(tmp_path / "one")["test"] == metrics(run)["test"]


def test_torchrun_restarts_a_training_of_which_a_process_was_killed(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max-restarts=1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    training = [ROOT / "train.py", *ONE_COLUMN, *DDP, "trainer.max_epochs=4"]
    process = subprocess.Popen([*command, *training], cwd=tmp_path, env=environment)
    try:
        while not (written := [*tmp_path.glob("outputs/*/checkpoints/last.ckpt")]):
            assert process.poll() is None
            time.sleep(0.05)
        first = written[0].parents[1]
        os.kill(int((first / ".lock.holder").read_text().split()[1]), signal.SIGKILL)
        assert process.wait(300) == 0
    finally:
        process.terminate()
    assert metrics(first.with_name(f"{first.name}-restart1"))["status"] == "finished"
    assert read_run(first).reason == "it was killed"


def test_another_number_of_processes_cannot_go_on(by_torchrun, capsys):
    run, _ = by_torchrun
    one = ["trainer=default", "trainer.accelerator=cpu", "trainer.max_epochs=2", "trainer.enable_progress_bar=false"]
    text = refusal(capsys, "train", f"ckpt_path={run}/checkpoints/last.ckpt", *one)
    assert "the run was trained by 2 processes, now there are 1" in text


def test_a_sweep_with_processes_that_run_the_command_again_is_refused_with_the_alternatives(tmp_path, capsys):
    text = refusal(capsys, "train", "-m", *ONE_COLUMN, *TWO, "seed=1,2", f"hydra.sweep.dir={tmp_path}")
    assert "trainer.strategy=ddp among other trainings: each of its processes would run the whole command again" in text
    assert "trainer.strategy=ddp_spawn" in text and "one process per run" in text.replace("\n", " ")


def test_a_sweep_with_spawned_processes_runs(tmp_path):
    spawned = ["trainer.strategy=ddp_spawn", "trainer.devices=2", "trainer.accelerator=cpu", "seed=1"]
    launch(tmp_path, sys.executable, ROOT / "train.py", "-m", *ONE_COLUMN, *spawned)
    (file,) = tmp_path.glob("multirun/*/*/metrics.json")
    cost = json.loads(file.read_text())["cost"]
    assert cost["train_seconds"] > 0 and cost["train_samples_per_second"] > 0


SRUN = """#!/usr/bin/env bash
# what srun does, on one machine: as many processes as the step has tasks, each with its numbers
export SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$SLURM_NTASKS SLURM_NODEID=0
for task in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" trainer.accelerator=cpu "$MAX_STEPS" &
done
wait -n && wait -n
"""


def test_a_requeued_slurm_job_of_two_processes_that_draw_differently_ends_with_the_bits_of_torchrun(tmp_path):
    """Dropout and ProbSparse's keys: each process has states of its own in the checkpoint."""
    drawing = [*ONE_COLUMN, "model.dropout=0.1", "data.batch_size=16", "trainer.max_epochs=2"]
    drawing += ["callbacks.checkpoint.every_n_train_steps=4"]
    whole = tmp_path / "whole"
    torchrun(tmp_path, *drawing, *DDP, f"hydra.run.dir={whole}")
    srun = tmp_path / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    (tmp_path / "train.py").symlink_to(ROOT / "train.py")
    slurm = {
        "SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "forecast", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_NNODES": "1", "SLURM_NODELIST": "localhost", "PYTHONPATH": str(ROOT),
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    launch(tmp_path, "bash", ROOT / "scripts" / "slurm.sh", *drawing, **slurm, MAX_STEPS="trainer.max_steps=20")
    run = tmp_path / "outputs" / "slurm-77-0"
    assert checkpoint(run)["global_step"] == 20
    assert {path.name for path in run.glob("*.log")} == {"train.log", "train-process1.log"}
    first, second = checkpoint(run)["random_states"]
    assert not torch.equal(first["torch"], second["torch"])
    text = launch(tmp_path, "bash", ROOT / "scripts" / "slurm.sh", *drawing, **slurm, MAX_STEPS="trainer.max_steps=-1")
    assert "Going on from" in text
    assert checkpoint(run)["global_step"] == checkpoint(whole)["global_step"] == 30
    assert largest_difference(run, whole) == 0.0
    assert metrics(run) == metrics(whole)
