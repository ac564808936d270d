"""The cells of a file as columns: numbers, words, and nothing decided yet."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.reading.columns import RawColumn


def test_words_are_shown_as_they_were_written_and_a_short_row_lacks_some():
    column = RawColumn.of_cells("a", pd.Series(["7", " 4,800\t", "M", None, "7"], dtype=object))
    assert column.cells(range(5)) == ["7", "4,800", "M", "", "7"]
    assert column.words == ["7", "4,800", "M", ""]


def test_words_by_their_places_lose_line_ends_and_those_that_no_row_has():
    column = RawColumn.of_words("a", np.array([2, 0, -1, 2]), [" b\n", "unused", "a"], np.array([np.nan] * 2 + [5, 0]))
    assert column.words == ["a", "b"]
    assert column.cells(range(4)) == ["a", "b", "5", "a"]


@pytest.mark.parametrize("values", [[3, 3, 0, -7, 3, 10**15 - 1], [2, 2, 2.5], [-0.0, 1], [10**15, 1], [np.inf, 4]])
def test_typed_numbers_become_the_words_of_their_cells(values):
    column = RawColumn.of_numbers("id", np.array(values, dtype=float))
    assert column.as_words().cells(range(len(values))) == column.cells(range(len(values)))
