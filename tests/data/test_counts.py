"""Counts, and counts that are mostly 0: said by check-data, and known to the command that it prints."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.guessing.advice import floor_setting, has_floor
from forecast.data.guessing.check import check_file

ROWS = 3000
HOURS = np.arange(ROWS)
RNG = np.random.default_rng(3)
DAY = np.clip(np.sin(HOURS / 24 * 2 * np.pi), 0, None)
SERIES = {
    "counts of a day": RNG.poisson(40 * DAY),
    "counts of a short day": RNG.poisson(40 * np.clip(DAY - 0.6, 0, None)),
    "rare counts": RNG.poisson(2, ROWS) * (RNG.random(ROWS) < 0.2),
    "heat": 20 * DAY + RNG.normal(size=ROWS).round(2),
    "whole degrees": np.rint(20 * np.sin(HOURS / 24 * 2 * np.pi)),
    "rain": RNG.exponential(size=ROWS).round(2) * (RNG.random(ROWS) < 0.2),
    "a switch": (RNG.random(ROWS) < 0.2).astype(int),
}


@pytest.mark.parametrize("name", SERIES)
def test_counts_are_said_and_reach_the_command(tmp_path, name):
    stamps = pd.date_range("2020-01-01", periods=ROWS, freq="h")
    pd.DataFrame({"date": stamps, "y": SERIES[name]}).to_csv(tmp_path / "my.csv", index=False)
    check = check_file(str(tmp_path / "my.csv"))
    notes = " ".join(check.findings.texts("note"))
    assert ("Counts: the values of y" in notes) == name.startswith("counts")
    rare = name in ("rare counts", "rain")
    assert ("it is intermittent" in notes) == rare
    assert check.model == "boosted_trees"
    assert ("model.error=absolute" in check.command) != rare
    assert ("data.floor=0" in check.command) == (rare or name.startswith("counts") or name == "a switch")


@pytest.mark.parametrize(
    ("values", "floor"),
    [
        ([0.0, 2.5, 7.1], True),
        ([1, 4, 2], True),
        ([1, 4, 2.5], False),  # it has just not been below yet
        ([-1, 4, 2], False),
        ([1001, 1004, 1002], False),  # no forecast is as low
        ([0, np.nan, 3], True),
        ([0, 0, 0], False),
        ([np.nan], False),
    ],
)
def test_what_ends_at_0_is_told_from_what_has_not_been_below(values, floor):
    assert has_floor(np.array(values, dtype=np.float64)) == floor


def test_the_floor_of_some_targets_is_set_by_their_names():
    rare, heat = SERIES["rare counts"].astype(float), SERIES["heat"]
    assert floor_setting({"a": rare, "b": heat}) == {"data.floor": {"a": 0}}
    assert floor_setting({"b": heat}) == floor_setting({}) == {}
    assert floor_setting({"Größe": rare, "b": heat}) == {}  # a key that Hydra's grammar cannot hold
    assert floor_setting({"Größe": rare}) == {"data.floor": 0}
