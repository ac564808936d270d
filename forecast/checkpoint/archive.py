"""A checkpoint file of any origin, read without executing anything."""

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, cast

import torch

from forecast.data.catalog import is_there
from forecast.errors import UserError
from forecast.run_folder import checkpoint_path

Entries = dict[str, Any]  # of a file from anywhere


def read_plain(path: Path) -> Entries:
    """The content of a checkpoint: plain containers, and tensors on the CPU; by other means it may be no mapping.

    Raises UserError when there is no such file, and for what `read_torch_file` refuses.
    """
    is_there(path)
    if path.is_dir():
        best = checkpoint_path(path, "best")
        file = best if best.is_file() else "RUN/checkpoints/best.ckpt"
        raise UserError(f"ckpt_path={path} is a folder. Give the file in it: ckpt_path={file}")
    if not path.is_file():
        raise UserError(f"ckpt_path={path}: no such file. Checkpoints lie in RUN/checkpoints/best.ckpt and last.ckpt.")
    return cast(Entries, read_torch_file(path, name=f"ckpt_path={path}", old_format=False))  # `load_checkpoint` looks


def read_torch_file(path: Path, *, name: str, old_format: bool = True) -> object:
    """What torch.save has written: plain containers, and tensors on the CPU. Nothing is executed.

    name: the file, in the messages. old_format: whether a pickle that is in no zip archive will do.
    Raises UserError when it cannot be read, is damaged, was not written by torch.save, or holds anything that would
    have to be executed to be loaded.
    """
    damaged = f"{name} is damaged or was written by another program"
    try:
        with path.open("rb") as file:  # of a path that cannot be opened `is_zipfile` says no
            is_zip = zipfile.is_zipfile(file)
        if is_zip:
            with zipfile.ZipFile(path) as archive:
                part = archive.testzip()  # torch reads weights without looking at their checksum
            if part:
                raise UserError(f"{damaged}: the checksum of its part '{part}' is wrong")
        elif not old_format:
            raise UserError(f"{damaged}: it is no zip archive, or lacks its end")
        with warnings.catch_warnings():
            # it is read, or refused below
            warnings.filterwarnings("ignore", "Detected pickle protocol|TypedStorage is deprecated", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        hint = f" Its owner can make it readable: chmod a+r {path}" if isinstance(error, PermissionError) else ""
        raise UserError(f"{name} cannot be read: {error.strerror or error}.{hint}") from error
    except Exception as error:  # an archive made by hand can fail in any way
        # torch's own text would advise to load it without the safety
        hostile = re.search(r"[Uu]nsupported (?:global: )?GLOBAL (\S+)", str(error))
        executed = f"it holds '{hostile[1]}', an object that could execute code on loading" if hostile else ""
        raise UserError(f"{damaged}: {executed or type(error).__name__}") from error
