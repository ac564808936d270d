"""What a training is on: the loss that the config names, and the rate and the optimizer that go with it."""

import json
from types import SimpleNamespace

import pytest
import torch
from program import BRIEF, call

from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.training.checkpoint import CheckpointFiles
from forecast.training.module import ForecastModule
from forecast.training.schedule import constant

B, P, T = 3, 5, 2
FORECAST, TRUTH = torch.full((B, P, T), 2.0), torch.zeros(B, P, T)


class Known(torch.nn.Module):
    """Forecasts 2 where the truth is 0."""

    def training_outputs(self, *_):
        return FORECAST, TRUTH


@pytest.mark.parametrize(
    ("loss", "name", "value"),
    [
        (None, "train/mse_scaled", 4.0),
        (torch.nn.MSELoss(), "train/mse_scaled", 4.0),
        (torch.nn.L1Loss(), "train/loss_scaled", 2.0),
        (torch.nn.HuberLoss(delta=0.5), "train/loss_scaled", 0.5 * (2.0 - 0.25)),
    ],
)
def test_the_module_trains_on_its_loss_and_logs_it_by_a_name_that_is_true(loss, name, value):
    module = ForecastModule(Known(), optimizer=torch.optim.Adam, schedule=constant, record={}, loss=loss)
    module._trainer = SimpleNamespace(datamodule=None)
    logged = {}
    module.log = lambda name, value, **_: logged.update({name: float(value)})
    batch = Batch(*(TRUTH for _ in range(5)))
    assert float(module.training_step(batch)) == value
    assert logged == {name: value}


L, C = 4, 3


class OfThePast(torch.nn.Module):
    """Forecasts 0 for each step of a window but the first, all columns."""

    def training_outputs(self, past, _, __, future):
        truth = torch.cat([past[:, 1:], future], dim=1)
        return torch.zeros_like(truth, requires_grad=True), truth


@pytest.mark.parametrize(("loss", "power"), [(None, 2), (torch.nn.L1Loss(), 1)])
def test_cells_of_the_past_that_nobody_measured_count_in_no_loss(loss, power):
    module = ForecastModule(OfThePast(), optimizer=torch.optim.Adam, schedule=constant, record={}, loss=loss)
    module._trainer, module.log = SimpleNamespace(datamodule=None), lambda *_, **__: None
    draws = torch.Generator().manual_seed(0)
    window, learnt = torch.randn(B, L + P, C, generator=draws), torch.rand(B, L + P, C, generator=draws) > 0.3
    measured = learnt[:, L:, :T]
    batch = Batch(window[:, :L], TRUTH, TRUTH, window[:, L:, :T], window[:, L:], None, measured, learnt)
    cells = [
        abs(float(window[b, row, c])) ** power
        for b in range(B)
        for row in range(1, L + P)
        for c in range(C)
        if learnt[b, row, c]
    ]
    assert float(module.training_step(batch).detach()) == pytest.approx(sum(cells) / len(cells), rel=1e-6)
    with pytest.raises(
        UserError, match=r"some cells were filled in, and the model learns rows of its own, \(3, 8, 3\)"
    ):
        module.training_step(batch._replace(learnt=None))


def trained(folder, *changes):
    """The weights and the metrics of a few steps."""
    call("train", *BRIEF, "trainer.limit_train_batches=3", *changes, f"hydra.run.dir={folder}")
    weights = torch.load(folder / "checkpoints/best.ckpt", weights_only=True)["state_dict"]
    return weights, json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain") / "run")


@pytest.mark.parametrize("rows", [62, 73])
def test_two_batches_make_the_gradient_of_one_twice_as_large_also_at_the_end_of_an_epoch(rows, tmp_path):
    """Of 20 windows the third batch, of 4, is alone; of 28 it is followed by a smaller one."""
    # neither statistics of a batch nor draws: a window's gradient does not depend on those beside it
    same = ["model=transformer", "model.dropout=0", "optim=sgd", "optim.lr=0.1", f"data.rows={rows}"]
    same += ["trainer.limit_train_batches=1.0", "trainer.max_epochs=1"]
    whole, _ = trained(tmp_path / "whole", *same, "data.batch_size=16")
    parts, _ = trained(tmp_path / "parts", *same, "data.batch_size=8", "trainer.accumulate_grad_batches=2")
    for name, weight in whole.items():
        torch.testing.assert_close(parts[name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("monitor", "error"), [("mse", 9.0), ("mae", 3.0)])
def test_a_plateau_goes_by_the_error_that_chooses_the_best_checkpoint(monitor, error):
    module = ForecastModule(Known(), optimizer=torch.optim.Adam, schedule=constant, record={})
    callbacks = [CheckpointFiles(monitor=monitor)]
    module._trainer = SimpleNamespace(world_size=1, sanity_checking=False, checkpoint_callbacks=callbacks)
    steps = []
    module.plateau, module.log = SimpleNamespace(step=steps.append), lambda *_, **__: None
    module.forward = lambda *_: TRUTH + 3.0
    module.validation_step(Batch(*(TRUTH for _ in range(5))))
    module.on_validation_epoch_end()
    assert steps == [error]


CHANGES = [
    *("loss=mae", "loss=huber loss.delta=0.1", "optim=adamw optim.weight_decay=0.5", "optim=sgd"),
    *("schedule=cosine", "schedule=warmup_cosine schedule.warmup=0.9"),
]


@pytest.mark.parametrize("changes", [CHANGES[0], *(pytest.param(c, marks=pytest.mark.slow) for c in CHANGES[1:])])
def test_each_of_these_keys_changes_the_weights(changes, tmp_path, plain):
    weights, metrics = trained(tmp_path, *changes.split())
    before, metrics_before = plain
    assert weights.keys() == before.keys()
    assert any(not torch.equal(weights[name], before[name]) for name in before)
    assert metrics["test"]["scaled"].keys() == metrics_before["test"]["scaled"].keys()  # MSE and MAE, as ever
    config = torch.load(tmp_path / "checkpoints/best.ckpt", weights_only=True)["forecast"]["config"]
    assert config["loss"]["_target_"].startswith("torch.nn.")
