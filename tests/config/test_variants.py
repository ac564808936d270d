"""The variants: each is one change to the corrected Informer, and it has its effect."""

from functools import cache

import pytest
import torch
from config.composed import composed, refusal
from omegaconf import OmegaConf

from forecast.config import resolvers
from forecast.config.build import build
from forecast.config.compose import CONF, options, walk
from forecast.config.resolvers import identity
from forecast.models.base import WindowShape

MECHANISM = "attention.mechanism"
# what each changes of the resolved config: its keys with their values
CHANGES = {
    "corrected": {},
    "divisor_all_keys": {f"{MECHANISM}.divisor": "all"},
    "measure_future": {f"{MECHANISM}.causal_measure": "all"},
    "inactive_sum": {f"{MECHANISM}.inactive": "sum"},
    "mix": {"model.mix": True},
    "with_replacement": {f"{MECHANISM}.key_sampling": "with_replacement"},
    "keys_per_query": {f"{MECHANISM}.key_sampling": "per_query"},
    "no_weight_dropout": {f"{MECHANISM}.dropout": 0.0},
    "fresh_eval_keys": {f"{MECHANISM}.eval_seed": None},
}
SMALL = ["model.d_model=14", "model.n_heads=2", "model.d_ff=17", f"{MECHANISM}.factor=1"]


@pytest.fixture(autouse=True)
def registered():
    resolvers.register()


@cache
def resolved(*overrides):
    """The values of a resolved config by path; a model's slots repeat what attention= chose and are left out."""
    paths = walk(OmegaConf.to_container(composed(*overrides), resolve=True))
    return {path: value for path, value in paths if not isinstance(value, dict) and "_attention" not in path}


def test_every_variant_is_tested_here():
    assert set(options("variant")) == set(CHANGES)


@pytest.mark.parametrize("variant", CHANGES)
def test_a_variant_is_one_change_with_one_line_that_says_what_it_is(variant):
    lines = (CONF / "variant" / f"{variant}.yaml").read_text().splitlines()
    assert lines[0] == "# @package _global_"
    assert [line.startswith("# ") for line in lines[:3]].count(True) == 2
    before, after = resolved(), resolved(f"variant={variant}")
    assert {key: value for key, value in after.items() if key not in before or before[key] != value} == CHANGES[variant]
    assert before.keys() <= after.keys()


def test_corrected_is_the_run_without_a_variant():
    assert identity(_root_=composed("variant=corrected")) == identity(_root_=composed())


def test_a_variant_wins_over_an_experiment_and_the_command_line_over_both():
    both = ["experiment=etth1_small", "variant=mix"]
    assert composed(*both).model.mix is True
    assert composed(*both, "model.mix=false").model.mix is False
    assert composed("variant=no_weight_dropout", f"{MECHANISM}.dropout=0.5").attention.mechanism.dropout == 0.5
    assert composed("variant=no_weight_dropout", "experiment=etth1_small").attention.mechanism.dropout == 0


REFUSED = {
    "divisor_all_keys attention=full": "attention.mechanism.divisor=all: unknown key.",
    "keys_per_query attention=full": "mechanism.key_sampling=per_query: unknown key.",
    "with_replacement attention=topk": "mechanism.key_sampling=with_replacement: unknown key.",
    "inactive_sum model=informer2020": "attention.mechanism.inactive=sum: unknown key.",
    "measure_future model=dlinear": "attention: this model has none; leave attention= and attention.KEY= out",
    "fresh_eval_keys attention=full": "attention.mechanism.eval_seed=null: unknown key.",
    "mix model=dlinear": "model.mix=true: unknown key.",
    "corrected +attention.mechanism.divisor=some": "attention.mechanism.divisor=some: must be 'sampled' or 'all'",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_a_variant_of_what_has_no_such_part_is_refused_in_one_line(overrides):
    (line,) = refusal(f"variant={overrides}").splitlines()
    assert REFUSED[overrides] in line


@cache
def forecasts(variant):
    """Two forecasts in evaluation and one in training without dropout in the layers, of equal weights and windows."""
    window = WindowShape(n_columns=3, targets=(0, 1, 2), n_known=2, seq_len=59, label_len=31, pred_len=7)
    torch.manual_seed(0)
    model = build(composed(f"variant={variant}", *SMALL).model, window=window)
    generator = torch.Generator().manual_seed(1)
    batch = [torch.randn(5, n, c, generator=generator) for n, c in ((59, 3), (59, 2), (7, 2))]
    with torch.no_grad():
        result = [model.eval()(*batch), model(*batch)]
    torch.manual_seed(2)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return [*result, model.train()(*batch).detach()]


@pytest.mark.parametrize("variant", sorted(set(CHANGES) - {"corrected"}))
def test_a_variant_changes_the_forecast_where_it_says(variant):
    (first, again, trained), corrected = forecasts(variant), forecasts("corrected")
    assert torch.equal(first, corrected[0]) == (variant == "no_weight_dropout")
    assert torch.equal(again, first) == (variant != "fresh_eval_keys")
    assert torch.equal(trained, corrected[2]) == (variant == "fresh_eval_keys")
