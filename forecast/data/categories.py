"""Columns of categories: their cells as numbers of words, from 1 on; 0 stands for any that a training did not see."""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from forecast.data.panel import Facts, PanelFrame
from forecast.data.reading.table import Codebook, Words
from forecast.data.split import TargetRows
from forecast.data.values.cells import Cells
from forecast.text.terminal import listed

log = logging.getLogger(__name__)
Array = TypeVar("Array", npt.NDArray[np.float32], npt.NDArray[np.float64])
_NAMED = 5  # words that are listed
_WHOLE = re.compile(r"\d+")


def in_order(words: Collection[str]) -> tuple[str, ...]:
    """Words sorted; whole numbers by their size, before the others."""
    return tuple(sorted(words, key=lambda word: (0, int(word), word) if _WHOLE.fullmatch(word) else (1, 0, word)))


def with_categories(frame: PanelFrame, categories: Mapping[str, Sequence[str]]) -> PanelFrame:
    """The same with the numbers that these words have: 0 for any other, which is said, and for a missing cell.

    A cell that was filled in counts as known to be unknown: between two categories is none.
    """
    if not frame.categories:
        return frame
    values, measured = np.array(frame.values), None if frame.measured is None else frame.measured.copy()
    for name, words in frame.categories.items():
        column, wanted = frame.columns.index(name), list(categories[name])
        numbers, unseen = renumbered(words, wanted)
        held = _held(frame, name)
        codes = np.where(held, frame.values[:, column], 0).astype(int)
        values[:, column] = numbers[codes]
        if measured is not None:
            measured[:, column] = True
        say_unseen(frame.name, name, unseen, int(np.isin(codes, list(unseen)).sum()), "rows")
    known = {name: tuple(categories[name]) for name in frame.categories}
    return replace(frame, values=values, categories=known, measured=measured)


def with_train_categories(frame: PanelFrame, rows: TargetRows) -> PanelFrame:
    """The same with the numbers of the words that the train rows, or series that have such rows, hold."""
    if not frame.categories and frame.facts is None:
        return frame
    edges = np.zeros(len(frame.values) + 1, dtype=np.int64)
    np.add.at(edges, rows.first, 1)
    np.add.at(edges, rows.stop, -1)
    train, learnt = np.cumsum(edges[:-1]) > 0, dict[str, tuple[str, ...]]()
    for name, words in frame.categories.items():
        column = frame.values[:, frame.columns.index(name)][train]
        codes = np.unique(column[_held(frame, name)[train]]).astype(int)
        learnt[name] = in_order([words[code - 1] for code in codes.tolist() if code > 0])
    frame = with_categories(frame, learnt)
    if frame.facts is None:
        return frame
    facts, trained = frame.facts, rows.stop > rows.first
    of_facts = {name: np.unique(facts.column(name)[trained]).astype(int).tolist() for name in facts.categories}
    kept = {name: in_order([facts.categories[name][code - 1] for code in part]) for name, part in of_facts.items()}
    return replace(frame, facts=told_facts(frame, kept))


def told_facts(frame: PanelFrame, categories: Mapping[str, Sequence[str]]) -> Facts:
    """The facts of a panel with the numbers that these words have; 0 for any other, which is said."""
    facts = frame.facts
    assert facts is not None
    values = facts.values.copy()
    for name, words in facts.categories.items():
        numbers, unseen = renumbered(words, list(categories[name]))
        codes = facts.column(name).astype(int)
        values[:, facts.names.index(name)] = numbers[codes]
        say_unseen(frame.name, name, unseen, int(np.isin(codes, list(unseen)).sum()), "series")
    return replace(facts, values=values, categories={name: tuple(categories[name]) for name in facts.categories})


def in_numbers_of(
    categories: Mapping[str, Sequence[str]], values: Array, columns: Sequence[str], book: Codebook, where: str
) -> Array:
    """Values (..., K) that were read with a book, with the numbers that these words have; NaN stays."""
    for name, words in book.words(columns).items():
        numbers, unseen = renumbered(words, list(categories[name]))
        column = values[..., columns.index(name)]
        held = ~np.isnan(column)
        codes = np.where(held, column, 0).astype(int)
        say_unseen(where, name, unseen, int(np.isin(codes, list(unseen)).sum()), "rows")
        values[..., columns.index(name)] = np.where(held, numbers[codes], np.nan)
    return values


def renumbered(words: Sequence[str], wanted: Sequence[str]) -> tuple[npt.NDArray[np.int64], Words]:
    """The number among `wanted` of each of `words` by its number (n + 1,), and those that are not among them."""
    places = {word: number for number, word in enumerate(wanted, start=1)}
    numbers = np.array([0, *(places.get(word, 0) for word in words)], dtype=np.int64)
    return numbers, {number: word for number, word in enumerate(words, start=1) if word not in places}


def say_unseen(where: str, name: str, unseen: Words, count: int, noun: str) -> None:
    """Names the categories that the training did not have, where there are any."""
    if count:
        words = in_order(unseen.values())
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        log.warning(
            "%s: column '%s' has in %d %s categories that the training did not have, %s%s: the model takes them for "
            "unknown.",
            *(where, name, count, noun, listed(words[:_NAMED]), more),
        )


def _held(frame: Cells, name: str) -> npt.NDArray[np.bool_]:
    """The rows (N,) in which a file had a cell of the column."""
    column = frame.columns.index(name)
    return np.ones(len(frame.values), dtype=np.bool_) if frame.measured is None else frame.measured[:, column]
