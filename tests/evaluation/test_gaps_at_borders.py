"""A gap of any length at any place beside the end of a split trains without an alarm; no row before it changes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from data.splits import split_rows
from evaluation.small_panels import panel, prepared

from forecast.data.grid import fill_cells
from forecast.data.panel import Repair
from forecast.data.prepare import prepare
from forecast.data.split import ShareSplit
from forecast.evaluation.baselines import fit_nlinear, window_shape
from forecast.evaluation.leakage import check_leakage, refilled
from forecast.models.naive import LastValue

N, L, P = 131, 11, 5
SPLIT = ShareSplit(train=0.7, test=0.2)
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")
ENDS = TRAIN_END, VAL_END = 91, 105
POLICIES = "interpolate", "forward_fill", "mask"
GAPS = [range(-before, length - before) for length in (1, 2, 5) for before in range(-1, length + 2)]


def values_of(end, *, later):
    """(N, 2); with `later` those from row `end` on are other ones."""
    values = np.random.default_rng(0).normal(size=(N, 2)).cumsum(0)
    if later:
        values[end:] = 1e3 * np.random.default_rng(1).normal(size=(N - end, 2))
    return values


def series_of(values, missing, policy):
    full = np.where(missing, np.nan, values)
    fill_cells(full, STAMPS.asi8, policy)
    frame = series_frame(full, STAMPS, ("a", "b"), "h", "a.csv", missing=missing, repair=Repair(policy))
    splits = split_rows(frame, SPLIT, seq_len=L, pred_len=P)
    assert [rows.stop for rows in splits.values()][:2] == [TRAIN_END, VAL_END]
    return prepare(frame, splits=splits, targets=(0, 1), seq_len=L, pred_len=P, encoding="timeF")


def panel_of(values, missing, policy):
    """The series and another one, whole."""
    rows = np.concatenate([values, values_of(0, later=True)])
    frame = panel((N, N), ("a", "b"), values=rows)
    measured = np.concatenate([~missing, np.ones_like(missing)])
    return prepared(refilled(replace(frame, measured=measured, repair=Repair(policy))), targets=(0, 1), split=SPLIT)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("made", [series_of, panel_of])
def test_a_gap_beside_the_end_of_a_split_trains_and_no_row_before_that_end_changes_with_later_ones(made, policy):
    for gap, end in product(GAPS, ENDS):
        missing = np.zeros((N, 2), dtype=bool)
        missing[end + gap.start : end + gap.stop, : 1 + len(gap) % 2] = True
        data, other = (made(values_of(end, later=later), missing, policy) for later in (False, True))
        check_leakage(LastValue(window=window_shape(data)), data, device=torch.device("cpu"))
        assert np.array_equal(other.frame.values[:end], data.frame.values[:end]), (gap, end)
        assert torch.equal(fit_nlinear(other), fit_nlinear(data)), (gap, end)
