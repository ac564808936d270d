"""The published recipes in conf/experiment."""

import pytest
from config.composed import composed

LINEAR = {"lr": 5e-3, "batch": 32, "epochs": 10, "patience": 3, "schedule": "type1"}
RECIPES = {
    "dlinear": {"target": "DLinear", "attention": None, **LINEAR},
    "nlinear": {"target": "NLinear", "attention": None, **LINEAR},
    "patchtst": {
        "target": "PatchTST",
        "attention": "full",
        "lr": 1e-4,
        "batch": 128,
        "epochs": 100,
        "patience": 20,
        "schedule": "type3",
    },
}


@pytest.mark.parametrize("model", RECIPES)
def test_an_experiment_is_the_published_recipe(model):
    cfg = composed(f"experiment={model}_etth1_96", hydra=True)
    assert (cfg.data.name, cfg.data.features, cfg.seq_len, cfg.pred_len) == ("ETTh1", "M", 336, 96)
    assert RECIPES[model] == {
        "target": cfg.model._target_.rsplit(".", 1)[-1],
        "attention": cfg.hydra.runtime.choices.attention,
        "lr": cfg.optim.lr,
        "batch": cfg.data.batch_size,
        "epochs": cfg.trainer.max_epochs,
        "patience": cfg.callbacks.early_stopping.patience,
        "schedule": cfg.schedule._target_.rsplit(".", 1)[-1],
    }


def test_the_command_line_wins_over_an_experiments_choices():
    cfg = composed("experiment=patchtst_etth1_96", "model=dlinear", "schedule=constant", "data=ETTh2")
    assert cfg.model._target_.endswith("DLinear")
    assert cfg.schedule._target_.endswith("constant")
    assert cfg.data.name == "ETTh2"


def test_patchtst_brings_full_attention_and_the_command_line_wins():
    def mechanism(*overrides):
        return composed(*overrides).model.encoder_attention.mechanism._target_.rsplit(".", 1)[-1]

    assert mechanism("model=patchtst") == "FullAttention"
    assert mechanism("model=patchtst", "attention=prob") == "ProbAttention"
    assert mechanism("experiment=patchtst_etth1_96", "attention=prob") == "ProbAttention"
    assert mechanism("model=patchtst", "attention@model.encoder_attention=lsh") == "LshAttention"
