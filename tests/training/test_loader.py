"""The batches of an epoch: the right ones, without a copy from the host for each; how long they took; their errors."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from copies import Copies
from data.csv_files import series_frame
from lightning.fabric.utilities.data import _set_sampler_epoch

from forecast.data.prepare import prepare
from forecast.training import datamodule as loading
from forecast.training.datamodule import EpochOrder, ForecastDataModule, TrainBatches, WindowLoader
from forecast.training.module import ForecastModule

N, C, L, P, B = 149, 2, 7, 3, 5
WINDOWS = 97 - L - P + 1
SPLITS = {"train": range(97), "val": range(97, 127), "test": range(127, N)}
META = torch.device("meta")


@pytest.fixture
def data():
    values = np.random.default_rng(0).normal(size=(N, C))
    frame = series_frame(values, pd.date_range("2020-01-01", periods=N, freq="h"), ("a", "b"), "h", "test")
    return prepare(frame, splits=SPLITS, targets=(0, 1), seq_len=L, pred_len=P, encoding="timeF")


@pytest.fixture
def windows(data):
    return data.windows("train")


def batches_of(**changes):
    return TrainBatches(EpochOrder(WINDOWS, seed=3), batch_size=B, **changes)


def equal(batch, other):
    return all(torch.equal(x, y) for x, y in zip(batch[:5], other[:5], strict=True))


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("block_bytes", [1, 2000, 2**20])
def test_the_batches_are_those_of_the_order_however_many_are_gathered_at_once(windows, monkeypatch, world, block_bytes):
    monkeypatch.setattr(loading, "BLOCK_BYTES", block_bytes)
    for rank in range(world):
        loader = WindowLoader(windows, batches_of(rank=rank, world=world))
        shares = batches_of(rank=rank, world=world).batch_indices(torch.device("cpu"))
        batches = list(loader)
        assert len(batches) == len(loader) == len(shares)
        assert all(equal(batch, windows.__getitems__(share)) for batch, share in zip(batches, shares, strict=True))


def test_lightning_sets_the_epoch_whose_order_is_taken(windows):
    loader = WindowLoader(windows, batches_of())
    epochs = []
    for epoch in (0, 1, 0):
        started = iter(loader)  # Lightning asks for the iterator before it sets the epoch
        _set_sampler_epoch(loader, epoch)
        epochs.append(torch.cat([batch.past for batch in started]))
    assert torch.equal(epochs[0], epochs[2]) and not torch.equal(epochs[0], epochs[1])


def test_the_position_counts_what_was_handed_out_and_a_resumed_epoch_continues_there(windows):
    batches, resumed = batches_of(), batches_of()
    handed_out = iter(WindowLoader(windows, batches))
    for step in range(15):
        next(handed_out)
        assert batches.position == {"epoch": 0, "batches": step + 1}
    resumed.start = batches.position
    whole, rest = (list(WindowLoader(windows, b)) for b in (batches_of(), resumed))
    assert len(rest) == len(whole) - 15 == 3
    assert all(equal(batch, other) for batch, other in zip(rest, whole[15:], strict=True))


@pytest.mark.parametrize("targets", [(0, 1), (1, 0)])
def test_an_epoch_on_a_device_copies_the_order_there_and_gathers_with_few_operations(data, windows, targets):
    data = prepare(data.frame, splits=SPLITS, targets=targets, seq_len=L, pred_len=P, encoding="timeF").on(META)
    loader = WindowLoader(data.windows("train"), batches_of())
    with Copies() as copies:
        batches = list(loader)
    assert copies.seen == ["meta"]
    assert {part.device.type for batch in batches for part in batch[:5]} == {"meta"}
    with Copies() as copies:
        count = len(list(WindowLoader(windows, batches_of())))
    assert (count, copies.gathered) == (18, 2)  # whole batches, and the smaller last one


def datamodule_on(device, data, *, overfit_batches=0):
    module = ForecastDataModule(data, batch_size=B, seed=3)
    strategy = SimpleNamespace(root_device=device)
    module.trainer = SimpleNamespace(strategy=strategy, overfit_batches=overfit_batches, global_rank=0, world_size=1)
    return module


def test_training_and_validation_share_one_series_on_the_device_that_trains(data):
    module = datamodule_on(META, data)
    with Copies() as copies:
        train, val = module.train_dataloader(), module.val_dataloader()
    assert copies.seen[0] == "meta" and train.windows._table is val.windows._table
    assert train.windows.home == val.windows.home == META
    module.teardown("fit")
    assert module.device_data is None


def test_overfitting_takes_the_first_windows_in_order_in_every_epoch(data, windows):
    loader = datamodule_on(torch.device("cpu"), data, overfit_batches=2).train_dataloader()
    first, second = itertools.islice(loader, 2)
    assert equal(first, windows.__getitems__(range(B)))
    assert equal(second, windows.__getitems__(range(B, 2 * B)))
    assert equal(first, next(iter(loader)))


def test_waited_is_how_long_the_last_batch_took_to_come_and_not_how_long_it_was_used(windows):
    now = [0.0]
    gather = windows.in_batches

    def slow(*arguments):
        now[0] += 7.0
        return gather(*arguments)

    windows.in_batches = slow
    loader = WindowLoader(windows, batches_of(), clock=lambda: now[0])
    waited = []
    for _ in loader:
        waited.append(loader.waited)
        now[0] += 100.0  # the step
    assert waited == [7.0, *[0.0] * 16, 7.0]  # the first 17 are gathered at once, the smaller last one alone


def test_validations_do_not_change_the_order_of_training(data):
    epochs = []
    for validations in (0, 3):
        module = ForecastDataModule(data, batch_size=B, seed=1)
        for epoch in range(2):
            module.order.set_epoch(epoch)
            epochs.append(torch.cat([batch.past for batch in module.train_dataloader()]))
            for _ in range(validations):
                list(module.val_dataloader())
    assert torch.equal(epochs[1], epochs[3]) and not torch.equal(epochs[0], epochs[1])


def test_the_validation_error_is_the_mean_over_all_windows_steps_and_columns(data):
    class Zero(torch.nn.Module):
        def forward(self, past, past_known, future_known):
            return torch.zeros(len(past), P, 2)

    module = ForecastModule(Zero(), optimizer=torch.optim.Adam, schedule=lambda epoch: 1.0, record={})
    module.trainer = SimpleNamespace(world_size=1)
    logged = {}
    module.log = lambda name, value, **_: logged.update({name: float(value)})
    for batch in ForecastDataModule(data, batch_size=B, seed=1).val_dataloader():  # the last batch is smaller
        module.validation_step(batch)
    module.on_validation_epoch_end()
    windows = data.windows("val")
    target = windows.__getitems__(range(len(windows))).target.double()
    assert logged["val/mse_scaled"] == pytest.approx(target.square().mean().item())
    assert logged["val/mae_scaled"] == pytest.approx(target.abs().mean().item())
