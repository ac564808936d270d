"""The single-headed attention RNN."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import CalendarEncoding, Layers, Positive, Share
from forecast.layers.attention_layer import AttentionFactories, AttentionLayer, SelfAttention
from forecast.layers.causal_embedding import CausalDataEmbedding
from forecast.layers.heads import OutputMap
from forecast.layers.pre_norm import PreNorm
from forecast.models.base import ForecastModel, WindowShape, with_placeholders
from forecast.ops.dropout import Dropout


class Sha(ForecastModel):
    """Recurrent blocks with attention that read the window and then `pred_len` zeros, whose rows are the forecast.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), scaled units.

    A block is an LSTM, causal attention and a Boom layer, each on the normalised sequence and added to it.

    Merity 2019, "Single Headed Attention RNN: Stop thinking with your head", with `attention=single_head`. Differs: the
    paper has a language model that reads and writes word after word, carrying the LSTM's state and a memory of keys and
    values from one stretch of text to the next; here one pass over window and zeros makes all steps, from a state of
    zeros, so that no forecast step sees what was forecast for the one before. Every block has attention, the paper's
    only one of four; queries and memory share one norm; what is added to is the sequence, not its norm.

    window: the data's sizes; label_len is not used. instance_norm: brings each column of a window to mean 0 and
    deviation 1, and the forecast back (Kim et al. 2022).
    d_ff: inner width of the Boom layers, a multiple of d_model.
    decoder_attention: the factories of the attention; `n_heads` is for those that have heads.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        d_model: Positive,
        n_heads: Positive,
        d_ff: Positive,
        decoder_layers: Layers,
        dropout: Share,
        embedding: CalendarEncoding,
        instance_norm: bool = False,
        decoder_attention: AttentionFactories,
    ) -> None:
        super().__init__(window, instance_norm=instance_norm)
        self.embedding = CausalDataEmbedding(
            **window.widths,
            d_model=d_model,
            max_len=window.seq_len + window.pred_len,
            dropout=dropout,
            encoding=embedding,
        )
        self.blocks = nn.Sequential()
        for i in range(decoder_layers):
            attention = AttentionLayer(decoder_attention, d_model=d_model, n_heads=n_heads, causal=True, layer=i)
            self.blocks.append(ShaBlock(attention, d_model=d_model, d_ff=d_ff, dropout=dropout))
        self.norm = nn.LayerNorm(d_model)
        self.head = OutputMap(d_model, window.n_targets * window.outputs)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C), past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T)."""
        x = self.blocks(self.embedding(*with_placeholders(past, past_known, future_known)))
        return self.head(self.norm(x[:, past.shape[1] :]))


class ShaBlock(nn.Module):
    """LSTM, attention, Boom: each normalises what came before and adds to it, (B, L, D) -> (B, L, D)."""

    def __init__(self, attention: AttentionLayer, *, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        inner = (Lstm(d_model), SelfAttention(attention), Boom(d_model=d_model, d_ff=d_ff, dropout=dropout))
        self.addends = nn.ModuleList(PreNorm(module, d_model=d_model, dropout=dropout) for module in inner)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        for addend in self.addends:
            x = x + addend(x)
        return x


class Lstm(nn.Module):
    """A recurrent layer that starts from zeros, (B, L, D) -> (B, L, D).

    Hochreiter and Schmidhuber 1997, "Long short-term memory", in torch's form.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        return self.lstm(x)[0]


class Boom(nn.Module):
    """A linear map to d_ff = N * D numbers, an activation, and the sum of the N runs of D: (B, L, D) -> (B, L, D).

    No map leads back, so it has half the weights of a `FeedForward` of the same width. The activation is the sigmoid
    form of GELU, x * sigmoid(1.702 x). Merity 2019, "Single Headed Attention RNN: Stop thinking with your head".

    dropout: share of the wide activations that is dropped in training.
    Raises ValueError unless d_ff is a multiple of d_model.
    """

    def __init__(self, *, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        if d_ff % d_model:
            raise ValueError(
                f"d_ff ({d_ff}) must be a multiple of d_model ({d_model}): the Boom layer sums runs of d_model numbers"
            )
        self.d_model = d_model
        self.widen = nn.Linear(d_model, d_ff)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        wide = self.dropout(sigmoid_gelu(self.widen(x)))
        return torch.unflatten(wide, -1, (-1, self.d_model)).sum(-2)


def sigmoid_gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Gives x * sigmoid(1.702 x), element by element.

    Hendrycks and Gimpel 2016, "Gaussian error linear units", section 2.
    """
    return x * torch.sigmoid(1.702 * x)
