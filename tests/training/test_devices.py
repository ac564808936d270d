"""Batches, errors, evaluation and forecasts on another device than the CPU: its numbers, and nothing mixed."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from devices import CPU, META, WAITS, other_device
from lightning.pytorch.plugins.precision import Precision
from models.small import WINDOW, informer

from forecast.data.prepare import prepare
from forecast.evaluation import blocks as offsetting
from forecast.evaluation import evaluate as evaluating
from forecast.evaluation.baselines import fit_baselines
from forecast.evaluation.blocks import baseline_metrics, offset_metrics, split_metrics
from forecast.evaluation.evaluate import Protocol, evaluate
from forecast.evaluation.predict import Continuation
from forecast.training.datamodule import ForecastDataModule
from forecast.training.module import ForecastModule
from forecast.training.stopping import StopOnNonFinite

N, L, P = 127, WINDOW["seq_len"], WINDOW["pred_len"]
SPLITS = {"train": range(67), "val": range(67, 97), "test": range(97, N)}
FILLED = np.zeros((N, 3), bool)
FILLED[31] = True  # one row that gaps of the policy mask leave out of all windows


@pytest.fixture(autouse=True)
def without_inference_mode(monkeypatch):
    """It forbids the other device to take operations apart."""
    for module in (evaluating, offsetting):
        monkeypatch.setattr(module, "score", torch.no_grad()(evaluating.score.__wrapped__))
    monkeypatch.setattr(Continuation, "_ends", torch.no_grad()(Continuation._ends.__wrapped__))


@pytest.fixture(params=[(0, 1, 2), (2, 0)], ids=["all targets", "two in another order"])
def data(request):
    values = np.random.default_rng(0).normal(size=(N, WINDOW["n_columns"])).cumsum(0)
    stamps = pd.date_range("2020-01-01", periods=N, freq="h")
    frame = series_frame(values, stamps, ("a", "b", "c"), "h", "test", missing=FILLED)
    return prepare(frame, splits=SPLITS, targets=request.param, seq_len=L, pred_len=P, encoding="timeF")


def model_for(data):
    torch.manual_seed(2)
    return informer(targets=data.targets, dropout=0.1).eval()


def evaluated(data, weight, device):
    model, protocol = model_for(data).to(device), Protocol(horizon_offsets=(3,))
    options = {"batch_size": 32, "device": device, "split": "test", "protocol": protocol}
    done = evaluate(model, data, fitted=weight, **options)
    offsets = offset_metrics(model, data.on(device), **options)
    baselines = {"baselines": baseline_metrics(done.baselines, data, done.naive)}
    return done, {**offsets, **split_metrics(done, data, "test"), **baselines}


def close(actual, expected):
    """Nested dictionaries of numbers, and arrays."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            close(actual[key], expected[key])
    elif expected is None or isinstance(expected, list):
        assert actual == expected
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_an_evaluation_there_gives_the_figures_of_the_cpu(data):
    weight = fit_baselines(data)
    here, figures_here = evaluated(data, weight, CPU)
    with other_device():
        there, figures_there = evaluated(data, weight, META)
    for name in ("start", "squared", "absolute", "measured"):
        close(getattr(there.windows, name), getattr(here.windows, name))
    for name in ("origins", "forecasts"):
        close(getattr(there, name), getattr(here, name))
    close(figures_there, figures_here)


def test_a_forecast_there_is_that_of_the_cpu(data):
    frame = series_frame(data.frame.values, data.frame.timestamps(0), data.frame.columns, data.frame.freq, "my.csv")
    sizes = {"targets": data.targets, "seq_len": L, "pred_len": P, "encoding": "timeF"}
    of = partial(Continuation, frame=frame, scales=lambda _: data.scaler, **sizes)
    expected = of(model=model_for(data), device=CPU).some([0])
    with other_device():
        actual = of(model=model_for(data).to(META), device=META).some([0])
    close(actual.values, expected.values)


def trained(data, device, world):
    """The losses of an epoch and the validation that follows, of the first of `world` processes."""
    module = ForecastModule(model_for(data).to(device), optimizer=torch.optim.SGD, schedule=lambda _: 1.0, record={})
    batches = ForecastDataModule(data, batch_size=7, seed=5)
    strategy = SimpleNamespace(root_device=device, reduce=lambda sums, reduce_op: sums * world)
    trainer = {"strategy": strategy, "overfit_batches": 0, "global_rank": 0, "world_size": world, "datamodule": batches}
    module._trainer = batches.trainer = SimpleNamespace(
        **trainer,
        gradient_clip_val=None,
        precision="32-true",
        accumulate_grad_batches=1,
        is_last_batch=True,  # whose loss is told
        num_training_batches=len(data.windows("train")),
    )
    logged = []
    module.log = lambda name, value, **_: logged.append(value.detach())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for batch in batches.train_dataloader():
        optimizer.zero_grad()
        module.eval().training_step(batch).backward()  # without dropout, whose draws are each device's own
        optimizer.step()
    with torch.no_grad():
        for batch in batches.val_dataloader():
            module.validation_step(batch)
    module.on_validation_epoch_end()
    return torch.stack([value.double().cpu() for value in logged]), len(batches.origins_of_step())


@pytest.mark.parametrize("world", [1, 2])
def test_an_epoch_and_its_validation_there_have_the_errors_of_the_cpu(data, world):
    expected, size = trained(data, CPU, world)
    with other_device():
        actual, size_there = trained(data, META, world)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5)
    assert size == size_there


def after_whole_steps(data, device):
    """The weights after a few whole steps with a check and a clipping, on the device."""
    torch.manual_seed(2)
    model = informer(targets=data.targets).to(device).train()
    module = ForecastModule(model, optimizer=torch.optim.SGD, schedule=lambda _: 1.0, record={})
    optimizer, batches = torch.optim.SGD(module.parameters(), lr=0.01), ForecastDataModule(data, batch_size=7, seed=5)
    module._trainer = batches.trainer = SimpleNamespace(
        strategy=SimpleNamespace(root_device=device),
        overfit_batches=0,
        global_rank=0,
        world_size=1,
        optimizers=[optimizer],
        precision="32-true",
        precision_plugin=Precision(),
        gradient_clip_val=0.1,
        gradient_clip_algorithm="norm",
    )
    module.guard, loader = StopOnNonFinite(every=50), iter(batches.train_dataloader())
    taken = [next(loader) for _ in range(3)]
    waits = len(WAITS)
    torch.manual_seed(3)
    for batch in taken:
        module.whole_step(batch)
    found = WAITS[waits:]
    return [weight.detach().cpu() for weight in module.parameters()], found


def test_a_whole_step_there_waits_for_nothing_so_that_it_can_be_recorded(data):
    expected, _ = after_whole_steps(data, CPU)
    with other_device():
        actual, waits = after_whole_steps(data, META)
    assert waits == []
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
