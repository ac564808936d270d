"""What the tests of wrong checkpoint files share."""

import pytest
import torch
from program import refusal
from script import call_script

from forecast.checkpoint.load import load_checkpoint
from forecast.errors import UserError

PROGRAMS = ("train", "evaluate", "predict")
# Scripts that load a checkpoint, and their other arguments.
LOADING = {"attend": ["--to", "."], "export": ["out"], "inspect_checkpoint": []}


def saved(folder, content):
    path = folder / "changed.ckpt"
    torch.save(content, path)
    return path


def refused(path):
    """The message of load_checkpoint for a file; a warning would be an error here."""
    with pytest.raises(UserError) as error:
        load_checkpoint(path)
    message = str(error.value)
    assert str(path) in message and "weights_only" not in message
    return message


def refused_by(capsys, program, path):
    """The message of an entry point or a script for a file."""
    if program in PROGRAMS:
        return refusal(capsys, program, f"ckpt_path={path}")
    status, out, message = call_script(capsys, program, path, *LOADING[program])
    assert (status, out) == (1, "") and "Traceback" not in message
    return message


def legacy(path, content):
    """Writes as torch did before 1.6: no zip."""
    torch.save(content, path, _use_new_zipfile_serialization=False)
