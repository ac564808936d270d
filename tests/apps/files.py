"""CSV files that a user could have."""

import numpy as np
import pandas as pd
from program import TINY

OWN = [change for change in TINY if not change.startswith("data")]
# Not the time column's usual name, decimals or separator: whatever was said in training holds afterwards.
LAYOUT = ["data=csv", "data.time_column=when", "data.separator=';'", "data.decimal=','"]


def write_csv(path, *, rows=400, start="2021-03-01", freq="15min", columns=("load", "wind"), seed=0):
    """A regular file with a daily season, in the layout LAYOUT."""
    steps = np.arange(rows)
    noise = np.random.default_rng(seed).normal(size=(rows, len(columns)))
    values = 10_000 + 1_000 * np.sin(2 * np.pi * steps / 96)[:, None] * np.arange(1, len(columns) + 1) + 100 * noise
    table = pd.DataFrame(values.round(3), columns=list(columns))
    table.insert(0, "when", pd.date_range(start, periods=rows, freq=freq))
    table.to_csv(path, index=False, sep=";", decimal=",")
    return table


def write_waves(path, *, rows, columns, noise, period=24):
    """Two columns of hours that repeat every day, with noise of so much standard deviation, in the usual layout."""
    steps, generator = np.arange(rows), np.random.default_rng(0)
    waves = np.stack([np.sin(2 * np.pi * steps / period), np.cos(2 * np.pi * steps / period)], 1)
    table = pd.DataFrame(waves + noise * generator.normal(size=waves.shape), columns=list(columns)).round(4)
    table.insert(0, "date", pd.date_range("2022-01-01", periods=rows, freq="h"))
    table.to_csv(path, index=False)
    return path


def read_forecast(path):
    """A forecast, which is written in the layout LAYOUT too."""
    return pd.read_csv(path, sep=";", decimal=",")
