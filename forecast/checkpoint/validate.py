"""A checkpoint file as it comes from anywhere: read without executing anything, and told in words where it is wrong."""

import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import forecast
from forecast.checkpoint.formats import FORMAT, RECORD
from forecast.errors import UserError

ANOTHER = "Use another one of its run."
NONE = type(None)
Kinds = Mapping[str, tuple[type, ...]]
# What is needed to evaluate, to predict and to tell of it; there may be more.
CONTENT: Kinds = {"state_dict": (dict,), "global_step": (int,), "loops": (dict,)}
RECORD_KINDS: Kinds = {
    "format": (int,),
    "versions": (dict,),
    "config": (dict,),
    "choices": (dict,),
    "data": (dict,),
    "nlinear_weight": (Tensor,),
    "parameters": (int, NONE),
    "best_step": (int, NONE),
}
CONFIG: Kinds = {
    "model": (dict,),
    "data": (dict,),
    "seq_len": (int,),
    "label_len": (int,),
    "pred_len": (int,),
    "seed": (int,),
}
DATA: Kinds = {
    "name": (str,),
    "path": (str, NONE),
    "checksum": (str,),
    "columns": (list,),
    "targets": (list,),
    "known": (list,),
    "freq": (str,),
    "scaler": (dict,),
    "splits": (dict,),
    "trained_until": (str,),
}
SCALER: Kinds = {"columns": (list,), "mean": (list,), "std": (list,)}


def read_plain(path: Path) -> Any:
    """The content of a file that torch.save has written: plain containers, and tensors on the CPU.

    Raises UserError when there is no such file, when it is damaged, when it is no archive of torch.save, and when it
    holds anything that would have to be executed to be loaded.
    """
    try:
        check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"ckpt_path={path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # an archive made by hand can fail in any way
        # torch's own text would advise to load it without the safety
        hostile = re.search(r"GLOBAL (\S+) (?:was not an allowed|whose module)", str(error))
        if hostile:
            raise UserError(
                f"ckpt_path={path} holds '{hostile[1]}', an object that could execute code on loading, so it was not "
                "loaded. Checkpoints of this program hold plain containers and tensors only."
            ) from error
        raise UserError(f"ckpt_path={path} is not a checkpoint, or is damaged. {ANOTHER}") from error


def check_archive(path: Path) -> None:
    """Raises UserError unless `path` is a whole archive of torch.save: a file, a zip, each member with its checksum."""
    if path.is_dir():
        best = path / "checkpoints" / "best.ckpt"
        given = best if best.is_file() else "RUN/checkpoints/best.ckpt"
        raise UserError(f"ckpt_path={path} is a folder. Give the file in it: ckpt_path={given}")
    if not path.is_file():
        raise UserError(f"ckpt_path={path}: no such file. Checkpoints lie in RUN/checkpoints/best.ckpt and last.ckpt.")
    if not path.stat().st_size:
        raise UserError(f"ckpt_path={path} is empty: a copy was cut off, or the disk was full. {ANOTHER}")
    if not zipfile.is_zipfile(path):
        raise UserError(
            f"ckpt_path={path} is not a checkpoint, or is damaged: it is no zip archive, or lacks its end. {ANOTHER}"
        )
    with zipfile.ZipFile(path) as archive:
        inside = {name.rpartition("/")[2] for name in archive.namelist()}
        if "data.pkl" not in inside or "constants.pkl" in inside:  # the second is a TorchScript program's
            raise UserError(f"ckpt_path={path} is not a checkpoint: a zip archive of something else.")
        # torch reads weights without looking at their checksum
        damaged = archive.testzip()
    if damaged:
        raise UserError(f"ckpt_path={path} is damaged: the checksum of its part '{damaged}' is wrong. {ANOTHER}")


def check_content(path: Path, content: Any) -> None:
    """Raises UserError, naming the first entry that is wrong, unless `content` has all that a checkpoint needs."""
    if not isinstance(content, dict) or RECORD not in content:
        whose = " Another program of Lightning's wrote it." if _is_lightnings(content) else ""
        raise UserError(f"ckpt_path={path} is not a checkpoint of this program: it has no '{RECORD}' entry.{whose}")
    check = _Check(path)
    record = check.mapping(content[RECORD], RECORD)
    _check_format(path, record)
    check.kinds(content, "", CONTENT)
    check.kinds(record, RECORD, RECORD_KINDS)
    check.true(isinstance(epoch(content), int), "loops", "does not say how many epochs have begun")
    check.all_of(content["state_dict"], "state_dict", Tensor)
    config, data = record["config"], record["data"]
    check.kinds(config, f"{RECORD}.config", CONFIG)
    check.kinds(config["data"], f"{RECORD}.config.data", {"name": (str,), "features": (str,)})
    check.kinds(record["choices"], f"{RECORD}.choices", {"model": (str,)})
    for key, least in (("seq_len", 1), ("label_len", 0), ("pred_len", 1)):
        check.true(config[key] >= least, f"{RECORD}.config.{key}", f"is {config[key]}; it must be at least {least}")
    _check_data(check, data, f"{RECORD}.data")
    wanted, found = (config["pred_len"], config["seq_len"]), tuple(record["nlinear_weight"].shape)
    check.true(found == wanted, f"{RECORD}.nlinear_weight", f"has the shape {found} instead of {wanted}")


def epoch(content: dict[str, Any]) -> Any:
    """The last epoch begun. Lightning's own `epoch` counts from 0 during an epoch and is one further at the end."""
    node: Any = content["loops"]
    for key in ("fit_loop", "epoch_progress", "current", "started"):
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _is_lightnings(content: Any) -> bool:
    return isinstance(content, dict) and "pytorch-lightning_version" in content


def _check_format(path: Path, record: dict[str, Any]) -> None:
    """Raises UserError for a file of a newer program, whose other entries may mean something else."""
    number, versions = record.get("format"), record.get("versions")
    if isinstance(number, int) and number > FORMAT:
        writer = versions.get("forecast", "?") if isinstance(versions, dict) else "?"
        raise UserError(
            f"ckpt_path={path} has format {number}, written by forecast {writer}; this is forecast "
            f"{forecast.__version__}, which reads formats up to {FORMAT}. Update it: git pull, then pip install -e ."
        )


def _check_data(check: "_Check", data: dict[str, Any], where: str) -> None:
    check.kinds(data, where, DATA)
    for key in ("columns", "targets", "known"):
        check.all_of(data[key], f"{where}.{key}", str)
    columns, targets, scaler = data["columns"], data["targets"], data["scaler"]
    check.true(len(set(columns)) == len(columns) > 0, f"{where}.columns", f"is {columns}; it must be names, none twice")
    unknown = [name for name in targets if name not in columns]
    check.true(not unknown and targets, f"{where}.targets", f"is {targets}; it must be some of the columns {columns}")
    check.kinds(scaler, f"{where}.scaler", SCALER)
    check.true(scaler["columns"] == columns, f"{where}.scaler.columns", f"is {scaler['columns']} instead of {columns}")
    for key in ("mean", "std"):
        check.all_of(scaler[key], f"{where}.scaler.{key}", int, float)
        fits = len(scaler[key]) == len(columns) and all(map(math.isfinite, scaler[key]))
        check.true(fits, f"{where}.scaler.{key}", f"must be {len(columns)} finite numbers, one a column")
    check.true(min(scaler["std"]) > 0, f"{where}.scaler.std", "holds a number that is not above 0")
    for name, rows in data["splits"].items():
        ok = isinstance(rows, list) and len(rows) == 2 and all(type(n) is int for n in rows) and 0 <= rows[0] <= rows[1]
        check.true(ok, f"{where}.splits.{name}", f"is {rows!r}; it must be two row numbers, the first and the end")
    try:
        pd.Timestamp(data["trained_until"])
    except ValueError:
        check.true(False, f"{where}.trained_until", f"is {data['trained_until']!r}, which is no time")


class _Check:
    """Raises UserError for what a checkpoint's entries must not be. path: the file, for the message."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def true(self, holds: Any, where: str, says: str) -> None:
        """Refuses the entry `where` unless it holds."""
        if not holds:
            raise UserError(
                f"ckpt_path={self.path} is damaged, or was made or changed by other means: its entry {where} {says}."
            )

    def mapping(self, node: Any, where: str) -> dict[str, Any]:
        """The mapping at `where`."""
        self.true(isinstance(node, dict), where, f"is a {type(node).__name__} and no mapping")
        found: dict[str, Any] = node
        return found

    def kinds(self, node: dict[str, Any], where: str, kinds: Kinds) -> None:
        """Refuses a mapping that lacks one of the keys, or holds another type there."""
        for key, wanted in kinds.items():
            here = f"{where}.{key}" if where else key
            self.true(key in node, here, "is missing")
            value = node[key]
            names = " or ".join("null" if kind is NONE else kind.__name__ for kind in wanted)
            # a bool is an int to Python
            is_one = isinstance(value, wanted) and not isinstance(value, bool)
            self.true(is_one, here, f"is a {type(value).__name__}; it must be {names}")

    def all_of(self, node: Any, where: str, *kinds: type) -> None:
        """Refuses a list, or a mapping with names, that holds a value of another type."""
        values = node.values() if isinstance(node, dict) else node
        names = " or ".join(kind.__name__ for kind in kinds)
        ok = all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)
        ok = ok and (not isinstance(node, dict) or all(isinstance(name, str) for name in node))
        self.true(ok, where, f"must hold {names} alone")
