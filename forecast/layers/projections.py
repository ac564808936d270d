"""How a sequence becomes queries, keys and values."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import Positive, Share
from forecast.layers.heads import split_heads
from forecast.ops.dropout import Dropout


class Projection(nn.Module):
    """From sequences to queries, keys and values by head, and from the merged heads back.

    d_model: width D of the sequences. n_heads: H. d_keys, d_values: widths E of a head's queries and keys and V of its
    values, None for D / H. lookback: how many earlier steps a row depends on.
    Raises ValueError unless d_model is a multiple of n_heads.
    """

    lookback = 0

    def __init__(self, *, d_model: int, n_heads: int, d_keys: int | None = None, d_values: int | None = None) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        self.d_model = d_model
        self.n_heads = n_heads
        self.keys_width = n_heads * (d_keys or d_model // n_heads)
        self.values_width = n_heads * (d_values or d_model // n_heads)

    def forward(
        self, x: Float[Tensor, "B Q D"], memory: Float[Tensor, "B K D"]
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]:
        """Queries of x (B, Q, D), keys and values of memory (B, K, D): (B, H, Q, E), (B, H, K, E), (B, H, K, V)."""
        return self.queries(x), *self.keys_values(memory)

    def queries(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """(B, Q, D) -> (B, H, Q, E)."""
        raise NotImplementedError

    def keys_values(self, memory: Float[Tensor, "B K D"]) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]:
        """(B, K, D) -> (B, H, K, E), (B, H, K, V)."""
        raise NotImplementedError

    def make_output(self) -> nn.Module:
        """The map (B, Q, H V) -> (B, Q, D) after the heads are merged."""
        return nn.Linear(self.values_width, self.d_model)

    @classmethod
    def splits(cls) -> bool:
        """Whether n_heads heads share the width, so that d_model must be a multiple of n_heads."""
        return True


class StandardProjection(Projection):
    """Linear maps with bias to queries, keys and values, held as one matrix: in self-attention it is one product."""

    def __init__(
        self, *, d_model: int, n_heads: int, d_keys: Positive | None = None, d_values: Positive | None = None
    ) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, d_keys=d_keys, d_values=d_values)
        # rows for queries, keys, values: the weights of checkpoints depend on the order
        self.query_key_value = nn.Linear(d_model, 2 * self.keys_width + self.values_width)

    def forward(
        self, x: Float[Tensor, "B Q D"], memory: Float[Tensor, "B K D"]
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]:
        """Queries of x (B, Q, D), keys and values of memory (B, K, D): (B, H, Q, E), (B, H, K, E), (B, H, K, V)."""
        if memory is not x:
            return super().forward(x, memory)
        q, k, v = torch.split(self.query_key_value(x), [self.keys_width, self.keys_width, self.values_width], dim=-1)
        return split_heads(q, self.n_heads), split_heads(k, self.n_heads), split_heads(v, self.n_heads)

    def queries(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """(B, Q, D) -> (B, H, Q, E)."""
        weight, bias = self.query_key_value.weight, self.query_key_value.bias
        return split_heads(F.linear(x, weight[: self.keys_width], bias[: self.keys_width]), self.n_heads)

    def keys_values(self, memory: Float[Tensor, "B K D"]) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]:
        """(B, K, D) -> (B, H, K, E), (B, H, K, V)."""
        weight, bias = self.query_key_value.weight, self.query_key_value.bias
        keys_values = F.linear(memory, weight[self.keys_width :], bias[self.keys_width :])
        k, v = torch.split(keys_values, [self.keys_width, self.values_width], dim=-1)
        return split_heads(k, self.n_heads), split_heads(v, self.n_heads)


class CausalConv(nn.Module):
    """Convolution over time that sees a step and the kernel_size - 1 before it, zeros before the first.

    (B, L, n_inputs) -> (B, L, n_outputs).
    """

    def __init__(self, n_inputs: int, n_outputs: int, *, kernel_size: int) -> None:
        super().__init__()
        self.before = kernel_size - 1
        self.conv = nn.Conv1d(n_inputs, n_outputs, kernel_size)

    def forward(self, x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
        """(B, L, n_inputs) -> (B, L, n_outputs)."""
        # zeros before the first step alone: padding at both ends would show a step the ones after it
        convolved: Tensor = self.conv(F.pad(x.transpose(1, 2), (self.before, 0)))
        return convolved.transpose(1, 2)


class ConvProjection(Projection):
    """Queries and keys by a causal convolution, so that they describe the shape around a step; values by a linear map.

    Li et al. 2019, "Enhancing the Locality and Breaking the Memory Bottleneck of Transformer on Time Series
    Forecasting", section 4.1; kernel_size 1 is the standard projection.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        kernel_size: Positive = 3,
        d_keys: Positive | None = None,
        d_values: Positive | None = None,
    ) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, d_keys=d_keys, d_values=d_values)
        self.query = CausalConv(d_model, self.keys_width, kernel_size=kernel_size)
        self.key = CausalConv(d_model, self.keys_width, kernel_size=kernel_size)
        self.value = nn.Linear(d_model, self.values_width)
        self.lookback = kernel_size - 1

    def queries(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """(B, Q, D) -> (B, H, Q, E)."""
        return split_heads(self.query(x), self.n_heads)

    def keys_values(self, memory: Float[Tensor, "B K D"]) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]:
        """(B, K, D) -> (B, H, K, E), (B, H, K, V)."""
        return split_heads(self.key(memory), self.n_heads), split_heads(self.value(memory), self.n_heads)


class SharedQueryKeyProjection(Projection):
    """One linear map for queries and keys, one for values, without bias; keys are scaled to length 1.

    Kitaev et al. 2020, "Reformer", section 2. Queries and keys are of one sequence: raises ValueError when x and memory
    are two.
    """

    def __init__(
        self, *, d_model: int, n_heads: int, d_keys: Positive | None = None, d_values: Positive | None = None
    ) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, d_keys=d_keys, d_values=d_values)
        self.query_key = nn.Linear(d_model, self.keys_width, bias=False)
        self.value = nn.Linear(d_model, self.values_width, bias=False)

    def forward(
        self, x: Float[Tensor, "B Q D"], memory: Float[Tensor, "B K D"]
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B H K E"], Float[Tensor, "B H K V"]]:
        """Queries, keys and values of x (B, L, D), which is memory too: (B, H, L, E) twice, (B, H, L, V)."""
        if memory is not x:
            raise ValueError("queries and keys share one projection, so they must come from one sequence")
        q = split_heads(self.query_key(x), self.n_heads)
        return q, F.normalize(q, dim=-1), split_heads(self.value(x), self.n_heads)


class SingleHeadProjection(Projection):
    """One head of the whole width: only the queries are projected; gates weigh the elements of all three.

    q = sigmoid(a) LayerNorm(W x), k = sigmoid(b) x, v = g x with learned a, b, g of width D; g = sigmoid(f) tanh(c),
    (c, f) a linear map of a learned gate. The merged head is not projected back. Merity 2019, "Single Headed Attention
    RNN", and its code. Without gates: q = LayerNorm(W x), k = v = x.

    n_heads is not used; `ignored_heads` is what it was, None for 1. dropout: share of query and value elements dropped
    in training.
    """

    def __init__(self, *, d_model: int, n_heads: int, gates: bool = True, dropout: Share = 0.0) -> None:
        super().__init__(d_model=d_model, n_heads=1)
        self.ignored_heads = n_heads if n_heads != 1 else None
        self.query = nn.Linear(d_model, d_model)
        # the epsilon of the author's code
        self.norm = nn.LayerNorm(d_model, eps=1e-12)
        self.gates = _Gates(d_model) if gates else None
        self.dropout = Dropout(dropout)

    def queries(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """(B, Q, D) -> (B, 1, Q, D)."""
        q = self.norm(self.query(x))
        if self.gates is not None:
            q = self.gates.query.sigmoid() * q
        return split_heads(self.dropout(q), 1)

    def keys_values(self, memory: Float[Tensor, "B K D"]) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K E"]]:
        """(B, K, D) -> (B, 1, K, D) twice."""
        k = v = memory
        if self.gates is not None:
            k, v = self.gates.key.sigmoid() * memory, self.gates.of_values() * memory
        return split_heads(k, 1), split_heads(self.dropout(v), 1)

    def make_output(self) -> nn.Module:
        """Nothing: the head has the width of the sequence already."""
        return nn.Identity()

    @classmethod
    def splits(cls) -> bool:
        """One head takes the whole width."""
        return False


class _Gates(nn.Module):
    """The learned vectors (D,) of `SingleHeadProjection`; queries and keys start half open."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(d_model))
        self.key = nn.Parameter(torch.zeros(d_model))
        self.value = nn.Parameter(torch.zeros(d_model))
        self.value_map = nn.Linear(d_model, 2 * d_model)

    def of_values(self) -> Float[Tensor, " D"]:
        """What values are multiplied by: (D,). A vector through a matrix, which is easier to train."""
        content, forget = self.value_map(self.value.sigmoid()).chunk(2, dim=-1)
        return forget.sigmoid() * content.tanh()
