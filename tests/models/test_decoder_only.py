"""GPT, LogTrans and the Sparse Transformer: what they share."""

import math

import pytest
import torch
from config.composed import composed
from models.decoders import naive
from models.inputs import B, batch
from models.small import WINDOW, window_shape

from forecast.config.build import build
from forecast.layers.window_scale import window_statistics
from forecast.models.naive import LastValue

SMALL = ["model.d_model=24", "model.n_heads=4", "model.d_ff=32", "model.dropout=0.0"]
NAMES = ("gpt", "logtrans", "sparse_transformer")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def model_of(name, *overrides, **changes):
    """The model of the config, small; its head is drawn, as the Sparse Transformer's is zero at first."""
    torch.manual_seed(3)
    model = build(composed(f"model={name}", *SMALL, *overrides).model, window=window_shape(**changes))
    torch.nn.init.normal_(model.head.weight, std=0.3)
    return model.eval()


def future_of(changes=WINDOW):
    sizes = {**WINDOW, **changes}
    return torch.randn(B, sizes["pred_len"], sizes["n_columns"], generator=torch.Generator().manual_seed(9))


LENGTHS = [{}, {"pred_len": 1}, {"seq_len": 61, "pred_len": 3}]
LENGTHS += [{"seq_len": 1, "label_len": 0, "pred_len": 7}, {"seq_len": 2, "label_len": 0, "pred_len": 1}]
COLUMNS = [{"n_columns": 1, "targets": (0,)}, {"targets": (2,)}, {"n_columns": 5, "targets": (3, 1)}, {"n_known": 0}]


@pytest.mark.parametrize("changes", [*LENGTHS, *COLUMNS], ids=str)
def test_any_window_gives_the_forecast_that_all_rows_again_at_each_step_give(name, changes):
    """All columns are rolled out, of which the targets are returned."""
    model, known = model_of(name, **changes), batch(changes)
    expected = naive(model.rows, model.window.seq_len, *known)[:, :, list(model.window.targets)]
    assert expected.shape == (B, model.window.pred_len, model.window.n_targets)
    torch.testing.assert_close(model(*known), expected, rtol=0, atol=1e-4)


def test_every_step_of_the_window_but_its_first_is_a_lesson_in_all_columns(name):
    model, known, future = model_of(name, targets=(1,)), batch(), future_of()
    rows, truth = model.training_outputs(*known, future)
    assert torch.equal(truth, torch.cat([known[0][:, 1:], future], 1))
    assert rows.shape == truth.shape == (B, 19 + 5 - 1, 3)


def test_a_lesson_sees_no_step_from_its_own_on(name):
    """Row t of training is the step t + 1; the last step of the future is read by none."""
    model, (past, past_known, future_known), future = model_of(name), batch(), future_of()
    rows, _ = model.training_outputs(past, past_known, future_known, future)
    for step in range(24):
        both = torch.cat([past, future], 1)
        both[:, step] += 1.0
        moved, _ = model.training_outputs(both[:, :19], past_known, future_known, both[:, 19:])
        torch.testing.assert_close(moved[:, :step], rows[:, :step], rtol=0, atol=1e-6)
        if step < 23:  # the first row that reads it
            assert not torch.allclose(moved[:, step], rows[:, step], atol=1e-4)


def test_with_instance_norm_past_and_future_are_read_as_the_window_measures_them(name):
    model, plain = model_of(name, "model.instance_norm=true"), model_of(name)
    (past, past_known, future_known), future = batch(), future_of()
    rows, truth = model.training_outputs(past * 3 + 50, past_known, future_known, future * 3 + 50)
    mean, std = window_statistics(past * 3 + 50)
    scaled = [(part * 3 + 50 - mean) / std for part in (past, future)]
    expected, _ = plain.training_outputs(scaled[0], past_known, future_known, scaled[1])
    torch.testing.assert_close(rows, expected * std + mean)
    assert torch.equal(truth, torch.cat([past[:, 1:] * 3 + 50, future * 3 + 50], 1))
    forecast = model(past * 3 + 50, past_known, future_known)
    torch.testing.assert_close(forecast, plain(scaled[0], past_known, future_known) * std + mean)


def test_label_len_is_not_used(name):
    first, second = model_of(name, label_len=0), model_of(name, label_len=13)
    assert torch.equal(first(*batch()), second(*batch()))


SIZES = ["model.d_ff=40", "model.n_heads=3", "model.decoder_layers=1"]
KINDS = ["model.activation={other}", "model.embedding=fixed", "model.instance_norm=true", "attention=topk"]


@pytest.mark.parametrize("change", [*SIZES, *KINDS])
def test_each_choice_changes_the_forecast(name, change):
    """No dead options."""
    other = {"gelu": "relu", "relu": "gelu"}[composed(f"model={name}").model.activation]
    past, past_known, future_known = batch()
    ones = [torch.ones_like(part) for part in (past_known, future_known)]
    forecasts = [model_of(name, *overrides)(past, *ones) for overrides in ([], [change.format(other=other)])]
    assert not torch.allclose(*forecasts)


def test_the_paper_s_attention_is_in_every_layer(name):
    kinds = {"gpt": "FullAttention", "logtrans": "LogSparseAttention", "sparse_transformer": "StridedAttention"}
    assert {type(layer.attention.mechanism).__name__ for layer in model_of(name).layers} == {kinds[name]}


def test_its_only_slot_must_decode_row_by_row(name):
    assert type(model_of(name)).cached_slots({}) == ("decoder_attention",)


def sines(n_windows):
    """Windows of a sine of period 8 from any phase: past (N, 16, 1), the calendar, future (N, 6, 1)."""
    phase = torch.rand(n_windows, 1, generator=torch.Generator().manual_seed(n_windows)) * 2 * math.pi
    series = torch.sin(phase + torch.arange(22) * 2 * math.pi / 8).unsqueeze(-1)
    return series[:, :16], torch.zeros(n_windows, 16, 0), torch.zeros(n_windows, 6, 0), series[:, 16:]


def test_the_loss_falls_on_a_sine_and_the_roll_out_beats_the_last_value(name):
    model = model_of(name, n_columns=1, targets=(0,), n_known=0, seq_len=16, label_len=0, pred_len=6).train()
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    *known, future = sines(64)
    losses = []
    for _ in range(40):
        adam.zero_grad()
        loss = torch.nn.functional.mse_loss(*model.training_outputs(*known, future))
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    *known, future = sines(17)
    error = (model.eval()(*known) - future).square().mean()
    assert error < 0.3 * (LastValue(window=model.window)(*known) - future).square().mean()
