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

ANOTHER = "Use another one of its run."
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
    if not path.stat().st_size:
        raise UserError(f"ckpt_path={path} is empty: a copy was cut off, or the disk was full. {ANOTHER}")
    plain = "Checkpoints of this program hold plain containers and tensors only."
    content = read_torch_file(
        path, name=f"ckpt_path={path}", kind="a checkpoint", if_damaged=ANOTHER, if_hostile=plain, old_format=False
    )
    return cast(Entries, content)  # `load_checkpoint` looks


def read_torch_file(
    path: Path, *, name: str, kind: str, if_damaged: str, if_hostile: str, old_format: bool = True
) -> object:
    """What torch.save has written: plain containers, and tensors on the CPU. Nothing is executed.

    name, kind: the file and what it should be, in the messages. if_damaged, if_hostile: what to do, at their ends.
    old_format: whether a pickle that is in no zip archive will do.
    Raises UserError when it cannot be read, is damaged, was not written by torch.save, or holds anything that would
    have to be executed to be loaded.
    """
    try:
        with path.open("rb") as file:  # of a path that cannot be opened `is_zipfile` says no
            is_zip = zipfile.is_zipfile(file)
        if is_zip:
            _check_archive(path, name=name, kind=kind, if_damaged=if_damaged)
        elif not old_format:
            reason = "it is no zip archive, or lacks its end"
            raise UserError(f"{name} is not {kind}, or is damaged: {reason}. {if_damaged}")
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
        if hostile:
            raise UserError(
                f"{name} holds '{hostile[1]}', an object that could execute code on loading, so it was not loaded. "
                f"{if_hostile}"
            ) from error
        raise UserError(f"{name} is not {kind}, or is damaged. {if_damaged}") from error


def _check_archive(path: Path, *, name: str, kind: str, if_damaged: str) -> None:
    """Raises UserError unless a zip is a whole archive of torch.save, each member with its checksum."""
    with zipfile.ZipFile(path) as archive:
        inside = {member.rpartition("/")[2] for member in archive.namelist()}
        if "data.pkl" not in inside or "constants.pkl" in inside:  # the second is a TorchScript program's
            raise UserError(f"{name} is not {kind}: a zip archive of something else.")
        damaged = archive.testzip()  # torch reads weights without looking at their checksum
    if damaged:
        raise UserError(f"{name} is damaged: the checksum of its part '{damaged}' is wrong. {if_damaged}")
