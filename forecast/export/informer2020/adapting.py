"""What the authors' data loader does otherwise than ours, done to the weights instead: the forecasts stay theirs."""

from collections.abc import Sequence

import torch
from torch import Tensor

from forecast.data.time_features import feature_names

# By their --freq; each is the end of the one before.
CALENDARS = [feature_names(freq, "timeF") for freq in ("s", "t", "h", "d")]
EMBEDDINGS = ("enc_embedding", "dec_embedding")


def add_finer_calendar(weights: dict[str, Tensor], known: Sequence[str]) -> list[str]:
    """Weights of zero for the finer calendar features that the data have and the authors' run had not.

    Their scripts train on quarter hours with --freq h, which leaves out the minute. weights: changed in place. known:
    the F features of the data. Returns the features that were added.
    """
    added: list[str] = []
    for embedding in EMBEDDINGS:
        name = f"{embedding}.temporal_embedding.embed.weight"
        width = weights[name].shape[-1] if name in weights and weights[name].dim() == 2 else 0
        missing = len(known) - width
        if missing > 0 and tuple(known[missing:]) in CALENDARS:
            added = list(known[:missing])
            nothing = weights[name].new_zeros(len(weights[name]), missing)
            weights[name] = torch.cat([nothing, weights[name]], dim=1)
    return added


def order_columns(weights: dict[str, Tensor], theirs: Sequence[str], ours: Sequence[str]) -> None:
    """Brings weights for the columns in the authors' order into ours; changed in place.

    Their loader of custom files puts the target last. The forecast columns are ordered when all columns are forecast.
    """
    order = [theirs.index(column) for column in ours]
    for embedding in EMBEDDINGS:
        name = f"{embedding}.value_embedding.tokenConv.weight"
        weights[name] = weights[name][:, order]
    for name in ("projection.weight", "projection.bias"):
        if len(weights[name]) == len(order):
            weights[name] = weights[name][order]
