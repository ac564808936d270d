"""Counts, and counts that are mostly 0: said by check-data, and known to the command that it prints."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.describe.check import check_file

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
def test_counts_with_many_zeros_are_said_and_nothing_is_set(tmp_path, name):
    stamps = pd.date_range("2020-01-01", periods=ROWS, freq="h")
    pd.DataFrame({"date": stamps, "y": SERIES[name]}).to_csv(tmp_path / "my.csv", index=False)
    check = check_file(str(tmp_path / "my.csv"))
    notes = " ".join(check.findings.texts("note"))
    assert ("With data.floor=0 no forecast" in notes) == ("counts" in name)
    rare = name in ("rare counts", "rain")
    assert "model=boosted_trees" in check.command
    assert ("model.error=absolute" in check.command) != rare
    assert not [word for word in check.command if word.startswith("data.floor")]
