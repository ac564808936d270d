"""What every attention must obey, whatever it is."""

from pathlib import Path

import pytest
import torch
from attention.cases import CASES
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from forecast.attention.key_sampling import DENSE_KEYS

B, H, Q, K, E = 2, 3, 11, 13, 5
BOTH = pytest.mark.parametrize("causal", [False, True], ids=["plain", "causal"])


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def law(request):
    return request.param


def qkv(n_queries=Q, n_keys=Q, *, batch=B, heads=H, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = (n_queries, n_keys, n_keys)
    return [torch.randn(batch, heads, n, E, generator=generator, dtype=torch.float64).to(dtype) for n in lengths]


def made(factory, causal=False):
    return factory(causal=causal, layer=0).eval()


def fix_rows(mechanism, rows):
    """Takes the choice of rows away from a mechanism that makes one, so that the rest can be tested by itself."""
    mechanism.selected = lambda q, k: rows.expand(*q.shape[:2], -1)
    return mechanism


def dense(q, k, v, allowed):
    """softmax(q k^T / sqrt(E)) v over the allowed keys, one row at a time: slow and plain."""
    out = torch.empty(*q.shape[:3], v.shape[-1], dtype=q.dtype)
    for i in range(q.shape[2]):
        keys = allowed[i].nonzero()[:, 0]
        scores = (q[:, :, i : i + 1] * k[:, :, keys]).sum(-1) / q.shape[-1] ** 0.5
        out[:, :, i] = (torch.softmax(scores, -1).unsqueeze(-1) * v[:, :, keys]).sum(2)
    return out


def test_cases_configs_and_mechanism_files_are_the_same_list():
    root = Path(__file__).parents[2]
    configs = {file.stem for file in (root / "conf/attention").glob("*.yaml")} - {"inherit"}
    files = {file.stem for file in (root / "forecast/attention").glob("*.py")}
    assert configs == {case.name for case in CASES}
    assert configs == files - {"__init__", "base", "key_sampling"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_dtype_are_those_of_the_queries(law, dtype):
    q, k, v = qkv(Q, K, dtype=dtype)
    out = made(law.make)(q, k, v)
    assert out.shape == (B, H, Q, E)
    assert out.dtype == dtype


@BOTH
def test_a_batch_item_sees_no_other(law, causal):
    q, k, v = qkv()
    whole = made(law.make, causal)(q, k, v)
    alone = made(law.make, causal)(q[1:], k[1:], v[1:])
    torch.testing.assert_close(whole[1:], alone)


@BOTH
def test_a_head_sees_no_other(law, causal):
    q, k, v = qkv()
    whole = made(law.make, causal)(q, k, v)
    alone = made(law.make, causal)(q[:, 2:], k[:, 2:], v[:, 2:])
    torch.testing.assert_close(whole[:, 2:], alone)


def test_a_causal_step_ignores_the_future(law):
    q, k, v = qkv()
    mechanism = made(law.make, causal=True)
    if law.selects:  # the exception: *which* rows are active does depend on later steps
        fix_rows(mechanism, torch.tensor([2, 5, 9]))
    early = mechanism(q, k, v)[:, :, :7]
    for x in (q, k, v):
        x[:, :, 7:] += 1.0
    torch.testing.assert_close(mechanism(q, k, v)[:, :, :7], early, rtol=0, atol=0)


@BOTH
def test_equal_evaluation_calls_give_equal_results_whatever_was_drawn_before(law, causal):
    q, k, v = qkv()
    mechanism = made(law.make, causal)
    first = mechanism(q, k, v)
    torch.rand(3)
    torch.testing.assert_close(mechanism(q, k, v), first, rtol=0, atol=0)
    torch.testing.assert_close(made(law.make, causal)(q, k, v), first, rtol=0, atol=0)


@BOTH
def test_at_its_dense_limit_it_equals_full_attention(law, causal):
    q, k, v = qkv(dtype=torch.float64)
    allowed = torch.ones(Q, Q, dtype=torch.bool).tril() if causal else torch.ones(Q, Q, dtype=torch.bool)
    torch.testing.assert_close(made(law.make_dense, causal)(q, k, v), dense(q, k, v, allowed))


@pytest.mark.parametrize("n_queries, n_keys", [(1, 1), (1, 7), (2, 2), (7, 1), (Q, K), (K, Q)])
def test_any_number_of_queries_and_keys_works(law, n_queries, n_keys):
    q, k, v = qkv(n_queries, n_keys)
    out = made(law.make_dense)(q, k, v)
    torch.testing.assert_close(out, dense(q, k, v, torch.ones(n_queries, n_keys, dtype=torch.bool)))
    assert made(law.make)(q, k, v).isfinite().all()


@BOTH
@pytest.mark.parametrize("batch, heads", [(1, 1), (1, 3), (2, 1)])
def test_one_batch_item_and_one_head_are_no_special_case(law, causal, batch, heads):
    """The squeeze without an axis in five public copies of ProbSparse is silently wrong for one head."""
    q, k, v = qkv()
    whole = made(law.make, causal)(q, k, v)
    part = [x[:batch, :heads] for x in (q, k, v)]
    torch.testing.assert_close(made(law.make, causal)(*part), whole[:batch, :heads])


@BOTH
def test_the_weights_are_what_the_values_are_multiplied_by(law, causal):
    q, k, v = qkv(dtype=torch.float64)
    mechanism = made(law.make, causal)
    weights = mechanism(q, k, torch.eye(Q, dtype=torch.float64).expand(B, H, -1, -1))
    torch.testing.assert_close(weights @ v, mechanism(q, k, v))
    if law.averages:
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, Q, dtype=torch.float64))
    if causal:
        assert (weights.triu(1) == 0).all()


@BOTH
def test_gradients_agree_with_finite_differences(law, causal):
    q, k, v = (x.requires_grad_() for x in qkv(7, 7, batch=1, heads=2, dtype=torch.float64))
    mechanism = made(law.make, causal)
    if law.selects:  # a step of the difference may swap two rows: not differentiable there
        fix_rows(mechanism, torch.tensor([1, 4]))
    assert torch.autograd.gradcheck(mechanism, (q, k, v))


@BOTH
def test_bfloat16_and_large_values_stay_finite(law, causal):
    q, k, v = (x * 100 for x in qkv(dtype=torch.bfloat16))
    assert made(law.make, causal)(q, k, v).isfinite().all()


@BOTH
def test_causal_attention_across_two_sequences_is_refused(law, causal):
    q, k, v = qkv(Q, K)
    if causal:
        with pytest.raises(ValueError, match=f"{Q} queries and {K} keys"):
            made(law.make, causal=True)(q, k, v)
    else:
        made(law.make)(q, k, v)


class LargestTensor(TorchDispatchMode):
    """The most elements of any tensor that an operation gives."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.most = max([getattr(self, "most", 0), *(t.numel() for t in tree_leaves(result) if torch.is_tensor(t))])
        return result


@pytest.mark.parametrize("length", [DENSE_KEYS // 2, DENSE_KEYS + 100])
def test_a_cheap_attention_builds_no_square_of_the_length(law, length):
    if not law.linear:
        pytest.skip("claims no less than L^2")
    q, k, v = qkv(length, length, batch=1, heads=1)
    with LargestTensor() as largest:
        made(law.make, causal=True)(q, k, v)
    assert largest.most <= 512 * min(length, DENSE_KEYS)
