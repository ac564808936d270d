"""What two sides have left, field by field: weights, figures, forecasts, data of pictures and sentences.

A field is `CASE/FILE:WHERE`, such as `ridge/run/metrics.json:test.scaled.mse`; its value a number, a text, an array or
a list. Times, durations, versions, commits, hashes of code, paths and sizes of memory are masked; of a saved config
nothing is but paths.
"""

import csv
import difflib
import fnmatch
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

# Names of values that are of the moment, of the machine or of the code, wherever they stand in a document.
OF_THE_MOMENT = re.compile(
    r"(^|_)(seconds|per_second|samples/s|memory|mb|MB|versions?|commit|code|pid|host|hostname|identity|program|began|begun"
    r"|started|ended|speed|files|sha256)($|_)"
)
# Masks of texts, in this order; a line that a mask empties is left out.
MASKS = [
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"^.*(\d samples/s|windows/s|it/s).*$", re.M), ""),
    (re.compile(r"^ *\d+ s  .*, [\d.]+ s$", re.M), ""),  # the steps of auto, the quickest first
    (re.compile(r"(-|%) +\d+\.\d(?=(?: +chosen)? *$)", re.M), r"\1 SIZE"),  # their seconds, in its table
    (re.compile(r"\bin \d+\.\d minutes\b"), "in SIZE minutes"),
    (re.compile(r"outputs/\d{4}-\d\d-\d\d/\d\d-\d\d-\d\d(-\d+)?"), "outputs/WHEN"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d,\d{3}"), "WHEN"),
    (re.compile(r"\b(\d+:)?\d\d?:\d\d\b(?= *(left|passed|elapsed))"), "DURATION"),
    (re.compile(r" *\b\d[\d.,]* (s|ms|seconds?|MB|MiB|GB)\b"), r" SIZE \1"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}(-dirty)?\b"), "HASH"),
    (re.compile(r"\bpid \d+|process \d+"), "PROCESS"),
]
# Files whose presence alone is compared, and those of the moment.
PRESENCE = (".pt2", ".log", ".gz")
PNG = b"\x89PNG"
IGNORED = (".hydra", ".lock", "tensorboard", "journal.log", "study.json", "__pycache__")


class Difference(NamedTuple):
    """A field and its values on both sides, as texts; numbers: the largest relative difference, None for texts."""

    field: str
    base: str
    head: str
    relative: float | None = None


class Lines(tuple[str, ...]):
    """The lines of a text, which are compared as such."""


def mask(text: str, place: str) -> str:
    """A text without what is of the moment. place: the side's folder."""
    text = text.replace(place, "PLACE")
    for pattern, mark in MASKS:
        text = pattern.sub(mark, text)
    return text


def read_case(folder: Path, place: str) -> dict[str, Any]:
    """Field -> value of all that a case has left in its folder."""
    found: dict[str, Any] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        for name in sorted(files):
            if name not in IGNORED:
                path = Path(parent, name)
                field = mask(f"{folder.name}/{path.relative_to(folder)}", place)
                found[field] = "there"
                found |= {f"{field}:{key}": value for key, value in read_file(path, place)}
    return found


def read_file(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The fields of a file."""
    drawn = path.suffix == ".png" and path.read_bytes().startswith(PNG)  # by a process that was not forked
    if path.suffix not in PRESENCE and not drawn:
        try:
            yield from READERS.get(path.suffix, text_fields)(path, place)
        except (ValueError, OSError, KeyError, RuntimeError, yaml.YAMLError) as error:
            yield "unreadable", mask(str(error), place)


def text_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The lines that are not empty."""
    text = mask(without_columns(path.read_text()), place)
    yield "text", Lines(line.rstrip() for line in text.splitlines() if line.strip())


def table_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The columns of a CSV, as they are written."""
    with path.open(newline="") as file:
        header, *rows = [*csv.reader(file)] or [[]]
    for number, name in enumerate(header):
        if not OF_THE_MOMENT.search(name):
            yield name, [mask(row[number], place) if number < len(row) else None for row in rows]


def parquet_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The columns of a Parquet file."""
    import pandas as pd

    yield from ((str(name), column.to_numpy()) for name, column in pd.read_parquet(path).items())


def array_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The arrays of an .npz file; one of them may be a JSON document."""
    with np.load(path) as arrays:
        for name, array in arrays.items():
            if array.ndim == 0 and str(array).startswith("{"):
                yield from leaves(json.loads(str(array)), place, name)
            else:
                yield name, array


def tensor_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The SHA-256 of each tensor."""
    from safetensors.numpy import load_file

    yield from ((name, digest(array)) for name, array in load_file(path).items())


def document_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The leaves of JSON, which the pictures are here, JSON lines and YAML."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        yield from leaves([json.loads(line) for line in text.splitlines()], place)
    else:
        yield from leaves(yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text), place)


def page_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """What a page draws."""
    for part in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text(), re.S):
        yield from leaves(json.loads(part), place, "data")


def without_columns(text: str) -> str:
    """A text whose tables in Markdown lack the columns that are of the moment."""
    lines, left_out = [], set[int]()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if not line.startswith("|"):
            left_out = set()
        elif not left_out:
            left_out = {number for number, cell in enumerate(cells) if OF_THE_MOMENT.search(cell)} or {-1}
        kept = [cell for number, cell in enumerate(cells) if number not in left_out]
        lines.append(" | ".join(kept) if line.startswith("|") else line)
    return "\n".join(lines)


def checkpoint_fields(path: Path, place: str) -> Iterator[tuple[str, Any]]:
    """The SHA-256 of each weight, the saved config as canonical JSON, and the rest of the program's own record."""
    import torch

    content = torch.load(path, weights_only=True, map_location="cpu")
    weights = content.get("state_dict", content)
    yield from ((f"weights.{name}", digest(tensor.numpy())) for name, tensor in weights.items())
    record = dict(content.get("forecast", {}))
    for key in ("config", "choices"):
        canonical = json.loads(json.dumps(record.pop(key, {}), sort_keys=True))
        yield from leaves(canonical, place, f"record.{key}", whole=True)
    yield from leaves(record, place, "record")


READERS = {
    **dict.fromkeys((".ckpt", ".pt"), checkpoint_fields),
    **dict.fromkeys((".json", ".jsonl", ".yaml", ".png"), document_fields),
    ".safetensors": tensor_fields,
    ".npz": array_fields,
    ".parquet": parquet_fields,
    ".csv": table_fields,
    ".html": page_fields,
}


def digest(array: Any) -> str:
    """Type, shape and SHA-256."""
    sha = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.dtype} {tuple(array.shape)} {sha}"


def leaves(document: Any, place: str, at: str = "", *, whole: bool = False) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts and lists, by their way; a list of plain values is one leaf.

    whole: with the keys that are of the moment elsewhere.
    """
    if hasattr(document, "numpy"):  # a tensor of a checkpoint's record
        yield at, document.numpy()
    elif isinstance(document, Mapping):
        for key, value in document.items():
            if whole or not OF_THE_MOMENT.search(str(key)):
                way = f"{at}.{mask(str(key), place)}" if at else mask(str(key), place)
                yield from leaves(value, place, way, whole=whole)
    elif isinstance(document, Sequence) and not isinstance(document, str):
        if any(isinstance(one, Mapping | list | tuple) or hasattr(one, "numpy") for one in document):
            for number, value in enumerate(document):
                yield from leaves(value, place, f"{at}[{number}]", whole=whole)
        else:
            yield at, [mask(one, place) if isinstance(one, str) else one for one in document]
    else:
        yield at, mask(document, place) if isinstance(document, str) else document


def differences(base: Mapping[str, Any], head: Mapping[str, Any]) -> list[Difference]:
    """Every field that is not equal, to the last bit. A file that one side lacks is one difference."""
    found = []
    for field in dict.fromkeys([*base, *head]):
        file = field.partition(":")[0]
        if field not in base or field not in head:
            if field == file or (file in base and file in head):
                found.append(Difference(field, shown(base.get(field, "absent")), shown(head.get(field, "absent"))))
        elif isinstance(base[field], Lines) and isinstance(head[field], Lines):
            found += line_differences(field, base[field], head[field])
        elif (one := value_difference(field, base[field], head[field])) is not None:
            found.append(one)
    return found


def line_differences(field: str, base: Lines, head: Lines) -> list[Difference]:
    """A difference for each stretch of lines that are not the same."""
    pieces = difflib.SequenceMatcher(None, base, head, autojunk=False).get_opcodes()
    return [
        Difference(f"{field}[{i}]", "\n".join(base[i:j]), "\n".join(head[k:m]))
        for kind, i, j, k, m in pieces
        if kind != "equal"
    ]


def value_difference(field: str, base: Any, head: Any) -> Difference | None:
    """None where both are the same in type, shape and every bit; of several values the first that differs is shown."""
    one, other = np.asarray(base, object if isinstance(base, list) else None), np.asarray(head)
    if isinstance(head, list):
        other = np.asarray(head, object)
    if one.shape != other.shape or one.dtype != other.dtype:
        return Difference(field, shown(base), shown(head))
    unequal = ~same(one, other)
    if not unequal.any():
        return None
    where = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(unequal)))
    first, second = np.atleast_1d(one)[where], np.atleast_1d(other)[where]
    relative = largest_relative(one[unequal], other[unequal])
    if one.ndim:
        field = f"{field}{list(where)}, {int(unequal.sum())} of {one.size} differ"
    return Difference(field, str(first), str(second), relative)


def same(one: Any, other: Any) -> Any:
    """Elementwise equality to which NaN equals NaN, a bool or an array of them."""
    equal = one == other
    return np.asarray(equal | ((one != one) & (other != other)))  # noqa: PLR0124


def largest_relative(one: Any, other: Any) -> float | None:
    """The largest |a - b| / max(|a|, |b|); None where they are no numbers."""
    try:
        first, second = one.astype(float), other.astype(float)
    except (TypeError, ValueError):
        return None
    scale = np.maximum(np.maximum(abs(first), abs(second)), np.finfo(float).tiny)
    largest = float(np.max(abs(first - second) / scale))
    return largest if np.isfinite(largest) else None


def shown(value: Any) -> str:
    """A value in a line."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return str(value)


def moved(difference: Difference, entry: Mapping[str, Any]) -> bool:
    """Whether an entry of moved.yaml names a difference.

    files: a pattern of CASE/FILE. field: what stands behind the colon, without places in lists, `data.charts.y` of
    `data.charts[0].y[1]`. text: a pattern of either value. within: the largest relative difference of numbers.
    """
    file, _, where = difference.field.partition(":")
    if not fnmatch.fnmatchcase(file, entry["files"]) or re.sub(r"\[.*?\]|, .*", "", where) != entry["field"]:
        return False
    if "text" in entry and not any(
        fnmatch.fnmatchcase(one, entry["text"]) for one in (difference.base, difference.head)
    ):
        return False
    return "within" not in entry or (difference.relative is not None and difference.relative <= float(entry["within"]))
