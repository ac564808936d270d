"""Any file read as a series, and the same rows with an id column, give the same but for the id column.

What holds today is a test; what does not is a strict xfail that names the stage of the redesign which turns it on (2:
metrics and scale, 3: panel, windows, prepared, 4: the pass, 6: commands, 7: the reader). The example of each is the
shortest that fails: tried first, it lets an xfail fail each time, and at once.
"""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from laws.twins import (
    FIRST,
    File,
    both,
    errors_of,
    files_with_gaps,
    fits_of,
    long_file,
    naive_of,
    read,
    same,
    same_made,
    scale_of,
    series_file,
    whole_files,
    windows_of,
)

from forecast.data.split import FoldSplit, RowSplit

FLOAT32 = 1e-5  # what a model computes with
TRAINED = "train", "val", "test"
POLICIES = "interpolate", "forward_fill", "mask"
GAP = File(absent=(40,))
CELL = File(empty=((40, 0),))


def some(count):
    """So many examples, the same each time, none kept on disk, without the search for a shorter one that fails."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def not_yet(stage, reason):
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"stage {stage}: {reason}")


def all_windows(data):
    return {split: windows_of(data, split) for split in TRAINED}


def with_policy(file, policy):
    return file.with_keys(gaps=policy)


# Windows.


@some(25)
@given(whole_files())
def test_windows_without_gaps(file):
    same_made(all_windows, *both(file), within=FLOAT32)


@pytest.mark.parametrize("freq", ["15min", "h", "W-MON", "MS", "B", "QS-JAN", "YS-JAN"])
def test_windows_of_each_frequency(freq):
    same_made(all_windows, *both(File(freq=freq)), within=FLOAT32)


def test_windows_of_a_file_that_no_window_fits():
    refusals = both(File(rows=12))
    assert all("no series has a window for train: one window needs" in text for text in refusals)


def columns_file(file, path):
    file.table().to_csv(path, index=False)
    return {"panel": "columns"}


def untimed(file, path):
    file.table().drop(columns="date").to_csv(path, index=False)
    return {"time_column": None, "freq": "steps"}


def untimed_long(file, path):
    file.table().drop(columns="date").assign(shop="berlin").to_csv(path, index=False)
    return {"time_column": None, "freq": "steps", "id_column": "shop"}


def reversed_file(file, path):
    file.table()[::-1].assign(shop="berlin").to_csv(path, index=False)
    return {"id_column": "shop"}


def parquet_file(file, path):
    path = path.with_suffix(".parquet")
    file.table().assign(shop="berlin").to_parquet(path)
    return {"path": str(path), "id_column": "shop"}


@pytest.mark.parametrize(
    ("series", "panel"),
    [
        (series_file, columns_file),
        (series_file, reversed_file),
        (series_file, parquet_file),
        (untimed, untimed_long),
    ],
)
def test_windows_of_each_layout(series, panel):
    file = File(columns=1)
    same_made(all_windows, read(file, series), read(file, panel), within=FLOAT32)


def words(of, keys):
    def write(file, path):
        table = file.table()
        table["c1"] = np.where(np.arange(len(table)) % 7 < 2, "sun", "rain")
        table.assign(**of).to_csv(path, index=False)
        return keys

    return write


@pytest.mark.parametrize("role", ["known", "past"])
def test_windows_of_words(role):
    file = File().with_keys(**{"target": ["c0"], role: ["c1"], "categorical": ["c1"]})
    first, second = read(file, words({}, {})), read(file, words({"shop": "berlin"}, {"id_column": "shop"}))
    same_made(all_windows, first, second, within=FLOAT32)


@some(10)
@given(whole_files())
@example(File(rows=67, columns=1))
def test_windows_to_the_last_bit(file):
    same_made(all_windows, *both(file))


def test_windows_of_a_high_level():
    same_made(all_windows, *both(File(level=1e6)), within=FLOAT32)


@pytest.mark.parametrize("file", [GAP, CELL], ids=["row", "cell"])
@pytest.mark.parametrize("policy", POLICIES)
def test_windows_with_a_gap(policy, file):
    same_made(all_windows, *both(with_policy(file, policy)), within=FLOAT32)


@pytest.mark.parametrize("policy", POLICIES)
@some(10)
@given(file=files_with_gaps())
@example(file=CELL)
def test_windows_with_gaps(policy, file):
    same_made(all_windows, *both(with_policy(file, policy)), within=FLOAT32)


def with_zeros(file):
    """The file with a row for each step, 0 where it had none."""
    table = file.table().set_index("date")
    whole = pd.date_range(table.index[0], table.index[-1], freq=file.freq, name="date")
    return dataclasses.replace(file, given=table.reindex(whole).fillna(0.0).reset_index(), absent=(), empty=())


@some(10)
@given(file=files_with_gaps())
@example(file=File(absent=tuple(range(10, 80)), empty=((90, 1),)))
def test_what_is_not_there_may_be_a_zero_that_was_measured(file):
    file = with_policy(file, "zero")
    first, second = both(file)
    same_made(all_windows, first, second)
    same_made(scale_of, first, second)
    same_made(all_windows, first, read(with_zeros(file), series_file))


def changed(file, write, row):
    """Writes a file as `write` does, with other values from a row on."""

    def written(file, path):
        table = file.table()
        later = table.date >= FIRST + pd.Timedelta(days=row)
        table.loc[later, [name for name in table if name.startswith("c")]] += 5
        return write(dataclasses.replace(file, given=table), path)

    return read(file, written)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("write", [series_file, long_file])
@pytest.mark.parametrize("file", [File(absent=(82, 83)), File(empty=((82, 0), (83, 0))), File(absent=(77, 78))])
def test_no_past_owes_anything_to_the_rows_from_its_origin_on(file, write, policy):
    file = with_policy(file, policy)
    before, compared = windows_of(read(file, write), "test"), 0
    for row in (79, 82, 84, 86):  # of the test
        after = windows_of(changed(file, write, row), "test")
        until = [time for time in before.keys() & after.keys() if pd.Timestamp(time) <= FIRST + pd.Timedelta(days=row)]
        compared += len(until)
        same(*({time: windows[time][0] for time in until} for windows in (before, after)))
    assert compared


def test_splits_are_the_same():
    same(*(dict.fromkeys(data.splits, 0) for data in both(File(split=RowSplit(train=50, val=20, test=20)))))


def test_windows_of_a_sliding_fold():
    split = FoldSplit(folds=5, step=3, horizon=3, fold=2, window="sliding")
    same_made(all_windows, *both(File(split=split)), within=FLOAT32)


def test_windows_of_a_padded_file():
    same_made(all_windows, *both(File().with_keys(short="pad")), within=FLOAT32)


@pytest.mark.parametrize("policy", ["refuse", *POLICIES])
@pytest.mark.parametrize("row", [0, 96], ids=["first row", "last row"])
def test_windows_of_a_gap_at_an_end(row, policy):
    same_made(all_windows, *both(with_policy(File(empty=((row, 0),)), policy)), within=FLOAT32)


def test_windows_of_a_resampled_file():
    same_made(all_windows, *both(File(rows=400).with_keys(resample="W-MON", aggregate="mean")), within=FLOAT32)


def numbered(of):
    def write(file, path):
        file.table().assign(date=range(0, 4 * file.rows, 4), **of).to_csv(path, index=False)
        return {"id_column": "shop"} if of else {}

    return write


def test_windows_of_numbered_steps():
    file = File(columns=1)
    first, second = read(file, numbered({})), read(file, numbered({"shop": "berlin"}))
    same_made(all_windows, first, second, within=FLOAT32)


# Scales.


@some(15)
@given(whole_files())
def test_scales_without_gaps(file):
    same_made(scale_of, *both(file), within=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_scales_with_an_absent_row(policy):
    same_made(scale_of, *both(with_policy(GAP, policy)), within=1e-6)


@some(10)
@given(whole_files())
@example(File(rows=67, columns=1))
def test_scales_to_the_last_bit(file):
    same_made(scale_of, *both(file))


@pytest.mark.parametrize("policy", POLICIES)
@some(10)
@given(file=files_with_gaps())
@example(file=CELL)
def test_scales_with_gaps(policy, file):
    same_made(scale_of, *both(with_policy(file, policy)), within=1e-6)


def test_scales_of_a_column_that_hardly_changes():
    same_made(scale_of, *both(File(level=1e7)), within=1e-6)


@pytest.mark.parametrize("how", ["season", "global", "none"])
def test_scales_by_each_rule(how):
    same_made(scale_of, *both(File().with_keys(scaling=how)), within=1e-6)


# Baselines.


@some(12)
@given(whole_files())
def test_baselines_without_gaps(file):
    same_made(fits_of, *both(file), within=FLOAT32)


def test_baselines_to_the_last_bit():
    same_made(fits_of, *both(File(rows=67, columns=1)))


@pytest.mark.parametrize("policy", POLICIES)
@some(5)
@given(file=files_with_gaps())
@example(file=CELL)
def test_baselines_with_gaps(policy, file):
    same_made(fits_of, *both(with_policy(file, policy)), within=FLOAT32)


# Metrics.


@some(12)
@given(whole_files())
def test_errors_without_gaps(file):
    same_made(errors_of, *both(file), within=FLOAT32)


def test_errors_to_the_last_bit():
    same_made(errors_of, *both(File(rows=67, columns=1)))


@pytest.mark.parametrize("policy", POLICIES)
@some(5)
@given(file=files_with_gaps())
@example(file=CELL)
def test_errors_with_gaps(policy, file):
    same_made(errors_of, *both(with_policy(file, policy)), within=FLOAT32)


@some(5)
@given(whole_files())
@example(File(rows=67, columns=1))
def test_what_mase_is_scaled_by(file):
    same_made(naive_of, *both(file), within=FLOAT32)
