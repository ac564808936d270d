"""Columns of every role in every model that can use them: learned from, in every step, and nothing later."""

import pytest
import torch
from models.small import FULL, SIZES, window_shape
from models.test_model_laws import ATTENDING, inputs, small_model
from tables import windows_of

from forecast.apps.export import trace
from forecast.layers.embedding import CovariateEmbedding
from forecast.models.informer import Informer
from forecast.models.patchtst import PatchTST
from forecast.models.ridge import Ridge

# Two numbers and a category known in advance, a fact of each kind; a target and two observed columns.
COVARIATES, FACTS, CALENDAR = (0, 4, 0, 0, 3), (3, 4), 2
ROLES = {
    "n_columns": 3,
    "targets": (1,),
    "observed": (0, 2),
    "n_known": CALENDAR + len(COVARIATES),
    "covariates": COVARIATES,
    "facts": FACTS,
    "label_len": 7,
}


def with_roles(name, **window):
    short = ["model.patch_len=2"] * (name == "informer_plus")  # each step of a patch has tables of its own to learn
    model = small_model(name, "attention=full", *short, window={**ROLES, **window}) if name != "ridge" else None
    model = model or Ridge(window=window_shape(**{**ROLES, **window}))
    torch.manual_seed(7)
    for key, parameter in model.named_parameters():  # the first forecast of some models is zero
        if "tables" in key or "norm" not in key:
            torch.nn.init.normal_(parameter, std=0.3)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.weight.data[0] = 0
    return model.double()


def drawn(model):
    *known, future = (part.double() for part in inputs(model))
    return known, future


def changed(model, known, before, which, step, column):  # noqa: PLR0917
    """Whether the forecast is another than before with a known feature at a step, or a column of the past."""
    other = [part.clone() for part in known]
    size = dict(zip(range(CALENDAR, CALENDAR + len(COVARIATES)), COVARIATES, strict=True)).get(column) if which else 0
    cell = other[which][:, step, column]
    other[which][:, step, column] = (cell + 1) % size if size else cell + 0.5
    return not torch.equal(model(*other), before)


@pytest.mark.parametrize("name", ATTENDING)
def test_every_parameter_learns_from_columns_of_every_role(name):
    model = with_roles(name).train()
    known, future = drawn(model)
    forecast, truth = model.training_outputs(*known, future)
    torch.nn.functional.mse_loss(forecast, truth).backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trained)
    tables = [module.weight.grad for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    assert tables and all(grad[1:].any(1).all() and not grad[0].any() for grad in tables)


@pytest.mark.parametrize("name", [*ATTENDING, "ridge"])
def test_a_forecast_depends_on_each_covariate_at_the_steps_known_last_and_at_each_of_the_horizon(name):
    model = with_roles(name).eval()
    known, _ = drawn(model)
    before = model(*known)
    for column in range(CALENDAR, CALENDAR + len(COVARIATES)):
        fact = column - CALENDAR in FACTS
        if name == "ridge" and fact:  # read once
            assert changed(model, known, before, 2, slice(None), column)
            continue
        assert all(changed(model, known, before, 2, step, column) for step in range(model.window.pred_len))
        assert all(changed(model, known, before, 1, step, column) for step in (-3, -2, -1))


@pytest.mark.parametrize("name", ATTENDING)
def test_a_forecast_depends_on_each_observed_column(name):
    model = with_roles(name).eval()
    known, _ = drawn(model)
    before = model(*known)
    assert all(changed(model, known, before, 0, step, column) for step in (-3, -2, -1) for column in (0, 1, 2))


@pytest.mark.parametrize("name", [*ATTENDING, "ridge"])
def test_what_is_known_of_steps_after_the_horizon_changes_no_bit(name):
    model = with_roles(name).float().eval()
    w = model.window
    values, known = torch.randn(40, w.n_columns), torch.randint(3, (40, w.n_known)).float()

    def forecast(known):
        sizes = {"n_columns": w.n_columns, "seq_len": w.seq_len, "pred_len": w.pred_len, "targets": w.targets}
        batch = windows_of(torch.cat([values, known], 1), rows=range(40), **sizes).__getitems__([3])
        return model(*batch[:3])

    later = known.clone()
    later[3 + w.seq_len + w.pred_len :] = 2 - later[3 + w.seq_len + w.pred_len :]
    assert not torch.equal(later, known)
    assert torch.equal(forecast(later), forecast(known))


@pytest.mark.parametrize("covariates", [(0,), (5,), (0, 0), (3, 0)])
@pytest.mark.parametrize("name", ATTENDING)
def test_any_covariates_do_without_a_calendar_and_with_one_step_ahead(name, covariates):
    window = {"n_columns": 1, "targets": (0,), "observed": (), "facts": (), "covariates": covariates}
    model = with_roles(name, **window, n_known=len(covariates), pred_len=1)
    known, future = drawn(model)
    forecast, truth = model.train().training_outputs(*known, future)
    torch.nn.functional.mse_loss(forecast, truth).backward()
    assert model.eval()(*known).shape == (3, 1, 1)


@pytest.mark.parametrize("name", ["informer", "informer_stack", "transformer"])
def test_stepwise_decoding_learns_all_columns_and_returns_the_targets(name):
    model = small_model(
        name, "attention=full", "model.decode=autoregressive", window={**ROLES, "targets": (2, 0)}, mix=False
    )
    known, future = drawn(model.double())
    forecast, truth = model.train().training_outputs(*known, future)
    assert forecast.shape == truth.shape == future.shape and torch.equal(truth, future)
    model.eval()
    whole, _ = model.training_outputs(*known, future)
    out = model(*known)
    assert out.shape == (3, model.window.pred_len, 2)
    torch.testing.assert_close(out[:, 0], whole[:, 0, [2, 0]])  # the first step is made from true rows in both
    assert not torch.allclose(out[:, -1], whole[:, -1, [2, 0]])


@pytest.mark.parametrize("name", ["informer", "patchtst", "ridge"])
def test_a_model_with_covariates_is_exported_for_any_number_of_windows(name):
    model = with_roles(name).float().eval()
    known = inputs(model, batch=5)[:3]
    program = trace(model, known, batch=None)
    torch.testing.assert_close(program.module()(*known), model(*known), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(0,), (4,), (0, 4, 0, 3), (3, 0)])
def test_an_embedding_of_covariates_is_a_map_of_the_numbers_and_a_row_for_each_category(sizes):
    embedding = CovariateEmbedding(sizes, 7)
    covariates = torch.stack([torch.randint(s, (2, 5)).float() if s else torch.randn(2, 5) for s in sizes], 2)
    numbers = [i for i, size in enumerate(sizes) if not size]
    expected = torch.zeros(2, 5, 7)
    if numbers:
        expected = expected + covariates[..., numbers] @ embedding.numbers.weight.T
    for table, i in zip(embedding.tables, [i for i, size in enumerate(sizes) if size], strict=True):
        expected = expected + table.weight[covariates[..., i].long()]
    torch.testing.assert_close(embedding(covariates), expected)


def test_a_category_that_the_training_did_not_see_adds_nothing_and_learns_nothing():
    embedding = CovariateEmbedding((0, 4), 7)
    embedding.numbers.weight.data.zero_()
    unseen = torch.zeros(2, 5, 2)
    out = embedding(unseen)
    assert not out.any()
    (out.sum() + embedding(unseen + torch.tensor([0.0, 2.0])).sum()).backward()
    gradient = embedding.tables[0].weight.grad
    assert gradient[2].all() and not gradient[[0, 1, 3]].any()


def shifted_series(n=1500):
    """A column that is known in advance, a noise that is no wave, and the series that follows it two steps later."""
    generator = torch.Generator().manual_seed(0)
    known = torch.randn(n, 1, generator=generator).unfold(0, 5, 1).mean(-1) * 5**0.5
    return torch.cat([known.roll(2, 0) + 0.1 * torch.randn(known.shape, generator=generator), known], 1)


def learned_error(make, series, *, with_known):
    """MSE on the last windows after some steps of training."""
    data = series if with_known else series[:, :1]
    sizes = {"n_columns": 1, "seq_len": 12, "pred_len": 4, "targets": (0,)}
    window = window_shape(**sizes, n_known=int(with_known), label_len=6, covariates=(0,) * with_known)
    torch.manual_seed(1)
    model = make(window)
    ends = ((0, len(data) - 100), (len(data) - 100, len(data)))
    train, test = (windows_of(data.contiguous(), rows=range(*rows), **sizes) for rows in ends)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(100):
        batch = train.__getitems__(torch.randint(len(train), (32,)))
        forecast, truth = model.train().training_outputs(batch.past, batch.past_known, batch.future_known, batch.future)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(forecast, truth).backward()
        optimizer.step()
    batch = test.__getitems__(range(len(test)))
    return (model.eval()(*batch[:3]) - batch.target).square().mean().item()


def small_informer(window):
    slots = dict.fromkeys(("encoder_attention", "decoder_attention", "cross_attention"), FULL)
    return Informer(
        window=window, **{**SIZES, **slots, "d_model": 32, "d_ff": 64, "encoder_layers": 1, "distil": False}
    )


def small_patchtst(window):
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "dropout": 0.0, "activation": "gelu"}
    return PatchTST(window=window, **sizes, patch_len=4, stride=2, encoder_attention=FULL)


@pytest.mark.parametrize("make", [small_informer, small_patchtst])
def test_a_series_that_is_its_known_column_shifted_is_learned(make):
    series = shifted_series()
    assert learned_error(make, series, with_known=True) < learned_error(make, series, with_known=False) / 3
