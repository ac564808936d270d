"""Numerics below attention: dropout, rows, running sums, softmax attention, recomputation."""
