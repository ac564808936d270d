"""The content of a checkpoint of any origin, refused with the entry that is wrong."""

import functools
import itertools
import math
import operator
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import cast, get_args

import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import CalendarEncoding
from forecast.checkpoint.archive import Entries
from forecast.checkpoint.record import FITS, RECORD, REFIT, SERIES, check_format
from forecast.data.roles import PADDED
from forecast.data.values.frequency import is_frequency
from forecast.data.values.time_features import feature_names
from forecast.errors import UserError
from forecast.text.terminal import label

NONE = type(None)
# No checkpoint comes near them: its parts, those of its config, and how deep they lie. A part that several others hold
# counts as often, as whatever walks over them would meet it.
MOST_PARTS, MOST_CONFIG_PARTS, DEEPEST = 1_000_000, 10_000, 50
CONTAINERS = (dict, list, tuple, set, frozenset)
SHARED = 10  # how many times as large as the file its tensors may be, for weights with several names
# What is needed to evaluate, to predict and to describe it: mapping -> its keys and their types. There may be more.
KINDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "": {"state_dict": (dict,), "global_step": (int,), "loops": (dict,)},
    RECORD: {
        **dict.fromkeys(("versions", "config", "choices", "data", SERIES), (dict,)),
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
        **dict.fromkeys(("splits", "windows", "series"), (dict,)),
        "path": (str, NONE),
    },
    f"{RECORD}.data.series": {"count": (int,)},
    f"{RECORD}.{SERIES}": {
        "scale": (dict,),
        "rows": (dict,),
        "id_column": (str, NONE),
        "time_column": (str, NONE),
        "pad": (bool,),
    },
    f"{RECORD}.{SERIES}.rows": dict.fromkeys(("first", "train", "val"), (Tensor,)),
    f"{RECORD}.{SERIES}.scale": {
        **dict.fromkeys(("ids", "mean", "std"), (Tensor,)),
        "how": (str,),
        "naive": (dict,),
        "period": (int, NONE),
    },
    f"{RECORD}.{SERIES}.scale.naive": {"period": (int,), "absolute": (Tensor,), "squared": (Tensor,)},
}

# What only some have.
OPTIONAL_KINDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    f"{RECORD}.imported": {"file": (str,)},
    f"{RECORD}.calibration": {
        **dict.fromkeys(("levels", "targets"), (list,)),
        **dict.fromkeys(("margins", "typical"), (Tensor,)),
        **dict.fromkeys(("windows", "blocks", "parts", "rows", "period"), (int,)),
    },
    f"{RECORD}.data.gaps": {},
    f"{RECORD}.data.covariates": {},
    f"{RECORD}.data.facts": dict.fromkeys(("columns", "mean", "std"), (list,)),
    f"{RECORD}.{REFIT}": {"rows": (list,), "trained_until": (str,), "held_out": (dict,)},
}
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_content(path: Path, content: object) -> None:
    """Raises UserError, naming the first entry that is wrong, unless `content` has all that a checkpoint needs."""
    if not isinstance(content, dict) or RECORD not in content:
        lightnings = isinstance(content, dict) and "pytorch-lightning_version" in content
        writer = " Another program of Lightning's wrote it." if lightnings else ""
        raise UserError(f"ckpt_path={path} is not a checkpoint of this program: it has no '{RECORD}' entry.{writer}")
    try:
        record = content[RECORD]
        require(isinstance(record, dict), RECORD, f"is a {type(record).__name__} and no mapping")
        check_format(path, record)
        _check_extent(record.get("config"), f"{RECORD}.config", most=MOST_CONFIG_PARTS)
        size = _check_extent(content, "", most=MOST_PARTS)
        too_large = f"is too large: its tensors are together more than {SHARED} times as large as the file"
        require(size <= SHARED * path.stat().st_size, "state_dict", too_large)
        _check_types(content)
        epoch(content)
        config = record["config"]
        for key, least in (("seq_len", 1), ("label_len", 0), ("pred_len", 1)):
            where = f"{RECORD}.config.{key}"
            require(config[key] >= least, where, f"is {config[key]}; it must be at least {least}")
        check_data(record["data"], f"{RECORD}.data", encoding=config["model"].get("embedding", "timeF"))
        # where all series are shorter than seq_len there is no NLinear
        require("nlinear_weight" in record or record[SERIES]["pad"], f"{RECORD}.nlinear_weight", "is missing")
        if record.get("calibration") is not None:
            check_calibration(record, f"{RECORD}.calibration")
        if record.get(REFIT) is not None:
            check_refit(record[REFIT], f"{RECORD}.{REFIT}")
        for key in FITS:
            if key in record:
                check_baseline(record, key)
    except WrongEntry as error:
        raise UserError(
            f"ckpt_path={path} is damaged, or was made or changed by other means: its entry {error}."
        ) from None


def epoch(content: Entries) -> int:
    """The last epoch begun. Lightning's own `epoch` counts from 0 during an epoch and is one further at the end.

    Raises WrongEntry where there is none.
    """
    node: object = content["loops"]
    for key in ("fit_loop", "epoch_progress", "current", "started"):
        node = node.get(key) if isinstance(node, dict) else None
    if not isinstance(node, int):
        raise WrongEntry("loops does not say how many epochs have begun")
    return node


def _check_extent(node: object, entry: str, *, most: int) -> int:
    """Plain containers with an end, with tensors and integers that can be worked with; the bytes of all tensors."""
    pending, left, size = [(entry, node, 0)], most, 0
    while pending:
        where, node, depth = pending.pop()
        if isinstance(node, Tensor):
            _check_tensor(where, node)
            size += node.nbytes
        elif isinstance(node, CONTAINERS):
            left -= len(node)
            require(left >= 0, entry or "content", f"has more than {most} parts, or holds itself")
            require(depth < DEEPEST, entry or "content", f"is nested more than {DEEPEST} deep, or holds itself")
            pending += [(f"{where}.{key}" if where else str(key), value, depth + 1) for key, value in parts_of(node)]
        elif isinstance(node, int):
            require(abs(node) < 2**63, where, "is an integer of more than 64 bits")
    return size


def _check_tensor(where: str, tensor: Tensor) -> None:
    """Dense numbers in memory, as many as the file has."""
    kind = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
    require(kind == "strided" and not tensor.is_nested, where, f"is a {kind} tensor and no dense one")
    require(not tensor.requires_grad, where, "is a tensor that is being trained")
    require(tensor.device.type == "cpu", where, f"is a tensor without numbers (device {tensor.device})")
    enough = tensor.nbytes <= tensor.untyped_storage().nbytes()
    require(enough, where, f"claims more numbers than the file has: its shape is {tuple(tensor.shape)}")


def _check_types(content: Entries) -> None:
    """Every key of KINDS is there with its type, and lists and weights hold one type alone."""
    for where, kinds in {**KINDS, **OPTIONAL_KINDS}.items():
        place = where.split(".") if where else []
        if where in OPTIONAL_KINDS:
            *place, last = place
            parent = functools.reduce(lambda inside, key: inside.get(key) or {}, place, content)
            if parent.get(last) is None:
                continue
            require(isinstance(parent[last], dict), where, f"is a {type(parent[last]).__name__}; it must be dict")
            place.append(last)
        node = functools.reduce(operator.getitem, place, content)
        for key, types in kinds.items():
            entry = f"{where}.{key}" if where else key
            require(key in node, entry, "is missing")
            text = f"is a {type(node[key]).__name__}; it must be {_in_words(types)}"
            require(_is_one(node[key], types), entry, text)
    weights, data = content["state_dict"], content[RECORD]["data"]
    tensors = all(isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items())
    require(tensors, "state_dict", "must hold Tensor alone")
    choices, versions = content[RECORD]["choices"], content[RECORD]["versions"]
    rows = content[RECORD][SERIES]["rows"]
    tensors = all(isinstance(name, str) and isinstance(part, Tensor) for name, part in rows.items())
    require(tensors, f"{RECORD}.{SERIES}.rows", "must hold Tensor alone")
    lists: dict[str, tuple[Iterable[object], tuple[type, ...]]] = {
        "choices": ([*choices, *choices.values()], (str, NONE)),
        "versions": ([*versions, *versions.values()], (str,)),
        "data.splits": (data["splits"], (str,)),
        **{f"data.{key}": (data[key], (str,)) for key in ("columns", "targets", "known")},
    }
    lists["data.windows"] = ([*data["windows"]], (str,))
    lists["data.windows of a split"] = (data["windows"].values(), (int,))
    for where, (values, types) in lists.items():
        names = _in_words(types)
        require(all(_is_one(value, types) for value in values), f"{RECORD}.{where}", f"must hold {names} alone")


def _in_words(types: tuple[type, ...]) -> str:
    return " or ".join("null" if kind is NONE else kind.__name__ for kind in types)


def _is_one(value: object, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))  # which is an int to Python


class WrongEntry(Exception):
    """An entry is not what it must be; the text says which one and why."""


def require(holds: object, where: str, problem: str) -> None:
    """Raises WrongEntry for the entry `where`, unless `holds`."""
    if not holds:
        raise WrongEntry(f"{where} {problem}")


def check_baseline(record: Entries, key: str) -> None:
    """A mean a target, or a matrix (pred_len, rows); of a ridge with covariates one of these, or one a target."""
    weight, where = record[key], f"{RECORD}.{key}"
    require(isinstance(weight, Tensor), where, f"is a {type(weight).__name__}; it must be Tensor")
    require(weight.dtype in FLOATS, where, f"is of {weight.dtype} instead of a floating-point number")
    shape = tuple(weight.shape)
    config, n_targets = record["config"], len(record["data"]["targets"])
    rows = config["seq_len"] if key == "nlinear_weight" else max(1, *shape[-1:])
    expected: tuple[int, ...] = (n_targets,) if key == "train_mean" else (config["pred_len"], rows)
    if key.startswith("ridge") and "ridge_effect" in record:
        expected = (1 if shape[:1] == (1,) else n_targets, *expected)
    require(shape == expected, where, f"has the shape {shape} instead of {expected}")


def check_calibration(record: Entries, where: str) -> None:
    """Levels in per cent, ascending, and for each a margin at every step and target."""
    state = record["calibration"]
    levels, margins, targets = state["levels"], state["margins"], record["data"]["targets"]
    require(state["targets"] == targets, f"{where}.targets", f"is {state['targets']} instead of {targets}")
    numbers = all(type(level) in (int, float) and 0 < level < 100 for level in levels)
    ascending = numbers and levels and all(a < b for a, b in itertools.pairwise(levels))
    require(ascending, f"{where}.levels", f"is {levels!r}; it must be per cents, ascending")
    shape, expected = tuple(margins.shape), (len(levels), record["config"]["pred_len"], len(targets))
    require(shape == expected, f"{where}.margins", f"has the shape {shape} instead of {expected}")
    typical = state["typical"]
    require(tuple(typical.shape) == (len(targets),), f"{where}.typical", f"has the shape {tuple(typical.shape)}")
    for name, numbers in (("margins", margins), ("typical", typical)):
        finite = numbers.dtype in FLOATS and bool(torch.isfinite(numbers).all())
        require(finite, f"{where}.{name}", "must hold finite numbers")
    for name in ("rows", "period"):
        require(state[name] > 0, f"{where}.{name}", f"is {state[name]}; it must be above 0")


def check_data(data: Entries, where: str, *, encoding: object) -> None:
    """Columns, targets, splits, time and calendar fit together. encoding: of the calendar."""
    columns, targets = data["columns"], data["targets"]
    require(len(set(columns)) == len(columns) > 0, f"{where}.columns", f"is {columns}; it must be names, none twice")
    known = targets and set(targets) <= set(columns) and len(set(targets)) == len(targets)
    require(known, f"{where}.targets", f"is {targets}; it must be some of the columns {columns}, none twice")
    season = data.get("season")
    require(
        season is None or (type(season) is int and season > 0), f"{where}.season", f"is {season!r}, no number of steps"
    )
    covariates = data.get("covariates") or {}
    for name, words in covariates.items():
        named = words is None or (isinstance(words, list) and all(isinstance(word, str) for word in words))
        require(named, f"{where}.covariates.{name}", "must be null, or the words of its categories")
    facts, hidden = data.get("facts") or {"columns": (), "mean": (), "std": ()}, data.get("hidden") or []
    own = [name for name in covariates if name in columns]
    require(columns[len(columns) - len(own) :] == own, f"{where}.covariates", f"is {own}; the last columns are others")
    ok = isinstance(hidden, list) and hidden == own[len(own) - len(hidden) :]
    require(ok, f"{where}.hidden", f"is {hidden!r}; it must be the last of the covariates {own}")
    for key in ("mean", "std"):
        numbers = [number for number in facts[key] if isinstance(number, int | float) and math.isfinite(number)]
        fits = len(numbers) == len(facts[key]) == len(covariates) - len(own) and (
            key == "mean" or min(numbers, default=1) > 0
        )
        require(fits, f"{where}.facts.{key}", f"must be {len(covariates) - len(own)} finite numbers, one a fact")
    for name, rows in data["splits"].items():
        ok = isinstance(rows, list) and len(rows) == 2 and all(type(n) is int for n in rows) and 0 <= rows[0] <= rows[1]
        require(ok, f"{where}.splits.{name}", f"is {rows!r}; it must be two row numbers, the first and the end")
    _check_time(data["trained_until"], f"{where}.trained_until")
    require(is_frequency(data["freq"]), f"{where}.freq", f"is {label(data['freq'])!r}, no frequency of rows")
    require(encoding in get_args(CalendarEncoding), f"{RECORD}.config.model.embedding", f"is {encoding!r}")
    calendar = [*feature_names(data["freq"], cast(CalendarEncoding, encoding))]
    fits = data["known"][: len(calendar)] == calendar
    others = [name for name in data["known"][len(calendar) :] if name != PADDED]
    fits = fits and len(others) == len([name for name in covariates if name != PADDED])
    problem = f"is {data['known']}, not the calendar {calendar} and then the covariates {[*covariates]}"
    require(fits, f"{where}.known", problem)


def check_refit(refit: Entries, where: str) -> None:
    """The splits that a refitted model learned from, until when, and the figures of the held-out model."""
    rows = refit["rows"]
    require(all(isinstance(name, str) for name in rows), f"{where}.rows", "must hold str alone")
    require({"train", "val"} <= {*rows}, f"{where}.rows", f"is {rows}; it must name train and val")
    _check_time(refit["trained_until"], f"{where}.trained_until")
    pending = [(f"{where}.held_out", refit["held_out"])]
    for place, node in pending:
        if isinstance(node, dict | list):
            pending += [(f"{place}.{key}", part) for key, part in parts_of(node)]
        else:
            plain = node is None or isinstance(node, str | int | float)
            require(plain, place, f"is a {type(node).__name__}; it must be a plain value")
    for split in ("test", "val"):
        node = refit["held_out"]
        for key in (split, "scaled"):
            node = node.get(key) if isinstance(node, dict) else None
        for error in ("mse", "mae"):
            value = node.get(error) if isinstance(node, dict) else None
            finite = isinstance(value, int | float) and math.isfinite(value)
            require(finite, f"{where}.held_out.{split}.scaled.{error}", f"is {value!r}; it must be a finite number")


def _check_time(text: str, where: str) -> None:
    try:
        until = pd.Timestamp(text)
    except ValueError:
        until = pd.NaT
    is_time = until is not pd.NaT and until.tzinfo is None
    require(is_time, where, f"is {text!r}, which is no time of a series")


def parts_of(node: Collection[object]) -> Iterable[tuple[object, object]]:
    """Of a mapping its items, of a list its places and elements."""
    return node.items() if isinstance(node, dict) else enumerate(node)
