"""What columns seem to be: their kind, the style of their numbers, their missing marks; every cell counts."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.reading.columns import (
    STYLES,
    NumberStyle,
    RawColumn,
    column_kind,
    guess_missing,
    guess_style,
    read_numbers,
)
from forecast.errors import UserError


def column(*cells, name="a"):
    return RawColumn.of_cells(name, pd.Series(cells, dtype=object))


def counting(*numbers):
    return [str(number) for number in numbers]


# style

DECIDED = {
    "points are decimals": (["1.5", "900"], ".", None),
    "even where all have three digits": (["4.800", "0.900"], ".", None),
    "or where not all have": (["4.800", "1.5", "900"], ".", None),
    "or some from 1000 on have none": (["4.800", "4800", "900"], ".", None),
    "zeros are written without": (["4.800", "0"], ".", None),
    "whole numbers need no style": (["4800", "900"], ".", None),
    "one group that has not three digits": (["4,800", "900", "1,5"], ",", None),
    "a zero before the comma": (["4,800", "0,125"], ",", None),
    "more than three digits before it": (["4,800", "1234,567"], ",", None),
    "two commas": (["4,800", "1,234,567"], ".", ","),
    "a comma and a point": (["4,800", "1,234.5"], ".", ","),
    "a point and a comma": (["4.800", "1.234,5"], ",", "."),
    "a number with a point beside it": (["4,800", "12.5"], ".", ","),
    "two points": (["4.800", "1.234.567"], ",", "."),
    "blanks": (["1 234", "900"], ".", " "),
    "blanks and a comma": (["1 234,567", "900"], ",", " "),
    "blanks that do not break": (["1\u00a0234", "1\u202f234.5"], ".", " "),
    "apostrophes": (["1'234", "900"], ".", "'"),
    "words among them say nothing": (["M", "1,5", "", "NA", "3,25"], ",", None),
    "dates are no numbers": (["01.02.2016", "02.02.2016"], ".", None),
    "nor is text with a comma": (["x", "y", "1,5", "z"], ".", None),
}


@pytest.mark.parametrize(("cells", "decimal", "thousands"), DECIDED.values(), ids=DECIDED)
def test_the_style_is_that_in_which_every_cell_reads(cells, decimal, thousands):
    for order in (cells, cells[::-1], cells * 7):
        assert guess_style([column(*order)])[0] == NumberStyle(decimal, thousands)


COMMA, THOUSANDS = "data.decimal=\"','\"", "data.thousands=\"','\""
AMBIGUOUS = {
    "one comma": (["900", "4,800"], f"'4,800' is 4.8 with {COMMA} and 4800 with {THOUSANDS}"),
    "words beside it": (["M", "4,800", "", "7"], f"'4,800' is 4.8 with {COMMA} and 4800 with {THOUSANDS}"),
    "a comma and a point": (["4,800", "12.500"], f"'4,800' is 4800 with {THOUSANDS} and 4.8 with {COMMA}"),
}


@pytest.mark.parametrize(("cells", "says"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_where_two_styles_give_different_numbers_both_are_named(cells, says):
    with pytest.raises(UserError) as refused:
        guess_style([column("1", "2"), column(*cells, name="b")])
    assert str(refused.value).startswith(f"Column 'b': {says}")


@pytest.mark.parametrize(
    ("other", "decimal", "thousands"),
    [(["1,5"], ",", None), (["1.5"], ".", ","), (["1,234,567"], ".", ","), (["1.234,5"], ",", ".")],
)
def test_what_one_column_shows_holds_for_the_file(other, decimal, thousands):
    for columns in ([["4,800"], other], [other, ["4,800"]]):
        assert guess_style([column(*cells) for cells in columns])[0] == NumberStyle(decimal, thousands)


def test_points_are_thousands_where_another_column_has_decimal_commas():
    assert guess_style([column("4.800", "900"), column("1,5")])[0] == NumberStyle(",", ".")


def test_the_first_cell_that_is_no_number_as_usual_shows_the_style():
    guess = guess_style([column("4", "900"), column("7", "1,5", name="b")])
    assert guess == (NumberStyle(","), "'1,5' in column 'b'")


def test_where_no_style_reads_all_cells_none_is_guessed():
    assert guess_style([column("1.5"), column("1,5", "2,5", name="b")])[0] == NumberStyle()


def test_a_file_without_columns_of_numbers_has_the_default():
    assert guess_style([]) == guess_style([column("x", "y")]) == (NumberStyle(), "")


@settings(deadline=None)
@given(
    values=st.lists(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=7), min_size=1, max_size=3),
    style=st.sampled_from(STYLES),
    decimals=st.sampled_from([0, 1, 2, 4]),
)
def test_a_guess_misreads_no_file(values, style, decimals):
    """But for points alone before three digits, which are decimals by default."""
    group = "" if style.thousands is None else ","
    signs = str.maketrans({",": style.thousands, ".": style.decimal})
    columns = [column(*(f"{value:{group}.{decimals}f}".translate(signs) for value in part)) for part in values]
    try:
        guess, _ = guess_style(columns)
    except UserError:
        return
    if guess != NumberStyle():
        read = [read_numbers(part, guess).tolist() for part in columns]
        assert read == [[float(f"{value:.{decimals}f}") for value in part] for part in values]


# kind


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "2", ""], "numbers"),
        (["", "NA", "nan"], "empty"),
        (["True", "False", ""], "numbers"),
        (["NW", "SE", "cv"], "text"),
        (["2010-09-20", "2010-09-21"], "text"),
        (["None", "None", "Labor Day", "None"], "text"),
        (["x", "y", "z", "4"], "text"),
        (["1", "2", "x"], "numbers"),
        (["1", "True", "0"], "numbers"),
        (["1", "inf"], "numbers"),
        (["1,5", "2,5"], "numbers"),
        (["45%", "46%"], "numbers"),
        (["$1,200", "$900"], "numbers"),
        (["1 h", "2 min", "3 s"], "text"),
        (["-", "-", "-", "7", "8"], "numbers"),
        ([*["M"] * 99, *counting(*range(10, 30))], "numbers"),
    ],
)
def test_the_kind_of_a_column_and_damaged_numbers_are_numbers(cells, kind):
    assert column_kind(column(*cells)) == kind


def test_the_kind_depends_on_the_style():
    assert column_kind(column("1,5", "2,5"), NumberStyle(",")) == "numbers"
    assert column_kind(column("M", "M", "M", "1"), NumberStyle(missing=["M"])) == "numbers"
    assert column_kind(column("-200", "-200"), NumberStyle(missing=[-200])) == "empty"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        *((name, ["0", "1", "2"]) for name in ("", " ", "Unnamed: 0", "index")),
        *((name, ["1", "2", "3"]) for name in ("No", "id", "#")),
        ("", ["1"]),
    ],
)
def test_a_first_column_that_counts_the_rows_and_is_named_so_is_an_index(name, cells):
    assert column_kind(column(*cells, name=name), first=True) == "row numbers"
    assert column_kind(column(*cells, name=name)) == "numbers"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("count", ["0", "1", "2"]),
        ("id", ["0", "1", "3"]),
        ("id", ["2", "3", "4"]),
        ("id", ["0", "1", "2", "0", "1"]),
        ("", ["0", "1", "0", "0", "1"]),
        ("", ["0", "1", "", "3"]),
    ],
)
def test_data_are_no_index(name, cells):
    assert column_kind(column(*cells, name=name), first=True) == "numbers"


def test_an_index_without_a_name_may_start_again():
    assert column_kind(column("0", "1", "2", "0", "1", name=""), first=True) == "row numbers"


# missing


@pytest.mark.parametrize(
    ("cells", "marks"),
    [
        (["M", "1", "2"], ["M"]),
        (["1", "-", "?", "missing"], ["-", "?", "missing"]),
        (["1", "NA", "", "Q", "<1"], []),
        (["x", "y", "M"], []),
        ([*counting(*range(-3, 20)), "-200.0"], [-200]),
        ([*counting(*range(20)), "9999"], [9999]),
        ([*counting(*range(20)), "-32768"], [-32768]),
        ([*counting(*range(20)), "7777"], [7777]),
        ([*counting(*range(20)), "9.96921e+36"], [9.96921e36]),
        ([*counting(*range(20)), "-99.9"], [-99.9]),
        ([*counting(*range(20)), "-99"], []),
        ([*counting(*range(20)), "-9999", "-999"], [-9999, -999]),
        ([*counting(*range(0, 2000, 100)), "-999"], []),
        ([*counting(*range(1, 20)), "-1", "-1", "-1"], []),
        (["0", "1", "-999"], []),
    ],
)
def test_what_marks_a_missing_value_is_proposed(cells, marks):
    assert list(guess_missing(column(*cells))) == marks


def test_a_proposal_has_its_reason():
    assert guess_missing(column(*counting(*range(1, 20)), "M", "-200")) == {
        "M": "'M' stands in 1 of 21 cells, numbers in 20",
        -200: "-200 stands in 1 of 21 cells, all other numbers lie between 1 and 19",
    }


def test_what_is_proposed_mends_the_column():
    read = column(*counting(*range(1, 20)), "M", "M", "-200", "-200", "-200")
    style = NumberStyle(missing=list(guess_missing(read)))
    assert column_kind(read, style) == "numbers"
