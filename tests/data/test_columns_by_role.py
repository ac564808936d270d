"""Columns by role: who is forecast, who is known in advance, who is merely observed; and what cannot be."""

import pytest

from forecast.data.roles import Roles, columns_by_role
from forecast.errors import UserError

FILE = ("load", "wind", "sun", "price", "promo")


def roles(targets=("price",), **named):
    return columns_by_role(FILE, Roles(**named), targets, "own.csv")


def test_the_frame_has_targets_then_observed_columns_then_those_known_in_advance():
    found = roles(known=["promo", "wind"])
    assert (found.targets, found.past, found.known) == (("price",), ("load", "sun"), ("wind", "promo"))


def test_columns_without_a_role_are_observed_after_those_that_are_named_so():
    assert roles(past=["sun"]).past == ("sun", "load", "wind", "promo")


def test_several_targets_keep_their_order():
    assert roles(targets=("sun", "load"), known=["promo"]).targets == ("sun", "load")


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"known": ["price"]}, r"'price' is named in data.target and again in data.known. Give it one role"),
        ({"known": ["wind", "wind"]}, "'wind' is named in data.known and again in data.known"),
        ({"known": ["winds"]}, r"no column 'winds' \(data.known\) among .*Did you mean 'wind'"),
        ({"targets": ("prize",)}, r"no column 'prize' \(data.target\) among .*Did you mean 'price'"),
    ],
)
def test_what_cannot_be(named, words):
    with pytest.raises(UserError, match=words):
        roles(**named)
