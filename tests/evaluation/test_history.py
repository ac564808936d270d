"""What is said of the rows that a forecast starts from."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.frame import SeriesFrame
from forecast.data.gaps import Repair
from forecast.data.scaling import Scaler
from forecast.errors import UserError
from forecast.evaluation.history import report_far, report_filled

N, L = 23, 7
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")


def frame_of(policy, cells):
    missing = np.zeros((N, 2), dtype=bool)
    for row, column in cells:
        missing[row, column] = True
    repair = Repair(policy, 0, len(cells), 1)
    return SeriesFrame(np.ones((N, 2)), STAMPS, ("load", "wind"), "h", "my.csv", missing=missing, repair=repair)


@pytest.mark.parametrize("policy", ["mask", "interpolate", "forward_fill"])
def test_values_filled_among_the_rows_that_are_read_are_said(caplog, policy):
    report_filled(frame_of(policy, [(N - L, 0), (N - 1, 0), (N - 1, 1)]), seq_len=L)
    (text,) = caplog.messages
    rows = "my.csv: of the last seq_len = 7 rows, 2021-03-01 16:00:00 to 2021-03-01 22:00:00, 2 were missing"
    assert text.startswith(rows) and f"data.gaps={policy} filled values: 2 of 'load', 1 of 'wind'." in text
    assert ("No past of the training held" in text) == (policy == "mask")


def test_what_was_filled_before_them_is_not(caplog):
    report_filled(frame_of("mask", [(N - L - 1, 0)]), seq_len=L)
    assert not caplog.messages


def test_rows_most_of_which_are_made_up_are_refused():
    report_filled(frame_of("interpolate", [(row, 1) for row in range(N - 3, N)]), seq_len=L)
    with pytest.raises(UserError, match=r"column 'wind' has no value in 4 of them\. A forecast from made-up rows"):
        report_filled(frame_of("interpolate", [(row, 1) for row in range(N - 4, N)]), seq_len=L)


SCALER = Scaler(np.array([0.0, 100.0]), np.array([1.0, 20.0]), ("change", "level"))
SEEN = np.random.default_rng(3).normal(size=(L, 2)) * SCALER.std + SCALER.mean


@pytest.mark.parametrize(
    ("factors", "far"),
    [
        pytest.param((1, 1), [], id="as in training"),
        pytest.param((1000, 1), ["change"], id="a change a thousand times larger, its mean is 0"),
        pytest.param((1, 1000), ["level"], id="a level a thousand times larger"),
        pytest.param((1, 0.001), ["level"], id="a level in another unit, a thousand times smaller"),
        pytest.param((1000, 1000), ["change", "level"], id="both"),
        pytest.param((1, 0), [], id="nothing but zeros, as at night"),
        pytest.param((3, 2), [], id="a drift of a few standard deviations"),
    ],
)
def test_values_of_another_size_than_in_training_are_warned_of_with_the_numbers(caplog, factors, far):
    values = SEEN * factors
    report_far(values, SCALER, where="my.csv, the last 7 rows")
    assert [name for name in SCALER.columns if any(f"column '{name}'" in text for text in caplog.messages)] == far
    if "level" in far:
        median = f"column 'level' has the median {np.median(values[:, 1]):.4g}, in the train rows the mean 100 and the"
        assert caplog.messages[0].startswith("my.csv, the last 7 rows: ") and median in caplog.messages[0]


def test_one_outlier_is_no_other_size(caplog):
    values = SEEN.copy()
    values[3] = 1e6
    report_far(values, SCALER, where="my.csv")
    assert not caplog.messages
