"""Attention mechanisms: how queries, keys and values mix over time. One file each; `base` is the contract."""
