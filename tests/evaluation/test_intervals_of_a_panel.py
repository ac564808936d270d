"""Intervals of a panel: what calibrates them, and widths that follow each series alone."""

from dataclasses import replace

import numpy as np
import torch
from evaluation.small_panels import P, panel, prepared

from forecast.data.split import LastSplit
from forecast.evaluation.baselines import window_shape
from forecast.evaluation.calibrate import ValPart, calibrate
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals
from forecast.models.naive import LastValue

CPU = torch.device("cpu")
ROWS = 43


def calibrated(data):
    part = ValPart(model=LastValue(window=window_shape(data)).eval(), windows=range(len(data.windows("val"))))
    return calibrate([part], data, levels=(50.0, 80.0), batch_size=64, device=CPU)


def ramps(series):
    """Series that rise evenly up to the validation rows, and then are noise: all pasts are alike, no two truths."""
    values = np.tile(np.arange(ROWS, dtype=np.float64), (series, 1))
    values[:, -2 * P :] += np.random.default_rng(0).normal(size=(7, 2 * P))[:series]
    return panel((ROWS,) * series, ("y",), values=values.reshape(-1, 1))


def of_one_horizon(frame):
    return prepared(frame, targets=(0,), split=LastSplit(horizon=P, val=1, test=1))


def test_a_cell_that_no_file_held_calibrates_nothing():
    """Not as an error of zero either: with a series whose truth nobody measured the margins are those without it."""
    frame = ramps(7)
    measured = np.ones((len(frame.values), 1), dtype=bool)
    measured[6 * ROWS + ROWS - 2 * P : 6 * ROWS + ROWS - P] = False
    found = calibrated(of_one_horizon(replace(frame, measured=measured)))
    without, whole = calibrated(of_one_horizon(ramps(6))), calibrated(of_one_horizon(frame))
    for level in (50.0, 80.0):
        margins, expected, others = (one.margins[one.levels.index(level)] for one in (found, without, whole))
        torch.testing.assert_close(margins, expected)
        assert not torch.equal(expected, others)


def test_widths_that_follow_a_drift_begin_anew_with_each_series():
    data = prepared(panel((61, 43, 89)), split=LastSplit(horizon=P, val=4, test=4))
    model, windows = LastValue(window=window_shape(data)).eval(), data.windows("test")
    intervals = Intervals(calibration=calibrated(data), wanted_levels=(50.0, 80.0), adaptive=True)

    def lower_ends(numbers):
        scale = {"mean": data.scaler.mean[:, [0, 2]], "std": data.scaler.std[:, [0, 2]]}
        scored = ScoredIntervals(intervals, pred_len=P, **scale)
        batch = windows.__getitems__(numbers)
        scored.add(model, batch, data.seq_len)
        return scored.last[0]

    series, _ = windows.places(range(len(windows)))
    whole = lower_ends(range(len(windows)))
    for one in range(3):
        assert torch.equal(whole[series == one], lower_ends(np.flatnonzero(series == one).tolist()))
    unlike = lower_ends([len(windows) - 1])[0]
    assert not torch.equal(whole[-1], unlike)  # within a series they do follow
