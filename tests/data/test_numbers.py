"""What a raw column says as numbers: the value of each way to write one, and what is wrong with other cells."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.reading.columns import (
    STYLES,
    NumberStyle,
    RawColumn,
    fault_words,
    read_numbers,
    unit_of,
    with_numbers,
    without_units,
)
from forecast.errors import UserError

NAN, INF = float("nan"), float("inf")


def column(*cells, name="a"):
    return RawColumn.of_cells(name, pd.Series(cells, dtype=object))


def read(*cells, **style):
    """INF: a cell that is no number."""
    words, style = column(*cells), NumberStyle(**style)
    values = read_numbers(words, style)
    np.testing.assert_equal(read_numbers(with_numbers(words, style), style), values)
    return values.tolist()


# writings and values: data.decimal, data.thousands, the cell, its value
WRITINGS = [
    (".", None, "1.5", 1.5),
    (".", None, "-1.5e3", -1500),
    (".", None, "\u22121.5", -1.5),
    (".", None, "1,5", INF),
    (".", None, "0,125", INF),
    (".", None, "1234,567", INF),
    (".", None, "4,800", INF),
    (".", None, "1,234,567", INF),
    (".", None, "1,234.5", INF),
    (".", None, "1.234,5", INF),
    (".", None, "1 234", INF),
    (".", None, "1_000", INF),
    (".", None, "12,34,567", INF),
    (",", None, "1,5", 1.5),
    (",", None, "4,800", 4.8),
    (",", None, "1.5", INF),
    (",", None, "4.800", INF),
    (",", None, "1,5e-3", 0.0015),
    (".", ",", "4,800", 4800),
    (".", ",", "-4,800", -4800),
    (".", ",", "999,999", 999_999),
    (".", ",", "900", 900),
    (".", ",", "12345", 12345),
    (".", ",", "1,234,567.25", 1_234_567.25),
    (".", ",", "1.5", 1.5),
    (".", ",", "1,23", INF),
    (".", ",", "1234,567", INF),
    (".", ",", "0,125", INF),
    (".", ",", "12,34,567", INF),
    (".", ",", "1,234.5,6", INF),
    (",", ".", "4.800", 4800),
    (",", ".", "1.234,5", 1234.5),
    (",", ".", "1.5", INF),
    (".", " ", "1 234 567.5", 1_234_567.5),
    (".", " ", "1\u00a0234", 1234),
    (",", " ", "1\u202f234,5", 1234.5),
    (".", " ", "1 23", INF),
    (".", "'", "1'234.5", 1234.5),
    (".", "'", "1\u2019234", 1234),
    (".", None, "", NAN),
    (".", None, "NA", NAN),
    (".", None, "#N/A", NAN),
    (".", None, "inf", INF),
    (".", None, "1e999", INF),
    (".", None, "1e99999", INF),
    (",", None, "1,5e999", INF),
    (".", None, "M", INF),
    (".", None, "2016-07-01", INF),
    (".", None, "01.02.2016", INF),
    (".", None, "$1,200", INF),
    (".", None, "-€5", INF),
    (".", None, "45%", INF),
    (".", None, "45 %", INF),
    (".", None, "%", INF),
    (".", None, "٣", INF),
]


@pytest.mark.parametrize(("decimal", "thousands", "cell", "expected"), WRITINGS)
def test_each_writing_is_a_value_or_has_a_fault(decimal, thousands, cell, expected):
    np.testing.assert_equal(read("7", cell, decimal=decimal, thousands=thousands), [7, expected])


@settings(deadline=None)
@given(
    values=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=13),
    style=st.sampled_from(STYLES),
    decimals=st.sampled_from([0, 2, 3, 6]),
)
def test_numbers_written_in_a_style_are_read_back(values, style, decimals):
    rounded = [float(f"{value:.{decimals}f}") for value in values]
    group = "" if style.thousands is None else ","
    signs = str.maketrans({",": style.thousands, ".": style.decimal})
    numbers = read_numbers(column(*(f"{value:{group}.{decimals}f}".translate(signs) for value in rounded)), style)
    assert numbers.tolist() == rounded


# missing


@pytest.mark.parametrize("entry", [-200, -200.0, "-200", " -200.0 "])
def test_a_missing_number_is_compared_as_a_number(entry):
    values = read("-200", "-200.0", "-200.000", "-2e2", "200", missing=[entry])
    np.testing.assert_equal(values, [NAN, NAN, NAN, NAN, 200])


def test_a_missing_number_is_found_under_a_decimal_comma_and_with_thousands():
    np.testing.assert_equal(read("-200,0", "1,5", decimal=",", missing=[-200]), [NAN, 1.5])
    np.testing.assert_equal(read("-99,999", "5", thousands=",", missing=["-99,999"]), [NAN, 5])
    np.testing.assert_equal(read("9,999,999", "5", thousands=",", missing=[9999999]), [NAN, 5])


def test_a_missing_word_is_compared_as_it_is_written():
    np.testing.assert_equal(read("M", "m", " M", "3", missing=("M", 4)), [NAN, INF, NAN, 3])


def test_a_missing_number_hides_no_fault():
    assert read("M", "inf", missing=[INF, 5]) == [INF, INF]


# flags


def test_a_column_of_nothing_but_true_and_false_is_1_and_0():
    np.testing.assert_equal(read("True", "FALSE", "", "false", "?", missing=["?"]), [1, 0, NAN, 0, NAN])


def test_true_among_numbers_is_a_fault():
    assert read("True", "0", "False") == [INF, 0, INF]


# bad settings


@pytest.mark.parametrize("style", [{"decimal": ";"}, {"thousands": "x"}, {"thousands": "."}])
def test_a_setting_that_cannot_be_is_refused(style):
    with pytest.raises(UserError, match=r"^data.decimal is '.' and data.thousands .*\. Set data.decimal to '.' or ','"):
        NumberStyle(**style)


@pytest.mark.parametrize(
    ("cell", "style", "says", "fix"),
    [
        ("1,5", {}, "'1,5' is no number with '.' before decimals", {"decimal": ","}),
        ("1.5", {"decimal": ","}, "'1.5' is no number with ',' before decimals", {"decimal": "."}),
        ("4,800", {}, "'4,800' is no number with", {"decimal": ","}),
        ("1,234,567", {}, "'1,234,567' is no number with", {"thousands": ","}),
        ("1'234", {}, '"1\'234" is no number with', {"thousands": "'"}),
        ("1 234", {"thousands": ","}, "'1 234' is no number with", {"thousands": " "}),
        ("1.234,5", {}, "'1.234,5' is no number", {"decimal": ",", "thousands": "."}),
        ("M", {}, "'M' is no number. Correct it, drop the column, or name it in data.missing", None),
    ],
)
def test_the_fix_of_a_fault_can_be_typed_and_mends_it(cell, style, says, fix):
    words = fault_words(cell, NumberStyle(**style), ())
    assert words.startswith(says)
    settings = re.findall(r'data\.\w+="[^"]*"', words)[: len(fix or {})]
    typed = [word.removeprefix("data.") for setting in settings for word in shlex.split(setting)]
    overrides = [OverridesParser.create().parse_override(word) for word in typed]
    assert {override.key_or_group: override.value() for override in overrides} == (fix or {})
    assert (read(cell, **{**style, **(fix or {})}) != [INF]) == (fix is not None)


# units


@pytest.mark.parametrize(
    ("cells", "unit", "values"),
    [
        (["10.5 kWh", "", "-2 kWh"], "kWh", [10.5, NAN, -2]),
        (["45%", "46 %"], "%", [45, 46]),
        (["$1200", "$900"], "$", [1200, 900]),
        (["3 m/s", "NA"], "m/s", [3, NAN]),
    ],
)
def test_a_unit_beside_all_numbers_is_found_and_can_be_cut_off(cells, unit, values):
    assert unit_of(column(*cells)) == unit
    np.testing.assert_equal(read_numbers(without_units(column(*cells), [unit]), NumberStyle()), values)


@pytest.mark.parametrize(
    "cells", [["1 h", "2 min"], ["5 kWh", "6"], ["2016-07-01"], ["12:00"], ["A1", "A2"], ["", "NA"]]
)
def test_other_text_is_no_unit(cells):
    assert unit_of(column(*cells)) == ""


def test_a_unit_in_a_fault_is_named_with_the_key_that_cuts_it_off():
    assert fault_words("5 kWh", NumberStyle(), ["kWh", "%"]).endswith(
        "Set data.units=\"[kWh, '%']\", which cuts that off, or drop the column."
    )
