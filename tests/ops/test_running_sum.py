"""Running sums that a GPU computes the same way each time, and that nothing else sums floats along time."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from attention.cases import CASES
from attention.common import LargestTensor
from torch.utils._python_dispatch import TorchDispatchMode

from forecast.ops.window_sums import running_sum

B, H, V = 2, 3, 5
LENGTHS = [1, 2, 3, 4, 7, 8, 9, 31, 64, 97, 1000, 1023, 1024, 1025]
PACKAGE = Path(__file__).parents[2] / "forecast"


def steps(length, dtype=torch.float64, seed=0):
    return torch.randn(B, H, length, V, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("length", LENGTHS)
def test_each_step_is_the_sum_of_the_steps_up_to_it(length):
    x = steps(length)
    total = running_sum(x)
    assert total.dtype == torch.float64
    np.testing.assert_allclose(total.numpy(), np.cumsum(x.numpy(), axis=2), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 5, 8, 13])
def test_its_gradient_is_that_of_the_sums(length):
    x, weight = steps(length).requires_grad_(), steps(length, seed=1)
    (gradient,) = torch.autograd.grad((running_sum(x) * weight).sum(), x)
    later = weight.numpy()[:, :, ::-1].cumsum(2)[:, :, ::-1]  # step t is part of the sums t, t + 1, ..
    np.testing.assert_allclose(gradient.numpy(), later, rtol=1e-12, atol=1e-12)


def test_a_step_of_heads_that_lie_side_by_side_in_memory_is_the_same():
    x = torch.randn(B, 13, H, V, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).transpose(1, 2)
    before = x.clone()
    np.testing.assert_allclose(running_sum(x).numpy(), np.cumsum(x.numpy(), axis=2), rtol=1e-12, atol=1e-12)
    assert torch.equal(x, before)  # it works in place, but not on its argument


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_short_floats_are_summed_in_float32(dtype):
    """Sums of 4096 ones and a half: bfloat16 would stay at 256, float16 overflows at 65504."""
    x = torch.full((1, 1, 4096, 2), 60.5, dtype=dtype)
    total = running_sum(x)
    assert total.dtype == torch.float32
    assert torch.equal(total[0, 0, :, 0], 60.5 * torch.arange(1.0, 4097.0))


def test_it_rounds_no_more_than_a_sum_in_float32_one_after_the_other():
    x = steps(4096, torch.float32)
    exact = np.cumsum(x.double().numpy(), axis=2)
    one_by_one = np.cumsum(x.numpy(), axis=2, dtype=np.float32)
    assert np.abs(running_sum(x).numpy() - exact).max() <= np.abs(one_by_one - exact).max()


def test_no_step_has_a_part_in_an_earlier_sum():
    """Not even times zero: an infinite step would make the sums before it NaN."""
    x = steps(41, torch.float32)
    whole = running_sum(x)
    for first in range(1, 41):
        late = x.clone()
        late[:, :, first:] = torch.inf
        assert torch.equal(running_sum(late)[:, :, :first], whole[:, :, :first])


def test_autocast_does_not_shorten_the_sums():
    x = steps(64, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = running_sum(x)
    assert torch.equal(total, running_sum(x))


def test_no_square_of_the_length_is_built():
    with LargestTensor() as largest:
        running_sum(steps(1025))
    assert largest.most == B * H * V * 1025


# What torch.use_deterministic_algorithms(True) refuses on a GPU, after its docstring in torch 2.6 to 2.13.
REFUSED = re.compile(
    "cumsum|cumprod|logcumsumexp|kthvalue|median|nanmedian|put|histc|bincount|scatter_reduce|max_unpool[23]d|"
    "(avg_pool3d|_adaptive_avg_pool[23]d|adaptive_max_pool2d|fractional_max_pool[23]d|max_pool3d_with_indices|"
    "reflection_pad[123]d|upsample_(linear1d|bilinear2d|bicubic2d|trilinear3d)|grid_sampler_[23]d|"
    "_ctc_loss|_embedding_bag_dense)_backward|nll_loss2d_(forward|backward)"
)


def refused(name, args):
    """Whether torch refuses the call on a GPU: sums of whole numbers are exact in any order."""
    floats = any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in args)
    return bool(REFUSED.fullmatch(name.rstrip("_"))) and floats


class Deterministic(TorchDispatchMode):
    """Fails where a GPU would under trainer.deterministic=true."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not refused(func.overloadpacket.__name__, args), f"{func} is refused on a GPU"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("call", [lambda x: x.cumsum(0), lambda x: x.kthvalue(2).values, lambda x: x.median(0).values])
def test_the_watch_sees_what_a_gpu_refuses(call):
    with Deterministic(), pytest.raises(AssertionError, match="is refused on a GPU"):
        call(torch.ones(3))
    with Deterministic():
        torch.ones(3).bool().cumsum(0)


FORMS = [
    pytest.param(case, causal, id=f"{case.name}-{'causal' if causal else 'not causal'}")
    for case in CASES
    for causal in (False, True)
    if not (causal and case.circular)  # which has no causal form
]


@pytest.mark.parametrize(("case", "causal"), FORMS)
@pytest.mark.parametrize("length", [23, 601])
def test_no_attention_calls_what_a_gpu_refuses_in_deterministic_mode(case, causal, length):
    q, k, v = (steps(length, torch.float32, seed).requires_grad_() for seed in range(3))
    mechanism = case.make(causal=causal, layer=0).train()
    with Deterministic():
        mechanism(q, k, v).square().sum().backward()
    assert v.grad.isfinite().all()


def test_no_float_is_summed_along_time_by_cumsum():
    """All but one add whole numbers: their sums are the same in any order. `smoothed` adds powers, by NumPy."""
    sums = [
        (file.name, function.name)
        for folder in ("ops", "attention", "layers", "models")
        for file in (PACKAGE / folder).glob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr.rstrip("_") in ("cumsum", "cumprod", "logcumsumexp")
    ]
    named = [("dropout.py", "dropped_places"), ("prob_causal.py", "first_rows")]
    smoothing = [("smoothing.py", "prepared"), ("smoothing.py", "smoothed")]
    assert sorted(sums) == [*named, *smoothing, ("window_sums.py", "run_sums")]
