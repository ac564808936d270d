"""A run that was interrupted ends with the bits of the run that was not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from program import TINY, call

import forecast.training.checkpoint
from forecast.checkpoint.record import RECORD

TORCH = "schedule._target_=torch.optim.lr_scheduler"
# Never low enough: each validation but the first lowers the rate.
PLATEAU = ["schedule=plateau", "schedule.patience=0", "+schedule.threshold=0.99", "callbacks.early_stopping=null"]
LONG = [*TINY, "data.rows=400", "trainer.max_epochs=3", "model.dropout=0.1", "checks.leakage=false"]


def content(run, name):
    return torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)


def results(run):
    """All that must not depend on interruptions: the weights of both checkpoints and the metrics."""
    metrics = json.loads((run / "metrics.json").read_text())
    metrics.pop("cost")
    return {path.stem: content(run, path.stem)["state_dict"] for path in run.glob("checkpoints/*.ckpt")}, metrics


def assert_equal_results(run, whole):
    (weights, metrics), (whole_weights, whole_metrics) = results(run), results(whole)
    assert metrics == whole_metrics
    assert weights.keys() == whole_weights.keys()
    for name, tensors in whole_weights.items():
        for key, value in tensors.items():
            assert torch.equal(weights[name][key], value), f"{name}.ckpt: {key}"


def interrupted(folder, *arguments):
    """Trains, and copies the run folder each time that last.ckpt has been written: what a kill then would leave."""
    save = forecast.training.checkpoint.save_checkpoint
    copies = []

    def save_and_copy(trainer, name):
        save(trainer, name)
        if name == "last":
            copies.append(folder / f"killed-at-{trainer.global_step}-{len(copies)}")
            shutil.copytree(trainer.default_root_dir, copies[-1])

    with mock.patch.object(forecast.training.checkpoint, "save_checkpoint", save_and_copy):
        call("train", *LONG, *arguments, f"hydra.run.dir={folder / 'whole'}")
    return folder / "whole", copies


@pytest.fixture(scope="module")
def every_fourth(tmp_path_factory):
    """The whole run, and its folder as a kill would have left it at the steps SAVED."""
    return interrupted(tmp_path_factory.mktemp("every_fourth"), "callbacks.checkpoint.every_n_train_steps=4")


SAVED = [4, 8, 9, 12, 16, 18, 20, 24, 27, 27]  # 9 steps an epoch
MORE = [pytest.param(i, marks=pytest.mark.slow) for i in (2, 4, -1)]


# in the middle of an epoch, after a validation at the end of the first, in the middle again, at the end of the last
@pytest.mark.parametrize("save", [0, *MORE])
def test_a_run_resumed_from_any_last_checkpoint_ends_with_the_same_bits(every_fourth, tmp_path, save):
    whole, copies = every_fourth
    assert [content(copy, "last")["global_step"] for copy in copies] == SAVED
    run = shutil.copytree(copies[save], tmp_path / "run")
    call("train", f"ckpt_path={run}/checkpoints/last.ckpt")
    assert_equal_results(run, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["trainer.limit_val_batches=0"],
        ["trainer.val_check_interval=0.3", "calibration=static"],
        ["trainer.check_val_every_n_epoch=2"],
        ["trainer.accumulate_grad_batches=3", "trainer.val_check_interval=0.4"],
        ["trainer.limit_train_batches=4"],
        ["trainer.max_steps=13"],
        ["callbacks.early_stopping.patience=1", "optim.lr=0.02", "trainer.max_epochs=6"],
        ["model=reformer", "trainer.gradient_clip_val=0.1"],
        [*PLATEAU, "trainer.val_check_interval=0.4"],
        ["callbacks=averaged", "callbacks.averaging.decay=0.9", "loss=frequency"],
        ["networks=2", "model.dropout=0.2"],
        ["schedule=warmup_cosine", "optim=sgd", "trainer.accumulate_grad_batches=2"],
        [f"{TORCH}.OneCycleLR", "+schedule.max_lr=0.01", "optim=adamw"],
        [f"{TORCH}.CyclicLR", "+schedule.base_lr=0.001", "+schedule.max_lr=0.01", "+schedule.step_size_up=5"],
        [f"{TORCH}.CosineAnnealingWarmRestarts", "+schedule.T_0=2", "loss=huber", "logger=csv"],
    ],
    ids=" ".join,
)
def test_whatever_ends_an_epoch_or_starts_a_validation_resuming_is_exact(tmp_path, arguments):
    words = [
        "callbacks.checkpoint.every_n_train_steps=1",
        *["calibration=none"] * ("calibration=static" not in arguments),
    ]
    whole, copies = interrupted(tmp_path, *words, *arguments)
    for copy in copies[1 :: len(copies) // 2 + 1]:
        call("train", f"ckpt_path={copy}/checkpoints/last.ckpt")
        assert_equal_results(copy, whole)


def rate(run, name="last"):
    return content(run, name)["optimizer_states"][0]["param_groups"][0]["lr"]


def test_a_plateau_goes_on_with_the_validations_that_it_has_seen(tmp_path):
    """Lightning's own step of it comes after the checkpoint of a validation is written."""
    whole, copies = interrupted(tmp_path, *PLATEAU, "calibration=none")
    assert [rate(copy) for copy in copies] == [1e-4, 5e-5, 2.5e-5, 2.5e-5]
    after_second = copies[1]
    call("train", f"ckpt_path={after_second}/checkpoints/last.ckpt")
    assert_equal_results(after_second, whole)
    assert rate(after_second) == rate(whole)


@pytest.mark.slow
def test_a_cosine_that_goes_on_for_longer_is_laid_out_over_the_longer_training(tmp_path):
    call("train", *LONG, "schedule=cosine", "trainer.max_epochs=2", f"hydra.run.dir={tmp_path}")
    assert rate(tmp_path) == 0.0  # for the step after the last
    call("train", f"ckpt_path={tmp_path}/checkpoints/last.ckpt", "trainer.max_epochs=4")
    assert content(tmp_path, "last")["lr_schedulers"][0]["last_epoch"] == 36  # 9 steps an epoch


@pytest.mark.slow
def test_a_run_ended_by_max_steps_in_the_middle_of_an_epoch_goes_on_exactly(every_fourth, tmp_path):
    same = "callbacks.checkpoint.every_n_train_steps=4"  # the page shows the config
    call("train", *LONG, same, "trainer.max_steps=13", f"hydra.run.dir={tmp_path / 'run'}")  # 9 steps an epoch
    call("train", f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt", "trainer.max_steps=-1")
    assert_equal_results(tmp_path / "run", every_fourth[0])


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_no_bit(tmp_path):
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run([sys.executable, script, tmp_path, "20", "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["kills"] == 20 and report["while_writing"] >= 1
    assert report["completed"] and all(report["completed"])


def test_a_resumed_run_needs_the_random_states_of_the_checkpoint(every_fourth, tmp_path):
    """Without them dropout and ProbSparse draw otherwise: what the other tests show is not true by itself."""
    whole, copies = every_fourth
    run = shutil.copytree(copies[SAVED.index(24)], tmp_path / "run")
    saved = content(run, "last")
    del saved["random_states"]
    torch.save(saved, run / "checkpoints/last.ckpt")
    call("train", f"ckpt_path={run}/checkpoints/last.ckpt")
    name = "model.decoder.head.weight"
    assert not torch.equal(content(run, "last")["state_dict"][name], content(whole, "last")["state_dict"][name])


def test_a_checkpoint_holds_the_states_of_all_generators_as_plain_values(tiny_run):
    (states,) = content(tiny_run, "last")["random_states"]
    assert states.keys() == {"python", "numpy", "torch", "cuda"}
    assert states["cuda"] is None
    assert len(states["python"][1]) == 625 and len(states["numpy"][1]) == 624
    assert content(tiny_run, "last")[RECORD]["best_step"] is not None
