"""Which rows a training had, by a number of their times and values: what changes it, and what does not."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecast.data.panel import PanelFrame, Repair
from forecast.data.saved_scale import RecordedRows
from forecast.data.split import TargetRows

LENGTHS = np.array([11, 7, 13])


def panel(lengths=LENGTHS, *, columns=2, seed=0, **changes):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    frame = PanelFrame(
        values=np.random.default_rng(seed).normal(size=(offsets[-1], columns)),
        offsets=offsets,
        steps=np.arange(len(lengths)),
        ids=np.array([f"s{i}" for i in range(len(lengths))]),
        first=pd.Timestamp("2025-01-01"),
        freq="D",
        columns=tuple("abc"[:columns]),
        name="p.csv",
    )
    return replace(frame, **changes)


def splits(frame):
    begin, end = frame.offsets[:-1], frame.offsets[1:]
    return {
        "train": TargetRows(begin, begin + 4),
        "val": TargetRows(begin + 4, begin + 5),
        "test": TargetRows(end - 2, end),
    }


def one_value(values, row):
    values = values.copy()
    values[row, 1] += 1e-12
    return values


def test_each_value_each_time_and_their_order_count():
    frame = panel()
    changed = {
        "a value": replace(frame, values=one_value(frame.values, 12)),
        "an order": replace(frame, values=frame.values[[*range(11), 12, 11, *range(13, 31)]]),
        "columns": replace(frame, values=np.ascontiguousarray(frame.values[:, ::-1])),
        "times": replace(frame, steps=frame.steps + np.array([0, 1, 0])),
        "a gap": replace(frame, measured=np.arange(62).reshape(31, 2) != 25),
    }
    for name, other in changed.items():
        same = RecordedRows.of(frame, splits(frame)).same(other, np.arange(3)).tolist()
        assert same == ([False] * 3 if name == "columns" else [True, False, True]), name


def test_what_was_made_up_does_not_count_and_a_zero_has_no_sign():
    measured = np.ones((31, 2), bool)
    measured[12, 1] = False
    frame = panel(measured=measured, repair=Repair("forward_fill"))
    other = replace(frame, values=one_value(frame.values, 12))
    assert RecordedRows.of(frame, splits(frame)).same(other, np.arange(3)).all()
    zeros = panel(values=np.zeros((31, 2)))
    other = replace(zeros, values=-zeros.values)
    assert RecordedRows.of(zeros, splits(zeros)).same(other, np.arange(3)).all()


def test_rows_before_and_behind_those_recorded_and_other_series_change_nothing():
    long = panel(LENGTHS + 5)
    frame = long.cut(np.arange(3), long.offsets[:-1] + 2, long.offsets[1:] - 3)
    recorded = RecordedRows.of(frame, splits(frame))
    other = long.take(np.array([2, 0, 1]))
    places = np.array([2, 0, 1])
    assert recorded.same(other, places).all()
    placed = recorded.placed(other, places)
    np.testing.assert_array_equal(placed["train"].first, other.offsets[:-1] + 2)
    np.testing.assert_array_equal(placed["test"].stop, other.offsets[1:] - 3)
    assert not recorded.same(frame.cut(np.arange(3), frame.offsets[:-1] + 1, frame.offsets[1:]), np.arange(3)).any()
    short = frame.cut(np.arange(3), frame.offsets[:-1], frame.offsets[1:] - 1)
    assert not recorded.same(short, np.arange(3)).any() and recorded.same(short, np.arange(3), "val").all()


def test_it_comes_back_from_a_checkpoint():
    frame = panel()
    recorded = RecordedRows.of(frame, splits(frame))
    state = recorded.state()
    again = RecordedRows.from_state(state)
    assert again.same(frame, np.arange(3)).all() and again.splits["test"][:, 1].tolist() == LENGTHS.tolist()


def test_of_a_checkpoint_of_1_0_the_times_tell_the_rows_alone():
    frame = panel()
    state = RecordedRows.of(frame, splits(frame)).state()
    del state["md5"]
    recorded = RecordedRows.from_state(state)
    assert recorded.same(replace(frame, values=one_value(frame.values, 12)), np.arange(3)).all()
    assert not recorded.same(replace(frame, steps=frame.steps + 1), np.arange(3)).any()


@pytest.mark.slow
def test_ten_thousand_series_take_a_fraction_of_a_second():
    frame = panel(np.full(10_000, 100), columns=1)
    begun = time.process_time()
    recorded = RecordedRows.of(frame, splits(frame))
    assert time.process_time() - begun < 1.0
    assert len(np.unique(recorded.splits["test"][:, 2])) == 10_000
