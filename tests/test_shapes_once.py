"""What has passed is not checked again; all else is, with the words of jaxtyping."""

from collections.abc import Sequence
from typing import Literal

import jaxtyping
import pytest
import shapes_once
import torch
from beartype import beartype
from jaxtyping import Float
from shapes_once import jaxtyped_once
from torch import Tensor

from forecast.attention.full import FullAttention

X, OTHER = torch.zeros(2, 3), torch.zeros(5, 3)


def decorated(function):
    return jaxtyped_once(typechecker=beartype)(function)


@decorated
def transposed(x: Float[Tensor, "B D"], to: Literal["result", "itself"]) -> Float[Tensor, "D B"]:
    return x.T if to == "result" else x


@decorated
def summed(parts: Sequence[Float[Tensor, "B D"]], more: int | None = None) -> Float[Tensor, "B D"]:
    return sum(parts)


def test_a_wrong_argument_is_refused_also_after_right_ones():
    for x in (X, OTHER, X):
        assert transposed(x, "result").shape == x.shape[::-1]
    for wrong in (X[0], X.long(), X[None], X.numpy(), None):
        with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of .*transposed"):
            transposed(wrong, "result")
    with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of .*transposed"):
        transposed(X, "elsewhere")


def test_a_wrong_result_is_refused_also_for_arguments_that_have_passed():
    switched = iter([X.T, X, X.T])

    @decorated
    def next_one(x: Float[Tensor, "B D"]) -> Float[Tensor, "D B"]:
        return next(switched)

    assert next_one(X) is not None
    with pytest.raises(jaxtyping.TypeCheckError, match=r"return value of .*next_one"):
        next_one(X)
    assert next_one(X) is not None


def test_tensors_in_lists_and_named_arguments_are_looked_at():
    summed([X, X])
    summed(parts=[X, X], more=3)
    for wrong in ({"parts": [X[0], X[0]]}, {"parts": [X, X], "more": "3"}):
        with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of .*summed"):
            summed(**wrong)


def test_a_call_within_a_call_and_one_that_fails_leave_nothing_behind():
    @decorated
    def nested(x: Float[Tensor, "B D"], depth: int) -> Float[Tensor, "B D"]:
        return nested(x, depth - 1) if depth else x * (1 // depth)

    with pytest.raises(ZeroDivisionError):
        nested(X, 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        nested(X[0], 3)
    assert shapes_once._checks[nested.__wrapped__.__code__].calls == []


def test_the_program_is_checked_so():
    q, k, v = torch.zeros(2, 2, 5, 7), torch.zeros(2, 2, 3, 7), torch.zeros(2, 2, 3, 7)
    attention = FullAttention(causal=False, layer=0)
    assert attention(q, k, v).shape == q.shape
    with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of .*FullAttention.forward"):
        attention(q, k.transpose(1, 2), v)
