"""Attention in plain NumPy, float64: what every mechanism is tested against. Slow where slow is plain."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def softmax(scores: Array) -> Array:
    """Along the last axis; a row of nothing but -inf becomes zeros."""
    highest = scores.max(-1, keepdims=True)
    # for a row of nothing but -inf: -inf less -inf would be NaN
    exp = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
    total = exp.sum(-1, keepdims=True)
    return np.divide(exp, total, out=np.zeros_like(exp), where=total > 0)


def attention_weights(q: Array, k: Array, allowed: Mask | None = None, *, scale: float | None = None) -> Array:
    """softmax(scale q k^T) over the allowed keys; scale None: 1 / sqrt(E).

    q (..., Q, E), k (..., K, E), allowed broadcastable to (..., Q, K), True = may attend, None = all  ->  (..., Q, K).
    A query that may attend to nothing has weights of zero.
    """
    scores = q @ np.swapaxes(k, -2, -1) * (1.0 / np.sqrt(q.shape[-1]) if scale is None else scale)
    return softmax(scores if allowed is None else np.where(allowed, scores, -np.inf))


def attention(q: Array, k: Array, v: Array, allowed: Mask | None = None, *, scale: float | None = None) -> Array:
    """Scaled dot-product attention (..., Q, E), (..., K, E), (..., K, V) -> (..., Q, V), over allowed keys."""
    return attention_weights(q, k, allowed, scale=scale) @ v


def causal_mask(length: int) -> Mask:
    """(L, L), True on and below the diagonal."""
    return np.tril(np.ones((length, length), dtype=np.bool_))


def multi_head_attention(
    x: Array,
    memory: Array,
    *,
    weights: tuple[Array, Array, Array, Array],
    biases: tuple[Array, Array, Array, Array],
    n_heads: int,
    allowed: Mask | None = None,
) -> Array:
    """Multi-head attention of x (B, Q, D) to memory (B, K, D), x itself in self-attention -> (B, Q, D).

    weights (D, D) and biases (D,) of query, key, value and output, as torch's Linear holds them: y = x W^T + b.
    Head h works on the h-th run of D / H columns; all heads are computed at once.
    """

    def split(y: Array) -> Array:
        return y.reshape(*y.shape[:2], n_heads, -1).swapaxes(1, 2)  # (B, H, L, E)

    inputs = (x, memory, memory)
    q, k, v = (split(y @ w.T + b) for y, w, b in zip(inputs, weights[:3], biases[:3], strict=True))
    heads = attention(q, k, v, allowed)
    merged = heads.swapaxes(1, 2).reshape(x.shape)
    return merged @ weights[3].T + biases[3]


def finite_difference(function: Callable[[Array], float], at: Array, *, step: float = 1e-6) -> Array:
    """The gradient of a scalar function by central differences, one element of `at` after the other; its shape."""
    gradient = np.empty_like(at)
    for index in np.ndindex(at.shape):
        above, below = at.copy(), at.copy()
        above[index] += step
        below[index] -= step
        gradient[index] = (function(above) - function(below)) / (2 * step)
    return gradient
