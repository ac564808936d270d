"""The baseline that a verdict advises is trained with the roles that it can use."""

import pytest
from config.composed import composed

from forecast.config.check import check_config
from forecast.report.verdict import without_roles

KNOWN, PAST, FILE = "data.known=[a,b]", "data.past=[w]", "data.path=README.md"


@pytest.mark.parametrize(
    "option, data, kept",
    [
        ("ridge", [FILE, KNOWN, PAST], [FILE, KNOWN]),
        ("ridge", [FILE, PAST], [FILE, "data.features=S"]),
        ("ridge", [FILE, "data.target=[x,y]", PAST], [FILE, "data.target=[x,y]"]),
        ("boosted_trees", [FILE, KNOWN, PAST], [FILE, KNOWN]),
        ("seasonal_naive", [FILE, KNOWN, PAST, "data.static=[c]"], [FILE, "data.features=S"]),
        ("nlinear", [FILE, "data.target=[x,y]", KNOWN], [FILE, "data.target=[x,y]"]),
        ("nlinear", [FILE, "data.features=MS"], [FILE, "data.features=MS"]),
    ],
)
def test_the_advised_keys_are_accepted(option, data, kept):
    assert without_roles(option, data) == kept
    check_config(composed("data=csv", f"model={option}", *kept))
