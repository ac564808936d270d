"""On a GPU: the same forecasts as on a CPU, the same figures each time.

Where there is none, what needs no more than a device runs on the CPU, so that it stays right; the rest is skipped.
"""

import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from attention.cases import CASES
from data.csv_files import series_frame
from models.inputs import batch
from models.small import FULL, PROB, WINDOW, informer
from models.test_model_laws import MODELS, inputs, small_model
from program import TINY, call

from forecast.data.prepare import prepare
from forecast.data.windows import Batch
from forecast.evaluation.baselines import fit_baselines
from forecast.evaluation.evaluate import Protocol, evaluate
from forecast.training.compiled import CudaGraphs, RecordedStep
from forecast.training.datamodule import EpochOrder, TrainBatches, WindowLoader
from forecast.training.throughput import Throughput

GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_gpu = pytest.mark.skipif(GPU.type == "cpu", reason="there is no GPU here")
TINY_GPU = [*(change for change in TINY if not change.startswith("trainer.accelerator")), "trainer=gpu"]


@pytest.mark.parametrize("slot", [FULL, PROB], ids=["full", "prob"])
def test_a_forecast_on_the_gpu_is_that_of_the_cpu(slot):
    model = informer(slot).eval()
    expected = model(*batch())
    actual = model.to(GPU)(*(part.to(GPU) for part in batch())).cpu()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@needs_gpu
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
    if case.make(causal=False, layer=0).refusal(cross=False, cached=False, causal=causal):
        pytest.skip("it has no causal form")
    mechanism = case.make(causal=causal, layer=0).eval()
    actual = mechanism.to(GPU)(q.to(GPU), k.to(GPU), v.to(GPU)).cpu()
    # rounding may swap two rows, keys or buckets that are nearly equal
    wrong = (actual - mechanism.cpu()(q, k, v)).abs().amax(-1) > 1e-4
    assert wrong.float().mean() < 0.01


@pytest.mark.parametrize("model", MODELS)
def test_every_model_trains_and_forecasts_on_the_gpu_by_operations_that_torch_calls_deterministic(model):
    built = small_model(model).to(GPU)
    *known, future = (part.to(GPU) for part in inputs(built))
    torch.use_deterministic_algorithms(True)
    try:
        forecast, truth = built.train().training_outputs(*known, future)
        torch.nn.functional.mse_loss(forecast, truth).backward()
    finally:
        torch.use_deterministic_algorithms(False)
    learned = [p for p in built.parameters() if p.requires_grad]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learned)
    assert built.eval()(*known).isfinite().all()


@needs_gpu
@pytest.mark.parametrize("compiled", ["none", "null"])
@pytest.mark.parametrize("attention", ["full", "prob", "prob_causal", "prob_informer2020", "lsh"])
def test_a_resumed_run_ends_with_the_same_bits_on_a_gpu_too(tmp_path, attention, compiled):
    exact = [*TINY_GPU, "model.dropout=0.1", f"attention={attention}", "trainer.deterministic=true"]
    exact += ["attention@model.cross_attention=full"] * (attention == "lsh") + [f"compile={compiled}"]
    exact += ["trainer.max_epochs=2", "callbacks.checkpoint.every_n_train_steps=4"]
    call("train", *exact, f"hydra.run.dir={tmp_path}/whole")
    call("train", *exact, "trainer.max_steps=8", f"hydra.run.dir={tmp_path}/part")
    call("train", f"ckpt_path={tmp_path}/part/checkpoints/last.ckpt", "trainer.max_steps=-1")
    whole, part = (
        torch.load(tmp_path / f"{run}/checkpoints/last.ckpt", weights_only=True) for run in ("whole", "part")
    )
    assert whole["global_step"] == part["global_step"]
    assert all(torch.equal(value, part["state_dict"][name]) for name, value in whole["state_dict"].items())


@needs_gpu
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_recorded_training_ends_with_the_bits_of_one_that_runs_as_it_is(tmp_path, precision):
    exact = [*TINY_GPU, "model.dropout=0.1", "trainer.deterministic=true", f"trainer.precision={precision}"]
    for compiled in ("none", "null"):
        call(
            "train",
            *exact,
            f"compile={compiled}",
            "trainer.gradient_clip_val=0.1",
            f"hydra.run.dir={tmp_path}/{compiled}",
        )
    plain, recorded = (torch.load(tmp_path / f"{run}/checkpoints/last.ckpt") for run in ("none", "null"))
    assert recorded["forecast"]["config"]["compile"] == "graphs"
    assert all(torch.equal(value, recorded["state_dict"][name]) for name, value in plain["state_dict"].items())


@needs_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
@pytest.mark.parametrize("model", MODELS)
def test_recorded_steps_of_every_model_end_with_the_weights_of_plain_ones(model):
    ends, reasons = [], []
    for is_recorded in (False, True):
        built = small_model(model, dropout=0.0).to(GPU).train()
        optimizer = torch.optim.Adam(built.parameters(), lr=1e-3, fused=True, capturable=True)

        def step(batch, built=built, optimizer=optimizer):
            optimizer.zero_grad()
            outputs = built.training_outputs(batch.past, batch.past_known, batch.future_known, batch.future)
            loss = torch.nn.functional.mse_loss(*outputs)
            loss.backward()
            optimizer.step()
            return loss.detach()

        taken = RecordedStep(step, built, CudaGraphs(GPU), reasons.append) if is_recorded else step
        torch.manual_seed(5)
        for seed in range(6):
            *known, future = (part.to(GPU) for part in inputs(built, seed=seed))
            taken(Batch(*known, future, future))
        ends.append([*built.state_dict().values()])
    assert reasons == []
    for actual, expected in zip(*ends, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


@needs_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("compiled", ["none", "null"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_no_training_step_waits_for_the_gpu(tmp_path, monkeypatch, precision, compiled):
    start, end = Throughput.on_train_batch_start, Throughput.on_train_batch_end
    seen = []

    def started(throughput, trainer, *rest):
        start(throughput, trainer, *rest)
        if trainer.global_step > 4 and not trainer.is_last_batch:  # the first are recorded; the last tells the loss
            seen.append(trainer.global_step)
            torch.cuda.set_sync_debug_mode("error")

    def ended(throughput, *rest):
        torch.cuda.set_sync_debug_mode("default")
        end(throughput, *rest)

    monkeypatch.setattr(Throughput, "on_train_batch_start", started)
    monkeypatch.setattr(Throughput, "on_train_batch_end", ended)
    few = [f"trainer.precision={precision}", f"compile={compiled}", "trainer.log_every_n_steps=50"]
    call("train", *TINY_GPU, *few, f"hydra.run.dir={tmp_path}/run")
    assert len(seen) > 3


def windows_of(targets=(0, 1, 2), file=None):
    """A data set that fits the small model. file: that is mapped in place of the values in memory."""
    values = np.random.default_rng(0).normal(size=(331, WINDOW["n_columns"])).cumsum(0)
    frame = series_frame(values, pd.date_range("2020-01-01", periods=331, freq="h"), ("a", "b", "c"), "h", "test")
    if file is not None:
        values.tofile(file)
        frame = replace(frame, values=np.memmap(file, dtype=np.float64, mode="r", shape=values.shape))
    splits = {"train": range(211), "val": range(211, 271), "test": range(271, 331)}
    lengths = {"seq_len": WINDOW["seq_len"], "pred_len": WINDOW["pred_len"]}
    return prepare(frame, splits=splits, targets=targets, encoding="timeF", **lengths)


@needs_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("targets", [(0, 1, 2), (2, 0)])
def test_the_batches_of_an_epoch_on_the_gpu_are_those_of_the_cpu_and_nobody_waits_for_them(tmp_path, mapped, targets):
    data = windows_of(targets, tmp_path / "values" if mapped else None)
    placed = data.on(GPU)
    assert placed.windows("train").home.type == ("cpu" if mapped else "cuda")
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
        for x, y in zip(one, other, strict=True):
            assert (x is y is None) or (x.is_cuda and torch.equal(x.cpu(), y))


def test_an_evaluation_on_the_gpu_agrees_with_that_on_the_cpu():
    data, model = windows_of(), informer().eval()
    common = {"split": "test", "protocol": Protocol(), "fitted": fit_baselines(data), "batch_size": 64}
    here = evaluate(model, data, device=torch.device("cpu"), **common)
    there = evaluate(model.to(GPU), data, device=GPU, **common)
    assert len(here.squared) > 3  # the baselines too
    for name, errors in here.squared.items():
        np.testing.assert_allclose(there.squared[name], errors, rtol=1e-4, atol=1e-5)


@needs_gpu
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
