"""The parts of pre-norm models whose results are added to their inputs."""

from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.dropout import Dropout


class PreNorm(nn.Module):
    """dropout(inner(norm(x))): the addend of a pre-norm residual layer, (B, L, D) -> (B, L, D).

    Xiong et al. 2020, "On layer normalization in the Transformer architecture".
    """

    def __init__(self, inner: nn.Module, *, d_model: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.inner = inner
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        addend: Tensor = self.dropout(self.inner(self.norm(x)))
        return addend


class SelfAttention(nn.Module):
    """An attention layer whose memory is the sequence itself, (B, L, D) -> (B, L, D)."""

    def __init__(self, attention: AttentionLayer) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        attended: Tensor = self.attention(x, x)
        return attended


class Lstm(nn.Module):
    """A recurrent layer that starts from zeros, (B, L, D) -> (B, L, D).

    Hochreiter and Schmidhuber 1997, "Long short-term memory", in torch's form.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        states: Tensor = self.lstm(x)[0]
        return states
