"""What is said of the rows that a forecast starts from."""

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data.panel import PanelFrame, Repair
from forecast.errors import UserError
from forecast.evaluation.history import is_far, report_far, report_filled

N, L = 23, 7
STAMPS = pd.date_range("2021-03-01", periods=N, freq="h")


def frame_of(policy, *series):
    """A panel; of each series the cells that were filled. Of one without a name: what a file without ids gives."""
    measured = np.ones((N * len(series), 2), dtype=bool)
    for number, cells in enumerate(series):
        for row, column in cells:
            measured[number * N + row, column] = False
    return PanelFrame(
        values=np.ones((N * len(series), 2)),
        offsets=N * np.arange(len(series) + 1),
        steps=np.zeros(len(series), dtype=np.int64),
        ids=np.array([f"s{number}" for number in range(len(series))]),
        first=STAMPS[0],
        freq="h",
        columns=("load", "wind"),
        name="my.csv",
        measured=measured,
        id_column="shop" if len(series) > 1 else None,
        repair=Repair(policy, 0, 1, 1),
    )


def report(frame, *series):
    report_filled(frame, np.array(series or range(len(frame))), seq_len=L, of=len(frame))


@pytest.mark.parametrize("policy", ["mask", "interpolate", "forward_fill"])
def test_values_filled_among_the_rows_that_are_read_are_said(caplog, policy):
    report(frame_of(policy, [(N - L, 0), (N - 1, 0), (N - 1, 1)]))
    (text,) = caplog.messages
    rows = "my.csv: of the last seq_len = 7 rows, 2021-03-01 16:00:00 to 2021-03-01 22:00:00, 2 were missing"
    assert text.startswith(rows) and f"data.gaps={policy} filled values: 2 of 'load', 1 of 'wind'." in text
    assert ("No past of the training held" in text) == (policy == "mask")


def test_of_many_series_the_first_is_said_and_how_many_there_are(caplog):
    report(frame_of("forward_fill", [], [(N - 1, 1)], [(0, 0)], [(N - 2, 0)]))
    (text,) = caplog.messages
    assert "my.csv: of the last seq_len = 7 rows of series 's1', " in text and "1 of 'wind'." in text
    assert text.endswith(" 2 of 4 series hold such rows.")


def test_what_was_filled_before_them_is_not(caplog):
    report(frame_of("mask", [(N - L - 1, 0)]))
    report(frame_of("mask", [(N - 1, 0)], [], [(N - 1, 0)]), 1)
    assert not caplog.messages


def test_rows_most_of_which_are_made_up_are_refused():
    report(frame_of("interpolate", [(row, 1) for row in range(N - 3, N)]))
    with pytest.raises(UserError, match=r"column 'wind' has no value in 4 of them\. A forecast from made-up rows"):
        report(frame_of("interpolate", [(row, 1) for row in range(N - 4, N)]))


def test_where_other_series_are_measured_such_a_forecast_is_a_guess_that_is_counted(caplog):
    guess = [(row, 1) for row in range(N - 4, N)]
    report(frame_of("interpolate", [], guess, guess[:3], guess))
    assert caplog.messages[1] == (
        "2 of 4 series have more made-up than measured values in the last 7 rows, the first is 's1': their forecasts "
        "are guesses."
    )
    with pytest.raises(UserError, match=r"7 rows of series 's0', .*A forecast from made-up rows"):
        report(frame_of("interpolate", guess, guess))
    with pytest.raises(UserError, match=r"7 rows of series 's0', .*A forecast from made-up rows"):  # the third: short
        report_filled(frame_of("interpolate", guess, guess, []), np.array([0, 1]), seq_len=L, of=2)


COLUMNS, MEAN, STD = ("change", "level"), np.array([0.0, 100.0]), np.array([1.0, 20.0])
SEEN = np.random.default_rng(3).normal(size=(L, 2)) * STD + MEAN


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
    report_far(values, COLUMNS, MEAN, STD, where="my.csv, the last 7 rows")
    assert [name for name in COLUMNS if any(f"column '{name}'" in text for text in caplog.messages)] == far
    past = torch.from_numpy((values - MEAN) / STD).float()[None]
    assert is_far(past, torch.from_numpy(MEAN / STD)[None]).tolist() == [bool(far)]
    if "level" in far:
        median = f"column 'level' has the median {np.median(values[:, 1]):.4g}, in the train rows the mean 100 and the"
        assert caplog.messages[0].startswith("my.csv, the last 7 rows: ") and median in caplog.messages[0]


def test_one_outlier_is_no_other_size(caplog):
    values = SEEN.copy()
    values[3] = 1e6
    report_far(values, COLUMNS, MEAN, STD, where="my.csv")
    assert not caplog.messages
