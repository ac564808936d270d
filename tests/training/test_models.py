"""Every model and every attention through the whole program: train, evaluate, predict."""

import csv
import json
import os

import pytest
from checkpoints import DEMO, LENGTHS, write_untrained
from program import BRIEF, call, refusal

needs_ett = pytest.mark.skipif("FORECAST_DATA" not in os.environ, reason="FORECAST_DATA is not set")
A_FEW_STEPS = [
    *("data=ETTh1", "seq_len=24", "label_len=12", "pred_len=6"),
    *("trainer.max_epochs=1", "trainer.limit_train_batches=3", "trainer.limit_val_batches=2"),
    *("trainer.accelerator=cpu", "trainer.enable_progress_bar=false"),
]
SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 32}
WITHOUT_ATTENTION = ("dlinear", "nlinear")


def sizes(model):
    return [] if model in WITHOUT_ATTENTION else [f"model.{key}={value}" for key, value in SMALL.items()]


def metrics_of(folder):
    return json.loads((folder / "metrics.json").read_text())


# test_panel_models.py trains, evaluates and forecasts with every model. Here are those that record their attention
# otherwise: of three slots, of one, none.
@pytest.mark.slow
@needs_ett
@pytest.mark.parametrize("model", ["informer", "gpt", "dlinear"])
def test_a_model_trains_on_etth1_and_its_checkpoint_evaluates_to_the_same_figures(model, tmp_path):
    run = tmp_path / "run"
    fewer = ["data.split.val=500", "data.split.test=700"]  # rows: most of the time would go into evaluations
    call("train", f"model={model}", *A_FEW_STEPS, *fewer, *sizes(model), f"hydra.run.dir={run}")
    trained = metrics_of(run)
    assert trained["model"] == model
    assert trained["test"]["windows"] == 700 - 6 + 1
    assert trained["test"]["scaled"]["mse"] < 10
    if model in WITHOUT_ATTENTION:
        assert trained["attention"] is None and trained["attention_slots"] == {}
    else:
        assert trained["attention"] in trained["attention_slots"].values()
    again = tmp_path / "again"
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", "device=cpu", f"hydra.run.dir={again}")
    assert metrics_of(again)["test"] == trained["test"]


# tests/models/test_model_laws.py trains every model on one target of several and on one column; gpt learns all columns.
@pytest.mark.slow
@pytest.mark.parametrize(("model", "features"), [("informer", "MS"), ("informer", "S"), ("gpt", "MS")])
def test_a_model_forecasts_the_targets_of_each_kind_of_features(model, features, tmp_path):
    overrides = [f"model={model}", f"data.features={features}", *DEMO, *LENGTHS]
    best = write_untrained(tmp_path / "best.ckpt", *overrides, sizes=SMALL)
    output = tmp_path / "forecast.csv"
    call("predict", f"ckpt_path={best}", f"output={output}", "device=cpu", f"hydra.run.dir={tmp_path}/p")
    rows = list(csv.reader(output.read_text().splitlines()))
    assert len(rows) == 1 + 5
    assert {len(row) for row in rows} == {1 + 1}


# tests/models/test_model_laws.py makes a step with every attention, here each kind of program passes: drawn keys,
# patterns, hashes.
@pytest.mark.parametrize("attention", ["prob_causal", "logsparse", "lsh"])
def test_an_attention_of_each_kind_trains_in_the_informer(attention, tmp_path):
    run = tmp_path / "run"
    call("train", f"attention={attention}", *BRIEF, "trainer.limit_train_batches=2", f"hydra.run.dir={run}")
    assert metrics_of(run)["attention_slots"] == {"encoder": attention, "decoder": attention, "cross": "full"}


def test_each_run_says_once_that_single_head_attention_ignores_the_number_of_heads(tmp_path):
    """Also the second one in a process, as in a sweep, and not where there is nothing to ignore."""
    few = ["attention=single_head", *BRIEF, "trainer.fast_dev_run=true"]
    for run, (n_heads, lines) in enumerate([(2, 1), (1, 0), (2, 1)]):
        call("train", *few, f"model.n_heads={n_heads}", f"hydra.run.dir={tmp_path}/{run}")
        log = (tmp_path / f"{run}/train.log").read_text()
        assert log.count("Single-head attention has one head: model.n_heads=2 is ignored in its slots") == lines


def test_step_by_step_decoding_trains_evaluates_and_predicts(tmp_path):
    run = tmp_path / "run"
    few = ["trainer.limit_train_batches=2"]
    call("train", "attention=full", "model.decode=autoregressive", *BRIEF, *few, f"hydra.run.dir={run}")
    again = tmp_path / "again"
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", "device=cpu", f"hydra.run.dir={again}")
    assert metrics_of(again)["test"] == metrics_of(run)["test"]


TOO_LONG = {
    "bucket": ["attention=lsh", "attention.mechanism.bucket_size=24"],
    "window": ["attention=strided", "attention.mechanism.window=24"],
    "block": ["attention=fixed", "attention.mechanism.block=24"],
    "sub_len": ["attention=logsparse", "attention.mechanism.sub_len=24"],
}


@pytest.mark.parametrize("key", TOO_LONG)
def test_a_size_beyond_the_sequence_is_refused_before_the_training(key, tmp_path, capsys):
    message = refusal(capsys, "train", *TOO_LONG[key], *BRIEF, f"hydra.run.dir={tmp_path}/run")
    assert key in message and "24" in message and "19" in message
    assert not (tmp_path / "run/checkpoints").exists()
