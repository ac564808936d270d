"""InformerPlus: each switch, and the forecast under it. What it shares with all models: test_model_laws."""

import numpy as np
import pytest
import torch
from config.composed import composed, refusal
from models.inputs import batch
from models.small import FULL, PROB, SIZES, informer, window_shape
from models.test_fitted import rows as fitting_rows
from models.test_fitted import season, window

from forecast.config.check import check_config
from forecast.layers.patched_steps import patched, unpatched
from forecast.layers.window_scale import NORMALIZATIONS
from forecast.models.informer_plus import InformerPlus
from forecast.models.naive import SeasonalNaive
from forecast.models.ridge import Ridge
from forecast.models.spread import Normal, Quantiles

SWITCHES = {
    "normalization": "mean_std",
    "columns": "joint",
    "tokens": "conv",
    "patch_len": 3,
    "skip": "none",
}
OWN = {key: value for key, value in SIZES.items() if key not in ("mix", "instance_norm")}
SLOTS = {"encoder_attention": PROB, "decoder_attention": PROB, "cross_attention": FULL}
L, P = 19, 5


def plus(shape=None, **changes):
    torch.manual_seed(1)
    sizes = shape if shape is not None else window_shape()
    return InformerPlus(window=sizes, **{**OWN, **SWITCHES, **SLOTS, **changes}).eval()


def with_gate(model, value):
    torch.nn.init.constant_(model.gate, value)
    return model


def test_a_patch_is_a_step_of_so_many_times_as_many_columns():
    rows = torch.arange(2 * 7 * 5.0).reshape(2, 7, 5)
    for first in (True, False):
        patches = patched(rows, 3, first=first)
        assert patches.shape == (2, 3, 15)
        steps = [0, 0, *range(7)] if first else [*range(7), 6, 6]
        for n in range(3):
            for step in range(3):
                assert torch.equal(patches[:, n, 5 * step : 5 * step + 5], rows[:, steps[3 * n + step]])
    assert torch.equal(unpatched(patched(rows, 3, first=False), 3, 7), rows)
    assert torch.equal(patched(rows, 1, first=True), rows)
    assert patched(rows[..., :0], 3, first=True).shape == (2, 3, 0)  # no calendar


def test_with_every_switch_off_it_is_an_informer():
    """The same weights, to the bit."""
    torch.manual_seed(1)
    plain = informer().eval()
    model = plus(normalization="none")
    model.network.load_state_dict(plain.state_dict())
    assert torch.equal(model(*batch()), plain(*batch()))


def test_window_and_start_token_are_normalised_as_an_instance_norm_does():
    torch.manual_seed(1)
    normed = informer(instance_norm=True).eval()
    model = plus()
    model.network.load_state_dict(normed.state_dict())
    torch.testing.assert_close(model(*batch()), normed(*batch()))


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_where_a_window_lies(name):
    past = torch.randn(2, L, 3, generator=torch.Generator().manual_seed(0)).double() * 5 + 70
    values = past.numpy()
    expected = {
        "mean_std": (values.mean(1), values.std(1)),
        "last": (values[:, -1], values.std(1)),
        "tail": (values[:, -5:].mean(1), values[:, -5:].std(1)),  # a quarter of 19 rows
        "none": (np.zeros((2, 3)), np.ones((2, 3))),
    }[name]
    for found, wanted in zip(NORMALIZATIONS[name](past, None), expected, strict=True):
        np.testing.assert_allclose(found[:, 0].numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("tokens", ["conv", "patch", "variate"])
@pytest.mark.parametrize("columns", ["joint", "independent"])
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_a_forecast_follows_level_and_scale_of_its_window(name, columns, tokens):
    model = plus(normalization=name, columns=columns, tokens=tokens)
    past, *known = batch()
    past = past * 10  # far above what is added to a variance
    moved, expected = model(past * 3 + 50, *known), model(past, *known) * 3 + 50
    assert torch.allclose(moved, expected, rtol=1e-3, atol=1e-2) == (name != "none")


@pytest.mark.parametrize("tokens", ["conv", "patch", "variate"])
def test_columns_stand_alone_or_together(tokens):
    past, *known = batch()
    other = past.clone()
    other[:, :, 2] += torch.randn(L)
    for columns in ("joint", "independent"):
        model = plus(columns=columns, tokens=tokens)
        same = torch.isclose(model(other, *known), model(past, *known)).all(1)
        assert same[:, :2].all() == (columns == "independent")
        assert not same[:, 2].any()


def test_independent_targets_are_forecast_as_if_each_were_alone():
    model = plus(window_shape(targets=(2, 0)), columns="independent", tokens="patch")
    past, *known = batch()
    alone = plus(window_shape(n_columns=1, targets=(0,)), columns="independent", tokens="patch")
    alone.load_state_dict(model.state_dict())
    for t, column in enumerate((2, 0)):
        torch.testing.assert_close(model(past, *known)[:, :, [t]], alone(past[:, :, [column]], *known))


def test_each_switch_changes_the_forecast():
    base = plus()(*batch())
    changes = [*({"normalization": name} for name in ("last", "tail", "none")), {"columns": "independent"}]
    changes += [
        {"tokens": "patch"},
        {"tokens": "variate"},
        {"skip": "seasonal"},
        {"skip": "ridge"},
        {"distil": False},
        {"dropout": 0.0},
    ]
    differ = [not torch.allclose(plus(**change)(*batch()), base) for change in changes]
    assert differ == [True] * 9 + [False]  # the last one was so before
    patches = plus(tokens="patch")(*batch())
    assert not torch.allclose(plus(tokens="patch", patch_len=2)(*batch()), patches)


def test_every_input_reaches_every_step():
    model = plus(columns="independent", tokens="patch")
    past, past_known, future_known = (part.clone().requires_grad_() for part in batch())
    for step in range(P):
        out = model(past, past_known, future_known)[:, step].sum()
        gradients = torch.autograd.grad(out, (past, past_known, future_known))
        assert all(gradient.abs().sum() > 0 for gradient in gradients)


# The skip


def test_an_untrained_model_forecasts_what_its_skip_does_to_the_bit():
    past, *known = batch()
    seasonal = SeasonalNaive(window=window_shape(), period=7)
    model = plus(skip="seasonal", skip_options={"period": 7})
    assert torch.equal(model(past, *known), seasonal(past, *known))
    assert not torch.equal(with_gate(model, 0.5)(past, *known), seasonal(past, *known))


def test_the_networks_forecast_is_added_in_the_windows_deviations_times_a_gate_of_each_target():
    past, *known = batch()
    model = plus(skip="seasonal", skip_options={"period": 7})
    model.gate.data = torch.tensor([0.0, 1.0, -2.0])
    mean, std = past.mean(1, keepdim=True), torch.sqrt(past.var(1, keepdim=True, unbiased=False) + 1e-5)
    network = model.network((past - mean) / std, *known)
    expected = model.skip(past, *known) + model.gate * network * std
    torch.testing.assert_close(model(past, *known), expected)


def test_the_gate_lets_the_network_learn():
    """At a gate of 0 only the gate has a gradient; from then on the network has one too."""
    model, (past, *known) = plus(skip="seasonal"), batch()
    optimizer = torch.optim.Adam(p for p in model.parameters() if p.requires_grad)
    truth, seen = torch.randn(2, P, 3, generator=torch.Generator().manual_seed(1)), []
    for _ in range(2):
        optimizer.zero_grad()
        (model(past, *known) - truth).square().mean().backward()
        seen.append(model.network.decoder.head.weight.grad.abs().sum() > 0)
        assert (model.gate.grad.abs() > 0).all()
        optimizer.step()
    assert seen == [False, True]


def test_a_ridge_is_fitted_as_a_ridge_alone_is_and_is_not_trained_on():
    series = season(13, noise=0.3, n_targets=2)
    shape = window(targets=(0, 1), n_columns=2, label_len=3)
    model, alone = plus(shape, skip="ridge"), Ridge(window=shape)
    options = model.prepare(fitting_rows(series, period=13))
    assert options == {"skip_options": alone.fit(fitting_rows(series, period=13))}
    assert model.look_back == alone.look_back > shape.seq_len
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["skip.weight", "skip.bias"]
    past = series[None, : model.look_back].float()
    none = past.new_empty(1, model.look_back, 0), past.new_empty(1, shape.pred_len, 0)
    assert torch.equal(model(past, *none), alone(past, *none))

    again = plus(shape, skip="ridge", **options)  # as a checkpoint's config has them
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(past, *none), model(past, *none))


def test_the_network_reads_the_end_of_what_a_long_skip_reads():
    series = season(13, noise=0.3, n_targets=2)
    shape = window(targets=(0, 1), n_columns=2, label_len=3)
    model = plus(shape, skip="ridge")
    model.prepare(fitting_rows(series, period=13))
    with_gate(model, 1.0)
    past = series[None, : model.look_back].float()
    none = past.new_empty(1, model.look_back, 0), past.new_empty(1, shape.pred_len, 0)
    recent = past[:, -shape.seq_len :]
    mean, std = recent.mean(1, keepdim=True), torch.sqrt(recent.var(1, keepdim=True, unbiased=False) + 1e-5)
    network = model.network((recent - mean) / std, none[0][:, -shape.seq_len :], none[1])
    torch.testing.assert_close(model(past, *none), model.skip(past, *none) + network * std)


@pytest.mark.parametrize("spread", [Quantiles(levels=[0.1, 0.5, 0.9]), Normal()], ids=["quantiles", "normal"])
@pytest.mark.parametrize("skip", ["seasonal", "none"])
@pytest.mark.parametrize("columns", ["joint", "independent"])
def test_intervals_lie_around_the_skips_forecast(spread, skip, columns):
    shape = window_shape(outputs=spread.n_outputs)
    model = plus(
        shape,
        skip=skip,
        columns=columns,
        tokens="patch",
        **({"skip_options": {"period": 7}} if skip == "seasonal" else {}),
    )
    model.add_spread(spread)
    point, lower, upper = model.interval(*batch(), [80])
    assert point.shape == (2, P, 3)
    assert (lower[..., 0] < point).all() and (point < upper[..., 0]).all()
    if skip == "seasonal":
        assert torch.equal(point, model.skip(*batch()))
    past, *known = batch()
    assert torch.allclose(model.interval(past * 100, *known, [80])[2], upper * 100, rtol=1e-2, atol=1e-2)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"Set model.embedding=timeF, or model.tokens=conv"):
        plus(tokens="patch", embedding="fixed")
    with pytest.raises(ValueError, match=r"a variate has the calendar of several steps"):
        plus(tokens="variate", embedding="fixed")
    with pytest.raises(ValueError, match=r"label_len \(23\) must be at most seq_len \(19\)"):
        plus(window_shape(label_len=23), tokens="patch")


@pytest.mark.parametrize("cure", ["model.embedding=timeF", "model.tokens=conv"])
def test_patches_of_single_steps_calendars_are_refused_before_any_data_is_read(cure):
    line = refusal("model=informer_plus model.embedding=fixed")
    assert line == (
        "model.tokens=patch: a patch has the calendar of several steps, and model.embedding=fixed looks up that of "
        "one: set model.embedding=timeF, or model.tokens=conv"
    )
    check_config(composed("model=informer_plus", "model.embedding=fixed", cure))
    line = refusal("model=informer_plus model.tokens=variate model.embedding=fixed")
    assert line.startswith("model.tokens=variate: a variate has the calendar of several steps, and ")
