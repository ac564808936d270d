"""The second training: as many steps, each with its learning rate, in one process, on more rows."""

import math
from unittest import mock

import pytest
from evaluation.small_panels import panel
from program import BRIEF, ONE_COLUMN, call
from training.test_processes import DDP, PLAIN, checkpoint, largest_difference, metrics, only_run, torchrun

from forecast.checkpoint.load import load_checkpoint
from forecast.data.prepare import prepare
from forecast.training.checkpoint import CheckpointFiles
from forecast.training.datamodule import ForecastDataModule
from forecast.training.refit import StopAt, refit, with_more_rows

# 257 windows to learn from, 5 batches
THREE = [*BRIEF, "data.rows=400", "trainer.max_epochs=3", "data.batch_size=64", "refit=true"]


def rates_and_data(folder, *changes):
    """Of the training and of the refit the learning rate of each step, and the data that the batches are drawn from.

    last.ckpt is the same before the refit as after it.
    """
    rates, data = {"training": [], "refit": []}, []
    ends = {"training": (CheckpointFiles, "on_train_batch_end"), "refit": (StopAt, "on_train_batch_end")}
    patches = []
    for name, (kind, method) in ends.items():
        original = getattr(kind, method)

        def noted(self, trainer, *arguments, name=name, original=original):
            if trainer.global_step > len(rates[name]):
                rates[name].append(trainer.optimizers[0].param_groups[0]["lr"])
            return original(self, trainer, *arguments)

        patches.append(mock.patch.object(kind, method, noted))
    made = ForecastDataModule.__init__

    def kept(self, given, **options):
        made(self, given, **options)
        data.append((given, self.order.count, options))

    last, before = folder / "checkpoints/last.ckpt", []

    def refitted(*arguments, **options):
        before.append(last.read_bytes())
        return refit(*arguments, **options)

    begun = mock.patch("forecast.apps.train.refit", refitted)
    with begun, patches[0], patches[1], mock.patch.object(ForecastDataModule, "__init__", kept):
        call("train", *THREE, *changes, f"hydra.run.dir={folder}")
    assert before == [last.read_bytes()]
    return rates, data


@pytest.mark.parametrize(
    "changes",
    [
        ["calibration=static"],
        ["schedule=warmup_cosine", "trainer.accumulate_grad_batches=2"],
        ["schedule=cosine", "trainer.val_check_interval=0.4", "trainer.limit_train_batches=5"],
    ],
    ids=" ".join,
)
def test_each_step_of_the_refit_has_the_rate_of_that_step_and_no_other_file_is_left_or_changed(tmp_path, changes):
    rates, data = rates_and_data(tmp_path, *changes)
    best = load_checkpoint(tmp_path / "checkpoints" / "best.ckpt")
    assert len(rates["refit"]) == best.step == load_checkpoint(tmp_path / "checkpoints" / "refit.ckpt").step > 1
    assert rates["refit"] == rates["training"][: best.step]
    (first, an_epoch, _), *_, (whole, as_many, _) = data
    assert an_epoch == as_many == len(first.windows("train")) < len(whole.windows("train")) == 400 - 24 + 1
    assert whole.scaler is first.scaler and whole.kept is first.kept
    halves = {f"chosen_by_{half}_half.pt" for half in ("first", "second") if "calibration=static" in changes}
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"best.ckpt", "last.ckpt", "refit.ckpt", *halves}


def test_the_rows_after_the_test_are_learned_from_too():
    splits = {"train": range(9), "val": range(9, 13), "test": range(13, 20), "tail": range(20, 31)}
    frame = panel((31,))
    data = prepare(frame, splits=splits, targets=(0,), seq_len=3, pred_len=2, encoding="timeF")
    for rows, end, names in ((True, 31, [*splits]), ("val", 13, ["train", "val"])):
        more, learnt = with_more_rows(data, rows)
        found = {name: range(int(part.first[0]), int(part.stop[0])) for name, part in more.splits.items()}
        assert found == {**splits, "train": range(end)} and learnt == names


def test_a_trial_shows_that_the_refit_runs_and_a_new_training_in_its_folder_removes_it(tmp_path):
    trial, refitted = [*THREE, "trainer.fast_dev_run=true"], tmp_path / "checkpoints" / "refit.ckpt"
    call("train", *trial, f"hydra.run.dir={tmp_path}")
    assert load_checkpoint(refitted).step == 1
    call("train", *trial, "refit=false", f"hydra.run.dir={tmp_path}")
    assert not refitted.exists()


@pytest.mark.slow
def test_two_processes_refit_as_one_with_batches_twice_as_large(tmp_path):
    torchrun(tmp_path, *ONE_COLUMN, *DDP, *PLAIN, "data.batch_size=16", "refit=true")
    run, one = only_run(tmp_path), tmp_path / "one"
    call("train", *ONE_COLUMN, *PLAIN, "data.batch_size=32", "refit=true", f"hydra.run.dir={one}")
    assert metrics(run)["refit"]["steps"] == metrics(one)["refit"]["steps"] == 15
    assert largest_difference(run, one) <= 1e-6
    ours, theirs = (checkpoint(folder, "refit")["state_dict"] for folder in (run, one))
    assert max((value - theirs[key]).abs().max().item() for key, value in ours.items()) <= 1e-6
    assert math.isfinite(metrics(run)["test"]["scaled"]["mse"])
