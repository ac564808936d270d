"""protocol.horizon_offsets: the same figures from train.py and evaluate.py, in files and on the screen."""

import json

import pytest
from checkpoints import DEMO, LENGTHS, write_untrained
from program import TINY, call, refusal

RUN = ["status", "model", "attention", "attention_slots", "data", "features", "target", "protocol", "seed"]
SIZES = ["seq_len", "label_len", "pred_len", "parameters", "best_epoch", "same_data"]
BEFORE, AFTER = [*RUN, *SIZES, "test", "baselines", "mase_scale", "scaling"], ["val", "cost", "files"]


def read(folder):
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training with two offsets."""
    folder = tmp_path_factory.mktemp("offsets") / "run"
    call("train", *TINY, "protocol.horizon_offsets=[3,5]", "checks.leakage=false", f"hydra.run.dir={folder}")
    return folder


def test_evaluate_gives_the_trainings_own_offsets_whatever_the_batch_size(run, tmp_path, capsys):
    best = f"ckpt_path={run}/checkpoints/best.ckpt"
    call("evaluate", best, "protocol.horizon_offsets=[3,5]", "data.batch_size=7", f"hydra.run.dir={tmp_path}")
    trained, again = read(run), read(tmp_path)
    assert again["offsets"] == trained["offsets"]
    assert {o: block["windows"] for o, block in trained["offsets"].items()} == {"3": 133, "5": 131}
    assert trained["test"]["windows"] == 136
    assert list(trained) == [*BEFORE, "offsets", *AFTER]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    mse = [trained["test"]["scaled"]["mse"], *(trained["offsets"][o]["scaled"]["mse"] for o in ("3", "5"))]
    printed = [line for line in lines if len(line) == 5 and line[0] in ("0", "3", "5")]
    assert [line[2] for line in printed] == [f"{value:.4f}" for value in mse]


def test_without_offsets_the_file_keeps_its_keys_and_figures(run, tmp_path, trained):
    assert list(trained) == [*BEFORE, *AFTER]
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", f"hydra.run.dir={tmp_path}")
    assert "offsets" not in read(tmp_path)
    assert read(tmp_path)["test"] == read(run)["test"]
    assert read(tmp_path)["baselines"] == read(run)["baselines"]


def test_offsets_of_a_model_that_goes_step_by_step_are_null_and_explained(tmp_path, capsys):
    changes = ["model.decode=autoregressive", "model.mix=false", "attention=full"]
    checkpoint = write_untrained(tmp_path / "best.ckpt", *DEMO, *LENGTHS, *changes)
    folder = tmp_path / "run"
    call("evaluate", f"ckpt_path={checkpoint}", "protocol.horizon_offsets=[3,5]", f"hydra.run.dir={folder}")
    assert read(folder)["offsets"] == {"3": None, "5": None}
    assert (folder / "evaluate.log").read_text().count("protocol.horizon_offsets=[3, 5]: no figures") == 1
    assert ["3", "-", "-", "-", "-"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("offsets", "says"),
    [
        ("[3,136]", "at 136 steps"),
        ("[3,3]", "3 is named twice"),
        ("[0]", "protocol.horizon_offsets[0]=0: must be at least 1"),
    ],
)
def test_wrong_offsets_are_refused_before_a_training_and_before_an_evaluation(run, tmp_path, capsys, offsets, says):
    folder = tmp_path / "refused"
    overrides = [f"protocol.horizon_offsets={offsets}", f"hydra.run.dir={folder}"]
    assert says in refusal(capsys, "train", *TINY, *overrides)
    assert not list(folder.glob("**/*.ckpt"))
    folder = tmp_path / "evaluated"
    overrides[-1] = f"hydra.run.dir={folder}"
    assert says in refusal(capsys, "evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", *overrides)
    assert not (folder / "metrics.json").exists()
