"""Which time steps, or columns, the queries and keys of a model's attentions stand for.

Steps are counted from the origin: 0 to P - 1 are forecast, -L to -1 known.
"""

import numpy as np
from jaxtyping import Int

from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.blocks import EncoderLayer
from forecast.layers.distil import Distil
from forecast.models.decoder_only import DecoderOnly
from forecast.models.ensemble import Ensemble
from forecast.models.informer import Informer
from forecast.models.informer_plus import InformerPlus
from forecast.models.informer_stack import EncoderStack
from forecast.models.patchtst import PatchTST
from forecast.models.reformer import Reformer
from forecast.models.sha import Sha
from forecast.models.variates import Variates
from forecast.models.weighted_ensemble import WeightedEnsemble

Spans = Int[np.ndarray, "N 2"]  # the first and the last step of each
# Of an attention over columns: 0 to C - 1 the columns, then the F known features, -1 the sequence's own target.
Columns = Int[np.ndarray, " N"]
ByPlace = dict[tuple[str, int], tuple[Spans | Columns, Spans | Columns]]


def time_spans(model: object) -> ByPlace:
    """Queries and keys by slot and layer, as `attention_weights` names these; nothing for a class of somebody's own.

    The queries are those of all rows; a decoder that leaves some out computes the last.
    """
    match model:
        case Ensemble() | WeightedEnsemble():
            spans: ByPlace = {}
            for i, member in enumerate(model.each):
                spans |= {(f"members.{i}.{slot}", layer): both for (slot, layer), both in time_spans(member).items()}
            return spans
        case InformerPlus():
            return informer_plus_spans(model)
        case Informer():
            return informer_spans(model)
        case PatchTST():
            tokens = patch_spans(model)
            return {("encoder", layer): (tokens, tokens) for layer in range(len(model.encoder))}
        case DecoderOnly() | Reformer() | Sha():
            # each row of the first predicts the next step, so the last step is no row
            tokens = single_steps(-model.window.seq_len, model.window.pred_len - isinstance(model, DecoderOnly))
            slot = "encoder" if isinstance(model, Reformer) else "decoder"
            layers = sum(isinstance(part, AttentionLayer) for part in model.modules())
            return {(slot, layer): (tokens, tokens) for layer in range(layers)}
        case _:
            return {}


def single_steps(first: int, stop: int) -> Spans:
    """The steps from `first` to the one before `stop`, each by itself."""
    return np.arange(first, stop)[:, None].repeat(2, axis=1)


def informer_spans(model: Informer) -> ByPlace:
    """Those of an encoder that distils, of several side by side, and of the decoder."""
    length, own, encoded = model.window.seq_len, [], []
    encoders = model.encoder.encoders if isinstance(model.encoder, EncoderStack) else [model.encoder]
    for i, encoder in enumerate(encoders):
        tokens = single_steps(-(length // 2**i), 0)
        for part in encoder.children():
            if isinstance(part, EncoderLayer):
                own.append(tokens)
            elif isinstance(part, Distil):  # its maximum is over every second token and both its neighbours
                middle = np.arange(0, len(tokens), 2)
                before, after = np.maximum(middle - 1, 0), np.minimum(middle + 1, len(tokens) - 1)
                tokens = np.stack([tokens[before, 0], tokens[after, 1]], axis=1)
        encoded.append(tokens)
    first, memory = -model.window.label_len, np.concatenate(encoded)
    rows = single_steps(first, first + model.decoder.n_rows)
    spans: ByPlace = {("encoder", layer): (tokens, tokens) for layer, tokens in enumerate(own)}
    for layer in range(len(model.decoder.layers)):
        spans |= {("decoder", layer): (rows, rows), ("cross", layer): (rows, memory)}
    return spans


def patch_spans(model: PatchTST) -> Spans:
    """Of overlapping patches; what stands behind the window's last step, or the last forecast step, is that again."""
    length, n_future = model.window.seq_len, 0 if model.beside is None else model.beside.n_future
    first = np.arange(len(model.positions) - n_future) * model.stride - length
    past = np.stack([first, first + model.patch_len - 1], axis=1).clip(max=-1)
    ahead = np.arange(n_future) * min(model.stride, model.patch_len)
    future = np.stack([ahead, ahead + model.patch_len - 1], axis=1).clip(max=model.window.pred_len - 1)
    return np.concatenate([past, future])


def informer_plus_spans(model: InformerPlus) -> ByPlace:
    """Those of the Informer inside, by patches; or columns, those of one sequence where each target has its own."""
    if not isinstance(model.network, Variates):
        inner = informer_spans(model.network).items()
        return {place: (of_patches(model, queries), of_patches(model, keys)) for place, (queries, keys) in inner}
    window = model.window
    own = [-1, *window.observed] if model.independent else range(window.n_columns)
    tokens = np.array([*own, *range(window.n_columns, window.n_columns + window.n_known)])
    layers = sum(isinstance(part, AttentionLayer) for part in model.modules())
    return {("encoder", layer): (tokens, tokens) for layer in range(layers)}


def of_patches(model: InformerPlus, spans: Spans) -> Spans:
    """The steps of an Informer's spans whose steps are patches; what lacks to a whole one is no step."""
    patch, window = model.patch_len, model.window
    # the patches of the window end at the origin, and those of the forecast begin there
    return np.stack([spans[:, 0] * patch, spans[:, 1] * patch + patch - 1], axis=1).clip(
        min=-window.seq_len, max=window.pred_len - 1
    )
