"""What a forecast step by step costs."""

import pytest
import torch
from models.decoders import DECODERS, GptDecoder, InformerDecoder
from models.inputs import batch
from torch import nn


def rows_through(model, call):
    """How many rows pass the linear maps of the decoder's layers."""
    counted = [0]

    def count(module, given, out):
        counted[0] += given[0].shape[1]

    hooks = [
        module.register_forward_hook(count)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.startswith(("decoder.layers.", "layers."))
    ]
    call()
    for hook in hooks:
        hook.remove()
    return counted[0]


def costs(decoder, pred_len):
    """The rows of a forecast, with the cache and without."""
    known = batch({"pred_len": pred_len})
    start = known[0].shape[1] - decoder.n_start
    rows, calendar = known[0][:, start:], torch.cat([known[1][:, start + 1 :], known[2]], 1)
    decoder.read(*known[:2])
    forecast = decoder.model(*known)
    with_cache = rows_through(decoder.model, lambda: decoder.model(*known))

    @torch.no_grad()
    def uncached(rows=rows):
        for n_rows in range(rows.shape[1], calendar.shape[1] + 1):
            rows = torch.cat([rows, decoder.whole(rows, calendar[:, :n_rows])[:, -1:]], 1)
        torch.testing.assert_close(rows[:, -pred_len:], forecast, rtol=0, atol=1e-4)

    return with_cache, rows_through(decoder.model, uncached)


@pytest.mark.parametrize("kind", DECODERS.values(), ids=DECODERS)
def test_a_forecast_costs_rows_in_proportion_to_its_steps(kind):
    """S + P - 1 rows with the cache, the sum of S .. S + P - 1 without."""
    per_row = {}
    for pred_len in (1, 8, 16, 32):
        decoder = kind(pred_len=pred_len)
        first = decoder.n_start
        with_cache, without = costs(decoder, pred_len)
        again = sum(first + step for step in range(pred_len))
        per_row[pred_len] = (with_cache / (first + pred_len - 1), without / again)
    # the two layers' maps: query_key_value, output, widen, narrow; of the cross-attention the output alone is a module
    assert set(per_row.values()) == {(8.0, 8.0) if kind is GptDecoder else (10.0, 10.0)}


def test_the_encoders_output_is_projected_once_in_a_forecast(monkeypatch):
    """A call for each of the two layers."""
    model, calls = InformerDecoder(pred_len=11).model, []
    for layer in model.decoder.layers:
        projection = layer.cross_attention.projection
        made = projection.keys_values
        monkeypatch.setattr(projection, "keys_values", lambda x, made=made: calls.append(x.shape) or made(x))
    model(*batch({"pred_len": 11}))
    assert calls == [(2, 10, 24)] * 2
    model(*batch({"pred_len": 11}, seed=1))
    assert len(calls) == 4
