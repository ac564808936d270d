"""A checkpoint that asks for more memory, time or depth than its file has is refused before anything is made of it."""

import time
import zipfile

import pytest
import torch
from wrong_checkpoints import PROGRAMS, refused, refused_by, saved

from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.record import RECORD
from forecast.config.build import build
from forecast.errors import UserError

# Archives


def test_a_compressed_part_is_refused_unread(tmp_path, best, monkeypatch):
    bomb = tmp_path / "bomb.ckpt"
    with zipfile.ZipFile(best) as good, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in good.namelist():
            archive.writestr(member, good.read(member), zipfile.ZIP_STORED)
        archive.writestr("archive/data/999", bytes(20_000_000))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_, **__: pytest.fail("a part was read"))
    assert "its part 'archive/data/999' is compressed, and torch compresses none" in refused(bomb)


def test_parts_that_lie_over_each_other_are_refused_unread(tmp_path, best, monkeypatch):
    bomb = tmp_path / "bomb.ckpt"
    with zipfile.ZipFile(best) as good, zipfile.ZipFile(bomb, "w") as archive:
        for member in good.namelist():
            archive.writestr(member, good.read(member))
        archive.filelist.extend([max(archive.filelist, key=lambda member: member.file_size)] * 1000)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_, **__: pytest.fail("a part was read"))
    assert "its parts are larger together than the file" in refused(bomb)


# Tensors


def stretched(content):
    content[RECORD]["config"]["pred_len"] = 10**7
    content[RECORD]["nlinear_weight"] = torch.zeros(1).expand(10**7, content[RECORD]["config"]["seq_len"])


def stretched_weight(content):
    content["state_dict"]["model.more"] = torch.zeros(1).expand(10**5, 10**5)


def repeated(content):
    weight = torch.zeros(3001)
    content["state_dict"] |= {f"model.more{i}": weight for i in range(2003)}


CLAIMS = {
    "a baseline of stride 0": (stretched, "forecast.nlinear_weight claims more numbers than the file has"),
    "a weight of stride 0": (stretched_weight, "state_dict.model.more claims more numbers than the file has"),
    "one weight under many names": (repeated, "its tensors are together more than 10 times as large as the file"),
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_numbers_that_the_file_does_not_have_are_not_made(tmp_path, content, kind):
    change, text = CLAIMS[kind]
    change(content)
    assert text in refused(saved(tmp_path, content))


# Containers


def shared(levels=10, width=9):
    node = ["x"]
    for _ in range(levels):
        node = [node] * width
    return node


def cycle():
    node = {}
    node["again"] = node
    return node


def deep(levels=400):
    node = []
    for _ in range(levels):
        node = [node]
    return node


NESTED = {
    "shared references": (shared, "config", "model", "more"),
    "shared references in the columns": (shared, "data", "columns"),
    "a cycle": (cycle, "config", "model", "more"),
    "a cycle beside the config": (cycle, "choices", "more"),
    "400 levels": (deep, "config", "more"),
    "400 levels in the data": (deep, "data", "splits", "val"),
}


@pytest.mark.parametrize("kind", NESTED)
def test_containers_without_an_end_are_refused_at_once(tmp_path, content, kind):
    make, *entry = NESTED[kind]
    node = content[RECORD]
    for key in entry[:-1]:
        node = node[key]
    node[entry[-1]] = make()
    path, started = saved(tmp_path, content), time.process_time()
    message = refused(path)
    assert "is nested more than" in message or "has more than" in message
    assert time.process_time() - started < 3


def test_a_config_of_a_hundred_thousand_keys_is_refused(tmp_path, content):
    content[RECORD]["config"]["model"]["more"] = list(range(100_003))
    assert "forecast.config has more than 10000 parts" in refused(saved(tmp_path, content))


NUMBERS = {"config": ("seed", 10**400), "data.splits": ("train", [10**400] * 2), "": ("best_step", 2**80)}


@pytest.mark.parametrize("where", NUMBERS)
def test_a_number_of_hundreds_of_digits_is_refused(tmp_path, content, where):
    node = content[RECORD]
    for key in where.split(".") if where else []:
        node = node[key]
    key, value = NUMBERS[where]
    node[key] = value
    assert "is an integer of more than 64 bits" in refused(saved(tmp_path, content))


# Models


SIZES = {
    "a billion layers": {"encoder_layers": 10**9},
    "as many layers as may be": {"encoder_layers": 1000},
    "a wide model": {"d_model": 6000, "n_heads": 1},
    "a wide layer": {"d_ff": 10**6},
    "a table of positions": {"d_model": 10**8, "n_heads": 1},
}


@pytest.mark.parametrize("kind", SIZES)
def test_a_model_larger_than_its_weights_is_not_built(tmp_path, content, kind):
    content[RECORD]["config"]["model"] |= SIZES[kind]
    checkpoint = load_checkpoint(saved(tmp_path, content))
    started = time.process_time()
    with pytest.raises(UserError, match=r"changed\.ckpt: .* larger than"):
        checkpoint.model()
    assert time.process_time() - started < 3


def test_a_label_longer_than_the_input_is_refused(tmp_path, content):
    content[RECORD]["config"]["label_len"] = 10**8
    with pytest.raises(UserError, match="larger than"):
        load_checkpoint(saved(tmp_path, content)).model()


def test_the_parameters_are_counted_before_they_are_filled(tmp_path, content, monkeypatch):
    content[RECORD]["config"]["model"] |= {"d_ff": 10**6}
    filled = []
    monkeypatch.setattr(torch.nn.init, "kaiming_uniform_", lambda weight, **_: filled.append(weight.numel()))
    with pytest.raises(UserError, match="larger than"):
        load_checkpoint(saved(tmp_path, content)).model()
    assert max(filled, default=0) < 10**6


def test_no_trace_of_the_count_is_left(best):
    before = [len(hooks) for hooks in registration_hooks()]
    load_checkpoint(best).model()
    assert [len(hooks) for hooks in registration_hooks()] == before
    torch.nn.Linear(1009, 1013)


def registration_hooks():
    module = torch.nn.modules.module
    return module._global_parameter_registration_hooks, module._global_module_registration_hooks


def test_a_demo_of_a_hundred_billion_rows_is_refused(tmp_path, content):
    content[RECORD]["config"]["data"]["rows"] = 10**11
    source = content[RECORD]["config"]["data"]
    with pytest.raises(UserError, match="rows=100000000000: must be"):
        build(source)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_says_that_the_model_is_too_large(workplace, content, capsys, program):
    content[RECORD]["config"]["model"] |= {"d_model": 6000, "n_heads": 1}
    assert "larger than" in refused_by(capsys, program, saved(workplace, content))
