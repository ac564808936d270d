"""What single entries of a checkpoint's content must be."""

import itertools
import math
from collections.abc import Iterable
from typing import Any, get_args

import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import CalendarEncoding
from forecast.checkpoint.formats import RECORD
from forecast.data.values.frequency import is_frequency
from forecast.data.values.time_features import feature_names
from forecast.text.terminal import label

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class WrongEntry(Exception):
    """An entry is not what it must be; the text says which one and why."""


def require(holds: object, where: str, problem: str) -> None:
    """Raises WrongEntry for the entry `where`, unless `holds`."""
    if not holds:
        raise WrongEntry(f"{where} {problem}")


def check_baseline(record: dict[str, Any], key: str, *, rows: int | None) -> None:
    """A matrix (pred_len, rows), None: any number; of a ridge with covariates one, or one a target."""
    weight, where = record[key], f"{RECORD}.{key}"
    require(isinstance(weight, Tensor), where, f"is a {type(weight).__name__}; it must be Tensor")
    require(weight.dtype in FLOATS, where, f"is of {weight.dtype} instead of a floating-point number")
    shape = tuple(weight.shape)
    expected: tuple[int, ...] = (record["config"]["pred_len"], rows or max(1, *shape[-1:]))
    if key != "nlinear_weight" and "ridge_effect" in record:
        maps = len(record["data"]["targets"])
        expected = (1 if shape[:1] == (1,) else maps, *expected)
    require(shape == expected, where, f"has the shape {shape} instead of {expected}")


def check_calibration(record: dict[str, Any], where: str) -> None:
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


def check_data(data: dict[str, Any], where: str, *, encoding: Any) -> None:
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
    calendar = [*feature_names(data["freq"], encoding)]
    fits = data["known"][: len(calendar)] == calendar
    others = [name for name in data["known"][len(calendar) :] if name != "padded"]
    fits = fits and len(others) == len([name for name in covariates if name != "padded"])
    problem = f"is {data['known']}, not the calendar {calendar} and then the covariates {[*covariates]}"
    require(fits, f"{where}.known", problem)


def check_refit(refit: dict[str, Any], where: str) -> None:
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


def parts_of(node: Any) -> Iterable[tuple[Any, Any]]:
    """Of a mapping its items, of a list its places and elements."""
    return node.items() if isinstance(node, dict) else enumerate(node)
