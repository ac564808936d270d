"""Checkpoints with first weights, written in a moment instead of trained: what a program does with one is the same."""

import torch
from config.composed import composed

from forecast.apps.common.training_data import read_data
from forecast.checkpoint.model import build_model
from forecast.config import resolvers
from forecast.config.compose import plain_values, without_hydra
from forecast.config.run_config import RunConfig
from forecast.data.sources import Source
from forecast.evaluation.baselines import fit_baselines
from forecast.training.record import make_record, weights_only_content

DEMO = ["data=demo", "data.rows=700"]
LENGTHS = ["seq_len=22", "label_len=11", "pred_len=5"]
SIZES = {"d_model": 14, "n_heads": 2, "d_ff": 28}


def write_untrained(path, *overrides, sizes=SIZES):
    """A checkpoint as train.py OVERRIDES would leave it, of these sizes where the model has them. Returns the path."""
    resolvers.register()
    cfg, choices = without_hydra(composed(*overrides, hydra=True))
    config = RunConfig.of(plain_values(cfg))
    config = config.with_model({key: value for key, value in sizes.items() if key in config.model.node})
    source = config.data.build(Source)
    data = read_data(source, config)
    record = make_record(config, choices, source, data, fit_baselines(data))
    torch.manual_seed(3)
    model = build_model(config, record.data)
    torch.save(weights_only_content(model, record), path)
    return path
