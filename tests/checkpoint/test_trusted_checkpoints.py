"""A checkpoint with a class of the user's own: it loads when the command says so, and not because it says so itself."""

import copy
import sys
from importlib import import_module

import pytest
import torch
from own_modules import own  # noqa: F401 - a fixture
from wrong_checkpoints import LOADING, PROGRAMS, refused_by, saved

from forecast import Forecaster
from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.model import build_model
from forecast.checkpoint.record import RECORD
from forecast.config.allow_list import trusting
from forecast.config.run_config import RunConfig
from forecast.errors import UserError

MODULE = "my_package.models"


@pytest.fixture
def own_content(own, content):  # noqa: F811
    """A checkpoint of Drift, as a training leaves it."""
    record = content[RECORD]
    record["config"]["model"] = {"_target_": f"{MODULE}.Drift", "scale": 2.0}
    with trusting([MODULE]):
        model = build_model(RunConfig.of(record["config"]), record["data"])
    sys.modules.pop(MODULE)
    own.unlink()
    content["state_dict"] = {f"model.{name}": weight for name, weight in model.state_dict().items()}
    return content


def test_it_loads_when_its_module_is_trusted(tmp_path, own_content):
    path = saved(tmp_path, own_content)
    with trusting([MODULE]):
        model = load_checkpoint(path).model()
    assert type(model).__module__ == MODULE and model.scale == 2.0
    with pytest.raises(
        UserError, match=r"its config is refused\. model\._target_=my_package\.models\.Drift: not allowed"
    ):
        load_checkpoint(path)


def test_a_forecaster_takes_the_switch_as_an_argument_and_keeps_it(tmp_path, own_content):
    path = saved(tmp_path, own_content)
    with pytest.raises(UserError, match=r"from Python trust=\['my_package\.models'\]"):
        Forecaster.load(path)
    forecaster = Forecaster.load(path, device="cpu", trust=[MODULE])
    assert len(forecaster.predict()) == own_content[RECORD]["config"]["pred_len"]
    with pytest.raises(UserError, match="not allowed"):
        Forecaster.load(path, trust=["my_package"])
    assert Forecaster.load(path, trust=MODULE).trust == MODULE
    with pytest.raises(UserError, match="not allowed"):  # the trust of one is not that of another
        Forecaster.load(path)


HOSTILE = [
    f"{MODULE}.system",
    f"{MODULE}.make",
    f"{MODULE}.Runs",
    "my_packagex.models.Drift",
    "os.system",
    "torch.hub.load",
]


@pytest.mark.parametrize("target", HOSTILE)
@pytest.mark.parametrize("part", ["model", "optim", "callbacks"])
def test_trust_in_one_module_opens_nothing_else(tmp_path, own_content, target, part):
    node = {"_target_": target, "command": f"touch {tmp_path}/fired"}
    own_content[RECORD]["config"][part] = {"mine": node} if part == "callbacks" else node
    path = saved(tmp_path, own_content)
    with trusting([MODULE]), pytest.raises(UserError, match="not allowed"):
        load_checkpoint(path).model()
    assert not (tmp_path / "fired").exists() and "my_packagex.models" not in sys.modules


@pytest.mark.parametrize("program", [*PROGRAMS, *LOADING])
def test_no_program_imports_a_module_that_its_command_does_not_trust(workplace, own_content, own, capsys, program):  # noqa: F811
    path = saved(workplace, copy.deepcopy(own_content))
    assert "--trust my_package.models" in refused_by(capsys, program, path)
    assert not own.exists() and MODULE not in sys.modules


def test_a_class_that_is_no_model_is_told(tmp_path, own_content):
    own_content[RECORD]["config"]["model"] = {"_target_": "torch.nn.Identity"}
    with pytest.raises(
        UserError, match=r"model\._target_=torch\.nn\.Identity: no ForecastModel; it must extend forecast\.models"
    ):
        load_checkpoint(saved(tmp_path, own_content)).model()


def test_what_a_checkpoint_holds_is_never_executed_in_a_trusted_module_either(tmp_path, own_content):
    with trusting([MODULE]):
        own_content["hyper_parameters"] = import_module(MODULE).Drift  # inside the file: weights_only refuses it
        path = tmp_path / "pickled.ckpt"
        torch.save(own_content, path)
        with pytest.raises(UserError, match="could execute code on loading"):
            load_checkpoint(path)
