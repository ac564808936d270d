"""PatchTST: its patches, that columns stand alone, its sizes. What it shares with all models: test_laws."""

import re

import pytest
import torch
from models.inputs import batch
from models.small import FULL, window_shape

from forecast.layers.patches import count_patches, cut_patches
from forecast.models.base import ForecastModel
from forecast.models.patchtst import BatchNorm, PatchTST

SIZES = {"d_model": 14, "n_heads": 2, "d_ff": 23, "encoder_layers": 2, "dropout": 0.0, "activation": "gelu"}
PAPER = {"d_model": 16, "n_heads": 4, "d_ff": 128, "encoder_layers": 3, "patch_len": 16, "stride": 8}
ETTH1 = {"n_columns": 7, "targets": tuple(range(7)), "pred_len": 96}


def patchtst(window=None, **changes):
    torch.manual_seed(0)
    own = {**SIZES, "patch_len": 7, "stride": 3, **changes}
    return PatchTST(window=window_shape(**(window or {})), encoder_attention=FULL, **own)


def test_patches_start_at_every_stride_th_step_and_the_last_value_is_repeated_at_the_end():
    columns = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [10, 11, 12, 13, 14, 15, 16, 17]]).float()
    patches = cut_patches(columns, 5, 3)
    first = [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 7, 7, 7]]
    assert patches.tolist() == [first, [[10 + v for v in patch] for patch in first]]


@pytest.mark.parametrize(("seq_len", "n_patches"), [(336, 42), (512, 64), (96, 12), (16, 2), (8, 1)])
def test_the_papers_patches_are_42_and_64(seq_len, n_patches):
    assert count_patches(seq_len, 16, 8) == n_patches
    assert cut_patches(torch.randn(3, seq_len), 16, 8).shape == (3, n_patches, 16)


@pytest.mark.parametrize(("patch_len", "stride"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 3), (5, 5), (7, 2), (7, 5)])
def test_the_last_value_is_in_the_last_patch_and_patches_are_as_many_as_counted(patch_len, stride):
    for seq_len in range(max(1, patch_len - stride), 20):
        patches = cut_patches(torch.arange(seq_len).float().unsqueeze(0), patch_len, stride)
        assert patches.shape[1] == count_patches(seq_len, patch_len, stride)
        assert patches[0, -1].max() == seq_len - 1


def test_a_window_without_a_patch_is_refused():
    text = "model.patch_len (16) must be at most seq_len (7) + model.stride (8), the window with its padding: "
    with pytest.raises(ValueError, match=re.escape(text) + "set model.patch_len=15 or lower, or seq_len=8 or higher"):
        patchtst({"seq_len": 7}, patch_len=16, stride=8)
    for allowed in ({"seq_len": 7, "patch_len": 15}, {"seq_len": 8, "patch_len": 16}):
        window = {"seq_len": allowed.pop("seq_len")}
        assert len(patchtst(window, stride=8, **allowed).positions) == 1


@pytest.mark.parametrize("seq_len", [1, 2, 3, 5, 16, 17])
@pytest.mark.parametrize("pred_len", [1, 31])
@pytest.mark.parametrize("n_columns", [1, 4])
def test_any_lengths_and_columns_are_learned_from_and_forecast(seq_len, pred_len, n_columns):
    sizes = {"seq_len": seq_len, "label_len": 0, "pred_len": pred_len, "n_columns": n_columns}
    model = patchtst({**sizes, "targets": (n_columns - 1,)}, patch_len=3, stride=2, instance_norm=True)
    for rows in (2, 1):  # the last batch of an epoch may hold a single window, with a single patch
        out = model.train()(*(part[:rows] for part in batch(sizes)))
        assert out.shape == (rows, pred_len, 1)
        out.square().mean().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
    assert model.eval()(*batch(sizes)).isfinite().all()


def test_columns_share_the_weights():
    model, (past, *known) = patchtst().eval(), batch()
    order = [2, 0, 1]
    torch.testing.assert_close(model(past[:, :, order], *known), model(past, *known)[:, :, order])


def test_the_columns_that_are_no_targets_are_forecast_too_and_take_part_in_the_batch_norm():
    model, (past, *known) = patchtst({"targets": (2,)}).train(), batch()
    changed = past.clone()
    changed[:, :, 0] += 1.0
    assert not torch.allclose(model(past, *known), model(changed, *known))


def test_a_position_is_of_a_patch():
    """Without positions the encoder would mix patches of equal content alike, and its rows would be equal."""
    model, rows = patchtst().eval(), []
    model.encoder[-1].register_forward_hook(lambda *call: rows.append(call[-1]))
    constant = torch.ones(1, 19, 3), torch.zeros(1, 19, 4), torch.zeros(1, 5, 4)
    model(*constant)
    assert (rows[0][:, 1:] != rows[0][:, :-1]).any(-1).all()
    torch.nn.init.zeros_(model.positions)
    model(*constant)
    torch.testing.assert_close(rows[1][:, 1:], rows[1][:, :-1])


def test_positions_start_near_zero():
    positions = patchtst(d_model=1024).positions
    assert positions.abs().max().item() == pytest.approx(0.02, rel=1e-2)
    assert positions.mean().item() == pytest.approx(0, abs=1e-3)


def test_layers_are_post_norm_with_batch_norm_and_no_layer_norm():
    model = patchtst(encoder_layers=3)
    assert sum(isinstance(m, BatchNorm) for m in model.modules()) == 2 * 3
    assert not any(isinstance(m, torch.nn.LayerNorm) for m in model.modules())


def test_parameter_counts_are_those_of_the_papers_sizes():
    """d = 16, ff = 128: embedding, positions, 3 layers of attention, feed-forward and two norms, head."""
    layer = 4 * (16 * 16 + 16) + (16 * 128 + 128 + 128 * 16 + 16) + 2 * 2 * 16
    for seq_len, n, total in ((336, 42, 81_728), (512, 64, 115_872)):
        model = patchtst({**ETTH1, "seq_len": seq_len}, **PAPER)
        expected = (16 * 16 + 16) + n * 16 + 3 * layer + (n * 16 * 96 + 96)
        assert sum(p.numel() for p in model.parameters()) == expected == total


def test_the_embedded_patches_are_dropped_in_training():
    model = patchtst(dropout=1.0).train()
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(*batch())
    assert (seen[0] == 0).all()


def test_it_trains_on_its_targets():
    assert PatchTST.training_outputs is ForecastModel.training_outputs
