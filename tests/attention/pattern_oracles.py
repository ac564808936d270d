"""Which cells (step, key) the static patterns see, by loops over their papers' rules; their weights in plain NumPy."""

import math

import numpy as np

from forecast.attention import reference
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.strided import StridedAttention


def logsparse_row(i, length, sub_len, window):
    log = math.ceil(math.log2(sub_len))
    if i < length // sub_len * 2 * window:
        return set(range(i + 1))
    seen, anchor = set(), i
    while anchor >= 0:
        edge = anchor - window + 1
        if edge < 0:
            return seen | set(range(anchor + 1))
        seen |= set(range(edge, anchor + 1))
        far = {edge - 2**n for n in range(log)}
        seen |= {j for j in far if j >= 0 and anchor - j <= sub_len}
        anchor -= sub_len
    return seen


def logsparse_cells(length, *, causal, sub_len=None, window=None):
    sub_len = sub_len or length
    window = window or max(1, math.ceil(math.log2(sub_len)))
    cells = {(i, j) for i in range(length) for j in logsparse_row(i, length, sub_len, window)}
    return cells if causal else cells | {(j, i) for i, j in cells}


def pairs(length, causal):
    return [(i, j) for i in range(length) for j in range(length) if not causal or j <= i]


def strided_cells(length, *, causal, window=None):
    """The local and the distant part."""
    window = window or math.ceil(math.sqrt(length))
    local = {(i, j) for i, j in pairs(length, causal) if abs(i - j) <= window - 1}
    return local, {(i, j) for i, j in pairs(length, causal) if (i - j) % window == 0}


def fixed_cells(length, *, causal, block=None, summary=None):
    """The local and the distant part."""
    block = block or math.ceil(math.sqrt(length))
    summary = summary or min(4, max(1, block // 8))
    ends = range(block - summary, block)
    local = {(i, j) for i, j in pairs(length, causal) if i // block == j // block}
    return local, {(i, j) for i, j in pairs(length, causal) if j % block in ends or i == j}


def as_mask(cells, length):
    mask = np.zeros((length, length), dtype=bool)
    mask[tuple(zip(*cells, strict=True))] = True
    return mask


def allowed(mechanism, n_heads, length):
    """What each head sees: (H, L, L)."""
    if isinstance(mechanism, LogSparseAttention):
        sizes = {"sub_len": mechanism.sub_len, "window": mechanism.window}
        mask = as_mask(logsparse_cells(length, causal=mechanism.causal, **sizes), length)
        return np.broadcast_to(mask, (n_heads, length, length))
    if isinstance(mechanism, StridedAttention):
        parts = strided_cells(length, causal=mechanism.causal, window=mechanism.window)
    else:
        parts = fixed_cells(length, causal=mechanism.causal, block=mechanism.block, summary=mechanism.summary)
    local, distant = (as_mask(cells, length) for cells in parts)
    if mechanism.heads == "merged":
        return np.broadcast_to(local | distant, (n_heads, length, length))
    return np.repeat([local, distant], n_heads // 2, axis=0)


def weights(mechanism, q, k):
    return reference.attention_weights(q, k, allowed(mechanism, *q.shape[1:3]))
