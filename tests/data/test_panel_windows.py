"""The windows of a panel against a loop over its series and rows."""

import numpy as np
import pytest
import torch
from panels import LENGTHS, made_panel

from forecast.data.prepare import prepare
from forecast.data.split import DateSplit, LastSplit, RowSplit, ShareSplit, panel_cuts
from forecast.data.values.calendar import time_features
from forecast.errors import UserError

SEQ_LEN, PRED_LEN = 5, 3
SPLITS = {
    "shares": ShareSplit(train=0.6, val=0.2, test=0.2),
    "rows": RowSplit(train=11, val=6, test=7),
    "last": LastSplit(horizon=PRED_LEN, val=2, test=1),
    "dates": DateSplit(val_start="2024-02-20", test_start="2024-03-03"),
}


def prepared(frame, split="last", *, pad=False, scaling="none", targets=(0,), **lengths):
    """A panel cut and scaled."""
    lengths = {"seq_len": SEQ_LEN, "pred_len": PRED_LEN} | lengths
    splits = panel_cuts(SPLITS[split], frame, pred_len=lengths["pred_len"])
    options = {"targets": targets, "encoding": "timeF", "pad": pad, "scaling": scaling, **lengths}
    data = prepare(frame, splits=splits, **options)
    data.check_enough()
    return data


def windows_by_loop(data, split, look_back):
    """(series, origin in its series, past, calendar, future) of every window, as a reader of the rules expects."""
    frame = data.frame
    for s in range(len(frame)):
        values = frame.rows(s)
        rule = data.splits[split]
        first, stop = int(rule.first[s] - frame.offsets[s]), int(rule.stop[s] - frame.offsets[s])
        known = time_features(frame.timestamps(s, PRED_LEN), frame.freq)
        for origin in range(first, stop - PRED_LEN + 1):
            if origin < (1 if data.pad else SEQ_LEN):
                continue
            rows = [max(0, row) for row in range(origin - look_back, origin)]
            flags = [row < 0 for row in range(origin - look_back, origin)]
            yield s, origin, values[rows], known, flags, values[origin : origin + PRED_LEN]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("part", ["train", "val", "test"])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("look_back", [SEQ_LEN, 11])
def test_every_window_is_that_of_a_slow_reader(split, part, pad, look_back):
    """Values, calendar, flags and targets of all windows, in the order of series and time, none missing or twice."""
    data = prepared(made_panel(columns=("a", "b")), split, pad=pad, targets=(1,))
    windows = data.windows(part, look_back=look_back)
    expected = list(windows_by_loop(data, part, look_back))
    assert len(windows) == len(expected) > 0
    batch = windows.__getitems__(range(len(windows)))
    n_known = 3 + pad
    assert batch.past.shape == (len(expected), look_back, 2)
    assert batch.past_known.shape == (len(expected), look_back, n_known)
    assert batch.future_known.shape == (len(expected), PRED_LEN, n_known)
    assert batch.series is not None and batch.measured is None
    for i, (series, origin, past, known, flags, future) in enumerate(expected):
        assert int(batch.series[i]) == series
        assert windows.places([i])[1] == data.frame.offsets[series] + origin
        np.testing.assert_array_equal(batch.past[i], past)
        np.testing.assert_array_equal(batch.future[i], future)
        np.testing.assert_array_equal(batch.target[i], future[:, 1:])
        rows = np.maximum(0, np.arange(origin - look_back, origin))
        np.testing.assert_allclose(batch.past_known[i, :, :3], known[rows], rtol=1e-6)
        np.testing.assert_allclose(batch.future_known[i, :, :3], known[origin : origin + PRED_LEN], rtol=1e-6)
        if pad:
            assert batch.past_known[i, :, 3].tolist() == [float(flag) for flag in flags]
            assert not batch.future_known[i, :, 3].any()


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("pad", [False, True])
def test_a_masked_window_tells_what_of_its_past_was_measured(pad, gaps):
    measured = np.random.default_rng(3).random((sum(LENGTHS), 2)) > 0.2 if gaps else None
    data = prepared(made_panel(seed=2, columns=("a", "b"), measured=measured), pad=pad)
    windows = data.windows("train", masked=True)
    learnt = windows.__getitems__(range(len(windows))).learnt
    assert data.windows("train").__getitems__([0]).learnt is None
    if not pad and not gaps:
        assert learnt is None
        return
    for window in range(len(windows)):
        (series,), (origin,) = windows.places([window])
        for place, row in enumerate(range(origin - SEQ_LEN, origin + PRED_LEN)):
            inside = row >= data.frame.offsets[series]
            expected = [inside and (measured is None or bool(measured[row, c])) for c in range(2)]
            assert learnt[window, place].tolist() == expected


def test_batches_gathered_together_are_those_gathered_alone():
    """The pieces of `in_batches`, the last one with the rest, also of shuffled numbers."""
    data = prepared(made_panel(seed=1), scaling="series")
    windows = data.windows("train")
    numbers = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    together = windows.in_batches(numbers, 13)
    assert [len(batch.target) for batch in together][:2] == [13, 13]
    assert sum(len(batch.target) for batch in together) == len(windows)
    for batch, some in zip(together, numbers.split(13), strict=True):
        for one, other in zip(batch, windows.__getitems__(some), strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.equal(one, other)


@pytest.mark.parametrize("scaling", ["series", "global", "none"])
def test_windows_are_scaled_by_measured_train_rows_alone(scaling):
    """Mean and deviation of the rows before val, without those that were filled; later rows have no part."""
    frame = made_panel(seed=2, columns=("a", "b"))
    measured = np.random.default_rng(3).random(frame.values.shape) > 0.2
    frame = made_panel(seed=2, columns=("a", "b"), measured=measured)
    data = prepared(frame, "shares", scaling=scaling)
    rows = data.splits["train"]
    for s in (0, 2, 3):
        parts = range(len(frame)) if scaling == "global" else [s]
        for c in range(2):
            cells = np.concatenate(
                [
                    frame.values[rows.first[p] : rows.stop[p], c][measured[rows.first[p] : rows.stop[p], c]]
                    for p in parts
                ]
            ).astype(np.float64)
            mean, std = (0.0, 1.0) if scaling == "none" else (cells.mean(), cells.std())
            assert data.scaler.mean[s, c] == pytest.approx(mean, rel=1e-9)
            assert data.scaler.std[s, c] == pytest.approx(std, rel=1e-9)
    batch = data.windows("train")[3]
    first = data.windows("train").places([3])[1][0] - SEQ_LEN
    s = int(batch.series)
    expected = (frame.values[first : first + SEQ_LEN] - data.scaler.mean[s]) / data.scaler.std[s]
    np.testing.assert_allclose(batch.past[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(batch.measured[0], measured[first + SEQ_LEN : first + SEQ_LEN + PRED_LEN, :1])


def test_a_series_of_great_numbers_leaves_the_scale_of_its_neighbour_exact():
    """Each series is summed by itself: a running sum over all of them would lose the small one's digits."""
    frame = made_panel((29, 31), seed=5)
    frame.values[:29] *= 1e12
    small = prepared(frame, scaling="series").scaler.std[1, 0]
    assert small == pytest.approx(frame.values[29 : 60 - 3 * PRED_LEN].astype(np.float64).std(), rel=1e-9)


def test_a_series_without_train_rows_is_scaled_by_what_lies_before_its_first_forecast():
    """A short one under LastSplit: its context is all that any of its forecasts may know."""
    frame = made_panel((53, 9), seed=7)
    data = prepared(frame, "last", scaling="series")
    assert data.scaler.own.tolist() == [False, True]
    context = frame.rows(1)[:SEQ_LEN].astype(np.float64)
    assert data.scaler.mean[1, 0] == pytest.approx(context.mean(), rel=1e-9)


def test_series_without_a_window_are_counted_by_name():
    """Of LENGTHS the last has two rows."""
    left_out = prepared(made_panel()).left_out()
    assert left_out == {"fewer rows than a window needs, 8": ["s1", "s4"]}
    assert prepared(made_panel(), pad=True).left_out() == {"fewer rows than a window needs, 4": ["s4"]}


def test_a_panel_without_a_long_series_is_refused():
    """One sentence with what is needed, what is there and what to set."""
    with pytest.raises(UserError, match=r"needs 100 rows of past and 3 of .*has 53 rows.*data.short=pad"):
        prepared(made_panel(), seq_len=100)
