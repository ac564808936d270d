"""Day and month exchanged wherever the day is at most 12, as a spreadsheet of another country does it."""

import re

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame
from data.panel_files import read, refusal

from forecast.errors import UserError

# times, how a cell is written
KINDS = {
    "hours": (pd.date_range("2021-11-20", periods=24 * 200, freq="h"), "%Y-%m-%d %H:%M:%S"),
    "days": (pd.date_range("2019-03-05", periods=700, freq="D"), "%Y-%m-%d"),
    "with a point": (pd.date_range("2021-11-20", periods=24 * 100, freq="h"), "%d.%m.%Y %H:%M"),
    "weeks": (pd.date_range("2015-01-05", periods=150, freq="7D"), "%m/%d/%Y"),
    "latest first": (pd.date_range("2019-03-05", periods=700, freq="D")[::-1], "%Y-%m-%d"),
}


def exchanged(stamps):
    return [stamp.replace(month=stamp.day, day=stamp.month) if stamp.day <= 12 else stamp for stamp in stamps]


def write(path, stamps, time_format):
    values = np.random.default_rng(11).normal(size=len(stamps)).round(3) + np.arange(len(stamps)) % 7
    cells = [stamp.strftime(time_format) for stamp in stamps]
    pd.DataFrame({"date": cells, "y": values}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_exchanged_days_are_refused(tmp_path, kind):
    stamps, time_format = KINDS[kind]
    path = write(tmp_path / "series.csv", exchanged(stamps), time_format)
    with pytest.raises(UserError, match=r"Day and month may be exchanged: set data.time_format"):
        read_frame(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("by", ["store", "date", None])
def test_exchanged_days_are_refused_within_the_series_of_a_panel_and_among_typed_times(tmp_path, kind, by):
    days = KINDS["days"][0]
    table = pd.DataFrame({"store": "a", "date": exchanged(days), "y": np.arange(len(days)) % 7, "day": days})
    table = pd.concat([table.assign(store=store) for store in ("ba" if by else "a")])
    table = table.sort_values("day", kind="stable") if by == "date" else table
    path = tmp_path / f"my.{kind}"
    getattr(table.drop(columns="day"), f"to_{kind}")(path, index=False)
    keys = {"panel": None, "drop": ["store"]} if by is None else {"id_column": "store"}
    assert re.search(r"line \d+: 2019-03-13 \S+ follows 2019-12-03 .*; the times go back", refusal(path, **keys))
    assert len(read(path, sort=True, gaps="interpolate", **keys)) == (2 if by else 1)


def shuffled(stamps):
    return stamps[np.random.default_rng(2).permutation(len(stamps))]


@pytest.mark.parametrize(
    "stamps",
    [
        KINDS["days"][0],
        KINDS["days"][0][::-1],
        shuffled(KINDS["days"][0]),
        # two halves, the later first; days of the first half of each month behind the others
        KINDS["days"][0][350:].append(KINDS["days"][0][:350]),
        KINDS["days"][0][np.argsort(KINDS["days"][0].day > 12, kind="stable")],
        pd.DatetimeIndex(["2020-02-01", "2020-01-31", "2020-02-02"]),
    ],
    ids=["forward", "back", "shuffled", "halves", "parts of months", "a few"],
)
def test_rows_in_another_order_are_sorted_where_somebody_says_so(tmp_path, stamps):
    path = write(tmp_path / "series.csv", stamps, "%Y-%m-%d")
    read = read_frame(path, gaps="interpolate", sort=True)
    assert (read.timestamps[[0, -1]] == [stamps.min(), stamps.max()]).all()
    if not (stamps.is_monotonic_increasing or stamps.is_monotonic_decreasing):
        with pytest.raises(UserError, match=r"go back in .*data.id_column=NAME.*data.sort=true"):
            read_frame(path, gaps="interpolate")
