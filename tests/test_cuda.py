"""On a GPU: the same forecasts as on a CPU, the same figures each time. Skipped where there is none."""

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch
from attention.cases import CASES
from models.inputs import batch
from models.small import FULL, PROB, WINDOW, informer
from models.test_model_laws import MODELS, inputs, small_model
from program import TINY, call

from forecast.data.frame import SeriesFrame
from forecast.data.prepare import prepare
from forecast.evaluation.baselines import fit_baselines
from forecast.evaluation.evaluate import Protocol, evaluate
from forecast.training.loader import WindowLoader
from forecast.training.samplers import EpochOrder, TrainBatches
from forecast.training.throughput import Throughput

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

TINY_GPU = [*(change for change in TINY if not change.startswith("trainer.accelerator")), "trainer=gpu"]


@pytest.mark.parametrize("slot", [FULL, PROB], ids=["full", "prob"])
def test_a_forecast_on_the_gpu_is_that_of_the_cpu(slot):
    model = informer(slot).eval()
    expected = model(*batch())
    actual = model.cuda()(*(part.cuda() for part in batch())).cpu()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_on_the_gpu_is_evaluated_alike_by_every_command_and_batch_size(tmp_path, precision):
    call("train", *TINY_GPU, f"trainer.precision={precision}", f"hydra.run.dir={tmp_path}/run")
    trained = json.loads((tmp_path / "run/metrics.json").read_text())
    assert trained["cost"]["device"] == "cuda"
    for size in (7, 64):
        best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
        call("evaluate", best, f"data.batch_size={size}", "device=cuda", f"hydra.run.dir={tmp_path}/{size}")
        assert json.loads((tmp_path / f"{size}/metrics.json").read_text())["test"] == trained["test"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("causal", [False, True])
def test_an_attention_on_the_gpu_is_that_of_the_cpu(case, causal):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 601, 8, generator=generator) for _ in range(3))
    mechanism = case.make(causal=causal, layer=0).eval()
    actual = mechanism.cuda()(q.cuda(), k.cuda(), v.cuda()).cpu()
    # rounding may swap two rows, keys or buckets that are nearly equal
    wrong = (actual - mechanism.cpu()(q, k, v)).abs().amax(-1) > 1e-4
    assert wrong.float().mean() < 0.01


@pytest.mark.parametrize("model", MODELS)
def test_every_model_trains_and_forecasts_on_the_gpu_by_operations_that_torch_calls_deterministic(model):
    built = small_model(model).cuda()
    *known, future = (part.cuda() for part in inputs(built))
    torch.use_deterministic_algorithms(True)
    try:
        forecast, truth = built.train().training_outputs(*known, future)
        torch.nn.functional.mse_loss(forecast, truth).backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in built.parameters())
    assert built.eval()(*known).isfinite().all()


@pytest.mark.parametrize("attention", ["full", "prob", "prob_causal", "prob_informer2020", "lsh"])
def test_a_resumed_run_ends_with_the_same_bits_on_a_gpu_too(tmp_path, attention):
    exact = [*TINY_GPU, "model.dropout=0.1", f"attention={attention}", "trainer.deterministic=true"]
    exact += ["attention@model.cross_attention=full"] * (attention == "lsh")
    exact += ["trainer.max_epochs=2", "callbacks.checkpoint.every_n_train_steps=4"]
    call("train", *exact, f"hydra.run.dir={tmp_path}/whole")
    call("train", *exact, "trainer.max_steps=8", f"hydra.run.dir={tmp_path}/part")
    call("train", f"ckpt_path={tmp_path}/part/checkpoints/last.ckpt", "trainer.max_steps=-1")
    whole, part = (
        torch.load(tmp_path / f"{run}/checkpoints/last.ckpt", weights_only=True) for run in ("whole", "part")
    )
    assert whole["global_step"] == part["global_step"]
    assert all(torch.equal(value, part["state_dict"][name]) for name, value in whole["state_dict"].items())


GPU = torch.device("cuda")


def windows_of(targets=(0, 1, 2)):
    """A data set that fits the small model."""
    values = np.random.default_rng(0).normal(size=(331, WINDOW["n_columns"])).cumsum(0)
    frame = SeriesFrame(values, pd.date_range("2020-01-01", periods=331, freq="h"), ("a", "b", "c"), "h", "test")
    splits = {"train": range(211), "val": range(211, 271), "test": range(271, 331)}
    lengths = {"seq_len": WINDOW["seq_len"], "pred_len": WINDOW["pred_len"]}
    return prepare(frame, splits=splits, targets=targets, encoding="timeF", **lengths)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("targets", [(0, 1, 2), (2, 0)])
def test_the_batches_of_an_epoch_on_the_gpu_are_those_of_the_cpu_and_nobody_waits_for_them(monkeypatch, fits, targets):
    data = windows_of(targets)
    if not fits:
        monkeypatch.setattr("forecast.data.windows.free_bytes", lambda device: 1)
    placed = data.on(GPU)
    assert placed.series.is_cuda is fits
    here, there = (
        WindowLoader(some.windows("train"), TrainBatches(EpochOrder(len(data.windows("train")), seed=5), batch_size=13))
        for some in (data, placed)
    )
    started = iter(there)
    actual = [next(started)]  # moves the order of the epoch
    torch.cuda.set_sync_debug_mode("error")  # whatever makes the program wait for the GPU
    try:
        actual += started
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = list(here)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert all(x.is_cuda and torch.equal(x.cpu(), y) for x, y in zip(one, other, strict=True))


def test_an_evaluation_on_the_gpu_agrees_with_that_on_the_cpu():
    data, model = windows_of(), informer().eval()
    common = {"split": "test", "protocol": Protocol(), "fitted": fit_baselines(data), "batch_size": 64}
    here = evaluate(model, data, device=torch.device("cpu"), **common)
    there = evaluate(model.to(GPU), data, device=GPU, **common)
    np.testing.assert_allclose(there.squared, here.squared, rtol=1e-4, atol=1e-5)
    assert there.starts.tolist() == here.starts.tolist()
    for name, sums in here.baselines.items():
        np.testing.assert_allclose(there.baselines[name].squared, sums.squared, rtol=1e-4, atol=1e-5)


def test_a_gpu_with_work_does_not_count_as_waiting_and_one_without_does():
    factors = torch.randn(2, 4096, 4096, device=GPU)

    def computing(*, work, pause):
        """Seconds that the GPU spent in a step of so many products, `pause` seconds before its first."""
        throughput = Throughput()
        throughput.device = GPU
        torch.cuda.synchronize()
        started = time.perf_counter()
        time.sleep(pause)
        begin = throughput.moment()
        for _ in range(work):
            factors[0] @ factors[1]
        throughput.steps.append((begin, throughput.moment()))
        throughput.on_train_end()
        return throughput.computing, time.perf_counter() - started

    computing(work=3, pause=0.0)
    inside, whole = computing(work=100, pause=0.0)
    assert inside == pytest.approx(whole, rel=0.1)
    inside, whole = computing(work=100, pause=0.2)
    assert inside == pytest.approx(whole - 0.2, rel=0.1)
