"""compile=: where a step can be recorded or compiled, and for which batches."""

import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelSummary
from models.test_model_laws import inputs, small_model
from program import BRIEF, call

from forecast.data.windows import Batch
from forecast.training.compiled import FasterOutputs, RecordedStep, eager_reason, rates_on_gpu
from forecast.training.module import fused_keyword
from forecast.training.stopping import StopOnNonFinite


def test_compile_graphs_on_a_processor_trains_as_it_is_and_says_so(tmp_path):
    call("train", *BRIEF, "compile=graphs", f"hydra.run.dir={tmp_path}/run")
    line = "compile=graphs: training steps are not recorded: the training runs on a CPU. They run as they are."
    assert line in (tmp_path / "run/train.log").read_text()


class Looks(Callback):
    """A callback that looks at gradients."""

    def on_after_backward(self, *_):
        pass


def a_trainer(**changes):
    settings = {"strategy": SimpleNamespace(root_device=torch.device("cuda")), "world_size": 1, "precision": "32-true"}
    return SimpleNamespace(**settings | {"accumulate_grad_batches": 1, "callbacks": []} | changes)


@pytest.mark.parametrize(
    ("changes", "optimizer", "why"),
    [
        ({}, "Adam", ""),
        ({"callbacks": [StopOnNonFinite(), ModelSummary()]}, "AdamW", ""),
        ({"world_size": 2}, "Adam", "the training runs in 2 processes"),
        ({"accumulate_grad_batches": 3}, "Adam", "trainer.accumulate_grad_batches=3 adds gradients of several"),
        ({"precision": "16-mixed"}, "Adam", "trainer.precision=16-mixed reads a scale after each"),
        ({"callbacks": [Looks()]}, "Adam", "Looks looks into each"),
        ({}, "SGD", "SGD has no form for it"),
        ({}, "RMSprop", "RMSprop has no form for it"),
    ],
)
def test_a_training_says_why_its_steps_cannot_be_recorded(changes, optimizer, why):
    make = getattr(torch.optim, optimizer)
    some = make([torch.nn.Parameter(torch.ones(2))], lr=0.1, **fused_keyword(make, may=True))
    assert eager_reason(a_trainer(**changes), some) == why


class Repeated:
    """In place of CUDA graphs: a recorded step is run again by the sample that it was recorded with."""

    def __init__(self, *, fails=False):
        self.fails, self.strict, self.kinds = fails, False, []

    def run(self, step, *, strict):
        self.strict = strict
        try:
            loss = step()
        finally:
            self.strict = False
        self.kinds.append("tried" if strict else "run")
        return loss

    def record(self, step):
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.kinds.append("recorded")
        loss = torch.zeros(())

        def replay():
            self.kinds.append("replayed")
            loss.copy_(step())

        return replay, loss


class Linear(torch.nn.Module):
    """Adam on a linear map. before: called in each step."""

    def __init__(self, before):
        super().__init__()
        self.before = before
        self.map = torch.nn.Linear(3, 2)
        self.register_buffer("steps", torch.zeros(()))
        self.optimizer = torch.optim.Adam(self.map.parameters(), lr=0.1, **fused_keyword(torch.optim.Adam, may=True))

    def step(self, batch):
        self.steps += 1
        self.optimizer.zero_grad()
        noise = self.before()
        loss = (self.map(batch.past) - batch.target + noise).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def trained(recorder=None, before=lambda: 0.0):
    """Losses, weights and the reasons after batches of some sizes; recorder None: each step as it is."""
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    model, reasons, losses = Linear(before), [], []
    step = model.step if recorder is None else RecordedStep(model.step, model, recorder, reasons.append)
    for number, size in enumerate([7, 7, 7, 7, 7, 5, 7, 11, 11, 11, 11, 7]):
        values = torch.Generator().manual_seed(number)
        past, target = (torch.randn(size, 1, n, generator=values) for n in (3, 2))
        losses.append(step(Batch(past, past, past, target, target)).clone())
    return [*losses, *model.state_dict().values()], reasons


def test_a_recorded_training_has_the_steps_of_one_that_runs_as_it_is():
    recorder = Repeated()
    actual, reasons = trained(recorder)
    assert all(map(torch.equal, actual, trained()[0])) and reasons == []
    of_seven = ["run", "run", "tried", "recorded", "replayed", "replayed", "replayed"]
    assert recorder.kinds == [*of_seven, "run", "run", "tried", "recorded", "replayed"]


DRAWS = {"torch": partial(torch.rand, 1), "numpy": np.random.random, "python": random.random}


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("fails", "operation not permitted when stream is capturing"),
        ("waits", "called a synchronizing CUDA operation"),
        *((draw, "it draws from a generator of the processor") for draw in DRAWS),
    ],
)
def test_what_cannot_be_recorded_trains_as_it_is_and_says_why_once(fault, why):
    recorder = Repeated(fails=fault == "fails")

    def waiting():
        noise = torch.rand(1)
        if recorder.strict:
            raise RuntimeError("called a synchronizing CUDA operation\nand more")
        return noise

    before = DRAWS.get(fault, waiting if fault == "waits" else lambda: 0.0)
    actual, reasons = trained(recorder, before)
    assert all(map(torch.equal, actual, trained(before=before)[0])) and reasons == [why]


@pytest.mark.parametrize(
    "words",
    [["loss=quantile"], ["trainer.precision=bf16-mixed", "trainer.gradient_clip_val=0.01"]],
    ids=lambda words: words[0],
)
def test_a_training_of_whole_steps_ends_with_the_bits_of_lightnings(tmp_path, monkeypatch, words):
    recorder = Repeated()
    exact = [*BRIEF, *words, "attention=full", "model.dropout=0", "trainer.max_epochs=2"]
    call("train", *exact, f"hydra.run.dir={tmp_path}/plain")
    monkeypatch.setattr("forecast.training.module.eager_reason", lambda *_: "")
    monkeypatch.setattr("forecast.training.module.CudaGraphs", lambda _: recorder)
    call("train", *exact, "compile=graphs", "trainer.max_steps=5", f"hydra.run.dir={tmp_path}/whole")
    call("train", f"ckpt_path={tmp_path}/whole/checkpoints/last.ckpt", "trainer.max_steps=-1")
    assert recorder.kinds.count("recorded") == 2 and recorder.kinds.count("replayed") > 2
    plain, whole = (torch.load(tmp_path / run / "checkpoints/last.ckpt") for run in ("plain", "whole"))
    assert plain["global_step"] == whole["global_step"]
    assert all(map(torch.equal, plain["state_dict"].values(), whole["state_dict"].values()))
    assert str(plain["optimizer_states"][0]["param_groups"]) == str(whole["optimizer_states"][0]["param_groups"])


def test_rates_are_tensors_inside_a_step_alone():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer, rate = torch.optim.Adam([weight], lr=0.25, fused=True), torch.zeros(())
    with rates_on_gpu(optimizer, [rate]):
        inside = optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["capturable"]
    assert inside == (rate, True) and float(rate) == 0.25
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["capturable"]) == (0.25, False)


def test_batches_of_the_largest_size_alone_are_compiled_and_a_smaller_one_runs_as_it_is(monkeypatch):
    model, compiled, sizes = small_model("nlinear").train(), [], []

    def compile_outputs(outputs, *, mode, dynamic):
        compiled.append((mode, dynamic))

        def fast(*batch):
            sizes.append(len(batch[0]))
            return outputs(*batch)

        return fast

    monkeypatch.setattr(torch, "compile", compile_outputs)
    faster = FasterOutputs(model, "default")
    for size in (3, 7, 7, 5, 7):  # a run that goes on begins with what is left of an epoch
        batch = inputs(model, seed=size, batch=size)
        for actual, expected in zip(faster(*batch), model.training_outputs(*batch), strict=True):
            assert torch.equal(actual, expected)
    assert sizes == [3, 7, 7, 7] and compiled == [("default", False)] * 2
