"""What every model that is trained step by step must obey: one per file of conf/model, built from the real config."""

import inspect

import numpy as np
import pytest
import torch
from config.composed import composed
from models.small import window_shape
from omegaconf import OmegaConf
from tables import stacked, windows_of

from forecast.attention.base import Mechanism
from forecast.config.build import build
from forecast.config.compose import options
from forecast.layers.heads import OutputMap
from forecast.models.base import ForecastModel

# Without gradients: test_fitted.py, test_boosted_trees.py, test_statistical.py, ../commands/test_weighted_ensemble.py.
FITTED = (
    *("last_value", "seasonal_naive", "season_mean", "train_mean"),
    *("ridge", "smoothing", "boosted_trees", "theta", "ets", "arima"),
    "weighted_ensemble",
)
MODELS = [name for name in options("model") if name not in FITTED]
ATTENTIONS = options("attention", but="inherit")
ENCODER_ALONE = {"autocorrelation"}  # of the self slots
# The attention of each model's paper; None: no slot for one.
PAPERS = {
    "informer": "prob",
    "informer2020": "prob_informer2020",
    "informer_plus": "prob",
    "informer_stack": "prob_informer2020",
    "transformer": "full",
    "logtrans": "logsparse",
    "reformer": "lsh",
    "sparse_transformer": "strided",
    "sha": "single_head",
    "patchtst": "full",
    "gpt": "full",
    "dlinear": None,
    "nlinear": None,
}
ATTENDING = [name for name in MODELS if PAPERS.get(name, name)]
SMALL = {"d_model": 24, "n_heads": 2, "d_ff": 48, "dropout": 0.1}
B = 3
WINDOWS = {
    "all columns": {},
    "one column": {"n_columns": 1, "targets": (0,)},
    "one target of several": {"n_columns": 5, "targets": (4,)},
    "two targets in another order": {"n_columns": 5, "targets": (3, 1)},
    "one step ahead without a start token": {"pred_len": 1, "label_len": 0},
    "further than the window": {"seq_len": 17, "pred_len": 31},
    "short window": {"seq_len": 16, "label_len": 8, "pred_len": 3},
    "whole window as start token": {"label_len": 19},
    "start token longer than the window": {"label_len": 23},
    "no calendar": {"n_known": 0},
    "padded rows": {"n_known": 5, "padding": (2,)},
}


def small_model(model, *overrides, window=None, **sizes):
    """The model of the config at small sizes."""
    cfg = composed(f"model={model}", *overrides)
    for key, value in {**SMALL, **sizes}.items():
        if key in cfg.model:
            OmegaConf.update(cfg, f"model.{key}", value)
    torch.manual_seed(1)
    return build(cfg.model, window=window_shape(**(window or {})))


def with_normed_windows(name):
    """What is typed for windows of mean 0 and deviation 1, and nothing beside the network."""
    own = name == "informer_plus"  # which has a key of its own, and is added to a ridge
    return ("model.normalization=mean_std", "model.skip=none") if own else ("model.instance_norm=true",)


def with_windows_as_they_are(name):
    own = name == "informer_plus"
    return ("model.normalization=none", "model.skip=none") if own else ("model.instance_norm=false",)


def inputs(model, seed=0, batch=B):
    """Past, its known features, the future's, and the future itself."""
    w, generator = model.window, torch.Generator().manual_seed(seed)
    series = torch.randn(batch, w.seq_len + w.pred_len, w.n_columns, generator=generator).cumsum(1)
    known = torch.rand(batch, w.seq_len + w.pred_len, w.n_known, generator=generator) - 0.5
    for i, size in enumerate(w.covariates):
        if size:
            numbers = torch.randint(size, known.shape[:2], generator=generator)
            known[..., w.n_known - len(w.covariates) + i] = numbers.float()
    return series[:, : w.seq_len], known[:, : w.seq_len], known[:, w.seq_len :], series[:, w.seq_len :]


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


def attention_of(name):
    cfg = composed(f"model={name}", hydra=True)
    return cfg.hydra.runtime.choices.attention


def test_each_model_brings_the_attention_of_its_paper():
    assert {name: attention_of(name) for name in MODELS} == PAPERS


def test_a_forecast_is_made_from_what_is_known_alone(name):
    model = small_model(name)
    assert isinstance(model, ForecastModel)
    for method in (model.forward, model.forecast):
        assert list(inspect.signature(method).parameters) == ["past", "past_known", "future_known"]


def test_noise_in_place_of_all_values_after_the_origin_changes_no_bit_of_the_forecast(name):
    model = small_model(name).eval()
    w = model.window
    rng = np.random.default_rng(0)
    values, known = rng.normal(size=(40, w.n_columns)).cumsum(0), rng.random((40, w.n_known)) - 0.5

    def forecast(values):
        series = stacked(values, known)
        sizes = {"n_columns": w.n_columns, "seq_len": w.seq_len, "pred_len": w.pred_len, "targets": w.targets}
        batch = windows_of(series, rows=range(40), **sizes).__getitems__([3])
        return model(batch.past, batch.past_known, batch.future_known), batch.target

    noisy = values.copy()
    noisy[3 + w.seq_len :] = rng.normal(size=noisy[3 + w.seq_len :].shape) * 100
    (before, truth), (after, noise) = forecast(values), forecast(noisy)
    assert torch.equal(before, after)
    assert not torch.allclose(truth, noise)


def test_only_a_decoder_that_makes_all_steps_at_once_from_their_calendar_supports_a_horizon_offset(name):
    one_shot = {"informer", "informer2020", "informer_stack", "transformer"}
    assert small_model(name).supports_horizon_offset() == (name in one_shot)
    if name in one_shot:
        stepwise = small_model(name, "attention=full", "model.decode=autoregressive", mix=False)
        assert not stepwise.supports_horizon_offset()


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_any_window_is_learned_from_and_forecast(name, window):
    if window.get("label_len") == 23 and type(small_model(name)).has_start_token():
        with pytest.raises(ValueError, match=r"label_len \(23\) must be at most seq_len \(19\)"):
            small_model(name, window=window)
        return
    model = small_model(name, window=window)
    past, past_known, future_known, future = inputs(model)
    forecast, truth = model.train().training_outputs(past, past_known, future_known, future)
    assert forecast.shape == truth.shape
    torch.nn.functional.mse_loss(forecast, truth).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    out = model.eval()(past, past_known, future_known)
    assert out.shape == (B, model.window.pred_len, model.window.n_targets)
    assert out.isfinite().all()


def test_equal_evaluation_calls_agree_to_the_last_bit_whatever_was_drawn_before(name):
    model = small_model(name).eval()
    *known, _ = inputs(model)
    first = model(*known)
    torch.rand(3)
    model(*inputs(model, seed=1)[:3])  # no state is carried over from other windows
    assert torch.equal(model(*known), first)


def test_a_forecast_leaves_the_random_generator_and_the_weights_alone(name):
    model = small_model(name).eval()
    *known, _ = inputs(model)
    before, weights = torch.get_rng_state(), {key: value.clone() for key, value in model.state_dict().items()}
    with torch.inference_mode():
        model(*known)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())


def test_windows_of_a_batch_do_not_see_each_other_in_evaluation(name):
    model = small_model(name).eval()
    *known, _ = inputs(model)
    torch.testing.assert_close(model(*known)[1:], model(*(part[1:] for part in known)), rtol=1e-4, atol=1e-5)


def test_the_target_columns_are_those_of_the_window(name):
    """A forecast of columns 3 and 1 is compared with the truth of columns 3 and 1."""
    model = small_model(name, window={"n_columns": 5, "targets": (3, 1)})
    past, past_known, future_known, future = inputs(model)
    _, truth = ForecastModel.training_outputs(model.eval(), past, past_known, future_known, future)
    torch.testing.assert_close(truth, future[:, :, [3, 1]])


@pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN")  # torch's own, where oneDNN is switched off
def test_in_mixed_precision_a_forecast_has_more_digits_than_bfloat16(name):
    model = small_model(name).eval()
    for part in model.modules():
        if isinstance(part, OutputMap):  # some begin with zeros
            torch.nn.init.normal_(part.weight)
    # oneDNN has no LSTM of bfloat16 numbers on every processor
    with torch.autocast("cpu", torch.bfloat16), torch.backends.mkldnn.flags(enabled=False), torch.no_grad():
        forecast = model(*inputs(model)[:3])
    assert forecast.dtype == torch.float32
    assert not torch.equal(forecast, forecast.bfloat16().float())


@pytest.mark.parametrize("model", ATTENDING)
def test_instance_normalisation_makes_a_forecast_follow_level_and_scale(model):
    normed = small_model(model, *with_normed_windows(model)).eval()
    past, past_known, future_known, _ = inputs(normed)
    past = past * 10  # far above what is added to the variance
    moved = normed(past * 3 + 50, past_known, future_known)
    expected = normed(past, past_known, future_known) * 3 + 50
    torch.testing.assert_close(moved, expected, rtol=1e-3, atol=1e-2)
    plain = small_model(model, *with_windows_as_they_are(model)).eval()
    difference = plain(past * 3 + 50, past_known, future_known) - (plain(past, past_known, future_known) * 3 + 50)
    assert difference.abs().max() > 1


@pytest.mark.parametrize("name", ATTENDING)
def test_dropout_makes_training_random_and_leaves_evaluation_alone(name):
    model, other = (small_model(name, "attention=full", dropout=dropout) for dropout in (0.3, 0.0))
    for parameter in model.parameters():  # the first forecast of a Sparse Transformer is zero
        torch.nn.init.normal_(parameter, std=0.3)
    other.load_state_dict(model.state_dict())
    *known, future = inputs(model)
    assert torch.equal(model.eval()(*known), other.eval()(*known))
    first, second = (model.train().training_outputs(*known, future)[0] for _ in range(2))
    assert not torch.equal(first, second)


# Which attention layers see the past alone: an encoder of three layers, a decoder of two, with cross-attention or not.
CAUSAL = {
    **dict.fromkeys(("informer", "informer2020", "informer_plus", "transformer"), [False] * 3 + [True, False] * 2),
    "informer_stack": [False] * (2 + 1 + 3) + [True, False] * 2,
    **dict.fromkeys(("logtrans", "sparse_transformer", "sha", "gpt"), [True] * 2),
    **dict.fromkeys(("reformer", "patchtst"), [False] * 3),
}


@pytest.mark.parametrize("name", ATTENDING)
def test_attention_layers_are_numbered_through_the_model_and_only_a_decoders_own_are_causal(name):
    """By its number each draws its own keys."""
    model = small_model(name, encoder_layers=3, stack_layers=[2, 1, 3], decoder_layers=2)
    mechanisms = [module for module in model.modules() if isinstance(module, Mechanism)]
    assert [mechanism.causal for mechanism in mechanisms] == CAUSAL[name]
    assert [mechanism.layer for mechanism in mechanisms] == list(range(len(CAUSAL[name])))


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("n_heads", [1, 3])
def test_every_attention_works_in_the_informers_encoder_and_decoder_from_16_steps_on(attention, n_heads):
    """With its default sizes, also after distilling to 8 and 4 steps, and for an odd number of heads."""
    window = {"seq_len": 16, "label_len": 8, "pred_len": 8}
    slot = "attention@model.encoder_attention" if attention in ENCODER_ALONE else "attention"
    model = small_model("informer", f"{slot}={attention}", window=window, n_heads=n_heads, encoder_layers=3)
    past, past_known, future_known, future = inputs(model)
    forecast, truth = model.training_outputs(past, past_known, future_known, future)
    torch.nn.functional.mse_loss(forecast, truth).backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.eval()(past, past_known, future_known).isfinite().all()
