"""A second series far away in time leaves the first one's figures where they are.

With data.season given, no known columns, model and baselines by series, calibration=none: what may see other series
then is a fault. The other stands before or behind the first in the file and in time, and is longer, or shorter than a
window.
"""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from laws.test_a_training_of_a_panel_of_one import BRIEF
from laws.test_one_series_is_a_panel_of_one import POLICIES, TRAINED, some
from laws.twins import (
    ID,
    File,
    errors_of_series,
    files_with_gaps,
    long_file,
    naive_of,
    read,
    same,
    same_made,
    scale_of,
    whole_files,
    windows_of,
)
from program import call

FAR = [
    ("2071-03-02", 97, "behind"),
    ("2071-03-02", 211, "before"),
    ("1969-03-03", 97, "behind"),
    ("1969-03-03", 5, "before"),
]


def beside(begin, rows, place):
    """Writes the rows, and those of another series that begins then, in front of them or behind them."""

    def write(file, path):
        first = file.table().assign(**{ID: "berlin"})
        values = 1000 * np.random.default_rng(1).normal(size=(rows, file.columns)).cumsum(0)
        other = pd.DataFrame(values, columns=[f"c{i}" for i in range(file.columns)]).assign(**{ID: "lima"})
        other.insert(0, "date", pd.date_range(begin, periods=rows, freq=file.freq))
        pd.concat([first, other] if place == "behind" else [other, first]).to_csv(path, index=False)
        return {"id_column": ID}

    return write


def of_berlin(make):
    """What is made of the first series of a panel, wherever it stands."""

    def made(data):
        return make(data, series=list(data.frame.ids).index("berlin"))

    return made


def all_windows(data, series):
    return {split: windows_of(data, split, series=series) for split in TRAINED}


def alone_and_beside(file, far):
    keys = {key: value for key, value in file.keys if key not in ("known", "season")}
    file = dataclasses.replace(file, keys=(*keys.items(), ("season", 7)))
    return read(file, long_file), read(file, beside(*far))


SUBJECTS = pytest.mark.parametrize("make", [all_windows, scale_of, naive_of, errors_of_series])


@SUBJECTS
@some(8)
@given(file=whole_files(), far=st.sampled_from(FAR))
def test_figures_without_gaps(make, file, far):
    same_made(of_berlin(make), *alone_and_beside(file, far))


@SUBJECTS
@pytest.mark.parametrize("policy", POLICIES)
@some(4)
@given(file=files_with_gaps(), far=st.sampled_from(FAR))
def test_figures_with_gaps(make, policy, file, far):
    alone, other = alone_and_beside(file.with_keys(gaps=policy), far)
    assume(not (isinstance(alone, str) and "no series has a window" in alone))  # beside it the other may have one
    same_made(of_berlin(make), alone, other)


@SUBJECTS
@pytest.mark.parametrize("key", [{"short": "pad"}, {"scaling": "season"}, {"scaling": "none"}])
def test_figures_of_each_option(make, key):
    same_made(of_berlin(make), *alone_and_beside(File(columns=1).with_keys(**key), FAR[1]))


def test_padded_windows_beside_an_earlier_series():
    same_made(of_berlin(all_windows), *alone_and_beside(File(columns=1).with_keys(short="pad"), FAR[2]))


def table_of_errors(folder):
    """What errors_by_series.csv says of the first series."""
    table = pd.read_csv(folder / "errors_by_series.csv", index_col=0)
    return table.loc["berlin"].to_dict()


def test_a_whole_training(tmp_path):
    made = []
    for name, write in (("alone", long_file), ("beside", beside(*FAR[1]))):
        home = tmp_path / name
        home.mkdir()
        keys = write(File(rows=113), home / "rows.csv")
        data = ["data=csv", f"data.path={home}/rows.csv", f"data.id_column={keys['id_column']}", "data.season=7"]
        call("train", "model=seasonal_naive", *data, f"hydra.run.dir={home}/run", *BRIEF, "calibration=none")
        made.append(home / "run")
        call("predict", f"ckpt_path={home}/run/checkpoints/best.ckpt", f"output={home}/next.csv")
    same(*map(table_of_errors, made))
    forecasts = [pd.read_csv(folder.parent / "next.csv").query("shop == 'berlin'") for folder in made]
    pd.testing.assert_frame_equal(*(table.reset_index(drop=True) for table in forecasts))
