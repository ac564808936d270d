"""LSH attention, of the Reformer."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from forecast.attention.base import SeededDraws, SelfMechanism, check_self_lengths, exporting
from forecast.bounds import Positive, Seed, Share
from forecast.ops.autocast import autocast
from forecast.ops.dropout import drop

BLOCK_STEPS = 128  # steps hashed at once
SCORES_AT_ONCE = 2**22  # rounds whose scores are more than that are computed one after the other


class Rotations(SeededDraws):
    """Draws the directions that steps are hashed by: normal numbers, the same for all batch items and heads."""

    def drawn(self, *sizes: int, device: torch.device, generator: Generator | None) -> Float[Tensor, "E R N"]:
        """Directions (E, R, N): N of them in each of R rounds, for vectors of E numbers."""
        return torch.randn(*sizes, device=device, generator=generator)


class LshAttention(SelfMechanism):
    """softmax(q k^T / sqrt(E)) v over the steps whose keys point in a similar direction.

    In each of `n_hashes` rounds a step's key is hashed: its bucket is argmax([k R; -k R]) over random directions R. The
    steps, sorted by (bucket, position), are cut into chunks of `bucket_size` steps; a chunk attends to itself and to
    the chunk before it, the first one to the last. There are as many buckets as chunks. The length is padded to a
    multiple of 2 * bucket_size: the pads sort after all steps, nothing sees them, and their rows are dropped. A step
    attends to itself only where it sees nothing else. The results of the rounds are mixed by the softmax of the
    logsumexp of their scores: a pair that meets in two rounds counts twice.

    Kitaev et al. 2020, "Reformer: The efficient transformer"; one round agrees with reformer-pytorch (66a19b6c;
    tests/golden). There queries and keys are one vector, the key scaled to length one, which is the business of the
    projection (`SharedQueryKeyProjection`): the hash does not see a vector's length, so hashing k hashes q. Differs:
    a first chunk looks back within its round, not into another one; a step is kept from itself by a mask instead of
    -5e4, which eats the digits of the score: a round in which a row sees only itself counts only if it sees only
    itself in every round, the limit of that penalty; pads are masked; equal calls in evaluation draw equal directions.

    Exception to the law of causality: a causal row mixes values of its past alone, but *which* of them share its chunk
    depends on the keys of the whole sequence.

    bucket_size: steps in a chunk, at most as many as the sequence has; None takes `default_bucket` of the length.
    n_hashes: how often the steps are hashed. dropout: share of the attention weights that is dropped in training.
    Costs 2 * n_hashes * L * bucket_size scores and as little memory. The hash adds L / bucket_size products a step and
    round, of which those of `BLOCK_STEPS` steps are kept at once.
    """

    def __init__(
        self,
        *,
        causal: bool,
        layer: int,
        bucket_size: Positive | None = None,
        n_hashes: Positive = 4,
        dropout: Share = 0.0,
        eval_seed: Seed | None = 0,
    ) -> None:
        super().__init__(causal=causal, layer=layer)
        self.bucket_size = bucket_size
        self.n_hashes = n_hashes
        self.dropout = dropout
        self.rotations = Rotations(eval_seed=eval_seed, layer=layer)

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V). Raises ValueError unless Q = K."""
        check_self_lengths("LSH attention", q.shape[2], k.shape[2])
        length = q.shape[2]
        padded, bucket = self.padded(length), self.chunk_steps(length)
        steps = torch.unflatten(sorted_steps(self.buckets(k), padded), 3, (-1, bucket))  # (B, H, R, N, M)
        q, k, v = (F.pad(x, (0, 0, 0, padded - length)) for x in (q / math.sqrt(q.shape[-1]), k, v))
        at_once = 1
        if not exporting():
            at_once = max(1, SCORES_AT_ONCE // (q.shape[0] * q.shape[1] * padded * 2 * bucket))
        rounds = [self._attend(q, k, v, part, length) for part in torch.split(steps, at_once, dim=2)]
        mixed, total, top, alone = (torch.cat(parts, dim=2) for parts in zip(*rounds, strict=True))
        # a round in which the row is alone counts only if it is in every one
        top = top.masked_fill(alone & ~alone.all(2, keepdim=True), -math.inf)
        share = (top - top.amax(2, keepdim=True)).exp()  # (B, H, R, L, 1)
        return ((share * mixed).sum(2) / (share * total).sum(2)).to(v.dtype)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, steps: Tensor, length: int) -> tuple[Tensor, ...]:
        """Some rounds: q, k, v (B, H, P, ·) and the steps in their chunks (B, H, R, N, M) -> four of each row.

        The sum of exp(score - top) v (B, H, R, L, V) and of exp(score - top), the largest score top, and whether the
        row sees only itself, (B, H, R, L, 1).
        """
        seen = torch.cat([steps.roll(1, dims=3), steps], dim=4)  # (B, H, R, N, 2M), the last chunk before the first
        scores = take_steps(q, steps) @ take_steps(k, seen).transpose(-2, -1)  # (B, H, R, N, M, 2M)
        hidden, alone = unseen(steps, seen, length, causal=self.causal)
        exp, top = exponentials(scores, hidden)
        mixed = drop(exp.to(v.dtype), self.dropout, training=self.training) @ take_steps(v, seen)  # (B, H, R, N, M, V)
        place = steps.flatten(3).argsort(-1)[..., :length]  # back from sorted order, without the pads
        by_step = take_steps(mixed.flatten(3, 4).flatten(1, 2), place.flatten(1, 2).unsqueeze(2))  # (B, H R, 1, L, V)
        rows = (x.flatten(3).gather(3, place).unsqueeze(-1) for x in (exp.sum(-1), top, alone))
        return by_step.view(*place.shape, v.shape[3]), *rows

    def chunk_steps(self, length: int) -> int:
        """Steps in a chunk of a sequence. Raises ValueError when the sequence has fewer than `bucket_size` steps."""
        if self.bucket_size is None:
            return default_bucket(length)
        if self.bucket_size > length:
            raise ValueError(
                f"LSH attention got bucket_size={self.bucket_size} and a sequence of {length} steps; choose a "
                "bucket_size of at most that many, or null (a distilled encoder halves the length from layer to layer)"
            )
        return self.bucket_size

    def padded(self, length: int) -> int:
        """The length of a sequence with its pads: a multiple of two chunks."""
        pair = 2 * self.chunk_steps(length)
        return -(-length // pair) * pair

    @torch.no_grad()  # bucket numbers carry no gradient
    def buckets(self, k: Float[Tensor, "B H K E"]) -> Int[Tensor, "B H R K"]:
        """The bucket of each step in each round, drawing the directions: k (B, H, K, E) -> (B, H, R, K)."""
        length = k.shape[2]
        n_half = self.padded(length) // self.chunk_steps(length) // 2
        rotations = self.rotations(k.shape[3], self.n_hashes, n_half, k.device)
        return torch.cat([hashed(part, rotations) for part in torch.split(k, BLOCK_STEPS, dim=2)], dim=3)


def default_bucket(length: int) -> int:
    """2 * ceil(log2 length), rounded up to a power of two, at least 4: the cost grows as L log L.

    A power of two, because matrix products are fastest at such sizes: 16 from 17 to 256 steps, 32 up to 65536.
    """
    size = 2 * (length - 1).bit_length()
    return max(4, 1 << max(0, size - 1).bit_length())


def hashed(k: Float[Tensor, "B H K E"], rotations: Float[Tensor, "E R N"]) -> Int[Tensor, "B H R K"]:
    """argmax([k R; -k R]), the direction or opposite direction nearest to each key: (B, H, R, K) in [0, 2 N)."""
    dtype = torch.promote_types(k.dtype, torch.float32)
    with autocast(k.device, None):  # it would round the product to bfloat16, and ties are no hash
        rotated = torch.einsum("bhle,ern->bhrln", k.to(dtype), rotations.to(dtype))
    nearest = rotated.abs().argmax(-1, keepdim=True)
    opposite = rotated.gather(-1, nearest) < 0
    return (nearest + opposite * rotated.shape[-1]).squeeze(-1)


def sorted_steps(buckets: Int[Tensor, "B H R K"], padded: int) -> Int[Tensor, "B H R P"]:
    """The steps by (bucket, position), and after them the pads K to P - 1: (B, H, R, K) -> (B, H, R, P)."""
    order = buckets.argsort(dim=-1, stable=True)  # stable: within a bucket by position
    pads = torch.arange(buckets.shape[-1], padded, device=buckets.device)
    return torch.cat([order, pads.expand(*buckets.shape[:3], -1)], dim=-1)


def take_steps(x: Float[Tensor, "B H P W"], steps: Int[Tensor, "B H *S"]) -> Float[Tensor, "B H *S W"]:
    """Steps of x: x (B, H, P, W), step numbers (B, H, ...) -> (B, H, ..., W)."""
    first = torch.arange(x.shape[0] * x.shape[1], device=x.device) * x.shape[2]
    rows = steps.flatten(2) + first.view(*x.shape[:2], 1)
    # whole rows by one index: a gather would need an index of W numbers a row
    return x.flatten(0, 2).index_select(0, rows.flatten()).view(*steps.shape, x.shape[3])


def unseen(
    steps: Int[Tensor, "B H R N M"], seen: Int[Tensor, "B H R N M2"], length: int, *, causal: bool
) -> tuple[Bool[Tensor, "B H R N M M2"], Bool[Tensor, "B H R N M"]]:
    """What each row of a chunk may not see of its chunk and the one before, and which rows see only themselves.

    steps (B, H, R, N, M) and seen (B, H, R, N, 2M), the pads from `length` on -> (B, H, R, N, M, 2M), (B, H, R, N, M).
    """
    rows, keys = steps.unsqueeze(-1), seen.unsqueeze(-2)
    hidden = keys >= rows if causal else keys == rows
    hidden |= keys >= length  # the pads
    alone = hidden.all(-1)
    return hidden & ((keys != rows) | ~alone.unsqueeze(-1)), alone


def exponentials(
    scores: Float[Tensor, "*S M M2"], hidden: Bool[Tensor, "*S M M2"]
) -> tuple[Float[Tensor, "*S M M2"], Float[Tensor, "*S M"]]:
    """exp(scores - top), zero where hidden, and top, the largest score of each row; in float32 at least.

    scores, hidden (..., M, 2M) -> (..., M, 2M), (..., M). Works in place: these are the largest tensors by far.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).masked_fill_(hidden, -math.inf)
    top = scores.detach().amax(-1)
    return scores.sub_(top.unsqueeze(-1)).exp_(), top
