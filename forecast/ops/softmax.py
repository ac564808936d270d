"""Scaled dot-product attention, by whichever of two equal forms the machine runs faster."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.ops.dropout import drop_alike, eager_on_cpu, recomputed

# On a CPU in bfloat16 torch's fused form is slower than three products up to about so many scores a head; beyond, these
# take more memory than they save time (docs/experiments.md, "Speed").
FEW_SCORES = 2**18


def attend(
    q: Float[Tensor, "B H Q E"],
    k: Float[Tensor, "B H K E"],
    v: Float[Tensor, "B H K V"],
    *,
    allowed: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float,
    scale: float | None = None,
) -> Float[Tensor, "B H Q V"]:
    """softmax(scale q k^T) v over the allowed keys.

    q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V). allowed: which keys a query sees, broadcast to
    (B, H, Q, K); None is all. The row of a query that sees none is finite, but without meaning. causal: instead
    of `allowed`, for as many queries as keys: each sees the keys up to its own step. dropout: share of dropped weights.
    scale: of the scores; None: 1 / sqrt(E).
    """
    if in_three_products(q, k, dropout):
        if causal:
            allowed = causal_rows(q.shape[2], k.shape[2], q.device)
        weights = softmax_weights(q, k, allowed, scale)
        # the softmax keeps its own result: the dropped weights are made from it again, by the same places
        drop = drop_alike(weights, dropout, training=dropout > 0)
        dropped = drop(weights).to(v.dtype)
        with recomputed(dropped, lambda: drop(weights.detach()).to(v.dtype)):
            return dropped @ v
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=causal, dropout_p=dropout, scale=scale)


def causal_rows(n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "Q K"]:
    """Which keys the last Q of K steps may see: (Q, K), row i those up to step K - Q + i."""
    steps = torch.arange(n_keys, device=device)
    return steps <= steps[n_keys - n_queries :].unsqueeze(1)


def in_three_products(q: Tensor, k: Tensor, dropout: float) -> bool:
    """Whether all scores are made at once. With dropout torch makes them, too, and draws a number for each."""
    # the sizes come last: in an exported program they are not known
    return eager_on_cpu(q) and (dropout > 0 or (q.dtype == torch.bfloat16 and q.shape[2] * k.shape[2] <= FEW_SCORES))


def softmax_weights(q: Tensor, k: Tensor, allowed: Tensor | None, scale: float | None) -> Tensor:
    """The weights (B, H, Q, K), in float32 at least."""
    scores = q @ k.transpose(-2, -1)
    # the lowest number and not -inf where hidden: a row that sees nothing stays finite, and so do all gradients
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    scores = scores / math.sqrt(q.shape[-1]) if scale is None else scores * scale
    return (scores if allowed is None else scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)).softmax(-1)
