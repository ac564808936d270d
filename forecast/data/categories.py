"""Columns of categories: their cells as numbers of words, from 1 on; 0 stands for any that a training did not see."""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from forecast.data.panel import Facts, PanelFrame
from forecast.data.reading.table import Codebook
from forecast.data.split import TargetRows
from forecast.data.values.cells import FloatArray
from forecast.text.terminal import listed

log = logging.getLogger(__name__)
_NAMED = 5  # words that are listed
_WHOLE = re.compile(r"\d+")


def in_order(words: Collection[str]) -> tuple[str, ...]:
    """Words sorted; whole numbers by their size, before the others."""
    return tuple(sorted(words, key=lambda word: (0, int(word), word) if _WHOLE.fullmatch(word) else (1, 0, word)))


def recoded(
    codes: FloatArray, words: Sequence[str], wanted: Sequence[str], *, name: str, where: str, noun: str = "rows"
) -> FloatArray:
    """The numbers among `wanted` of the words whose numbers among `words` these are (n,); 0 for any other; NaN stays.

    Others, which the training did not have, are named: in so many rows, or whatever `noun` is, of a column.
    """
    places = {word: number for number, word in enumerate(wanted, start=1)}
    numbers = np.array([0, *(places.get(word, 0) for word in words)])
    held = ~np.isnan(codes)
    known = np.where(held, codes, 0).astype(int)
    unseen = known[(known > 0) & (numbers[known] == 0)]
    if len(unseen):
        others = in_order([words[code - 1] for code in np.unique(unseen).tolist()])
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        log.warning(
            "%s: column '%s' has in %d %s categories that the training did not have, %s%s: the model takes them for "
            "unknown.",
            *(where, name, len(unseen), noun, listed(others[:_NAMED]), more),
        )
    return np.where(held, numbers[known], np.nan)


def with_categories(frame: PanelFrame, categories: Mapping[str, Sequence[str]]) -> PanelFrame:
    """The same with the numbers that these words have: 0 for any other, which is said, and for a missing cell.

    A cell that was filled in counts as known to be unknown: between two categories is none.
    """
    if not frame.categories:
        return frame
    values, measured = np.array(frame.values), None if frame.measured is None else frame.measured.copy()
    for name, words in frame.categories.items():
        column = frame.columns.index(name)
        codes = np.where(_held(frame, name), frame.values[:, column], 0)
        values[:, column] = recoded(codes, words, categories[name], name=name, where=frame.name)
        if measured is not None:
            measured[:, column] = True
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
        codes = frame.values[train & _held(frame, name), frame.columns.index(name)]
        learnt[name] = _used(codes, words)
    frame = with_categories(frame, learnt)
    if frame.facts is None:
        return frame
    facts, trained = frame.facts, rows.stop > rows.first
    kept = {name: _used(facts.column(name)[trained], words) for name, words in facts.categories.items()}
    return replace(frame, facts=told_facts(facts, kept, frame.name))


def told_facts(facts: Facts, categories: Mapping[str, Sequence[str]], where: str) -> Facts:
    """The facts of a panel with the numbers that these words have; 0 for any other, which is said."""
    values = facts.values.copy()
    for name, words in facts.categories.items():
        codes = recoded(facts.column(name), words, categories[name], name=name, where=where, noun="series")
        values[:, facts.names.index(name)] = codes
    return replace(facts, values=values, categories={name: tuple(categories[name]) for name in facts.categories})


def in_numbers_of(
    categories: Mapping[str, Sequence[str]], values: FloatArray, columns: Sequence[str], book: Codebook, where: str
) -> FloatArray:
    """Values (..., K) that were read with a book, with the numbers that these words have; NaN stays."""
    for name, words in book.words(columns).items():
        codes = values[..., columns.index(name)]
        values[..., columns.index(name)] = recoded(codes, words, categories[name], name=name, where=where)
    return values


def _used(codes: FloatArray, words: Sequence[str]) -> tuple[str, ...]:
    """The words whose numbers are among these."""
    return in_order([words[code - 1] for code in np.unique(codes).astype(int).tolist() if code > 0])


def _held(frame: PanelFrame, name: str) -> npt.NDArray[np.bool_]:
    """The rows (N,) in which a file had a cell of the column."""
    column = frame.columns.index(name)
    return np.ones(len(frame.values), dtype=np.bool_) if frame.measured is None else frame.measured[:, column]
