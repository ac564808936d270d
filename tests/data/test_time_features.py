"""Calendar features: the published formulas, for every spelling of a frequency."""

import json

import numpy as np
import pandas as pd
import pytest

from forecast.data.values.calendar import base_frequency, feature_names, time_features
from forecast.errors import UserError

ALIASES = {
    "subsecond": ["ms", "us", "ns", "100ms", "L", "U", "N"],
    "second": ["s", "S", "sec", "30s", "30S"],
    "minute": ["min", "t", "T", "15min", "15t", "15T", "7min"],
    "hour": ["h", "H", "3h", "3H"],
    "day": ["D", "d", "5D"],
    "business day": ["B", "b"],
    "week": ["W", "w", "W-SUN", "2W-TUE"],
    "month": ["m", "M", "ME", "MS", "BME", "BMS", "WOM-3FRI"],
    "quarter": ["q", "Q", "QE", "QS", "QE-DEC", "QS-OCT", "Q-DEC", "BQE-DEC"],
    "year": ["y", "Y", "a", "A", "YE", "YS", "YE-DEC", "YS-JAN", "A-DEC", "5YE-DEC"],
}
WIDTHS = {"subsecond": 0, "second": 6, "minute": 5, "hour": 4, "day": 3, "business day": 3, "week": 2}
WIDTHS |= {"month": 1, "quarter": 1, "year": 0}


@pytest.mark.parametrize(("base", "alias"), [(base, alias) for base, names in ALIASES.items() for alias in names])
def test_an_alias_of_any_pandas_version_has_its_unit(base, alias):
    assert base_frequency(alias) == base


@pytest.mark.parametrize("alias", ["", "15", "fortnight", "h3", "Min", "mS", "-h", "W_SUN"])
def test_an_unknown_frequency_is_refused_with_the_known_ones(alias):
    with pytest.raises(UserError, match=rf"frequency '{alias}' is not known.*min.*h.*W-SUN"):
        base_frequency(alias)


@pytest.mark.parametrize(
    ("freq", "stamp", "expected"),
    [
        ("h", "2016-07-01 00:00", [-0.5, 0.1666667, -0.5, -0.0013699]),
        ("h", "2018-06-26 19:00", [0.3260870, -0.3333333, 0.3333333, -0.0178082]),
        ("s", "2016-12-31 23:45:59", [0.5, 0.2627119, 0.5, 0.3333333, 0.5, 0.5]),
        ("W-SUN", "2021-01-03 05:30", [-0.4333333, 0.5]),  # week 53 of 2020
        ("QE-DEC", "2016-12-31", [0.5]),
        ("YE-DEC", "2016-12-31", []),
        ("100ms", "2016-12-31", []),
    ],
)
def test_vectors_worked_out_by_hand(freq, stamp, expected):
    features = time_features(pd.DatetimeIndex([stamp]), freq)
    assert features.dtype == np.float64
    np.testing.assert_allclose(features, [expected], atol=5e-8)


@pytest.mark.parametrize("base", list(ALIASES))
def test_names_and_features_agree_in_number(base):
    stamps = pd.date_range("2016-07-01", periods=11, freq="D")
    for freq in ALIASES[base]:
        assert time_features(stamps, freq).shape == (11, len(feature_names(freq, "timeF"))) == (11, WIDTHS[base])


def test_multiples_of_a_minute_keep_the_minute():
    """Informer2020 fed ETTm as hourly: four steps of one hour looked alike."""
    features = time_features(pd.date_range("2016-07-01", periods=4, freq="15min"), "15min")
    np.testing.assert_allclose(features[:, 0], np.array([0, 15, 30, 45]) / 59 - 0.5)


@pytest.mark.parametrize("freq", ["15min", "h", "D", "W-SUN", "ME"])
def test_features_stay_between_minus_and_plus_one_half_and_reach_both(freq):
    features = time_features(pd.date_range("2010-01-01", "2021-12-31", freq=freq), freq)
    assert (features.min(), features.max()) == (-0.5, 0.5)


@pytest.mark.parametrize(("freq", "finer"), [("h", []), ("D", []), ("ME", []), ("15min", [3]), ("s", [3])])
def test_fixed_features_are_whole_numbers(freq, finer):
    features = time_features(pd.DatetimeIndex(["2016-12-31 23:46:59"]), freq, encoding="fixed")
    assert features.tolist() == [[12, 31, 5, 23, *finer]]
    assert len(feature_names(freq, "fixed")) == features.shape[1]


@pytest.mark.golden_family("time_features_")
def test_golden_features_of_informer2020(case):
    features = time_features(pd.DatetimeIndex(case["dates"]), json.loads(str(case["config"]))["freq"])
    np.testing.assert_allclose(features, case["features"], atol=1e-12)
