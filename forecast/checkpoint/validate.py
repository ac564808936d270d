"""The content of a checkpoint of any origin, refused with the entry that is wrong."""

import functools
import math
import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import forecast
from forecast.checkpoint.formats import FORMAT, PANEL, RECORD, REFIT
from forecast.errors import UserError

NONE = type(None)
# No checkpoint comes near them: its parts, those of its config, and how deep they lie. A part that several others hold
# counts as often, as whatever walks over them would meet it.
MOST_PARTS, MOST_CONFIG_PARTS, DEEPEST = 1_000_000, 10_000, 50
CONTAINERS = (dict, list, tuple, set, frozenset)
SHARED = 10  # how many times as large as the file its tensors may be, for weights with several names
LARGEST = 1e150  # of a mean or a standard deviation: errors in original units are squared
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# What is needed to evaluate, to predict and to describe it: mapping -> its keys and their types. There may be more.
KINDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "": {"state_dict": (dict,), "global_step": (int,), "loops": (dict,)},
    RECORD: {
        **dict.fromkeys(("versions", "config", "choices", "data"), (dict,)),
        "format": (int,),
        "parameters": (int, NONE),
        "best_step": (int, NONE),
    },
    f"{RECORD}.config": {
        **dict.fromkeys(("model", "data"), (dict,)),
        **dict.fromkeys(("seq_len", "label_len", "pred_len", "seed"), (int,)),
    },
    f"{RECORD}.config.data": {"name": (str,), "features": (str,)},
    f"{RECORD}.config.model": {"_target_": (str,)},
    f"{RECORD}.choices": {"model": (str,), "attention": (str, NONE), "protocol": (str,)},
    f"{RECORD}.data": {
        **dict.fromkeys(("name", "checksum", "freq", "trained_until"), (str,)),
        **dict.fromkeys(("columns", "targets", "known"), (list,)),
        **dict.fromkeys(("scaler", "splits"), (dict,)),
        "path": (str, NONE),
    },
    f"{RECORD}.data.scaler": dict.fromkeys(("columns", "mean", "std"), (list,)),
}

# What only some have.
OPTIONAL_KINDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    f"{RECORD}.imported": {"file": (str,)},
    f"{RECORD}.data.gaps": {},
    f"{RECORD}.data.covariates": {},
    f"{RECORD}.data.facts": dict.fromkeys(("columns", "mean", "std"), (list,)),
    f"{RECORD}.data.naive": {"period": (int,), "absolute": (list,), "squared": (list,)},
    f"{RECORD}.{PANEL}": {"scale": (dict,), "id_column": (str,), "time_column": (str,)},
    f"{RECORD}.{REFIT}": {"rows": (list,), "trained_until": (str,), "held_out": (dict,)},
    f"{RECORD}.{PANEL}.scale": {"how": (str,), "ids": (Tensor,), "mean": (Tensor,), "std": (Tensor,)},
}


def check_content(path: Path, content: Any) -> None:
    """Raises UserError, naming the first entry that is wrong, unless `content` has all that a checkpoint needs."""
    if not isinstance(content, dict) or RECORD not in content:
        lightnings = isinstance(content, dict) and "pytorch-lightning_version" in content
        writer = " Another program of Lightning's wrote it." if lightnings else ""
        raise UserError(f"ckpt_path={path} is not a checkpoint of this program: it has no '{RECORD}' entry.{writer}")
    try:
        record = content[RECORD]
        _require(isinstance(record, dict), RECORD, f"is a {type(record).__name__} and no mapping")
        _check_format(path, record)
        _check_extent(record.get("config"), f"{RECORD}.config", most=MOST_CONFIG_PARTS)
        size = _check_extent(content, "", most=MOST_PARTS)
        too_large = f"is too large: its tensors are together more than {SHARED} times as large as the file"
        _require(size <= SHARED * path.stat().st_size, "state_dict", too_large)
        _check_types(content)
        _require(isinstance(epoch(content), int), "loops", "does not say how many epochs have begun")
        config = record["config"]
        for key, least in (("seq_len", 1), ("label_len", 0), ("pred_len", 1)):
            where = f"{RECORD}.config.{key}"
            _require(config[key] >= least, where, f"is {config[key]}; it must be at least {least}")
        _check_data(record["data"], f"{RECORD}.data")
        # of a panel whose series are all shorter than seq_len there is no NLinear
        _require("nlinear_weight" in record or record.get(PANEL) is not None, f"{RECORD}.nlinear_weight", "is missing")
        if record.get(REFIT) is not None:
            _check_refit(record[REFIT], f"{RECORD}.{REFIT}")
        for key, rows in (("nlinear_weight", config["seq_len"]), ("ridge_weight", None), ("ridge_effect", None)):
            if key in record:
                _check_baseline(record, key, rows=rows)
    except _WrongEntry as error:
        raise UserError(
            f"ckpt_path={path} is damaged, or was made or changed by other means: its entry {error}."
        ) from None


def epoch(content: dict[str, Any]) -> Any:
    """The last epoch begun. Lightning's own `epoch` counts from 0 during an epoch and is one further at the end."""
    node: Any = content["loops"]
    for key in ("fit_loop", "epoch_progress", "current", "started"):
        node = node.get(key) if isinstance(node, dict) else None
    return node


class _WrongEntry(Exception):
    """An entry is not what it must be; the text says which one and why."""


def _require(holds: Any, where: str, problem: str) -> None:
    if not holds:
        raise _WrongEntry(f"{where} {problem}")


def _check_format(path: Path, record: dict[str, Any]) -> None:
    """Raises UserError for a file of a newer program, whose other entries may mean something else."""
    number, versions = record.get("format"), record.get("versions")
    if isinstance(number, int) and number > FORMAT:
        writer = versions.get("forecast", "?") if isinstance(versions, dict) else "?"
        raise UserError(
            f"ckpt_path={path} has format {number}, written by forecast {writer}; this is forecast "
            f"{forecast.__version__}, which reads formats up to {FORMAT}. Update it: git pull, then pip install -e ."
        )


def _check_extent(node: Any, entry: str, *, most: int) -> int:
    """Plain containers with an end, with tensors and integers that can be worked with; the bytes of all tensors."""
    pending, left, size = [(entry, node, 0)], most, 0
    while pending:
        where, node, depth = pending.pop()
        if isinstance(node, Tensor):
            _check_tensor(where, node)
            size += node.nbytes
        elif isinstance(node, CONTAINERS):
            left -= len(node)
            _require(left >= 0, entry or "content", f"has more than {most} parts, or holds itself")
            _require(depth < DEEPEST, entry or "content", f"is nested more than {DEEPEST} deep, or holds itself")
            pending += [(f"{where}.{key}" if where else str(key), value, depth + 1) for key, value in _parts(node)]
        elif isinstance(node, int):
            _require(abs(node) < 2**63, where, "is an integer of more than 64 bits")
    return size


def _parts(node: Any) -> Iterable[tuple[Any, Any]]:
    return node.items() if isinstance(node, dict) else enumerate(node)


def _check_tensor(where: str, tensor: Tensor) -> None:
    """Dense numbers in memory, as many as the file has."""
    kind = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
    _require(kind == "strided" and not tensor.is_nested, where, f"is a {kind} tensor and no dense one")
    _require(tensor.device.type == "cpu", where, f"is a tensor without numbers (device {tensor.device})")
    enough = tensor.nbytes <= tensor.untyped_storage().nbytes()
    _require(enough, where, f"claims more numbers than the file has: its shape is {tuple(tensor.shape)}")


def _check_types(content: dict[str, Any]) -> None:
    """Every key of KINDS is there with its type, and lists and weights hold one type alone."""
    for where, kinds in {**KINDS, **OPTIONAL_KINDS}.items():
        place = where.split(".") if where else []
        if where in OPTIONAL_KINDS:
            *place, last = place
            parent = functools.reduce(lambda inside, key: inside.get(key) or {}, place, content)
            if parent.get(last) is None:
                continue
            _require(isinstance(parent[last], dict), where, f"is a {type(parent[last]).__name__}; it must be dict")
            place.append(last)
        node = functools.reduce(operator.getitem, place, content)
        for key, types in kinds.items():
            entry = f"{where}.{key}" if where else key
            _require(key in node, entry, "is missing")
            text = f"is a {type(node[key]).__name__}; it must be {_in_words(types)}"
            _require(_is_one(node[key], types), entry, text)
    weights, data = content["state_dict"], content[RECORD]["data"]
    tensors = all(isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items())
    _require(tensors, "state_dict", "must hold Tensor alone")
    choices, versions = content[RECORD]["choices"], content[RECORD]["versions"]
    lists: dict[str, tuple[Any, tuple[type, ...]]] = {
        "choices": ([*choices, *choices.values()], (str, NONE)),
        "versions": ([*versions, *versions.values()], (str,)),
        "data.splits": (data["splits"], (str,)),
        **{f"data.{key}": (data[key], (str,)) for key in ("columns", "targets", "known")},
    }
    lists |= {f"data.scaler.{key}": (data["scaler"][key], (int, float)) for key in ("mean", "std")}
    if data.get("naive") is not None:
        lists |= {f"data.naive.{key}": (data["naive"][key], (int, float)) for key in ("absolute", "squared")}
    for where, (values, types) in lists.items():
        names = _in_words(types)
        _require(all(_is_one(value, types) for value in values), f"{RECORD}.{where}", f"must hold {names} alone")


def _check_baseline(record: dict[str, Any], key: str, *, rows: int | None) -> None:
    """A matrix (pred_len, rows), None: any number; of a ridge with covariates one, or one a target."""
    weight, where = record[key], f"{RECORD}.{key}"
    _require(isinstance(weight, Tensor), where, f"is a {type(weight).__name__}; it must be Tensor")
    _require(weight.dtype in FLOATS, where, f"is of {weight.dtype} instead of a floating-point number")
    shape = tuple(weight.shape)
    expected: tuple[int, ...] = (record["config"]["pred_len"], rows or max(1, *shape[-1:]))
    if key != "nlinear_weight" and "ridge_effect" in record:
        maps = len(record["data"]["targets"])
        expected = (1 if shape[:1] == (1,) else maps, *expected)
    _require(shape == expected, where, f"has the shape {shape} instead of {expected}")


def _in_words(types: tuple[type, ...]) -> str:
    return " or ".join("null" if kind is NONE else kind.__name__ for kind in types)


def _is_one(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)  # a bool is an int to Python


def _check_data(data: dict[str, Any], where: str) -> None:
    """Columns, targets, scaler, splits and time fit together."""
    columns, targets, scaler = data["columns"], data["targets"], data["scaler"]
    _require(len(set(columns)) == len(columns) > 0, f"{where}.columns", f"is {columns}; it must be names, none twice")
    known = targets and set(targets) <= set(columns) and len(set(targets)) == len(targets)
    _require(known, f"{where}.targets", f"is {targets}; it must be some of the columns {columns}, none twice")
    _require(scaler["columns"] == columns, f"{where}.scaler.columns", f"is {scaler['columns']} instead of {columns}")
    for key in ("mean", "std"):
        fits = len(scaler[key]) == len(columns) and all(map(math.isfinite, scaler[key]))
        _require(fits, f"{where}.scaler.{key}", f"must be {len(columns)} finite numbers, one a column")
        within = max(map(abs, scaler[key])) <= LARGEST
        _require(within, f"{where}.scaler.{key}", f"holds a number beyond {LARGEST:g}, of which no error is finite")
    _require(min(scaler["std"]) > 0, f"{where}.scaler.std", "holds a number that is not above 0")
    season = data.get("season")
    _require(
        season is None or (type(season) is int and season > 0), f"{where}.season", f"is {season!r}, no number of steps"
    )
    naive = data.get("naive") or dict.fromkeys(("absolute", "squared"), [0.0] * len(targets))
    for key in ("absolute", "squared"):
        fits = len(naive[key]) == len(targets) and all(math.isfinite(one) and one >= 0 for one in naive[key])
        _require(fits, f"{where}.naive.{key}", f"must be {len(targets)} finite numbers from 0 on, one a target")
    told = data.get("covariates") or {}
    for name, words in told.items():
        named = words is None or (isinstance(words, list) and all(isinstance(word, str) for word in words))
        _require(named, f"{where}.covariates.{name}", "must be null, or the words of its categories")
    facts, hidden = data.get("facts") or {"columns": (), "mean": (), "std": ()}, data.get("hidden") or []
    own = [name for name in told if name in columns]
    _require(columns[len(columns) - len(own) :] == own, f"{where}.covariates", f"is {own}; the last columns are others")
    ok = isinstance(hidden, list) and hidden == own[len(own) - len(hidden) :]
    _require(ok, f"{where}.hidden", f"is {hidden!r}; it must be the last of the covariates {own}")
    for key in ("mean", "std"):
        numbers = [one for one in facts[key] if isinstance(one, int | float) and math.isfinite(one)]
        fits = len(numbers) == len(facts[key]) == len(told) - len(own) and (
            key == "mean" or min(numbers, default=1) > 0
        )
        _require(fits, f"{where}.facts.{key}", f"must be {len(told) - len(own)} finite numbers, one a fact")
    for name, rows in data["splits"].items():
        ok = isinstance(rows, list) and len(rows) == 2 and all(type(n) is int for n in rows) and 0 <= rows[0] <= rows[1]
        _require(ok, f"{where}.splits.{name}", f"is {rows!r}; it must be two row numbers, the first and the end")
    _check_time(data["trained_until"], f"{where}.trained_until")


def _check_refit(refit: dict[str, Any], where: str) -> None:
    """The splits that a refitted model learned from, until when, and the figures of the held-out model."""
    rows = refit["rows"]
    _require(all(isinstance(name, str) for name in rows), f"{where}.rows", "must hold str alone")
    _require({"train", "val"} <= {*rows}, f"{where}.rows", f"is {rows}; it must name train and val")
    _check_time(refit["trained_until"], f"{where}.trained_until")
    pending = [(f"{where}.held_out", refit["held_out"])]
    for place, node in pending:
        if isinstance(node, dict | list):
            pending += [(f"{place}.{key}", part) for key, part in _parts(node)]
        else:
            plain = node is None or isinstance(node, str | int | float)
            _require(plain, place, f"is a {type(node).__name__}; it must be a plain value")
    for split in ("test", "val"):
        node = refit["held_out"]
        for key in (split, "scaled"):
            node = node.get(key) if isinstance(node, dict) else None
        for error in ("mse", "mae"):
            value = node.get(error) if isinstance(node, dict) else None
            finite = isinstance(value, int | float) and math.isfinite(value)
            _require(finite, f"{where}.held_out.{split}.scaled.{error}", f"is {value!r}; it must be a finite number")


def _check_time(text: str, where: str) -> None:
    try:
        until = pd.Timestamp(text)
    except ValueError:
        until = pd.NaT
    is_time = until is not pd.NaT and until.tzinfo is None
    _require(is_time, where, f"is {text!r}, which is no time of a series")
