"""The published recipes of forecast/config/published.yaml, and the ablations."""

import re
from itertools import product
from pathlib import Path

import pytest
from config.composed import composed
from program import TINY, call

from forecast.config import resolvers
from forecast.config.check import check_config
from forecast.config.compose import options

# the experiment -> model, attention, learning rate, batch size, epochs, patience, schedule
LINEAR = (None, 5e-3, 32, 10, 3, "halve_each_epoch")
RECIPES = {
    "dlinear/etth1_m_96": ("DLinear", *LINEAR),
    "dlinear/etth1_m_96 model=nlinear": ("NLinear", *LINEAR),
    "patchtst/etth1_96": ("PatchTST", "full", 1e-4, 128, 100, 20, "decay_90"),
}


@pytest.mark.parametrize("experiment", RECIPES)
def test_an_experiment_is_the_published_recipe(experiment):
    cfg = composed(*f"experiment={experiment}".split(), hydra=True)
    assert (cfg.data.name, cfg.data.features, cfg.seq_len, cfg.pred_len) == ("ETTh1", "M", 336, 96)
    assert RECIPES[experiment] == (
        cfg.model._target_.rsplit(".", 1)[-1],
        cfg.hydra.runtime.choices.attention,
        cfg.optim.lr,
        cfg.data.batch_size,
        cfg.trainer.max_epochs,
        cfg.callbacks.early_stopping.patience,
        cfg.schedule._target_.rsplit(".", 1)[-1],
    )


@pytest.mark.parametrize(
    ("overrides", "mechanism"),
    [
        ("model=patchtst", "FullAttention"),
        ("model=patchtst attention=prob", "ProbAttention"),
        ("experiment=patchtst/etth1_96 attention=prob", "ProbAttention"),
        ("model=patchtst attention@model.encoder_attention=lsh", "LshAttention"),
    ],
)
def test_patchtst_brings_full_attention_and_the_command_line_wins(overrides, mechanism):
    node = composed(*overrides.split()).model.encoder_attention.mechanism
    assert node._target_.rsplit(".", 1)[-1] == mechanism


SIZES = ("_target_", "d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "dropout", "distil", "decode")
# the first value of each is the reference row
ABLATIONS = {
    "attention": {
        "attention": "full,none,mean,prob,prob_causal,prob_informer2020,logsparse,lsh,strided,fixed,topk,single_head"
    },
    "autocorrelation": {"attention@model.encoder_attention": "full,autocorrelation"},
    "distilling": {"model.distil": "true,false", "seq_len": "96,336"},
    "decoder": {"model.decode": "one_shot,autoregressive"},
    "fidelity": {
        "variant": "corrected,divisor_all_keys,measure_future,inactive_sum,mix,with_replacement,keys_per_query,"
        "no_weight_dropout,fresh_eval_keys"
    },
    "instance_norm": {"model.instance_norm": "false,true"},
    "normalization": {"model.normalization": "none,mean_std,last,tail"},
    "scramble": {"attention": "prob,prob_scrambled"},
    "factor": {"attention.mechanism.factor": "5,1,3,10"},
}


def test_every_ablation_is_tested_here():
    assert set(options("experiment/ablation")) == set(ABLATIONS)


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_every_job_of_an_ablation_passes_the_check_and_is_a_run_of_its_own(ablation):
    """With the first seed; another seed is another run whatever else there is."""
    resolvers.register()
    params = composed(f"experiment=ablation/{ablation}", hydra=True).hydra.sweeper.params
    swept = ABLATIONS[ablation]
    assert {key: str(value) for key, value in params.items()} == {**swept, "seed": "1,2,3"}
    jobs = list(product(*([f"{key}={value}" for value in values.split(",")] for key, values in swept.items())))
    identities = set()
    for job in [*(["seed=1", *job] for job in jobs), ["seed=3", *jobs[0]]]:
        cfg = composed(f"experiment=ablation/{ablation}", "data=ETTh1", *job)
        check_config(cfg)
        identities.add(resolvers.identity(_root_=cfg))
    assert len(identities) == len(jobs) + 1


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_an_ablation_leaves_data_and_sizes_to_the_command_line(ablation):
    cfg = composed(f"experiment=ablation/{ablation}", "data=ETTh2", "model.d_model=64", "pred_len=48")
    assert (cfg.data.name, cfg.model.d_model, cfg.pred_len) == ("ETTh2", 64, 48)
    plain, cfg = composed(), composed(f"experiment=ablation/{ablation}")
    assert (cfg.data, cfg.optim, cfg.trainer) == (plain.data, plain.optim, plain.trainer)
    assert (cfg.seq_len, cfg.label_len, cfg.pred_len) == (96, 48, 24)
    own = (
        {"_target_", "decode"} if ablation == "normalization" else set()
    )  # of informer_plus, which has no other decoder
    sizes = [key for key in SIZES if key not in own]
    assert {key: cfg.model[key] for key in sizes} == {key: plain.model[key] for key in sizes}


def test_the_attentions_compared_are_all_there_are_but_two_that_have_ablations_of_their_own():
    compared = [*ABLATIONS["attention"]["attention"].split(","), "prob_scrambled", "autocorrelation"]
    assert sorted(compared) == options("attention", but="inherit")


def test_the_decoders_are_compared_with_full_attention_and_at_offsets():
    cfg = composed("experiment=ablation/decoder")
    assert cfg.attention.mechanism._target_.endswith("FullAttention")
    assert cfg.protocol.horizon_offsets == [12, 24, 48, 72]


@pytest.mark.slow
def test_a_sweep_of_an_ablation_runs_each_of_its_jobs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call("train", "-m", "experiment=ablation/scramble", "hydra.sweeper.params.seed=2", *TINY)
    configs = [file.read_text() for file in Path("multirun/ablation-scramble").glob("*/.hydra/config.yaml")]
    mechanisms = re.findall(r"Scrambled|forecast.attention.prob.Prob", "".join(configs))
    assert sorted(mechanisms) == ["Scrambled", "forecast.attention.prob.Prob"]
    assert all(re.search("^seed: 2$", config, re.MULTILINE) for config in configs)
