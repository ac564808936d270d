"""No window reads what its gaps forbid; what is left out is counted."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import read_frame, series_frame
from scales import given_scales

from forecast.data.panel import Repair
from forecast.data.prepare import prepare
from forecast.errors import UserError

N, L, P = 131, 7, 3
SPLITS = {"train": range(71), "val": range(71, 97), "test": range(97, N)}
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")
GAPS = (2, 3, 19, 20, 21, 22, 41, 68, 69, 70, 71, 72, 80, 95, 96, 97, 113, 128)


def frame_of(policy, filled=GAPS):
    flags = np.zeros(N, dtype=bool)
    flags[list(filled)] = True
    values = np.random.default_rng(0).normal(size=(N, 2)).cumsum(0)
    missing = np.stack([flags, flags], axis=1) if filled else None
    return series_frame(values, STAMPS, ("a", "b"), "h", "my.csv", missing=missing, repair=Repair(policy))


def prepared(frame, splits=SPLITS):
    return prepare(frame, splits=splits, targets=(0, 1), seq_len=L, pred_len=P, encoding="timeF")


def all_starts(split):
    """The first row of every window of a split: its targets lie in the split, its past may lie before it."""
    rows = SPLITS[split]
    return range(max(0, rows.start - L), rows.stop - L - P + 1)


def starts(windows):
    return (windows.places(range(len(windows)))[1] - L).tolist()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("offset", [0, 1, 5])
@pytest.mark.parametrize("policy", ["mask", "interpolate", "forward_fill"])
def test_just_the_windows_are_left_out_that_read_a_row_which_their_policy_forbids(policy, split, offset):
    """mask: a filled row in the past. What a file did not hold of the targets is marked, and counts nowhere.

    Rows 70 and 96 end train and val inside a gap. The rows between past and targets may be filled.
    """
    data = prepared(frame_of(policy))
    windows = data.windows(split, offset=offset)
    starts_of_all = all_starts(split)[: -offset or None]
    expected = [s for s in starts_of_all if policy != "mask" or not set(range(s, s + L)) & set(GAPS)]
    assert starts(windows) == expected
    batch = windows.__getitems__(range(len(windows)))
    targets = np.array(expected)[:, None] + L + offset + np.arange(P)
    assert torch.equal(batch.measured, torch.from_numpy(~np.isin(targets, GAPS))[..., None].expand(-1, -1, 2))


@pytest.mark.parametrize("split", SPLITS)
def test_a_chosen_window_is_the_batch_that_it_was_among_all_windows(split):
    data, whole = prepared(frame_of("mask")), prepared(replace(frame_of("mask"), measured=None))
    whole = replace(whole, kept=data.kept)
    left, every = data.windows(split), whole.windows(split)
    numbers = [s - all_starts(split).start for s in starts(left)]
    order = [len(left) - 1, 0, len(left) // 2]
    expected = every.__getitems__([numbers[i] for i in order])
    for one, other in zip(left.__getitems__(order)[:5], expected[:5], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("index", [-1, 48])
def test_a_window_after_the_chosen_ones_is_an_error(index):
    windows = prepared(frame_of("mask", filled=(20, 40))).windows("train")
    assert len(windows) == 71 - L - P + 1 - 2 * L == 48
    with pytest.raises((IndexError, RuntimeError)):
        windows[index]


@pytest.mark.parametrize("policy", ["interpolate", "forward_fill", "mask"])
def test_without_gaps_every_policy_serves_the_same_bits_by_the_same_way(policy):
    plain, data = prepared(frame_of("refuse", filled=())), prepared(frame_of(policy, filled=()))
    assert torch.equal(plain.kept, data.kept)
    for split in SPLITS:
        windows = data.windows(split)
        assert windows.chosen is None  # no indirection where nothing is left out
        assert len(windows) == len(plain.windows(split))


# what a window must not know


def planted(path, policy, after):
    """Hours 30 to 33 are missing; the value after them is `after`."""
    values = np.random.default_rng(5).normal(size=N).round(4)
    values[34] = after
    lines = [f"{t},{v}" for i, (t, v) in enumerate(zip(STAMPS, values, strict=True)) if not 30 <= i < 34]
    path.write_text("\n".join(["date,a", *lines]) + "\n")
    frame = read_frame(path, gaps=policy).panel
    scaler = prepare(frame_of("refuse"), splits=SPLITS, targets=(0,), seq_len=L, pred_len=P, encoding="timeF").scaler
    scaler = given_scales(scaler.mean[0, :1], scaler.std[0, :1])
    return prepare(frame, splits=SPLITS, targets=(0,), seq_len=L, pred_len=P, encoding="timeF", scaler=scaler)


def pasts(data, held=True):
    data = data if held else replace(data, frame=replace(data.frame, measured=None))
    windows = data.windows("train")
    rows = np.array(starts(windows))
    return rows, windows.__getitems__(range(len(windows))).past


@pytest.mark.parametrize("policy", ["interpolate", "forward_fill", "mask"])
def test_no_past_changes_with_a_value_after_its_end(tmp_path, policy):
    """The leak is planted: the value after the gap moves by 1000."""
    (rows, one), (again, other) = (pasts(planted(tmp_path / "my.csv", policy, after)) for after in (1.0, 1001.0))
    assert rows.tolist() == again.tolist()
    before = rows + L - 1 < 34
    assert before.sum() > 5
    assert torch.equal(one[before], other[before])


def test_interpolation_would_leak_without_the_guard(tmp_path):
    (rows, one), (_, other) = (
        pasts(planted(tmp_path / "my.csv", "interpolate", after), held=False) for after in (1.0, 1001.0)
    )
    changed = (one != other).flatten(1).any(1).numpy()
    leaks = {int(r) + L - 1 for r in rows[changed] if r + L - 1 < 34}
    assert leaks == {30, 31, 32, 33}


# the scaler


@pytest.mark.parametrize("policy", ["interpolate", "forward_fill", "mask"])
def test_the_scaler_is_fitted_without_made_up_cells(policy):
    frame = frame_of(policy)
    scaler = prepared(frame).scaler
    for column, (mean, std) in enumerate(zip(scaler.mean[0], scaler.std[0], strict=True)):
        held = [frame.values[row, column] for row in SPLITS["train"] if frame.measured[row, column]]
        assert len(held) < 71 or column
        np.testing.assert_allclose([mean, std], [np.mean(held), np.std(held)], rtol=1e-12)


# refusals


def test_a_split_that_gaps_leave_no_window_is_refused_with_what_they_cost():
    data = prepared(frame_of("mask", filled=range(67, 97, 4)))
    with pytest.raises(UserError, match=r"my.csv: no series has a window for val.* all 24 windows are left out beside"):
        data.check_enough()
    assert len(data.windows("train")) == 61


def test_a_training_without_one_whole_train_row_is_refused_by_its_windows_and_not_by_its_scaler():
    with pytest.raises(UserError, match=r"no series has a window for train.* all 62 windows are left out"):
        prepared(frame_of("mask", filled=range(71))).check_enough()


@pytest.mark.parametrize("policy", ["interpolate", "forward_fill"])
@pytest.mark.parametrize("look_back", [None, 2 * L])
def test_what_is_known_in_advance_owes_nothing_to_rows_after_the_horizon(tmp_path, policy, look_back):
    """Hours 30 to 33 of `a`, known in advance, are missing; the value after them moves by 1000."""
    known = {"splits": SPLITS, "targets": (0,), "seq_len": L, "pred_len": P, "encoding": "timeF", "covariates": ("a",)}
    futures = []
    for after in (1.0, 1001.0):
        part = planted(tmp_path / "my.csv", policy, after).frame
        values = np.concatenate([np.arange(N, dtype=float)[:, None], part.values], axis=1)
        missing = np.concatenate([np.zeros((N, 1), dtype=bool), ~part.measured], axis=1)
        frame = replace(part, values=values, columns=("b", "a"), measured=~missing)
        scaler = given_scales(np.zeros(2), np.ones(2))
        windows = prepare(frame, scaler=scaler, **known).windows("train", look_back=look_back)
        futures.append(windows.__getitems__(range(len(windows))).future_known)
    early = torch.from_numpy(windows.places(range(len(windows)))[1] + P <= 34)
    assert early.sum() > 20 and torch.equal(futures[0][early], futures[1][early])
