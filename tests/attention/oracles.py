"""What each attention's weights must be, from its paper's rule in plain NumPy: slow loops over dense matrices.

oracle(mechanism, q, k) -> weights (B, H, Q, K); q (B, H, Q, E), k (B, H, K, E) are NumPy float64. Its sizes,
whether it is causal and its random draws are read from the mechanism.
"""

import numpy as np
import torch

from forecast.attention import reference


def everything(n_queries, n_keys):
    return np.ones((n_queries, n_keys), dtype=bool)


def all_or_past(mechanism, q, k):
    """What may be seen at all: (Q, K)."""
    return reference.causal_mask(q.shape[2]) if mechanism.causal else everything(q.shape[2], k.shape[2])


def full(mechanism, q, k):
    return reference.attention_weights(q, k, all_or_past(mechanism, q, k))


def none(mechanism, q, k):
    """Each step sees itself alone."""
    return np.broadcast_to(np.eye(q.shape[2]), (*q.shape[:3], k.shape[2]))


def mean(mechanism, q, k):
    allowed = all_or_past(mechanism, q, k)
    return np.broadcast_to(allowed / allowed.sum(-1, keepdims=True), (*q.shape[:3], k.shape[2]))


def topk(mechanism, q, k):
    allowed = np.broadcast_to(all_or_past(mechanism, q, k), (*q.shape[:3], k.shape[2])).copy()
    scores = q @ k.swapaxes(-2, -1)
    for b, h, i in np.ndindex(q.shape[:3]):
        seen = np.sort(scores[b, h, i][allowed[b, h, i]])[::-1]
        allowed[b, h, i] &= scores[b, h, i] >= seen[: mechanism.k][-1]
    return reference.attention_weights(q, k, allowed)


def autocorrelation(mechanism, q, k):
    """Each delay by its sum over all steps, without a Fourier transform; row t sees step t + delay, in a circle."""
    length, n_keys = q.shape[2], k.shape[2]
    padded = np.zeros_like(q)
    padded[:, :, :n_keys] = k[:, :, :length]
    weights = np.zeros((*q.shape[:3], max(length, n_keys)))
    for b, h in np.ndindex(q.shape[:2]):
        alike = np.array([(q[b, h] * np.roll(padded[b, h], d, axis=0)).sum(0).mean() for d in range(length)])
        delays = np.argsort(-alike)[: max(1, int(mechanism.factor * np.log(length)))]
        for d, share in zip(delays, reference.softmax(alike[delays]), strict=True):
            for t in range(length):
                weights[b, h, t, (t + d) % length] += share
    return weights[..., :n_keys]  # a zero behind the last key is no key


def prob(mechanism, q, k):
    """The rows that the mechanism selects are those of full attention; others are the mean of what they may see."""
    allowed = all_or_past(mechanism, q, k)
    weights = np.broadcast_to(allowed / allowed.sum(-1, keepdims=True), (*q.shape[:3], k.shape[2])).copy()
    return _with_active_rows(mechanism, q, k, weights)


def prob_informer2020(mechanism, q, k):
    """The same with the sum of the past instead of its mean when causal."""
    if not mechanism.causal:
        return prob(mechanism, q, k)
    weights = np.broadcast_to(reference.causal_mask(q.shape[2]), (*q.shape[:3], k.shape[2])).astype(float)
    return _with_active_rows(mechanism, q, k, weights)


def _with_active_rows(mechanism, q, k, weights):
    attended = full(mechanism, q, k)
    active = mechanism.selected(torch.from_numpy(q), torch.from_numpy(k)).numpy()
    for b, h in np.ndindex(q.shape[:2]):
        weights[b, h, active[b, h]] = attended[b, h, active[b, h]]
    return weights
