"""data.since and data.until, and what a file of which most rows are missing is offered."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame, refusal
from data.panel_files import read

from forecast.data.describe.check import check_file

HOURS = pd.date_range("2018-02-03", periods=4000, freq="h")


def table(keep, stamps=HOURS):
    values = np.sin(np.arange(len(stamps)) / 4) + np.random.default_rng(1).normal(size=len(stamps)) / 10
    return pd.DataFrame({"time": stamps, "level": values.round(4)})[keep]


def write(path, keep, stamps=HOURS):
    table(keep, stamps).to_csv(path, index=False)
    return path


ROWS = np.arange(len(HOURS))
# the rows that are there: (kept, since, until)
PARTS = {
    "the last part": ((ROWS < 200) | (ROWS >= 2700), HOURS[2700], None),
    "the first part": ((ROWS < 1100) | (ROWS >= 3800), None, HOURS[1099]),
    "the middle": ((ROWS < 100) | ((ROWS >= 1500) & (ROWS < 2600)) | (ROWS >= 3900), HOURS[1500], HOURS[2599]),
    "with small gaps": (((ROWS < 200) | (ROWS >= 2700)) & ~np.isin(ROWS, [3000, 3001, 3200]), HOURS[2700], None),
}


@pytest.mark.parametrize("kind", PARTS)
def test_the_longest_part_without_a_large_hole_is_offered(tmp_path, kind):
    kept, since, until = PARTS[kind]
    keys = {"since": str(since or HOURS[0]), "until": str(until or HOURS[-1])}
    path = write(tmp_path / "series.csv", kept)
    (error,) = check_file(str(path)).findings.texts("error")
    words = " ".join(f"data.{key}=\"'{stamp}'\"" for key, stamp in keys.items())
    assert words in error and words in refusal(path, time_column="time", gaps="mask")
    frame = read_frame(path, time_column="time", gaps="mask", **keys)
    assert [str(frame.timestamps[place]) for place in (0, -1)] == [*keys.values()]


@pytest.mark.parametrize("scattered", [np.random.default_rng(4).random(len(HOURS)) < 0.3, ROWS % 1000 < 100])
def test_of_many_holes_no_part_is_offered(tmp_path, scattered):
    path = write(tmp_path / "series.csv", scattered)
    check = check_file(str(path))
    assert not any("data.since" in text for text in [*(check.command or []), *check.findings.texts("error")])


def test_a_hole_that_can_be_filled_needs_no_part(tmp_path):
    check = check_file(str(write(tmp_path / "series.csv", (ROWS < 1000) | (ROWS >= 1300))))
    assert check.command is not None


@pytest.mark.parametrize("share", [0.4, 0.48])
def test_counts_of_which_most_rows_are_missing_lack_zeros(tmp_path, share):
    days = pd.date_range("2021-01-01", periods=900, freq="D")
    kept = np.random.default_rng(4).random(900) < share
    counts = pd.DataFrame({"date": days, "sold": 1 + np.random.default_rng(5).poisson(2, 900)})[kept]
    counts.to_csv(tmp_path / "series.csv", index=False)
    (error,) = check_file(str(tmp_path / "series.csv")).findings.texts("error")
    assert error.endswith("if a row that is not there means 0, as of a day without a sale, set data.gaps=zero.")
    assert "data.gaps=zero" in check_file(str(tmp_path / "series.csv"), {"gaps": "zero"}).command


def test_a_hole_in_counts_may_be_a_part_or_zeros(tmp_path):
    rows = table((ROWS < 200) | (ROWS >= 2700)).assign(level=lambda part: 1 + np.arange(len(part)) % 24)
    rows.to_csv(tmp_path / "series.csv", index=False)
    (error,) = check_file(str(tmp_path / "series.csv")).findings.texts("error")
    assert "data.since=" in error and "set data.gaps=zero" in error


def test_a_part_of_several_series(tmp_path):
    parts = [table(np.ones(len(HOURS), bool)).assign(id=name) for name in "ab"]
    for name, save in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
        save(pd.concat(parts), tmp_path / f"panel.{name}", index=False)
        panel = read(
            tmp_path / f"panel.{name}", id_column="id", time_column="time", since=str(HOURS[70]), until=str(HOURS[99])
        )
        assert panel.first == HOURS[70] and panel.lengths.tolist() == [30, 30]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"since": "soon"}, "data.since=soon is no time without a zone. Write it as 2016-07-01 00:00:00."),
        ({"until": "2018-02-04T00:00Z"}, "data.until=2018-02-04T00:00Z is no time without a zone."),
        ({"since": "2031-01-01"}, "no row lies from data.since=2031-01-01 to data.until=null; they reach from"),
    ],
)
def test_ends_that_choose_nothing_are_refused(tmp_path, keys, message):
    path = write(tmp_path / "series.csv", ROWS >= 0)
    with pytest.raises(Exception) as caught:
        read_frame(path, time_column="time", **keys)
    assert message in str(caught.value)
