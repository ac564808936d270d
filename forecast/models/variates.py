"""A network whose sequence is the columns, not the steps."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import Unpack

from forecast.layers.blocks import BlockSizes
from forecast.layers.heads import OutputMap
from forecast.models.base import WindowShape, by_step
from forecast.models.informer import DistillingEncoder, InformerOptions
from forecast.ops.columns import take_columns
from forecast.ops.dropout import Dropout


class Variates(nn.Module):
    """Each column's whole window is one token; an encoder attends over columns; each target's token is its forecast.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), normalised units.

    Liu et al. 2024, "iTransformer: Inverted Transformers Are Effective for Time Series Forecasting": one linear map of
    the L steps makes the tokens of all columns, post-norm layers, one linear map of a token the P steps. A known
    feature is a token too; differs: by a map of its own, of its L + P steps, a category being a learned number.
    Nothing says which token is which column but its values, as there.

    window: the data's sizes. Of the Informer's options those of the decoder and its slots are not used, as columns
    have no order in which a decoder could go on.
    """

    def __init__(self, *, window: WindowShape, encoder_layers: int, **options: Unpack[InformerOptions]) -> None:
        super().__init__()
        sizes = BlockSizes(
            d_model=options["d_model"],
            n_heads=options["n_heads"],
            d_ff=options["d_ff"],
            dropout=options["dropout"],
            activation=options["activation"],
        )
        self.window = window
        self.columns = nn.Linear(window.seq_len, sizes.d_model)
        self.known = nn.Linear(window.seq_len + window.pred_len, sizes.d_model) if window.n_known else None
        first = window.n_known - len(window.covariates)
        self.categories = [first + i for i, size in enumerate(window.covariates) if size]
        self.tables = nn.ModuleList(nn.Embedding(size, 1, padding_idx=0) for size in window.covariates if size)
        self.dropout = Dropout(sizes.dropout)
        self.encoder = DistillingEncoder(sizes, options["encoder_attention"], n_layers=encoder_layers, distil=False)
        self.head = OutputMap(sizes.d_model, window.pred_len * window.outputs)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C), past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T * O)."""
        tokens = self.columns(past.transpose(1, 2))
        if self.known is not None:
            known = list(torch.cat([past_known, future_known], dim=1).unbind(2))
            for i, table in zip(self.categories, self.tables, strict=True):
                known[i] = table(known[i].long()).squeeze(2)
            tokens = torch.cat([tokens, self.known(torch.stack(known, dim=1))], dim=1)
        encoded, _ = self.encoder(self.dropout(tokens))  # (B, C + F, D)
        return by_step(self.head(take_columns(encoded, self.window.targets, 1)), self.window.outputs)
