"""The single-headed attention RNN: recurrent blocks over window and zeros, one pass."""

import pytest
import torch
from config.composed import composed
from models.inputs import batch, draw_norms, make_model
from models.small import FULL, SIZES

from forecast.attention.full import FullAttention
from forecast.config.check import check_config
from forecast.errors import UserError
from forecast.layers.projections import SingleHeadProjection
from forecast.models.sha import Sha

SINGLE = {"projection": SingleHeadProjection, "mechanism": FullAttention}
OWN = {key: SIZES[key] for key in ("d_model", "n_heads", "dropout", "embedding", "instance_norm")}


def sha(slot=SINGLE, **changes):
    return make_model(Sha, {**OWN, "d_ff": 66, "decoder_layers": 2, "decoder_attention": slot}, changes)


def test_a_block_adds_lstm_attention_and_boom_of_the_normalised_sequence_and_the_last_rows_are_read_out():
    model, (past, past_known, future_known) = sha(), batch()
    draw_norms(model)
    known = torch.cat([past_known, future_known], 1)
    x = model.embedding(torch.cat([past, torch.zeros(2, 5, 3)], 1), known)
    for block in model.blocks:
        recurrent, attention, boom = block.addends
        x = x + recurrent.inner.lstm(recurrent.norm(x))[0]
        x = x + attention.inner.attention(attention.norm(x), attention.norm(x).clone())
        x = x + boom.inner(boom.norm(x))
    expected = model.head(model.norm(x))[:, -5:]
    torch.testing.assert_close(model(past, past_known, future_known), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("slot", [SINGLE, FULL], ids=["single_head", "full"])
def test_a_row_sees_no_later_row(slot):
    """Neither through the embedding nor through LSTM, attention or Boom."""
    model = sha(slot).eval()
    values, known = torch.randn(2, 24, 3), torch.rand(2, 24, 4)
    before = model.blocks(model.embedding(values, known))
    for changed in ((values, known + late(known)), (values + late(values), known)):
        after = model.blocks(model.embedding(*changed))
        assert torch.equal(after[:, :13], before[:, :13])
        assert ((after - before)[:, 13:].abs() > 1e-7).any(-1).all()


def late(x):
    """One from step 13 on."""
    return (torch.arange(24) >= 13).float().view(1, -1, 1).expand_as(x)


@pytest.mark.parametrize("n_heads", [1, 11, 7])
def test_with_its_own_attention_the_number_of_heads_means_nothing(n_heads):
    assert torch.equal(sha(n_heads=n_heads).eval()(*batch()), sha().eval()(*batch()))


def test_a_width_that_the_boom_layer_cannot_sum_is_refused():
    with pytest.raises(ValueError, match=r"d_ff \(67\) must be a multiple of d_model \(22\)"):
        sha(d_ff=67)
    with pytest.raises(UserError, match=r"model.d_ff=67: must be a multiple of model.d_model \(22\)"):
        check_config(composed("model=sha", "model.d_ff=67", "model.d_model=22"))
    check_config(composed("model=sha", "model.d_ff=66", "model.d_model=22", "model.n_heads=5"))
    check_config(composed("model=informer", "model.d_ff=67", "model.d_model=22", "model.n_heads=2"))


def test_dropout_acts_on_the_embedding_and_all_branches():
    model = sha(dropout=1.0).train()
    assert torch.equal(model(*batch()), model.head(model.norm.bias).expand(2, 5, -1))
    x = torch.randn(2, 7, 22)
    assert torch.equal(model.blocks(x), x)
