"""Planted panels, and files of them in every form."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from forecast.data.read import read_panel
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit
from forecast.errors import UserError


@dataclass
class Series:
    """One series of a planted panel: its id, the step of its first row, its values (NaN: no row)."""

    name: str
    begin: int
    values: list[float]


def source(path, **keys):
    return CsvSource(path=str(path), split=ShareSplit(train=0.7, test=0.2), **{"target": None, "panel": "long", **keys})


def read(path, *, trained_on=None, **keys):
    return read_panel(source(path, **keys), freq=trained_on)


def refusal(path, **keys):
    with pytest.raises(UserError) as caught:
        read(path, **keys)
    return str(caught.value)


def planted(freq="h", first="2021-03-01", seed=11, count=7):
    """Unequal series that begin at different steps, of values that single precision holds exactly."""
    rng = np.random.default_rng(seed)
    lengths, begins = rng.integers(5, 23, count), rng.integers(0, 13, count)
    begins[2] = 0
    stamps = pd.date_range(first, periods=40, freq=freq)
    panel = [
        Series(f"s{number}", int(begin), (rng.integers(-4000, 4000, length) / 8).tolist())
        for number, (begin, length) in enumerate(zip(begins, lengths, strict=True))
    ]
    return panel, stamps


def long_table(panel, stamps, *, id_column="unique_id", time_column="ds", shuffle=None):
    """A DataFrame of a row for each series and time; shuffle: the seed of the order of the rows."""
    rows = [
        (series.name, stamps[series.begin + step], value)
        for series in panel
        for step, value in enumerate(series.values)
        if not np.isnan(value)
    ]
    table = pd.DataFrame(rows, columns=[id_column, time_column, "y"])
    return table if shuffle is None else table.sample(frac=1, random_state=shuffle)


def wide_table(panel, stamps, time_column="ds"):
    table = long_table(panel, stamps).pivot(index="ds", columns="unique_id", values="y")
    return table[[series.name for series in panel]].rename_axis(index=time_column, columns=None).reset_index()


def truth(panel):
    """{id: (step after the earliest, values)}."""
    earliest = min(series.begin for series in panel)
    return {series.name: (series.begin - earliest, series.values) for series in panel}


def held(frame):
    """What a frame holds, in the same words."""
    return {
        str(name): (int(frame.steps[number]), frame.rows(number)[:, 0].tolist())
        for number, name in enumerate(frame.ids)
    }
