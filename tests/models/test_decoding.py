"""Decoding row by row with a cache is decoding all rows at once, and what it costs.

Bugs of other projects that are tested for: a cache that outlives its batch, a single query aligned at the first
key, positions that start anew with each row.
"""

import copy

import pytest
import torch
from models.decoders import CACHEABLE, DECODERS, EVERY, GptDecoder, InformerDecoder, cached, inputs, naive, yaml_slot
from models.inputs import batch
from models.small import FULL, PROB, informer
from torch import nn

from forecast.attention.base import NotCacheable
from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.models.informer import Informer

close = torch.testing.assert_close


@pytest.fixture(params=EVERY.values(), ids=EVERY)
def every(request):
    """Each decoder with each cacheable attention."""
    return request.param


@pytest.fixture(params=DECODERS.values(), ids=DECODERS)
def decoder(request):
    return request.param()


def ones(values):
    return [1] * values.shape[1]


def test_the_cacheable_attentions_are_those_whose_rows_depend_on_the_past_alone():
    assert {name.removesuffix("-small") for name in CACHEABLE} == {
        "full", "none", "mean", "topk", "single_head", "logsparse", "strided", "fixed",
    }  # fmt: skip


@pytest.mark.parametrize(("n_heads", "n_windows"), [(1, 1), (4, 3)])
def test_rows_made_one_by_one_are_those_made_at_once(every, n_heads, n_windows):
    """Patterns are sized by the whole sequence, and each row has its own position."""
    decoder = every(n_heads=n_heads)
    values, known = inputs(decoder, n_windows)
    close(cached(decoder, values, known, ones(values)), decoder.whole(values, known), rtol=0, atol=1e-5)


def test_rows_made_in_parts_are_those_made_at_once(every):
    """n rows and then m; those of the start and then one."""
    decoder = every()
    values, known = inputs(decoder)
    whole, n_rows = decoder.whole(values, known), values.shape[1]
    for lengths in ([n_rows], [3, n_rows - 3], [n_rows - 2, 2], [1, 4, n_rows - 5]):
        close(cached(decoder, values, known, lengths), whole, rtol=0, atol=1e-5)
    first = decoder.n_start
    rows = cached(decoder, values[:, : first + 1], known[:, : first + 1], [first, 1])
    close(rows, whole[:, : first + 1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pred_len", [1, 11])
def test_a_cached_forecast_is_that_of_all_rows_again_at_each_step(every, pred_len):
    decoder, known = every(pred_len=pred_len), batch({"pred_len": pred_len})
    decoder.read(*known[:2])
    close(decoder.model(*known), naive(decoder.whole, decoder.n_start, *known), rtol=0, atol=1e-4)


def test_a_cache_counts_its_steps_and_refuses_more_than_a_window_has(decoder):
    values, known = inputs(decoder)
    cache = decoder.decoder.new_cache()
    for count in range(values.shape[1]):
        assert cache.rows.length == count
        decoder.next_rows(values[:, count : count + 1], known[:, count : count + 1], cache)
    n_rows = decoder.decoder.n_rows
    assert cache.rows.length == n_rows == decoder.n_start + decoder.model.window.pred_len - 1
    with pytest.raises(ValueError, match=f"positions for {n_rows} steps: 1 steps after {n_rows} are too many"):
        decoder.next_rows(values[:, :1], known[:, :1], cache)


def test_a_single_query_sees_all_keys_so_far():
    """Aligned at the first key, as torch's is_causal is, it would see that one alone."""
    q, k = torch.randn(2, 3, 1, 5), torch.randn(2, 3, 9, 5)
    weights = FullAttention(causal=True, layer=0).last_rows(q, k, torch.eye(9).expand(2, 3, -1, -1), length=11)
    close(weights, (q @ k.mT / 5**0.5).softmax(-1))


def test_the_last_row_depends_on_every_row_before_it(decoder):
    values, known = inputs(decoder)
    before = cached(decoder, values, known, ones(values))[:, -1]
    for row in range(values.shape[1]):
        changed = values.clone()
        changed[:, row] += 1.0
        assert not torch.allclose(cached(decoder, changed, known, ones(values))[:, -1], before, atol=1e-7), row


def test_a_model_remembers_no_window(decoder):
    """A cache stored in the module would reach the next batch, which may have another size."""
    model, before = decoder.model, copy.deepcopy(decoder.model)
    first, second = batch(seed=1), [part[:1] for part in batch(seed=2)]
    alone = model(*second)
    model(*first)
    assert torch.equal(model(*second), alone)
    for (name, module), fresh in zip(model.named_modules(), before.modules(), strict=True):
        assert module.__dict__.keys() == fresh.__dict__.keys(), name


def test_rows_do_not_see_later_rows(every):
    """Cached and, in training, at once."""
    decoder = every()
    values, known = inputs(decoder)
    changed = values.clone()
    changed[:, 6:] += 1.0
    early = [cached(decoder, x, known, ones(values))[:, :6] for x in (values, changed)]
    assert torch.equal(*early)
    early = [decoder.whole(x, known)[:, :6] for x in (values, changed)]
    close(*early, rtol=0, atol=1e-6)


def test_equal_forecasts_agree_to_the_last_bit(every):
    model = every().model
    assert torch.equal(model(*batch()), model(*batch()))


@pytest.mark.parametrize("attention", ["prob", "lsh", "prob_informer2020"])
def test_an_attention_that_looks_at_the_whole_sequence_is_refused(attention):
    with pytest.raises(NotCacheable, match=r"decoder_attention: \w+ cannot serve step-by-step decoding: which steps"):
        informer(FULL, decoder_attention=yaml_slot(attention), decode="autoregressive")
    with pytest.raises(NotCacheable, match="decoder_attention"):
        GptDecoder(yaml_slot(attention))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"label_len": 0}, "label_len=0 has no row to start from: set label_len=1 or more"),
        ({"mix": True}, "mixed heads let a row see later steps: set mix=false"),
        ({"cross_attention": PROB}, "cross_attention: ProbAttention cannot serve"),
    ],
    ids=str,
)
def test_what_autoregressive_decoding_cannot_do_is_refused_and_one_shot_decoding_can(changes, message):
    with pytest.raises(ValueError, match=message):
        informer(FULL, decode="autoregressive", **changes)
    informer(FULL, decode="one_shot", **changes)


def test_the_slots_that_must_decode_row_by_row_are_known_before_a_model_is_built():
    assert Informer.cached_slots({"decode": "autoregressive"}) == ("decoder_attention", "cross_attention")
    assert Informer.cached_slots({"decode": "one_shot"}) == Informer.cached_slots({}) == ()


@pytest.mark.parametrize("pred_len", [1, 5])
@pytest.mark.parametrize("kind, first", [(GptDecoder, 18), (InformerDecoder, 0)], ids=["gpt", "informer"])
def test_the_first_step_is_made_in_training_as_in_a_forecast(kind, first, pred_len):
    """It follows the known rows alone. `first`: its row."""
    model, known = kind(pred_len=pred_len).model, batch({"pred_len": pred_len})
    rows, truth = model.training_outputs(*known, torch.randn(2, pred_len, 3))
    assert rows.shape == truth.shape == (2, first + pred_len, 3)
    close(rows[:, first], model(*known)[:, 0], rtol=0, atol=1e-5)


def test_training_on_a_forecast_gives_the_forecast(decoder):
    """With its own steps as the true ones, each row predicts the next of them."""
    known = batch()
    forecast = decoder.model(*known)
    rows, _ = decoder.model.training_outputs(*known, forecast)
    close(rows[:, -5:], forecast, rtol=0, atol=1e-5)


def test_keys_and_values_are_cached_in_the_precision_they_are_computed_in(decoder, monkeypatch):
    caches = []
    original = AttentionLayer.new_cache

    def new_cache(layer, capacity):
        caches.append(original(layer, capacity))
        return caches[-1]

    monkeypatch.setattr(AttentionLayer, "new_cache", new_cache)
    with torch.autocast("cpu", torch.bfloat16):
        forecast = decoder.model(*batch())
    close(forecast.float(), decoder.model(*batch()), rtol=0.1, atol=0.1)
    one = torch.zeros(2, 4, 0, 6)
    assert [cache.append(one, one)[0].dtype for cache in caches[:2]] == [torch.bfloat16] * 2


def test_a_forecast_step_sees_its_own_calendar_and_none_after_it(decoder):
    """Row t holds the calendar of step t + 1."""
    past, past_known, future_known = batch()
    before = decoder.model(past, past_known, future_known)
    for step in range(5):
        moved = future_known.clone()
        moved[:, step] += 1.0
        changed = (decoder.model(past, past_known, moved) != before).any(-1).all(0)
        assert changed.tolist() == [later >= step for later in range(5)]


def test_the_calendar_of_the_first_row_is_that_of_the_second_step():
    """A GPT never reads the calendar of its first step; of the second it does."""
    model, (past, past_known, future_known) = GptDecoder().model, batch()
    before = model(past, past_known, future_known)
    for step, same in ((0, True), (1, False)):
        moved = past_known.clone()
        moved[:, step] += 1.0
        assert torch.equal(model(past, moved, future_known), before) == same


@pytest.mark.parametrize("training", [False, True])
def test_a_forecast_carries_no_gradient_and_training_outputs_do(decoder, training):
    model = decoder.model.train(training)
    assert not model(*batch()).requires_grad
    rows, _ = model.training_outputs(*batch(), torch.randn(2, 5, 3))
    rows.square().mean().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


@pytest.mark.parametrize("kind", DECODERS.values(), ids=DECODERS)
def test_with_instance_norm_the_training_outputs_are_in_scaled_units(kind):
    """The rows follow level and scale of past and future together, and the truth is the future as it was."""
    model = kind(instance_norm=True).model
    past, past_known, future_known = batch()
    past, future = past * 10, torch.randn(2, 5, 3) * 10  # far above what is added to the variance
    rows, _ = model.training_outputs(past, past_known, future_known, future)
    moved, truth = model.training_outputs(past * 3 + 50, past_known, future_known, future * 3 + 50)
    close(moved, rows * 3 + 50, rtol=1e-3, atol=1e-2)
    assert torch.equal(truth[:, -5:], future * 3 + 50)


def test_one_shot_decoding_is_the_default_and_its_parameters_have_the_same_names():
    """Old checkpoints have no key `decode`."""
    default, one_shot = informer(FULL), informer(FULL, decode="one_shot")
    autoregressive = informer(FULL, decode="autoregressive")
    one_shot.load_state_dict(default.state_dict())
    assert torch.equal(default.eval()(*batch()), one_shot.eval()(*batch()))
    autoregressive.load_state_dict(default.state_dict())
    assert not torch.allclose(autoregressive.eval()(*batch()), one_shot(*batch()))


@pytest.mark.parametrize("kind, n_maps", [(GptDecoder, 4), (InformerDecoder, 5)], ids=DECODERS)
@pytest.mark.parametrize("pred_len", [1, 8, 32])
def test_a_forecast_costs_a_pass_of_each_row_through_each_linear_map_and_no_more(kind, n_maps, pred_len):
    """S + P - 1 rows; without the cache it were the sum of S .. S + P - 1.

    The maps of each of two layers: query_key_value, output, widen, narrow; of the cross-attention the output alone is a
    module.
    """
    decoder, rows = kind(pred_len=pred_len), []
    for name, module in decoder.model.named_modules():
        if isinstance(module, nn.Linear) and name.startswith(("decoder.layers.", "layers.")):
            module.register_forward_hook(lambda _, inputs, out: rows.append(inputs[0].shape[1]))
    decoder.model(*batch({"pred_len": pred_len}))
    assert sum(rows) == 2 * n_maps * (decoder.n_start + pred_len - 1)


def test_the_encoders_output_is_projected_once_in_a_forecast(monkeypatch):
    """A call for each of the two layers."""
    model, calls = InformerDecoder(pred_len=11).model, []
    for layer in model.decoder.layers:
        projection = layer.cross_attention.projection
        original = projection.keys_values
        monkeypatch.setattr(projection, "keys_values", lambda x, of=original: calls.append(x.shape) or of(x))
    model(*batch({"pred_len": 11}))
    assert calls == [(2, 10, 24)] * 2
    model(*batch({"pred_len": 11}, seed=1))
    assert len(calls) == 4
