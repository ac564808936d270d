"""Sums over the rows of each series: the bits of one series alone, whatever stands around it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.scaling import sums


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 211), min_size=1, max_size=7),
    skip=st.integers(0, 3),
    columns=st.sampled_from([1, 2, 5]),
)
def test_the_sum_of_a_series_is_that_of_its_columns_alone_to_the_last_bit(lengths, skip, columns):
    values = np.random.default_rng(len(lengths)).normal(1e3, size=(sum(lengths), columns))
    offsets = np.cumsum([0, *lengths])
    first = np.minimum(offsets[:-1] + skip, offsets[1:])  # with rows between the series, and without
    for stop in (offsets[1:], np.maximum(first, offsets[1:] - 1)):
        alone = [np.asfortranarray(values[a:b]).sum(axis=0) for a, b in zip(first, stop, strict=True)]
        assert sums(values, first, stop).tolist() == np.array(alone).tolist()


@pytest.mark.parametrize("rows", [0, 3])
def test_the_sum_of_no_rows_is_0(rows):
    edges = np.array([0, 0])
    assert sums(np.ones((rows, 2)), edges, edges).tolist() == [[0, 0], [0, 0]]
