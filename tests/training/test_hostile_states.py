"""A checkpoint to go on from, changed by a stranger: no file of another folder is deleted, and one sentence is said."""

import shutil

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from program import call, refusal

from forecast.training.checkpoint import PATHS, drop_other_paths

pytestmark = pytest.mark.core

VICTIMS = {
    "beside its folder": "{folder}/../letter.ckpt",
    "no checkpoint": "{folder}/letter.txt",
    "a folder": "{folder}/letters",
    "an address": "s3://bucket/letter.ckpt",
}


def model_checkpoint(tmp_path):
    return ModelCheckpoint(dirpath=tmp_path / "kept", monitor="val/mse_scaled")


@pytest.mark.parametrize("victim", VICTIMS.values(), ids=VICTIMS)
def test_a_checkpoint_cannot_have_other_files_deleted(victim, tmp_path):
    callback = model_checkpoint(tmp_path)
    path = victim.format(folder=tmp_path / "kept")
    state = callback.state_dict() | dict.fromkeys(PATHS, path) | {"best_k_models": {path: torch.tensor(0.5)}}
    drop_other_paths([callback], {callback.state_key: state})
    assert {state[key] for key in PATHS} == {""} and state["best_k_models"] == {}


def test_the_checkpoints_of_a_run_are_gone_on_with(tmp_path):
    callback, best = model_checkpoint(tmp_path), str(tmp_path / "kept" / "epoch=1.ckpt")
    state = callback.state_dict() | dict.fromkeys(PATHS, best) | {"best_k_models": {best: torch.tensor(0.5)}}
    drop_other_paths([callback], {callback.state_key: state})
    assert {state[key] for key in PATHS} == {*state["best_k_models"]} == {best}


@pytest.mark.parametrize("entry, value", [("callbacks", "none"), ("optimizer_states", [{}]), ("loops", {})])
def test_a_state_that_lightning_cannot_restore_gives_one_sentence(entry, value, tiny_run, tmp_path, capsys):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    last = run / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True) | {entry: value}
    torch.save(content, last)
    *_, sentence = refusal(capsys, "train", f"ckpt_path={last}", "trainer.max_epochs=2").splitlines()
    assert sentence.startswith(f"ckpt_path={last} is damaged")


def test_where_a_run_writes_that_goes_on_from_a_checkpoint_alone_is_for_its_command_to_say(tiny_run, tmp_path):
    content = torch.load(tiny_run / "checkpoints" / "last.ckpt", weights_only=True)
    spy = {"_target_": "lightning.pytorch.callbacks.ModelCheckpoint", "dirpath": str(tmp_path / "there")}
    content["forecast"]["config"]["callbacks"]["spy"] = spy
    torch.save(content, tmp_path / "sent.ckpt")
    call("train", f"ckpt_path={tmp_path / 'sent.ckpt'}", "trainer.max_epochs=2", f"hydra.run.dir={tmp_path / 'run'}")
    assert (tmp_path / "run" / "metrics.json").is_file() and not (tmp_path / "there").exists()
