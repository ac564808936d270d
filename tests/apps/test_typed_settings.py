"""Settings of one group, typed for a command that is no config."""

from collections.abc import Mapping, Sequence

import pytest

from forecast.apps.common.tables import typed_settings
from forecast.errors import UserError

KNOWN = {"drop": Sequence[str], "where": Mapping[str, str | float], "gaps": str | None, "rows": int}


def test_values_are_read_by_hydras_grammar_without_their_quotes():
    words = ["data.drop=[a,'4046',\"it's\"]", "data.where={region: 'New York', store: 3}", "data.gaps=null"]
    expected = {"drop": ["a", "4046", "it's"], "where": {"region": "New York", "store": 3}, "gaps": None}
    assert typed_settings(words, "data", KNOWN) == expected


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("data.dorp=[a]", r"data.dorp=\[a\]: this command does not take it. Did you mean 'data.drop'\?"),
        ("drop=[a]", "this command does not take it. .*Set one of data.{drop, where, gaps, rows}"),
        ("data.rows=many", "data.rows=many: must be a valid integer"),
        ("data.drop=a", r'data.drop=a: must be a list. Set data.drop="\[a\]"$'),
        ("data.drop={a: b}", "data.drop={'a': 'b'}: must be a list"),
        ("data.gaps=mask,refuse", r"has several values, as a sweep has; a list is written data.gaps=\[mask,refuse\]"),
        ("data.drop=[a", r"'data.drop=\[a' cannot be read as KEY=VALUE. Put quotes"),
        ("data.gaps=,", r"Put quotes around the value, and around all: \"data.gaps=','\"\.$"),
        ("data.drop", "'data.drop' cannot be read as KEY=VALUE"),
    ],
)
def test_what_is_no_setting_of_the_group_is_refused(word, message):
    with pytest.raises(UserError, match=message):
        typed_settings([word], "data", KNOWN)
