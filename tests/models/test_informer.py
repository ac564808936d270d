"""The Informer as a whole: sizes, shapes, what it may see."""

import pytest
import torch
from models.inputs import B, batch
from models.small import FULL, PROB, WINDOW, informer


def parameters(**changes):
    paper = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "seq_len": 96, "label_len": 48, "pred_len": 24}
    return sum(p.numel() for p in informer(**{**paper, **changes}).parameters())


def test_parameter_counts_are_those_of_the_authors_code():
    """With the paper's widths, for seven columns and for one, and with a layer more on each side."""
    assert parameters(n_columns=7, targets=tuple(range(7))) == 11_330_055
    assert parameters(n_columns=1, targets=(0,)) == 11_308_545
    assert parameters(n_columns=7, targets=tuple(range(7)), encoder_layers=3, decoder_layers=2) == 19_474_439


LENGTHS = [{}, {"label_len": 0}, {"label_len": 19}, {"pred_len": 1}, {"pred_len": 1, "label_len": 0}]
LENGTHS += [{"seq_len": 1, "label_len": 1}]
COLUMNS = [{"n_columns": 1, "targets": (0,)}, {"targets": (2,)}, {"n_known": 0}]
LAYERS = [{"encoder_layers": 1}, {"encoder_layers": 5, "decoder_layers": 2}, {"distil": False}, {"mix": True}]
HEADS = [{"n_heads": 1}, {"n_heads": 11}]


@pytest.mark.parametrize("slot", [FULL, PROB], ids=["full", "prob"])
@pytest.mark.parametrize("changes", [*LENGTHS, *COLUMNS, *LAYERS, *HEADS], ids=str)
def test_any_lengths_columns_and_layers_give_a_finite_forecast_of_its_shape(slot, changes):
    model = informer(slot, **changes)
    sizes = {**WINDOW, **changes}
    for mode in (True, False):
        out = model.train(mode)(*batch(changes))
        assert out.shape == (B, sizes["pred_len"], len(sizes["targets"]))
        assert out.isfinite().all()


def test_a_start_token_longer_than_the_window_is_refused():
    with pytest.raises(ValueError, match=r"label_len \(20\) must be at most seq_len \(19\)"):
        informer(label_len=20)


def test_both_embeddings_are_dropped_in_training():
    model, (past, past_known, future_known) = informer(dropout=1.0).train(), batch()
    assert (model.encoder_embedding(past, past_known) == 0).all()
    # of zeros no layer makes anything: the head's bias is left
    bias = model.decoder.head.bias.expand(B, WINDOW["pred_len"], -1)
    assert torch.equal(model(past, past_known, future_known), bias)
