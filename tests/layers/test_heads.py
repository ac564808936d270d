"""Heads are split and merged by position."""

import torch

from forecast.layers.heads import merge_heads, mix_heads, split_heads

B, H, L, E = 2, 3, 5, 7


def test_a_head_takes_its_own_run_of_columns():
    x = torch.arange(B * L * H * E).reshape(B, L, H * E).float()
    heads = split_heads(x, H)
    assert heads.shape == (B, H, L, E)
    assert torch.equal(heads[:, 1], x[:, :, E : 2 * E])


def test_merging_undoes_splitting():
    x = torch.randn(B, L, H * E)
    assert torch.equal(merge_heads(split_heads(x, H)), x)


def test_mixing_puts_consecutive_steps_of_one_head_into_a_row():
    """Row r holds the flat slots rH .. rH + H - 1 of the (head, step) order."""
    heads = torch.randn(B, H, L, E)
    mixed = mix_heads(heads)
    assert mixed.shape == (B, L, H * E)
    for row in range(L):
        for place in range(H):
            head, step = divmod(row * H + place, L)
            assert torch.equal(mixed[:, row, place * E : (place + 1) * E], heads[:, head, step])
