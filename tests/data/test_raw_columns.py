"""The cells of a file as columns: numbers where they read so, words else, and nothing decided yet."""

import numpy as np
import pytest

from forecast.data.reading.raw_columns import RawColumn, RawColumns


def column(*cells, text=False):
    raw = RawColumns(["a"], text={0} if text else ())
    raw.add([[cell] for cell in cells])
    return raw.columns()[0]


NUMBERS = {
    "0": 0.0,
    "-7": -7.0,
    "+7": 7.0,
    "007": 7.0,
    "1.5": 1.5,
    "1.": 1.0,
    ".5": 0.5,
    "1e5": 1e5,
    "-1.5E-3": -0.0015,
    " 2.5\t": 2.5,
    "1,5": 1.5,
    "4,800": 4.8,
    ",5": 0.5,
    "1e308": 1e308,
}
WORDS = [
    *("", "M", "nan", "inf", "-Infinity", "1e999", "1_000", "1 000", "1,234,567", "1,234.5", "1.2.3", "--5", "1e"),
    *("٣", "1٣", "0x10", "½", "1\u00a0000", "True", ".", ",", "-", "e5", "1,5e1,5"),
]


@pytest.mark.parametrize(("cell", "value"), NUMBERS.items())
def test_a_number_with_one_sign_at_most_is_a_number(cell, value):
    for cells in [(cell,), (cell, "M"), ("M", "M", cell)]:
        read = column(*cells)
        assert read.numbers[read.codes == 0].tolist() == [value]


@pytest.mark.parametrize("cell", WORDS)
def test_what_is_no_number_of_plain_digits_is_a_word(cell):
    for cells in [(cell,), ("1.5", cell), (cell, cell, "2")]:
        read = column(*cells)
        assert read.words == [cell]
        assert np.isnan(read.numbers[read.codes == 1]).all()


def test_a_column_says_how_its_numbers_were_written():
    read = column("7", "1.25", "1,5", "M", "5.", "1.5e3")
    assert read.decimals.tolist() == [-1, 2, 1, -1, 0, 0]
    assert read.commas.tolist() == [False, False, True, False, False, False]
    assert read.codes.tolist() == [0, 0, 0, 1, 0, 0]


def test_cells_are_shown_as_they_were_written():
    written = ["7", "-1.250", "4,800", "M", "", "100000", "1,234,567"]
    assert column(*written).cells(range(7)) == written
    assert column("1e-7", "1.5e3").cells([0, 1]) == ["1e-07", "1500"]


def test_short_rows_lack_cells_and_what_is_beyond_the_header_is_left_out():
    raw = RawColumns(["a", "b", "c"])
    raw.add([["1"], ["2", "x"], ["3", "4", "5", "6"]])
    raw.add([["7", "8"]])
    raw.add([[]])
    raw.add([])
    assert [read.cells(range(5)) for read in raw.columns()] == [
        ["1", "2", "3", "7", ""],
        ["", "x", "4", "8", ""],
        ["", "", "5", "", ""],
    ]


@pytest.mark.parametrize("values", [[3, 3, 0, -7, 3, 10**15 - 1], [2, 2, 2.5], [-0.0, 1], [10**15, 1], [np.inf, 4]])
def test_typed_numbers_become_the_words_of_their_cells(values):
    """Whole ones, which ids are, go another and quicker way."""
    column = RawColumn.of_numbers("id", np.array(values, dtype=float))
    assert column.as_words().cells(range(len(values))) == column.cells(range(len(values)))
