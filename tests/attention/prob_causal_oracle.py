"""What the weights of causal ProbSparse attention must be: its rule as a plain loop over the rows."""

import math

import numpy as np
import torch
from attention import oracles


def active_count(length, factor):
    return max(1, min(factor * math.ceil(math.log(length)), length))


def active_rows(measure, factor, budget):
    """One head: the measure of each row -> the active rows, in the order of time."""
    length = len(measure)
    active = []
    for i in range(length):
        stronger = sum(measure[j] >= measure[i] for j in range(i))
        if stronger < active_count(i + 1, factor) and len(active) < budget * active_count(length, factor):
            active.append(i)
    return active


def measures(mechanism, q, k):
    """Maximum less mean over the sampled keys up to the row's own step, -inf without one: (B, H, Q)."""
    length = q.shape[2]
    sample = mechanism.sampler(length, length, active_count(length, mechanism.factor), torch.device("cpu")).numpy()
    measure = np.full(q.shape[:3], -np.inf)
    for b, h, i in np.ndindex(measure.shape):
        scores = [q[b, h, i] @ k[b, h, j] for j in sample[i] if j <= i]
        if scores:
            measure[b, h, i] = max(scores) - sum(scores) / len(scores)
    return measure


def weights(mechanism, q, k):
    if not mechanism.causal:
        return oracles.prob(mechanism, q, k)
    attended, past = oracles.full(mechanism, q, k), oracles.all_or_past(mechanism, q, k)
    result = np.broadcast_to(past / past.sum(-1, keepdims=True), attended.shape).copy()
    measure = measures(mechanism, q, k)
    for b, h in np.ndindex(q.shape[:2]):
        active = active_rows(measure[b, h], mechanism.factor, mechanism.budget)
        result[b, h, active] = attended[b, h, active]
    return result
