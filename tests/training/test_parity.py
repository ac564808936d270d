"""The same training step, compiled, in mixed precision, with the optimizer in one pass: the same numbers."""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models import small
from models.test_model_laws import SMALL, inputs, small_model
from program import ONE_COLUMN, call, shapes_unchecked
from torch.nn.functional import cosine_similarity, mse_loss

from forecast.attention.full import FullAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.pattern import DENSE_STEPS
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_informer2020 import Informer2020ProbAttention
from forecast.training.module import fused_keyword

B, L, S, P, C, F = 3, 29, 13, 7, 2, 5
ROOT = Path(__file__).parents[2]
MECHANISMS = {
    "full": FullAttention,
    "prob": functools.partial(ProbAttention, factor=1, key_sampling="per_head"),
    "prob, own keys": functools.partial(ProbAttention, factor=1, key_sampling="per_query"),
    "prob_informer2020": functools.partial(Informer2020ProbAttention, factor=1),
}


def informer(mechanism):
    torch.manual_seed(0)
    lengths = {"n_columns": C, "targets": (0, 1), "n_known": F, "seq_len": L, "label_len": S, "pred_len": P}
    return small.informer({**small.FULL, "mechanism": mechanism}, **lengths, d_ff=17, mix=True).train()


def step(model, pair, *, autocast=False):
    """Forecast, loss and gradients of a step; the draws are those of one seed."""
    generator = torch.Generator().manual_seed(1)
    past, past_known, future_known, future = (
        torch.randn(B, *sizes, generator=generator) for sizes in ((L, C), (L, F), (P, F), (P, C))
    )
    torch.manual_seed(2)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        forecast, truth = pair(past, past_known, future_known, future)
        loss = mse_loss(forecast, truth)
    loss.backward()
    return forecast.detach().float(), torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.fixture
def unchecked():
    """torch.compile cannot look through the shape checks."""
    with shapes_unchecked():
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # torch's own, of a Function with a context
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_compiled_step_gives_the_same_forecast_and_gradients_without_a_break(name):
    model = informer(MECHANISMS[name])
    forecast, gradient = step(model, model.training_outputs)
    torch.compiler.reset()
    compiled = step(model, torch.compile(model.training_outputs, backend="aot_eager", fullgraph=True))
    torch.testing.assert_close(compiled[0], forecast, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(compiled[1], gradient, rtol=1e-4, atol=1e-5)


def breaks(function, *inputs):
    """Where torch.compile leaves its graph: how often, and the reasons."""
    torch.compiler.reset()
    explained = torch._dynamo.explain(function)(*inputs)
    reasons = [str(one.reason) for one in explained.break_reasons]
    return explained.graph_break_count, [reason for reason in reasons if "shapes_once" not in reason]  # the tests' own


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
@pytest.mark.parametrize("causal", [True, False])
def test_logsparse_attention_of_many_steps_is_compiled_without_a_break(causal):
    inputs = (torch.randn(1, 2, DENSE_STEPS + 1, 3, requires_grad=True) for _ in range(3))
    assert breaks(LogSparseAttention(causal=causal, layer=0), *inputs) == (0, [])


# Why these break is in docs/attentions.md, "Faster steps": how often at most, and what a reason names.
BROKEN = {
    "reformer": (7, ("get_rng_state", "requires_grad_()")),
    "sha": (6, ("LSTM",)),
}


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's, after a break
@pytest.mark.parametrize("name", BROKEN)
def test_two_models_break_for_the_reasons_that_are_known_alone(name):
    model = small_model(name, window={"seq_len": 96}).train()
    count, reasons = breaks(model.training_outputs, *inputs(model))
    most, words = BROKEN[name]
    assert 0 < count <= most
    assert reasons and all(any(word in reason for word in words) for reason in reasons), reasons


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_what_they_are_made_of_is_compiled_without_a_break():
    x = torch.randn(2, 96, SMALL["d_model"], requires_grad=True)
    reformer = small_model("reformer", window={"seq_len": 96}).train()
    assert breaks(reformer.layers.layers[0], x, x) == (0, [])  # a layer that nothing reverses
    sha = small_model("sha", window={"seq_len": 96}).train()
    for block in sha.blocks:
        block.addends[0].inner = torch.nn.Identity()  # the LSTM
    assert breaks(sha.training_outputs, *inputs(sha)) == (0, [])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_training_with_compile_ends_with_the_figures_of_training_without(tmp_path):
    few = ["attention=full", "model.dropout=0", "model.encoder_layers=1", "model.decoder_layers=1"]
    words = [*ONE_COLUMN, *few, "trainer.max_steps=3", "trainer.limit_val_batches=1"]
    call("train", *words, f"hydra.run.dir={tmp_path / 'plain'}")
    command = [sys.executable, "train.py", *words, "compile=default", f"hydra.run.dir={tmp_path / 'compiled'}"]
    # it would start a process for each core, each of which imports torch first
    one = os.environ | {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=one, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = [json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("plain", "compiled")]
    plain, compiled = (figure["test"]["scaled"]["mse"] for figure in figures)
    assert compiled == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("name", ["full"])  # bfloat16 scores choose other active rows
def test_a_step_in_mixed_precision_agrees_to_the_digits_of_bfloat16(name):
    model = informer(MECHANISMS[name])
    forecast, gradient = step(model, model.training_outputs)
    mixed = step(model, model.training_outputs, autocast=True)
    torch.testing.assert_close(mixed[0], forecast, rtol=0.05, atol=0.05)
    assert not torch.equal(mixed[0], forecast)
    assert cosine_similarity(mixed[1], gradient, dim=0) > 0.999


def test_an_optimizer_in_one_pass_takes_the_same_steps():
    ends = []
    for may in (False, True):
        torch.manual_seed(3)
        weights = torch.nn.Parameter(torch.randn(5, 3))
        optimizer = functools.partial(torch.optim.Adam, lr=1e-2)
        optimizer = optimizer([weights], **fused_keyword(optimizer, may=may))
        assert bool(optimizer.defaults["fused"]) == may
        for _ in range(7):
            weights.grad = torch.randn(5, 3)
            optimizer.step()
        ends.append(weights.detach())
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "may", "expected"),
    [
        (torch.optim.Adam, True, {"fused": True}),
        (torch.optim.Adam, False, {}),  # Lightning refuses to clip gradients in mixed precision beside it
        (functools.partial(torch.optim.AdamW, fused=False), True, {}),  # the user decides
        (functools.partial(torch.optim.AdamW, fused=None), True, {"fused": True}),
        (torch.optim.LBFGS, True, {}),  # has no such form
    ],
    ids=["has it", "may not", "named", "left open", "has none"],
)
def test_one_pass_is_requested_where_there_is_one_and_the_user_does_not_decide(make, may, expected):
    assert fused_keyword(make, may=may) == expected
