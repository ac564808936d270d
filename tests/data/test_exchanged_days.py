"""Day and month exchanged wherever the day is at most 12, as a spreadsheet of another country does it."""

import shlex

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame

from forecast.data.guessing.check import check_file
from forecast.errors import UserError
from forecast.text.overrides import typed

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
def test_exchanged_days_are_refused_with_what_reads_them(tmp_path, kind):
    stamps, time_format = KINDS[kind]
    path = write(tmp_path / "series.csv", exchanged(stamps), time_format)
    with pytest.raises(UserError, match="day and month are exchanged") as error:
        read_frame(path)
    check = check_file(str(path))
    assert check.command is None
    assert [one.reading for one in check.choices] == ["day and month exchanged where the day is at most 12"]
    words = dict(word.split("=", 1) for word in shlex.split(check.choices[0].command) if "=" in word)
    known = words["data.time_format"].strip("'")
    assert typed("data.time_format", known) in str(error.value)
    frame = read_frame(path, time_format=known)
    assert (frame.timestamps == stamps.sort_values()).all()
    assert "duplicates" not in check.choices[0].command and "gaps" not in check.choices[0].command


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
def test_rows_in_another_order_are_sorted(tmp_path, stamps):
    path = write(tmp_path / "series.csv", stamps, "%Y-%m-%d")
    assert (read_frame(path, gaps="interpolate").timestamps[[0, -1]] == [stamps.min(), stamps.max()]).all()
    assert not any("exchanged" in text for text in check_file(str(path)).findings.texts("error"))


def test_a_format_is_taken_at_its_word(tmp_path):
    stamps = pd.DatetimeIndex(exchanged(pd.date_range("2022-01-01", periods=365, freq="D")))
    path = write(tmp_path / "series.csv", stamps, "%Y-%m-%d")
    assert (read_frame(path, time_format="%Y-%m-%d").timestamps == stamps.sort_values()).all()


def test_a_bar_in_a_format_may_be_one_of_the_cells(tmp_path):
    stamps = pd.date_range("2022-01-01", periods=60, freq="D")
    path = write(tmp_path / "series.csv", stamps, "%m|%d|%Y")
    assert (read_frame(path, time_format="%m|%d|%Y").timestamps == stamps).all()
