"""build makes what the allow list has, and nothing else."""

import functools
import pickle

import pytest
import torch
from config.composed import composed
from models.small import window_shape

from forecast.config.allow_list import resolve_target
from forecast.config.build import build
from forecast.errors import UserError

MALICIOUS = [
    *("", 3, None, "torch", "torch.optim", "forecast"),
    *("builtins.eval", "os.system", "torch.load", "torch.hub.load"),
    # reached through an allowed package
    *(
        "torch.optim.optimizer.torch.load",
        "lightning.pytorch.trainer.trainer.os.system",
        "forecast.config.resolvers.Path",
    ),
    "lightning.pytorch.callbacks.model_checkpoint.shutil.copyfile",
    # of an allowed package, and no class to be built
    *("forecast.config.build.build", "forecast.data.sources.locate", "forecast.errors.UserError"),
    *("torch.nn.functional.relu", "torch.nn.Module.load_state_dict", "lightning.pytorch.seed_everything"),
    "torch.nn.Module.__init__.__globals__",
]


@pytest.mark.parametrize("target", MALICIOUS)
def test_a_target_outside_the_list_is_refused(target):
    with pytest.raises(UserError, match=r"here\._target_="):
        resolve_target(target, "here")


ALLOWED = [
    *("torch.optim.Adam", "torch.optim.adam.Adam", "torch.optim.lr_scheduler.StepLR", "torch.nn.Linear"),
    *("lightning.pytorch.Trainer", "lightning.pytorch.callbacks.EarlyStopping"),
    *("lightning.pytorch.loggers.TensorBoardLogger", "lightning.pytorch.strategies.DDPStrategy"),
    *("forecast.models.informer.Informer", "forecast.attention.prob.ProbAttention", "forecast.data.sources.DemoSource"),
    *("forecast.data.split.RowSplit", "forecast.evaluation.evaluate.Protocol"),
    "forecast.training.schedule.halve_each_epoch",
]


@pytest.mark.parametrize("target", ALLOWED)
def test_a_target_of_the_list_resolves(target):
    assert resolve_target(target).__name__ == target.rsplit(".", 1)[-1]


class Fire:
    """Writes a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize(
    "wrap", [lambda n: n, lambda n: {"a": [{"b": n}]}, lambda n: {"_target_": "torch.nn.Linear", "x": n}]
)
def test_a_pickle_is_not_executed_however_deep_it_hides(wrap, tmp_path):
    bomb, fired = tmp_path / "bomb.pt", tmp_path / "fired"
    bomb.write_bytes(pickle.dumps(Fire(str(fired))))
    node = {"_target_": "torch.optim.optimizer.torch.load", "f": str(bomb), "weights_only": False}
    with pytest.raises(UserError, match="not allowed"):
        build(wrap(node))
    assert not fired.exists()


def test_build_calls_the_constructor():
    layer = build({"_target_": "torch.nn.Linear", "in_features": 2, "out_features": 3})
    assert layer.weight.shape == (3, 2)


def test_a_partial_node_becomes_a_factory_with_the_provided_arguments():
    factory = build({"_target_": "torch.nn.Linear", "_partial_": True, "in_features": 2}, bias=False)
    assert isinstance(factory, functools.partial)
    layer = factory(out_features=5)
    assert (layer.weight.shape, layer.bias) == ((5, 2), None)


def test_provided_objects_arrive_as_they_are():
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = build({"_target_": "torch.optim.Adam", "lr": 0.5}, params=[weight])
    assert optimizer.param_groups[0]["params"][0] is weight


def test_a_mapping_without_target_is_built_inside():
    built = build({"a": {"_target_": "torch.nn.Identity"}, "n": [1, 2]})
    assert isinstance(built["a"], torch.nn.Identity)
    assert built["n"] == [1, 2]
    assert type(built["n"]) is list


TORCH, TRAINER = "torch.nn", {"_target_": "lightning.pytorch.Trainer", "accelerator": "nonsense"}


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (
            {"_target_": f"{TORCH}.MultiheadAttention", "embed_dim": 0, "num_heads": 4},
            r"^embed_dim must be divisible|^.*num_heads",
        ),
        (
            {"a": {"_target_": f"{TORCH}.Dropout", "p": 2}},
            "^a: dropout probability has to be between 0 and 1, but got 2$",
        ),
        (TRAINER, "accelerator"),
    ],
)
def test_a_constructors_refusal_is_a_user_error_in_its_own_words(node, text):
    with pytest.raises(UserError, match=text) as error:
        build(node)
    assert "Error in call" not in str(error.value)


@pytest.mark.parametrize("choice", ["attention=prob", "attention=full", "model=informer2020"])
def test_the_model_of_the_config_is_built_and_forecasts(choice):
    sizes = ("model.d_model=16", "model.n_heads=2", "model.d_ff=24", "seq_len=22", "label_len=11", "pred_len=7")
    cfg = composed(choice, *sizes)
    model = build(cfg.model, window=window_shape(targets=(0, 2), seq_len=22, label_len=11, pred_len=7))
    forecast = model(torch.zeros(5, 22, 3), torch.zeros(5, 22, 4), torch.zeros(5, 7, 4))
    assert forecast.shape == (5, 7, 2)


@pytest.mark.parametrize("data", ["demo", "ETTh1", "ETTm2"])
def test_the_data_source_of_the_config_is_built(data):
    source = build(composed(f"data={data}").data)
    assert source.name == data
    assert source.split.train > 0


def test_the_callbacks_of_the_config_are_built():
    assert set(build(composed().callbacks)) == {"checkpoint", "early_stopping", "progress", "figures"}
