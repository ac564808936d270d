"""What a training step and a validation see and log."""

import types

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data.frame import SeriesFrame
from forecast.data.prepare import prepare
from forecast.training.datamodule import ForecastDataModule
from forecast.training.module import ForecastModule

N, L, P = 97, 7, 3


@pytest.fixture
def data():
    values = np.random.default_rng(0).normal(size=(N, 2))
    frame = SeriesFrame(values, pd.date_range("2020-01-01", periods=N, freq="h"), ("a", "b"), "h", "test")
    splits = {"train": range(61), "val": range(61, 80), "test": range(80, N)}
    return prepare(frame, splits=splits, targets=(0, 1), seq_len=L, pred_len=P, encoding="timeF")


def order(data, *, validations):
    module = ForecastDataModule(data, batch_size=5, seed=1)
    epochs = []
    for epoch in range(2):
        module.order.set_epoch(epoch)
        epochs.append(torch.cat([batch.past for batch in module.train_dataloader()]))
        for _ in range(validations):
            list(module.val_dataloader())
    return epochs


def test_validations_do_not_change_the_order_of_training(data):
    without, with_three = order(data, validations=0), order(data, validations=3)
    assert torch.equal(without[1], with_three[1])
    assert not torch.equal(without[0], without[1])


def test_the_validation_error_is_the_mean_over_all_windows_steps_and_columns(data):
    class Zero(torch.nn.Module):
        def forward(self, past, past_known, future_known):
            return torch.zeros(len(past), P, 2)

    module = ForecastModule(Zero(), optimizer=torch.optim.Adam, schedule=lambda epoch: 1.0, record={})
    module.trainer = types.SimpleNamespace(world_size=1)
    logged = {}
    module.log = lambda name, value, **_: logged.update({name: float(value)})
    module.on_validation_epoch_start()
    for batch in ForecastDataModule(data, batch_size=5, seed=1).val_dataloader():  # the last batch is smaller
        module.validation_step(batch)
    module.on_validation_epoch_end()
    windows = data.windows("val")
    target = windows.__getitems__(range(len(windows))).target.double()
    assert logged["val/mse_scaled"] == pytest.approx(target.square().mean().item())
    assert logged["val/mae_scaled"] == pytest.approx(target.abs().mean().item())
