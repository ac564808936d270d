"""A checkpoint file that is damaged, foreign or changed: refused in words that name what is wrong."""

import shutil
import zipfile
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path

import pytest
import torch
from permissions import heeded
from wrong_checkpoints import PROGRAMS, legacy, refused, refused_by, saved

import forecast
from forecast.checkpoint.load import RESUMED, load_checkpoint, read_torch_file
from forecast.checkpoint.record import FORMAT, RECORD
from forecast.errors import UserError

# Damage


@pytest.mark.parametrize("share", [i / 40 for i in range(40)])
def test_a_truncated_checkpoint_is_called_damaged(best, tmp_path, share):
    content = best.read_bytes()
    cut = tmp_path / "cut.ckpt"
    cut.write_bytes(content[: int(share * len(content))])
    assert "is damaged or was written by another program" in refused(cut)


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path):
    good, bad, messages = tmp_path / "good.pt", tmp_path / "bad.pt", []
    torch.save({"weight": torch.arange(3.0)}, good)
    content = good.read_bytes()
    for place, bit in product(range(len(content)), (0, 4)):
        bad.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        try:
            held = read_torch_file(bad, name="bad.pt")
        except UserError as error:
            messages.append(str(error))
        else:  # as in the padding between the parts
            assert torch.equal(held["weight"], torch.arange(3.0)), f"bit {bit} of byte {place}"
    assert any("part 'good/data/0' is not as it was written" in message for message in messages)


def other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sheet.xml", "<a/>")


FOREIGN = {
    "missing": (lambda p: None, "no such file. Checkpoints lie in RUN/checkpoints/best.ckpt and last.ckpt."),
    "a folder": (lambda p: p.mkdir(), "is a folder. Give the file in it: ckpt_path=RUN/checkpoints/best.ckpt"),
    "text": (lambda p: p.write_text("date,OT\n" * 99), "is damaged or was written by another program: it is no zip"),
    "another zip": (other_zip, "is damaged or was written by another program"),
    "a tensor": (lambda p: torch.save(torch.ones(3), p), "is not a checkpoint of this program"),
    "bare weights": (lambda p: torch.save(torch.nn.Linear(2, 3).state_dict(), p), "it has no 'forecast' entry."),
    "the old format of torch": (lambda p: legacy(p, {RECORD: 3}), "is damaged or was written by another program"),
    "a pickled module": (lambda p: torch.save(torch.nn.Linear(2, 3), p), "holds 'torch.nn.modules.linear.Linear'"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_in_words(tmp_path, kind):
    make, text = FOREIGN[kind]
    make(tmp_path / "foreign")
    assert text in refused(tmp_path / "foreign")


def test_a_run_folder_is_answered_with_its_best_checkpoint(best):
    assert f"ckpt_path={best}" in refused(best.parent.parent)


def test_a_file_that_cannot_be_read_is_named(tmp_path, best):
    secret = Path(shutil.copy(best, tmp_path / "secret.ckpt"))
    secret.chmod(0)
    with heeded():
        text = refused(secret)
    assert f"cannot be read: Permission denied. Its owner can make it readable: chmod a+r {secret}" in text


# Content


def put(*keys):
    """A change that puts the last of `keys` at the place that the others name."""
    *place, last, value = keys
    return lambda content: reduce(getitem, place, content).update({last: value})


def drop(*keys):
    """A change that removes what the keys name."""
    *place, last = keys
    return lambda content: reduce(getitem, place, content).pop(last)


BIAS = "model.decoder.head.bias"
CHANGED = {
    "no weights": (drop("state_dict"), "KeyError: 'state_dict'"),
    "no epoch": (put("loops", "fit_loop", [3]), "TypeError"),
    "no scale": (drop(RECORD, "series", "scale"), "KeyError: 'scale'"),
    "series in a list": (put(RECORD, "series", []), "TypeError"),
    "no version": (drop(RECORD, "versions"), "versions"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_an_entry_that_is_missing_or_wrong_gives_one_sentence(tmp_path, content, change):
    edit, text = CHANGED[change]
    edit(content)
    message = refused(saved(tmp_path, content))
    assert "is damaged or was written by another version: " in message and text in message
    assert "\n" not in message


def test_more_entries_than_are_needed_do_no_harm(tmp_path, content, best):
    content |= {"random_states": {"cpu": torch.get_rng_state()}}
    content[RECORD]["comment"] = content[RECORD]["data"]["gaps"] = {"policy": "refuse"}
    read = load_checkpoint(saved(tmp_path, content))
    assert "comment" not in read.record.saved()
    assert read.epoch == load_checkpoint(best).epoch == 0


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("other", [(FORMAT + 1, "Update it: git pull"), (FORMAT - 1, "Train anew")])
def test_another_format_is_refused_with_both_versions_and_the_fix(workplace, content, capsys, program, other):
    number, fix = other
    content[RECORD] = {"format": number, "versions": {"forecast": "9.9"}}  # all else may differ too
    message = refused_by(capsys, program, saved(workplace, content))
    this = f"this is forecast {forecast.__version__}, which reads format {FORMAT}. "
    assert f"format {number}, written by forecast 9.9; {this}" in message
    assert fix in message


# Weights that are not the model's


shorten = put("state_dict", BIAS, torch.zeros(3))
MISFITS = {
    "missing": (drop("state_dict", BIAS), r'Missing key\(s\) in state_dict: "decoder.head.bias"'),
    "extra": (put("state_dict", "model.more", torch.zeros(2)), r'Unexpected key\(s\) in state_dict: "more"'),
    "of another shape": (shorten, "size mismatch for decoder.head.bias"),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_weights_that_do_not_fit_are_named(tmp_path, content, kind):
    change, text = MISFITS[kind]
    change(content)
    used = rf"not those of the model in its config\. Use the version .* that wrote it, {forecast.__version__}:\n"
    with pytest.raises(UserError, match=f"(?s){used}.*{text}"):
        load_checkpoint(saved(tmp_path, content)).model()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_floating_point_weights_of_another_precision_are_those_of_a_training_with_it(tmp_path, content, dtype):
    weights = {name: w.to(dtype) if w.is_floating_point() else w for name, w in content["state_dict"].items()}
    content["state_dict"] = weights
    model = load_checkpoint(saved(tmp_path, content)).model()
    assert all(torch.equal(w, weights[f"model.{name}"].to(w.dtype)) for name, w in model.state_dict().items())


@pytest.mark.parametrize("program", [*PROGRAMS, "export"])
def test_every_program_says_that_the_weights_do_not_fit(workplace, content, capsys, program):
    shorten(content)
    content.update({key: kind() for key, kind in RESUMED.items()})
    assert "size mismatch for decoder.head.bias" in refused_by(capsys, program, saved(workplace, content))


@pytest.mark.parametrize("key, value", [("d_model", -4), ("d_model", "big"), ("n_heads", 0), ("encoder_layers", None)])
def test_a_config_that_builds_no_model_is_refused(tmp_path, content, key, value):
    content[RECORD]["config"]["model"][key] = value
    with pytest.raises(UserError, match=r"changed\.ckpt: the model of its config cannot be built: "):
        load_checkpoint(saved(tmp_path, content)).model()
