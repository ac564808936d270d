"""Rows after the end of a split have no part in what is made of those before it: a law, tried on files with gaps."""

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import read_frame

from forecast.data.prepare import prepare
from forecast.evaluation.baselines import fit_nlinear

N, C, L, P = 151, 3, 7, 2
SPLITS = {"train": range(89), "val": range(89, 113), "test": range(113, 139), "tail": range(139, N)}
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")
NAMES = ("a", "b", "c")


def cells_of(seed, *, few_whole):
    """Cells (N, C) of a file, NaN where one is missing; gaps lie over the ends of train, val and test.

    few_whole: less than a tenth of the train rows is whole, so that filled rows scale the data too.
    """
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(N, C)).cumsum(0).round(4)
    if few_whole:
        cells[np.arange(N), np.arange(N) % C] = np.nan
        cells[::31] = 0.25 * seed  # a window needs a whole row at the end of its past
    for (start, stop), column in zip([(85, 92), (110, 116), (137, 141)], (0, 1, 2), strict=True):
        cells[start:stop, column] = np.nan
    cells[[0, -1]] = 1.5
    return cells


def changed_after(cells, border, rng):
    """Other values, and other gaps, from row `border` on; the last row is whole."""
    other = cells.copy()
    other[border:] = 1e3 * rng.normal(size=other[border:].shape).round(4)
    other[border:-1][rng.random(other[border:-1].shape) < 0.3] = np.nan
    return other


def made_of(path, cells, policy):
    """What a training makes of a file with these cells before its first step; a row without any is no line of it."""
    pd.DataFrame(cells, STAMPS, NAMES).dropna(how="all").to_csv(path, index_label="date")
    frame = read_frame(path, gaps=policy)
    return prepare(frame.panel, splits=SPLITS, targets=(0, 2), seq_len=L, pred_len=P, encoding="timeF")


@pytest.mark.parametrize(
    ("policy", "few_whole"),
    [("interpolate", False), ("interpolate", True), ("forward_fill", False), ("forward_fill", True), ("mask", False)],
)
@pytest.mark.parametrize("seed", range(2))
def test_rows_after_the_end_of_a_split_change_nothing_before_it(tmp_path, seed, policy, few_whole):
    cells = cells_of(seed, few_whole=few_whole)
    rng = np.random.default_rng(100 + seed)
    before = made_of(tmp_path / "my.csv", cells, policy)
    for name, rows in SPLITS.items():
        after = made_of(tmp_path / "my.csv", changed_after(cells, rows.stop, rng), policy)
        assert torch.equal(after.kept[: rows.stop], before.kept[: rows.stop])
        for part in ("mean", "std"):
            assert np.array_equal(getattr(after.scaler, part), getattr(before.scaler, part))
        assert torch.equal(fit_nlinear(after), fit_nlinear(before))
        windows, others = before.windows(name), after.windows(name)
        every = range(max(len(windows), len(others)))
        assert np.array_equal(windows.places(every), others.places(every))


def test_a_gap_over_the_end_of_a_split_is_drawn_from_the_rows_before_up_to_there_and_as_ever_behind(tmp_path):
    cells = np.tile(np.arange(N, dtype=float)[:, None], (1, C))
    cells[86:92, 1] = np.nan
    values = made_of(tmp_path / "my.csv", cells, "interpolate").frame.values
    assert values[84:94, 1].tolist() == [84, 85, 85, 85, 85, 89, 90, 91, 92, 93]
    np.testing.assert_array_equal(values[:, [0, 2]], cells[:, [0, 2]])


@pytest.mark.parametrize("policy", ["interpolate", "forward_fill", "mask"])
def test_without_a_gap_over_the_end_of_a_split_the_frame_is_that_of_the_reader(tmp_path, policy):
    cells = cells_of(0, few_whole=False)
    cells[[88, 112, 138]] = 0.5
    data = made_of(tmp_path / "my.csv", cells, policy)
    assert data.frame.values.tobytes() == read_frame(tmp_path / "my.csv", gaps=policy).values.tobytes()
