"""What the weights of LSH attention must be: each round as a dense matrix in plain NumPy."""

import numpy as np
import torch

from forecast.attention import reference


def dense_allowed(causal, length):
    """Everything but itself, or the steps before; the first step of the causal form, or a lone one, sees itself."""
    allowed = reference.causal_mask(length) if causal else np.ones((length, length), dtype=bool)
    allowed &= ~np.eye(length, dtype=bool)
    allowed[0, 0] = causal or length == 1
    return allowed


def chunk_of_each_step(buckets, bucket):
    """One round of one head: the bucket of each step -> the chunk of each, and how many chunks there are."""
    length = len(buckets)
    order = sorted(range(length), key=lambda step: (buckets[step], step))
    n_chunks = 2 * int(np.ceil(length / (2 * bucket)))  # the pads come last: they change no step's place
    return np.argsort(order) // bucket, n_chunks


def others(buckets, bucket, causal):
    """One round of one head: which other steps each step may see, (L, L)."""
    chunk, n_chunks = chunk_of_each_step(buckets, bucket)
    allowed = np.zeros((len(chunk), len(chunk)), dtype=bool)
    for i, j in np.ndindex(allowed.shape):
        allowed[i, j] = chunk[j] in (chunk[i], (chunk[i] - 1) % n_chunks) and (j < i if causal else j != i)
    return allowed


def weights(mechanism, q, k):
    """Rounds in which a row sees others are mixed by the sum of their exponentials; one that sees none sees itself."""
    buckets = mechanism.buckets(torch.from_numpy(k)).numpy()  # (B, H, R, L)
    length = q.shape[2]
    result = np.zeros((*q.shape[:2], length, length))
    for b, h in np.ndindex(q.shape[:2]):
        exp = np.exp(q[b, h] @ k[b, h].T / np.sqrt(q.shape[-1]))
        bucket = mechanism.chunk_steps(length)
        # a pair that meets in several rounds counts in each: all rounds share one denominator
        meetings = sum(others(one, bucket, mechanism.causal).astype(float) for one in buckets[b, h])
        meetings[meetings.sum(-1) == 0] = np.eye(length)[meetings.sum(-1) == 0]
        result[b, h] = meetings * exp / (meetings * exp).sum(-1, keepdims=True)
    return result
