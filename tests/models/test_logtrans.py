"""LogTrans: what a row sees, and where its queries and keys come from."""

from functools import partial

import torch
from models.decoders import DECODER_ONLY
from models.inputs import batch, made

from forecast.attention.logsparse import LogSparseAttention
from forecast.layers.projections import ConvProjection
from forecast.models.logtrans import LogTrans


def logtrans(kernel_size, **changes):
    """With the paper's plain pattern: a step sees itself and those 1, 2, 4, 8 .. before it."""
    slot = {
        "projection": partial(ConvProjection, kernel_size=kernel_size),
        "mechanism": partial(LogSparseAttention, window=1),
    }
    return made(LogTrans, {**DECODER_ONLY, "decoder_attention": slot}, changes).eval()


def seen_by_the_last_row(model):
    """The distances at which one of 19 rows changes when a step does."""
    past, past_known, _ = batch()
    before, distances = model.rows(past, past_known)[:, -1], []
    for step in range(19):
        moved = past.clone()
        moved[:, step] += 1.0
        if not torch.allclose(model.rows(moved, past_known)[:, -1], before, atol=1e-7):
            distances.append(18 - step)
    return sorted(distances)


def test_one_layer_sees_steps_at_distances_that_double():
    """The first rows, which see all of the past, end before the last of 19."""
    assert seen_by_the_last_row(logtrans(1, decoder_layers=1)) == [0, 1, 2, 4, 8, 16]


def test_convolutions_of_queries_and_keys_add_the_steps_before_each():
    assert seen_by_the_last_row(logtrans(2, decoder_layers=1)) == [0, 1, 2, 3, 4, 5, 8, 9, 16, 17]


def test_layers_on_top_of_each_other_see_the_whole_past():
    assert seen_by_the_last_row(logtrans(1, decoder_layers=5)) == list(range(19))


def test_after_its_last_layer_the_rows_are_normalised_once():
    """Post-norm: each layer ends with its own norm."""
    model, (past, past_known, _) = logtrans(3), batch()
    last = model.layers(model.embedding(past, past_known))
    torch.testing.assert_close(last.mean(-1), torch.zeros(2, 19), rtol=0, atol=1e-5)
    torch.testing.assert_close(model.rows(past, past_known), model.head(last))
