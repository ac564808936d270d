"""A model as a torch.export program: it draws nothing, and a foreign one executes nothing."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from forecast.apps.export.program import draws, largest_difference, load_program, save_program, trace
from forecast.errors import UserError


class Planted(nn.Module):
    """What a model must not do in evaluation."""

    def __init__(self, what):
        super().__init__()
        self.what, self.weight = what, nn.Parameter(torch.ones(1))

    def forward(self, past, past_known, future_known):
        return self.what(past) * self.weight


def attended(x):
    return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


DRAWING = {
    "rand": (lambda x: x + torch.rand_like(x), "aten.rand_like"),
    "randint": (lambda x: x[torch.randint(2, (2,))], "aten.randint"),
    "randperm": (lambda x: x[:, torch.randperm(7)], "aten.randperm"),
    "bernoulli": (torch.bernoulli, "aten.bernoulli"),
    "normal": (lambda x: x.clone().normal_(), "aten.normal"),
    "dropout": (lambda x: nn.functional.dropout(x, 0.5, training=True), "aten.dropout"),
    "attention": (attended, "aten.scaled_dot_product_attention"),
}
INPUTS = (torch.full((5, 7, 3), 0.5), torch.zeros(5, 7, 2), torch.zeros(5, 3, 2))


@pytest.mark.parametrize("kind", DRAWING)
def test_a_model_that_draws_in_evaluation_is_refused_with_the_operator(kind):
    what, name = DRAWING[kind]
    with pytest.raises(UserError, match=rf"draws random numbers \(.*{name}"):
        trace(Planted(what).eval(), INPUTS, batch=5)


def test_dropout_that_is_switched_off_draws_nothing():
    quiet = Planted(lambda x: nn.functional.scaled_dot_product_attention(nn.functional.dropout(x, 0.5, False), x, x))
    program = trace(quiet.eval(), INPUTS, batch=None)
    assert any("dropout" in str(node.target) for node in program.graph.nodes)
    assert not any(draws(node) for node in program.graph.nodes)


def test_a_model_whose_way_depends_on_its_values_is_refused_with_torchs_reason():
    with pytest.raises(UserError, match=r"torch\.export cannot trace this model.*It says: "):
        trace(Planted(lambda x: x if x.sum() > 0 else -x).eval(), INPUTS, batch=5)


def test_a_model_that_depends_on_the_number_of_windows_may_be_exported_for_one_number():
    model = Planted(lambda x: x * len(x)).eval()
    with pytest.raises(UserError, match="A fixed number of windows may do: --batch 1"):
        trace(model, INPUTS, batch=None)
    assert trace(model, INPUTS, batch=5)


def test_the_difference_of_a_program_and_its_model_is_the_largest_of_all_batches():
    model, other = Planted(lambda x: x).eval(), Planted(lambda x: torch.where(x > 2, x + 0.25, x)).eval()
    past = torch.zeros(9, 7, 3)
    past[6, 2, 1] = 3.0  # in the second of three batches alone
    windows = (past, torch.zeros(9, 7, 2), torch.zeros(9, 3, 2))
    program = trace(model, windows, batch=None)
    assert largest_difference(program, other, windows, (1, 6, 2)) == 0.25
    assert largest_difference(program, other, windows, (1, 5)) == 0.0
    past[6, 2, 1] = torch.nan
    assert np.isnan(largest_difference(program, model, windows, (1, 6, 2)))


# A program that someone else has written


class Bomb:
    """Writes a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.fixture(scope="module")
def program_file(tmp_path_factory):
    """A small program."""
    path = tmp_path_factory.mktemp("program") / "model.pt2"
    save_program(trace(Planted(lambda x: x).eval(), INPUTS, batch=None), path)
    return path


def rewritten(path, target, parts, bomb):
    """A copy of an archive with these parts replaced or added; a part is what `parts` makes of the old and a pickle."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        members = {name.partition("/")[2]: old.read(name) for name in old.namelist()}
        folder = old.namelist()[0].partition("/")[0]
        members |= {name: part(members.get(name), pickle.dumps(bomb)) for name, part in parts.items()}
        for name, content in members.items():
            new.writestr(f"{folder}/{name}", content)
    return target


def pickled(old, payload):
    return payload


def declared_pickled(old, payload):
    return old.replace(b'"use_pickle": false', b'"use_pickle": true')


def opaque(old, payload):
    return b'{"config": {"a": {"path_name": "opaque_obj_0", "is_param": false, "use_pickle": false}}}'


SAMPLE = {"data/sample_inputs/model.pt": pickled}
# What is planted, the part that must be named last.
HOSTILE = {
    "library": {"data/aotinductor/model/a.so": lambda *_: b"ELF"},
    "sample": SAMPLE,
    "weight": {"data/weights/model_weights_config.json": declared_pickled, "data/weights/weight_0": pickled},
    "constant": {"data/constants/model_constants_config.json": opaque, "data/constants/opaque_obj_0": pickled},
    "old": {"data/weights/model.pt": pickled},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_program_is_not_executed(program_file, tmp_path, kind):
    path = rewritten(program_file, tmp_path / "model.pt2", HOSTILE[kind], Bomb(tmp_path / "fired"))
    name = Path(list(HOSTILE[kind])[-1]).name
    with pytest.raises(UserError, match=rf"holds '.*{name}', which could execute code on loading"):
        load_program(path)
    assert not (tmp_path / "fired").exists()


def test_torchs_own_loader_would_execute_it(program_file, tmp_path):
    """Why config.json warns; should this fail one day, the warning may go."""
    path = rewritten(program_file, tmp_path / "model.pt2", SAMPLE, Bomb(tmp_path / "fired"))
    with pytest.raises(RuntimeError, match="error when deserializing"):  # by then the payload has run
        torch.export.load(path)
    assert (tmp_path / "fired").exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_damaged_program_is_refused(program_file, tmp_path, share):
    content = program_file.read_bytes()
    (tmp_path / "model.pt2").write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match=r"model\.pt2 is not a torch\.export program, or is damaged"):
        load_program(tmp_path / "model.pt2")
