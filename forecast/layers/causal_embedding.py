"""Embeddings in which a step sees no later one, so that they can be continued step by step."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.cache import LastRows
from forecast.layers.embedding import DataEmbedding
from forecast.layers.projections import CausalConv


class CausalTokenEmbedding(CausalConv):
    """Convolution over a step and the two before it, zeros before the first: (B, L, C) -> (B, L, D).

    `TokenEmbedding` moved one step into the past, with its width and initial spread.
    """

    def __init__(self, n_columns: int, d_model: int) -> None:
        super().__init__(n_columns, d_model, kernel_size=3)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_in", nonlinearity="leaky_relu")


class PointEmbedding(CausalConv):
    """A linear map of each step by itself: (B, L, C) -> (B, L, D)."""

    def __init__(self, n_columns: int, d_model: int) -> None:
        super().__init__(n_columns, d_model, kernel_size=1)


class CausalDataEmbedding(DataEmbedding):
    """`DataEmbedding` with a causal convolution of the values."""

    values: CausalConv
    tokens: Callable[[int, int], CausalConv] = CausalTokenEmbedding

    def new_cache(self) -> LastRows:
        """The empty cache for `next_rows`: the rows that the convolution looks back on."""
        return LastRows(self.values.before)

    def next_rows(
        self, x: Float[Tensor, "B M C"], known: Float[Tensor, "B M F"], cache: LastRows
    ) -> Float[Tensor, "B M D"]:
        """The rows of `forward` for the M steps after those in the cache, which they join: (B, M, D).

        x (B, M, C) in scaled units, known (B, M, F). Raises ValueError beyond the longest sequence.
        """
        # taken before `join`, which counts the new rows
        first, max_len = cache.length, len(self.get_buffer("positions"))
        if first + x.shape[1] > max_len:
            raise ValueError(
                f"the embedding has positions for {max_len} steps: {x.shape[1]} steps after {first} are too many"
            )
        # the stored rows only give the convolution its past: their own results came in an earlier call
        return self._sum(self.values(cache.join(x))[:, -x.shape[1] :], known, first=first)


class PointDataEmbedding(CausalDataEmbedding):
    """`DataEmbedding` with each step's values by themselves."""

    tokens = PointEmbedding
