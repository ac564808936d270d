"""A window's past is made of rows before its origin alone, also inside a gap; and the guard sees it where it is not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluation.small_panels import L, P, panel, prepared

from forecast.data.panel import Repair
from forecast.data.split import ShareSplit
from forecast.errors import UserError
from forecast.evaluation.baselines import fitting_rows, window_shape
from forecast.evaluation.leakage import check_leakage, refilled
from forecast.models.naive import LastValue

N, GAP = 401, range(211, 216)
CPU = torch.device("cpu")


def with_gap(policy, after=None, gap=GAP, columns=("y", "z", "x")):
    """Two series, of the first of which the rows in `gap` are missing in all columns; the row behind is `after`."""
    frame = panel((N, 97), columns, seed=3)
    values, measured = frame.values.copy(), np.ones(frame.values.shape, dtype=bool)
    if after is not None:
        values[gap.stop] = after
    measured[gap.start : gap.stop] = False
    return refilled(replace(frame, values=values, measured=measured, repair=Repair(policy)))


def panel_of(frame, **options):
    return prepared(frame, split=ShareSplit(train=0.7, test=0.2), **options)


@pytest.mark.parametrize(
    ("covariates", "what", "gap"),
    [((), "column 'y'", GAP), (("x",), "known feature 5", GAP), ((), "column 'y'", range(211, 212))],
)
def test_the_guard_finds_a_gap_that_is_filled_towards_rows_that_are_not_known_yet(monkeypatch, covariates, what, gap):
    data = panel_of(with_gap("interpolate", gap=gap), covariates=covariates, targets=(0,))
    check_leakage(LastValue(window=window_shape(data)), data, device=CPU)
    monkeypatch.setattr(type(data.frame), "since", None)  # by which windows hold the last measured value
    data = panel_of(with_gap("interpolate", gap=gap), covariates=covariates, targets=(0,))
    time = data.times_of(np.array([gap.start]), np.array([0]))[0]
    with pytest.raises(UserError, match=f"leakage check, inputs: .* {what} at {time} changes with the rows after it"):
        check_leakage(LastValue(window=window_shape(data)), data, device=CPU)


def inputs(data, split="train"):
    """Of each window of the first series its origin, past and known features."""
    windows = data.windows(split)
    numbers = np.flatnonzero(windows.places(range(len(windows)))[0] == 0)
    return windows.places(numbers)[1].tolist(), windows.__getitems__(numbers)


@pytest.mark.parametrize("policy", ["interpolate", "forward_fill", "mask"])
@pytest.mark.parametrize("pad", [False, True])
def test_no_past_of_a_panel_changes_with_the_row_behind_its_gap(policy, pad):
    """The row behind the gap moves by 1000; scaling is none, so that nothing else does."""
    one, other = (panel_of(with_gap(policy, after), scaling="none", pad=pad) for after in (1.0, 1001.0))
    (rows, before), (_, after) = inputs(one), inputs(other)
    early = torch.tensor(rows) <= GAP.stop
    assert early.sum() > len(GAP)
    for name in ("past", "past_known", "future_known"):
        assert torch.equal(getattr(before, name)[early], getattr(after, name)[early])


def test_a_gap_that_is_open_at_the_origin_holds_the_last_measured_value_and_is_a_line_once_it_is_closed():
    frame = with_gap("interpolate")
    rows, batch = inputs(panel_of(frame, scaling="none", targets=(0,)))
    for origin in range(GAP.start - 1, GAP.stop + L + 2):
        past = frame.values[origin - L : origin].copy()
        inside = [row - (origin - L) for row in GAP if origin - L <= row < origin]
        if origin <= GAP.stop:
            past[inside] = frame.values[GAP.start - 1]
        np.testing.assert_array_equal(batch.past[rows.index(origin)].numpy(), past.astype(np.float32))


def test_a_gap_longer_than_the_window_holds_what_was_measured_before_the_window():
    gap = range(150, 150 + 2 * L)
    frame = with_gap("interpolate", gap=gap)
    rows, batch = inputs(panel_of(frame, scaling="none", targets=(0,)))
    past = batch.past[rows.index(gap.stop)].numpy()
    np.testing.assert_array_equal(past, np.tile(frame.values[gap.start - 1].astype(np.float32), (L, 1)))


def test_what_is_known_in_advance_owes_nothing_to_rows_after_the_horizon():
    one, other = (
        panel_of(with_gap("interpolate", after), scaling="none", covariates=("x",), targets=(0,))
        for after in (1.0, 1001.0)
    )
    (rows, before), (_, after) = inputs(one), inputs(other)
    for name, until in (("past", GAP.stop), ("past_known", GAP.stop), ("future_known", GAP.stop - P)):
        early = torch.tensor(rows) <= until
        assert early.sum() > 10 and torch.equal(getattr(before, name)[early], getattr(after, name)[early])
    late = rows.index(GAP.stop - P + 1)  # the row behind the gap is a forecast step, whose x is known
    assert not torch.equal(before.future_known[late], after.future_known[late])


def test_a_linear_map_is_fitted_to_no_past_that_ends_in_a_gap():
    """Without other windows gaps hold the last value: the row behind the gap moves, and no past before it does."""
    maps = []
    for after in (1.0, 1001.0):
        data = panel_of(with_gap("interpolate", after), scaling="none", targets=(0,))
        rows = fitting_rows(data)
        origins = rows.origins("train", L)
        assert not {*GAP, GAP.stop} & {*origins} and GAP.stop + 1 in origins
        early = origins[origins < GAP.start]
        maps.append(rows.series[early[:, None] + np.arange(-L, 0)])
        frame = data.frame
        none = replace(frame, measured=np.arange(len(frame.values))[:, None] % 2 + 0 * frame.measured == 0)
        held = fitting_rows(panel_of(refilled(none), scaling="none", targets=(0,)))
        origins = held.origins("train", L)
        assert len(origins) and origins.min() >= len(frame.values)
        made_up = origins[(origins - len(frame.values)) % 2 == 0] - 1
        assert torch.equal(held.series[made_up], held.series[made_up - 1])
    assert torch.equal(*maps)
