"""Values as Hydra's grammar reads them back."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from forecast.text.overrides import hydra_value

NAMES = (
    *("sales", "XLarge Bags", "a  b", "a,b", "a:b", "a(m)", "{a}", "[a]", "a=b", "a$b", "a\\b", "1st", "4046"),
    *("x%@?|.-/*", "2020-01"),
)


def read(text):
    return OverridesParser.create().parse_override(f"key={text}").value()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_back_as_the_key_of_a_mapping(name):
    back = read(hydra_value({name: 0, "other": 1.5}))
    assert {str(key): value for key, value in back.items()} == {name: 0, "other": 1.5}
