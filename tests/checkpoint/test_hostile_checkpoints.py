"""Whatever a checkpoint file holds, nothing in it is executed."""

import builtins
import os
import pathlib
import pickle
import subprocess
import sys
import warnings
from functools import reduce
from operator import getitem

import pytest
import torch
from program import refusal
from script import SCRIPTS
from wrong_checkpoints import LOADING, PROGRAMS, legacy, refused, refused_by, saved

from forecast.apps.common.inputs import trained_source
from forecast.checkpoint.load import RESUMED, load_checkpoint
from forecast.checkpoint.record import RECORD
from forecast.data.read import source_rows
from forecast.errors import UserError


def test_every_script_that_loads_a_checkpoint_is_tested_here():
    loading = {file.stem for file in SCRIPTS.glob("*.py") if "load_checkpoint(" in file.read_text()}
    assert loading - {"import_informer2020"} <= set(LOADING)  # it reads the authors' files, and its own output


# Payloads


class Bomb:
    """What unpickling it calls."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


BOMBS = {  # each would create the file `fired`
    "os.system": lambda fired: Bomb(os.system, f"touch {fired}"),
    "exec": lambda fired: Bomb(builtins.exec, f"open({str(fired)!r}, 'w').close()"),
    "open": lambda fired: Bomb(open, str(fired), "w"),
}


def in_zip(path, bomb, best, write=torch.save):
    write(torch.load(best, weights_only=True) | {"hyper_parameters": bomb}, path)


def in_legacy(path, bomb, best):
    in_zip(path, bomb, best, lambda content, path: legacy(path, content))


CONTAINERS = {"zip": in_zip, "legacy": in_legacy}


@pytest.mark.parametrize("kind", BOMBS)
def test_the_payloads_are_live(tmp_path, best, kind):
    fired, path = tmp_path / "fired", tmp_path / "hostile.ckpt"
    for container in (in_zip, in_legacy):
        container(path, BOMBS[kind](fired), best)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the file that `open` opens is not closed
            torch.load(path, weights_only=False)
        assert fired.exists()
        fired.unlink()


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_payload_is_not_executed(tmp_path, best, monkeypatch, container, kind):
    fired, path = tmp_path / "fired", tmp_path / "hostile.ckpt"
    CONTAINERS[container](path, BOMBS[kind](fired), best)
    message = refused(path)
    assert not fired.exists()
    assert ("could execute code on loading" in message) == (container == "zip"), message
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # no setting of torch's makes it unpickle
    refused(path)
    assert not fired.exists()


@pytest.mark.parametrize("program", [*PROGRAMS, *LOADING])
def test_no_program_executes_a_payload(workplace, best, capsys, program):
    for container, kind in (("zip", "os.system"), ("legacy", "exec")):
        path = workplace / "hostile.ckpt"
        CONTAINERS[container](path, BOMBS[kind](workplace / "fired"), best)
        assert "hostile.ckpt" in refused_by(capsys, program, path)
        assert not (workplace / "fired").exists()


# Targets in the config


PARTS = [
    *("model", "data", "data.split", "model.encoder_attention.mechanism", "attention.projection"),
    *("optim", "trainer", "callbacks.checkpoint", "protocol"),
]


def targets(folder):
    """Hostile nodes, each of which would create `fired`, the first two by the modules of an allowed package."""
    bomb, fired = folder / "bomb.pkl", folder / "fired"
    bomb.write_bytes(pickle.dumps(Bomb(open, str(fired), "w")))
    copier = "lightning.pytorch.callbacks.model_checkpoint.shutil.copyfile"
    return {
        "torch.load": {"_target_": "torch.optim.optimizer.torch.load", "f": str(bomb), "weights_only": False},
        "copyfile": {"_target_": copier, "src": str(bomb), "dst": str(fired)},
        "exec": {"_target_": "builtins.exec", "_args_": [f"open({str(fired)!r}, 'w')"]},
        "subprocess": {"_target_": "subprocess.run", "args": ["touch", str(fired)]},
    }


def with_node(content, part, node):
    *place, last = part.split(".")
    config = reduce(getitem, place, content[RECORD]["config"])
    config[last] = {**node, **{k: v for k, v in (config.get(last) or {}).items() if part == "data" and k != "_target_"}}
    return content


@pytest.mark.parametrize("target", ["torch.load", "copyfile", "exec", "subprocess"])
@pytest.mark.parametrize("part", PARTS)
def test_a_target_that_is_not_allowed_is_refused_wherever_it_stands(tmp_path, content, part, target):
    node = targets(tmp_path)[target]
    message = refused(saved(tmp_path, with_node(content, part, node)))
    assert f"{part}._target_={node['_target_']}: not allowed" in message
    assert not (tmp_path / "fired").exists()


@pytest.mark.parametrize("place", ["optim.lr", "data.root", "trainer.max_epochs"])
def test_an_interpolation_in_a_saved_config_is_refused(tmp_path, content, place):
    group, key = place.split(".")
    content[RECORD]["config"][group][key] = "${oc.env:HOME}"
    assert f"{place}=${{oc.env:HOME}}: a saved config holds plain values" in refused(saved(tmp_path, content))


@pytest.mark.slow
def test_a_forecast_does_not_import_lightning_to_look_at_a_config(best):
    code = (
        f"import sys; from forecast.checkpoint.load import load_checkpoint; load_checkpoint({str(best)!r}).model(); "
        "sys.exit('lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Where the data lie


@pytest.fixture
def catalogued(content, tmp_path):
    """A checkpoint of ETTh1, whose file would lie in the folder `there`; and that folder."""
    split = content[RECORD]["config"]["data"]["split"]
    use = {"name": "ETTh1", "root": str(tmp_path / "there"), "path": None, "features": "M", "target": "OT"}
    content[RECORD]["config"]["data"] = {"_target_": "forecast.data.sources.CatalogSource", **use, "split": split}
    content.update({key: kind() for key, kind in RESUMED.items()})
    return saved(tmp_path, content), tmp_path / "there"


def test_nothing_is_downloaded_to_where_a_checkpoint_says(catalogued, monkeypatch):
    monkeypatch.setattr("pooch.retrieve", lambda *_, path, **__: pytest.fail(f"downloaded to {path}"))
    path, there = catalogued
    source = trained_source(load_checkpoint(path).config.data, root=None)
    with pytest.raises(UserError, match=rf"{there}/ETTh1\.csv"):
        source_rows(source)
    assert not there.exists()


def test_it_is_downloaded_to_where_the_command_says(catalogued, monkeypatch):
    folders = []
    monkeypatch.setattr("pooch.retrieve", lambda *_, path, **__: folders.append(path))
    trained_source(load_checkpoint(catalogued[0]).config.data, root="here").located()
    assert folders == [pathlib.Path("here")]


@pytest.mark.parametrize("typed", [[], ["data.root=here"]])
def test_a_training_goes_on_with_files_where_its_command_says(workplace, catalogued, capsys, monkeypatch, typed):
    folders = []
    monkeypatch.setattr("pooch.retrieve", lambda *_, path, **__: folders.append(str(path)))
    message = refusal(capsys, "train", f"ckpt_path={catalogued[0]}", *typed)
    assert folders == [str(workplace / "here")] if typed else f"{catalogued[1]}/ETTh1.csv" in message


# Classes and values where they do not belong

MKDIR = {"_target_": "forecast.training.loggers.MLflow", "save_dir": "made"}
ELSEWHERE = {
    "a logger in the model": ("model.encoder_attention.mechanism", MKDIR, "not allowed here"),
    "a logger for a model": ("model", MKDIR, "not allowed here"),
    "a trainer for the data": ("data.split", {"_target_": "lightning.pytorch.Trainer"}, "not allowed here"),
    "a callback for a protocol": ("protocol", {"_target_": "lightning.pytorch.callbacks.Timer"}, "not allowed here"),
}


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_what_does_not_belong_where_it_stands_is_refused(workplace, content, kind):
    part, node, text = ELSEWHERE[kind]
    *place, last = part.split(".")
    reduce(getitem, place, content[RECORD]["config"])[last] = node
    message = refused(saved(workplace, content))
    assert f"{part}" in message and text in message
    assert not (workplace / "made").exists()


# What only a command finds


def test_weights_without_the_state_of_their_training_are_told_from_a_last_ckpt(workplace, best, capsys):
    message = refusal(capsys, "train", f"ckpt_path={best}", f"hydra.run.dir={workplace / 'run'}")
    assert "holds weights without the state of their training" in message and "leave ckpt_path out" in message
