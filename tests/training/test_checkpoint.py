"""Checkpoints: what they hold, when they are written, how training goes on from one."""

import errno
import json
import math
import shutil
import tempfile
import types
from functools import partial

import lightning.pytorch as pl
import pytest
import torch
from program import BRIEF, call, refusal

from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.record import RECORD
from forecast.errors import UserError
from forecast.training.checkpoint import CheckpointFiles
from forecast.training.lightning_errors import quiet_lightning
from forecast.training.module import ForecastModule
from forecast.training.schedule import halve_each_epoch


def is_plain(node):
    if isinstance(node, dict):
        return all(isinstance(k, str | int) and is_plain(v) for k, v in node.items())
    if isinstance(node, list | tuple):
        return all(map(is_plain, node))
    return node is None or isinstance(node, str | int | float | torch.Tensor)


def content_of(path):
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("name", ["best", "last"])
def test_a_checkpoint_holds_plain_containers_and_tensors(tiny_run, name):
    content = content_of(tiny_run / f"checkpoints/{name}.ckpt")
    assert is_plain(content[RECORD]) and is_plain(content["state_dict"])


def test_a_checkpoint_is_enough_to_predict(best):
    record = load_checkpoint(best).record
    assert record.config.pred_len == 5
    assert record.choices["attention"] == "prob"
    data = record.data
    assert (data["name"], data["checksum"], data["freq"]) == ("demo", "demo-seed7-rows700", "h")
    assert data["columns"] == data["targets"] == ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    assert data["known"] == ["hour_of_day", "day_of_week", "day_of_month", "day_of_year"]
    assert data["splits"] == {"train": [0, 489], "val": [489, 560], "test": [560, 700]}  # int(0.7 * 700) is 489
    assert data["trained_until"] == "2016-07-21 08:00:00"
    assert record.series.scale.mean.shape == record.series.scale.std.shape == (1, 7)
    assert record.fits["nlinear_weight"].shape == (5, 19)


def test_the_loaded_model_is_in_evaluation_mode_with_the_saved_weights(best):
    model, weights = load_checkpoint(best).model(), content_of(best)["state_dict"]
    assert not model.training
    assert all(torch.equal(value, weights[f"model.{name}"]) for name, value in model.state_dict().items())


class Trainer:
    """Just enough of Lightning's Trainer to see when the callback saves."""

    sanity_checking = False
    is_global_zero = True
    global_step = 0
    max_steps = -1
    strategy = types.SimpleNamespace(barrier=lambda name: None)

    def __init__(self, folder):
        self.default_root_dir = str(folder)
        self.best, self.last = folder / "checkpoints/best.ckpt", folder / "checkpoints/last.ckpt"
        self.best.parent.mkdir()
        self.callback_metrics = {}
        self.accumulating = self.validation_follows = self.is_last_batch = False
        # the trainer is its own loops, as far as the callback looks
        self.fit_loop = self.epoch_loop = self.batch_progress = self
        self._data_fetcher = "fetcher"

    def _should_accumulate(self):
        return self.accumulating

    def _should_check_val_fx(self, fetcher):
        return self.validation_follows

    def save_checkpoint(self, path, weights_only):
        path.write_text(str(self.callback_metrics))


@pytest.fixture
def trainer(tmp_path):
    return Trainer(tmp_path)


def validate(callback, trainer, mse):
    trainer.callback_metrics = {"val/mse_scaled": torch.tensor(mse)}
    callback.on_validation_end(trainer, types.SimpleNamespace(best_step=None))


def writes(file, event, *arguments):
    """Whether an event of the callback writes the file, which is removed again."""
    event(*arguments)
    written = file.exists()
    file.unlink(missing_ok=True)
    return written


def test_best_is_written_for_a_strictly_lower_finite_error_only(trainer):
    callback = CheckpointFiles()
    callback.on_validation_end(trainer, types.SimpleNamespace(record={}))  # without the monitored error
    assert not trainer.best.exists()
    errors = [math.nan, 2.0, math.nan, 3.0, math.inf, 2.0, 1.0]
    assert [e for e in errors if writes(trainer.best, validate, callback, trainer, e)] == [
        2.0,
        1.0,
    ]  # a tie is not lower


def test_a_run_that_goes_on_knows_the_best_error_of_before():
    before, after = CheckpointFiles(), CheckpointFiles()
    before.best_mse = 0.25
    after.load_state_dict(before.state_dict())
    assert after.best_mse == 0.25


@pytest.mark.parametrize(
    ("pause", "steps", "expected"),
    [
        (None, range(1, 8), [3, 6]),
        (None, (0, 3, 3), [3]),  # a step that takes several batches is saved once
        # where Lightning would not go on exactly: a step later
        ("last_batch", range(1, 6), [4]),
        ("validation_follows", range(1, 6), [4]),
    ],
)
def test_last_is_written_every_n_steps(trainer, pause, steps, expected):
    callback, written = CheckpointFiles(every_n_train_steps=3), []
    for trainer.global_step in steps:
        trainer.is_last_batch = pause == "last_batch" and trainer.global_step == 3
        trainer.validation_follows = pause == "validation_follows" and trainer.global_step == 3
        written += [trainer.global_step] * writes(trainer.last, callback.on_train_batch_end, trainer)
    assert written == expected


def test_last_is_written_after_validation_and_at_the_end(trainer):
    callback = CheckpointFiles()
    assert writes(trainer.last, validate, callback, trainer, 1.0)
    assert writes(trainer.last, callback.on_train_end, trainer)


def test_while_gradients_are_gathered_a_validation_writes_best_and_the_next_step_last(trainer):
    callback = CheckpointFiles(every_n_train_steps=100)
    trainer.accumulating = True
    assert not writes(trainer.last, validate, callback, trainer, 1.0) and trainer.best.exists()
    trainer.global_step += 1
    assert writes(trainer.last, callback.on_train_batch_end, trainer)


def test_a_run_that_max_steps_ends_in_the_middle_of_an_epoch_keeps_what_the_last_step_wrote(trainer):
    callback = CheckpointFiles(every_n_train_steps=100)
    trainer.max_steps = trainer.global_step = 7
    assert writes(trainer.last, callback.on_train_batch_end, trainer)
    assert not writes(trainer.last, callback.on_train_end, trainer)
    trainer.is_last_batch = True
    assert writes(trainer.last, callback.on_train_end, trainer)


def test_a_run_without_a_best_checkpoint_of_its_own_writes_one_however_good_the_other_run_was(trainer):
    callback = CheckpointFiles()
    callback.load_state_dict({"best_mse": 0.1})
    callback.on_train_start(trainer)
    validate(callback, trainer, 0.7)
    assert trainer.best.exists()
    callback.load_state_dict({"best_mse": 0.1})
    callback.on_train_start(trainer)
    assert callback.best_mse == 0.1


def test_a_save_that_fails_leaves_the_previous_file(trainer):
    def full(path, weights_only):
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    trainer.last.write_text("before")
    trainer.save_checkpoint = full
    with pytest.raises(UserError, match=r"last\.ckpt cannot be written at step 0: No space left on device\. Make room"):
        CheckpointFiles().on_train_end(trainer)
    assert [file.read_text() for file in trainer.last.parent.iterdir()] == ["before"]


def test_checkpoints_are_written_beside_their_place_and_nowhere_else(run, monkeypatch):
    def small(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "TMPDIR")

    monkeypatch.setattr(tempfile, "mkstemp", small)
    left, mine = run / "checkpoints" / ".last.ckpt.17.part", run / "checkpoints" / "film.part"
    left.write_text("by a process that was killed")
    mine.touch()
    go_on(run, "trainer.max_epochs=2")
    assert not left.exists() and mine.exists()


def test_a_checkpoint_knows_whether_it_is_the_best_of_its_run(tiny_run, tmp_path):
    last = tiny_run / "checkpoints/last.ckpt"
    assert load_checkpoint(last).best_epoch == load_checkpoint(tiny_run / "checkpoints/best.ckpt").best_epoch == 1
    torch.save(content_of(last) | {"global_step": 99}, tmp_path / "later.ckpt")
    assert load_checkpoint(tmp_path / "later.ckpt").best_epoch is None


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the tiny run, to go on with."""
    return shutil.copytree(tiny_run, tmp_path / "run")


def go_on(run, *overrides):
    """Goes on from last.ckpt; returns its content then, and metrics.json."""
    last = run / "checkpoints/last.ckpt"
    call("train", f"ckpt_path={last}", *overrides)
    return content_of(last), json.loads((run / "metrics.json").read_text())


def test_training_goes_on_in_the_same_folder(run, capsys):
    first_config = (run / ".hydra/overrides.yaml").read_text()
    before = content_of(run / "checkpoints/last.ckpt")
    after, metrics = go_on(run, "trainer.max_epochs=2")
    assert "was made by other code" not in capsys.readouterr().err
    assert load_checkpoint(run / "checkpoints/last.ckpt").epoch == 2
    # Adam has counted on from where it was: no fresh start with as many epochs
    assert after["global_step"] == 2 * before["global_step"]
    assert after["optimizer_states"][0]["state"][0]["step"] == after["global_step"]
    assert (run / ".hydra/overrides.yaml").read_text() == first_config
    assert metrics["model"] == "informer" and metrics["data"] == "demo" and metrics["pred_len"] == 5


@pytest.mark.slow
def test_going_on_from_another_runs_checkpoint_copy_makes_a_new_folder(tiny_run, tmp_path, monkeypatch):
    lone = shutil.copy(tiny_run / "checkpoints/last.ckpt", tmp_path / "lone.ckpt")
    monkeypatch.chdir(tmp_path)
    call("train", f"ckpt_path={lone}", "trainer.max_epochs=2")
    (folder,) = (tmp_path / "outputs").glob("*/*")
    assert (folder / "checkpoints/best.ckpt").exists()


@pytest.mark.slow
def test_going_on_refuses_another_model_or_other_data_and_accepts_what_is_so(run, capsys):
    message = refusal(capsys, "train", f"ckpt_path={run}/checkpoints/last.ckpt", "seq_len=23", "model=informer2020")
    assert "seq_len=23" in message and "informer2020" in message
    go_on(run, "seq_len=19", "model=informer", "trainer.max_epochs=2")


@pytest.mark.slow
def test_patience_can_be_changed_when_training_goes_on(run):
    content, _ = go_on(run, "trainer.max_epochs=2", "callbacks.early_stopping.patience=7")
    assert [state["patience"] for name, state in content["callbacks"].items() if "EarlyStop" in name] == [7]


def test_a_finished_run_that_goes_on_without_more_epochs_has_the_same_figures_and_the_cost_of_all_its_legs(
    run, metrics
):
    _, again = go_on(run)
    assert again["test"] == metrics["test"]
    assert again["cost"]["train_seconds"] == pytest.approx(metrics["cost"]["train_seconds"], rel=0.2)
    assert again["cost"]["train_samples_per_second"] > 0


def test_the_schedule_gives_the_authors_six_rates(tmp_path):
    """Set after each epoch, so the first two epochs have the full rate."""
    rates = []

    class Recording(ForecastModule):
        def on_train_epoch_start(self):
            rates.append(self.optimizers().param_groups[0]["lr"])

        def training_step(self, batch):
            return self.model(batch).sum()

    optimizer = partial(torch.optim.Adam, lr=1e-4)
    module = Recording(torch.nn.Linear(3, 2), optimizer=optimizer, schedule=halve_each_epoch, record={})
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)
    quiet |= {"accelerator": "cpu", "default_root_dir": tmp_path, "limit_val_batches": 0}
    loader = torch.utils.data.DataLoader(torch.ones(2, 3))
    with quiet_lightning():
        pl.Trainer(max_epochs=6, **quiet).fit(module, loader, loader)
    assert rates == pytest.approx([1e-4, 1e-4, 5e-5, 2.5e-5, 1.25e-5, 6.25e-6])


def test_the_error_that_chooses_best_also_ends_the_training(tmp_path, monkeypatch):
    """The MAE of the second epoch is the least, while the MSE goes on falling."""
    errors = iter([(9.0, 5.0), (8.0, 4.0), (7.0, 6.0), (6.0, 7.0)])

    def log_next(module):
        for name, error in zip(("mse", "mae"), next(errors), strict=True):
            module.log(f"val/{name}_scaled", torch.tensor(error))
        module.validation_errors = None

    monkeypatch.setattr(ForecastModule, "on_validation_epoch_end", log_next)
    few = ["data.rows=400", "trainer.limit_train_batches=2", "trainer.max_epochs=4"]
    by_mae = ["callbacks.checkpoint.monitor=mae", "callbacks.early_stopping.patience=1"]
    call("train", *BRIEF, *few, *by_mae, f"hydra.run.dir={tmp_path}")
    best, last = (load_checkpoint(tmp_path / f"checkpoints/{name}.ckpt") for name in ("best", "last"))
    assert (best.epoch, last.epoch) == (2, 3)
