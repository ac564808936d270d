"""Scalers of plain arrays."""

import numpy as np
import pandas as pd
from data.csv_files import series_frame

from forecast.data.scaling import Scales


def given_scales(mean, std):
    """Scales of one series that are as given, (C,)."""
    mean, std = np.array([mean, std], dtype=np.float64)[:, None]
    return Scales("series", mean, std, np.zeros(1, dtype=bool))


def all_rows(values, columns):
    """The scales of all rows (N, C) of one series."""
    stamps = pd.date_range("2020-01-01", periods=len(values), freq="h")
    frame = series_frame(np.asarray(values, dtype=np.float64), stamps, tuple(columns), "h", "x")
    return Scales.fit(frame, "series", np.array([0]), np.array([len(values)]), context=1)


def scales_of(frame, how, rows, **options):
    """The scales of the series of a panel by some of their rows."""
    return Scales.fit(frame, how, rows.first, rows.stop, **options)
