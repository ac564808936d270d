"""What a raw column says as numbers: the value of each way to write one, and what is wrong with other cells."""

import re
import shlex

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.reading.numbers import STYLES, NumberStyle, fault_words, read_numbers
from forecast.data.reading.raw_columns import RawColumns
from forecast.errors import UserError

NAN, INF = float("nan"), float("inf")


def column(*cells, name="a"):
    raw = RawColumns([name])
    raw.add([[cell] for cell in cells])
    return raw.columns()[0]


def read(*cells, **style):
    numbers = read_numbers(column(*cells), NumberStyle(**style))
    return numbers.values.tolist(), {kind: rows.tolist() for kind, rows in numbers.faults.items()}


# writings and values: data.decimal, data.thousands, the cell, its value or its fault
WRITINGS = [
    (".", None, "1.5", 1.5),
    (".", None, "-1.5e3", -1500),
    (".", None, "1,5", "decimal"),
    (".", None, "0,125", "decimal"),
    (".", None, "1234,567", "decimal"),
    (".", None, "4,800", "ambiguous"),
    (".", None, "1,234,567", "thousands"),
    (".", None, "1,234.5", "thousands"),
    (".", None, "1.234,5", "thousands"),
    (".", None, "1 234", "thousands"),
    (".", None, "1_000", "thousands"),
    (".", None, "12,34,567", "text"),
    (",", None, "1,5", 1.5),
    (",", None, "4,800", 4.8),
    (",", None, "1.5", "decimal"),
    (",", None, "4.800", "ambiguous"),
    (",", None, "1,5e-3", 0.0015),
    (".", ",", "4,800", 4800),
    (".", ",", "-4,800", -4800),
    (".", ",", "999,999", 999_999),
    (".", ",", "900", 900),
    (".", ",", "12345", 12345),
    (".", ",", "1,234,567.25", 1_234_567.25),
    (".", ",", "1.5", 1.5),
    (".", ",", "1,23", "thousands"),
    (".", ",", "1234,567", "thousands"),
    (".", ",", "0,125", "thousands"),
    (".", ",", "12,34,567", "thousands"),
    (".", ",", "1,234.5,6", "thousands"),
    (",", ".", "4.800", 4800),
    (",", ".", "1.234,5", 1234.5),
    (",", ".", "1.5", "thousands"),
    (".", " ", "1 234 567.5", 1_234_567.5),
    (".", " ", "1\u00a0234", 1234),
    (",", " ", "1\u202f234,5", 1234.5),
    (".", " ", "1 23", "thousands"),
    (".", "'", "1'234.5", 1234.5),
    (".", "'", "1\u2019234", 1234),
    (".", "_", "1_000_000", 1_000_000),
    (".", "_", "1_00", "thousands"),
    (".", None, "", NAN),
    (".", None, "NA", NAN),
    (".", None, "#N/A", NAN),
    (".", None, "inf", "infinite"),
    (".", None, "1e999", "infinite"),
    (".", None, "1e99999", "infinite"),
    (",", None, "1,5e999", "infinite"),
    (".", None, "M", "text"),
    (".", None, "2016-07-01", "text"),
    (".", None, "01.02.2016", "text"),
    (".", None, "$1,200", "sign"),
    (".", None, "-€5", "sign"),
    (".", None, "45%", "sign"),
    (".", None, "45 %", "sign"),
    (".", None, "%", "text"),
    (".", None, "٣", "text"),
]


@pytest.mark.parametrize(("decimal", "thousands", "cell", "expected"), WRITINGS)
def test_each_writing_is_a_value_or_has_a_fault(decimal, thousands, cell, expected):
    values, faults = read("7", cell, decimal=decimal, thousands=thousands)
    if isinstance(expected, str):
        assert (values, faults) == ([7, INF], {expected: [1]})
    else:
        np.testing.assert_equal((values, faults), ([7, expected], {}))


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
    assert numbers.values.tolist() == rounded
    assert not numbers.faults


def test_faults_name_their_rows():
    values, faults = read("1.5", "M", "1,5", "True", "2,5", "inf", "x", "M", "NA")
    assert faults == {"text": [1, 6, 7], "decimal": [2, 4], "flag": [3], "infinite": [5]}
    np.testing.assert_equal(values, [1.5, INF, INF, INF, INF, INF, INF, INF, NAN])


def test_a_fault_among_plain_numbers_and_among_words_is_one_list():
    assert read("1,234,567", "0,5", "12,34,567", thousands=",")[1] == {"thousands": [1, 2]}


# missing


@pytest.mark.parametrize("entry", [-200, -200.0, "-200", " -200.0 "])
def test_a_missing_number_is_compared_as_a_number(entry):
    values, faults = read("-200", "-200.0", "-200.000", "-2e2", "200", missing=[entry])
    np.testing.assert_equal((values, faults), ([NAN, NAN, NAN, NAN, 200], {}))


def test_a_missing_number_is_found_under_a_decimal_comma_and_with_thousands():
    np.testing.assert_equal(read("-200,0", "1,5", decimal=",", missing=[-200])[0], [NAN, 1.5])
    np.testing.assert_equal(read("-99,999", "5", thousands=",", missing=["-99,999"])[0], [NAN, 5])
    np.testing.assert_equal(read("9,999,999", "5", thousands=",", missing=[9999999])[0], [NAN, 5])


def test_a_missing_word_is_compared_as_it_is_written():
    values, faults = read("M", "m", " M", "3", missing=("M", 4))
    np.testing.assert_equal((values, faults), ([NAN, INF, NAN, 3], {"text": [1]}))


def test_a_missing_number_hides_no_fault():
    assert read("M", "inf", missing=[INF, 5]) == ([INF, INF], {"text": [0], "infinite": [1]})


# flags


def test_a_column_of_nothing_but_true_and_false_is_1_and_0():
    numbers = read_numbers(column("True", "FALSE", "", "false", "?"), NumberStyle(missing=["?"]))
    assert numbers.flags
    np.testing.assert_equal((numbers.values, numbers.faults), ([1, 0, NAN, 0, NAN], {}))


def test_true_among_numbers_is_a_fault():
    assert read("True", "0", "False")[1] == {"flag": [0, 2]}
    assert not read_numbers(column("", "NA"), NumberStyle()).flags


# bad settings


@pytest.mark.parametrize(
    ("style", "says"),
    [
        ({"decimal": ""}, r"data.decimal is ''; it must be one of two characters. Set '.' or ','"),
        ({"decimal": ";"}, r"data.decimal is ';'; it must be one of two characters"),
        ({"thousands": "x"}, r"data.thousands is 'x'; it must be one of , . ' _ or a blank, or null for none. Set"),
        ({"thousands": ""}, r"data.thousands is ''; it must be one of"),
        ({"thousands": "."}, r"data.thousands and data.decimal are both '.'. Set data.thousands=\"','\""),
        ({"thousands": ",", "decimal": ","}, r"are both ','. Set data.thousands=\"'.'\""),
        ({"missing": "M"}, r"data.missing is 'M'; it must be a list. Set data.missing=\"\[M\]\""),
        ({"missing": -200}, r"data.missing is -200; it must be a list. Set data.missing=\"\[-200\]\""),
        ({"missing": [["M", 1]]}, r"data.missing holds \['M', 1\]; each entry must be a word or a number"),
        ({"missing": [None]}, r"data.missing holds None; .* in quotes. Set data.missing=\"\['null'\]\""),
        ({"missing": [True]}, r"data.missing holds True; .* in quotes. Set data.missing=\"\['true'\]\""),
        ({"missing": [{"a": 1}]}, r"data.missing holds \{'a': 1\}; each entry must be"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(style, says):
    with pytest.raises(UserError, match=says):
        NumberStyle(**style)


@pytest.mark.parametrize(
    ("cell", "style", "says", "fix"),
    [
        ("1,5", {}, "'1,5' is no number when decimals are written with '.'", {"decimal": ","}),
        ("1.5", {"decimal": ","}, "'1.5' is no number when decimals are written with ','", {"decimal": "."}),
        ("4,800", {}, "'4,800' is 4.8 with", {"decimal": ","}),
        ("1,234,567", {}, "'1,234,567' is no number when", {"thousands": ","}),
        ("1'234", {}, '"1\'234" is no number when', {"thousands": "'"}),
        ("1 234", {"thousands": ","}, "'1 234' is no number when .* and thousands with ','", {"thousands": " "}),
        ("1.234,5", {}, "'1.234,5' is no number", {"decimal": ",", "thousands": "."}),
        ("1,23", {"thousands": ","}, "'1,23' is no number in groups of three digits", None),
        ("45%", {}, "'45%' is a number with a sign beside it", None),
    ],
)
def test_the_fix_of_a_fault_can_be_typed_and_mends_it(cell, style, says, fix):
    (kind,) = read(cell, **style)[1]
    what, typed = fault_words(kind, cell, NumberStyle(**style))
    assert re.match(says, what)
    settings = re.findall(r'data\.\w+="[^"]*"', typed)[: len(fix or {})]
    words = [word.removeprefix("data.") for setting in settings for word in shlex.split(setting)]
    overrides = [OverridesParser.create().parse_override(word) for word in words]
    assert {override.key_or_group: override.value() for override in overrides} == (fix or {})
    assert (read(cell, **{**style, **(fix or {})})[1] == {}) == (fix is not None)
