"""Streaming errors: against a one-shot oracle, in both units, for any batches."""

import numpy as np
import pandas as pd
import pytest
import torch
from utilsforecast.losses import mae as oracle_mae
from utilsforecast.losses import mse as oracle_mse

from forecast.evaluation.metrics import ErrorSums, mean_squared_error

N, P, T = 37, 5, 3
STD, MEAN = np.array([0.5, 2.0, 11.0]), np.array([3.0, -7.0, 0.1])
COLUMNS = ["a", "b", "c"]


def both():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, P, T, generator=generator), torch.randn(N, P, T, generator=generator)


def summed(batch_size):
    forecast, target = both()
    sums = ErrorSums(P, T)
    per_window = [sums.update(f, t) for f, t in zip(forecast.split(batch_size), target.split(batch_size), strict=True)]
    return sums, per_window


def oracle(loss, unit):
    """utilsforecast on a long table: one series a window and column."""
    scale, shift = (STD, MEAN) if unit == "original" else (1.0, 0.0)
    forecast, target = (x.double().numpy() * scale + shift for x in both())
    y, model = (x.transpose(0, 2, 1).ravel() for x in (target, forecast))
    table = pd.DataFrame({"unique_id": np.repeat(np.arange(N * T), P), "y": y, "model": model})
    return loss(table, models=["model"])["model"].mean()


@pytest.mark.parametrize("batch_size", [1, 7, 32, 37])
@pytest.mark.parametrize("unit", ["scaled", "original"])
def test_overall_errors_equal_an_independent_library_for_any_batch_size(batch_size, unit):
    overall = summed(batch_size)[0].overall(STD)[unit]
    assert overall["mse"] == pytest.approx(oracle(oracle_mse, unit), rel=1e-12)
    assert overall["mae"] == pytest.approx(oracle(oracle_mae, unit), rel=1e-12)


def test_errors_by_step_and_by_column_are_means_over_the_rest():
    forecast, target = (x.double().numpy() for x in both())
    sums, _ = summed(7)
    error = forecast - target
    for (squared, absolute), axes in ((sums.by_step(), (0, 2)), (sums.by_column(), (0, 1))):
        np.testing.assert_allclose(squared, (error**2).mean(axes))
        np.testing.assert_allclose(absolute, np.abs(error).mean(axes))


def test_a_windows_own_error_is_its_mean_over_steps():
    forecast, target = (x.double().numpy() for x in both())
    squared, absolute = (np.concatenate(parts) for parts in zip(*summed(7)[1], strict=True))
    assert squared.shape == absolute.shape == (N, T)
    np.testing.assert_allclose(squared, ((forecast - target) ** 2).mean(1))
    np.testing.assert_allclose(absolute, np.abs(forecast - target).mean(1))


@pytest.mark.parametrize("forecast, target", [((N, 1, T), (N, P, T)), ((N, P, T), (N, P, 1)), ((N, P, 1), (N, P, 1))])
def test_shapes_that_would_broadcast_are_refused(forecast, target):
    update = getattr(ErrorSums.update, "__wrapped__", ErrorSums.update)
    with pytest.raises((ValueError, TypeError), match=r"must both be|Type-check"):
        update(ErrorSums(P, T), torch.zeros(forecast), torch.zeros(target))


def test_no_windows_have_no_mean_error():
    with pytest.raises(ValueError, match="no windows were evaluated"):
        ErrorSums(P, T).overall(STD)


_, TARGET = both()
LEVEL = TARGET.mean(1, keepdim=True)


@pytest.mark.parametrize(
    ("forecast", "target", "flat"),
    [
        # less than a tenth of the truth's variation, within a window
        (LEVEL + (TARGET - LEVEL) * torch.tensor([0.09, 0.11, 1.0]), TARGET, ["a"]),
        (TARGET[:, :1].expand(-1, P, -1).contiguous(), TARGET, COLUMNS),  # one level a window, however levels differ
        (torch.zeros(N, 1, T), TARGET[:, :1], []),  # a single step never is
    ],
    ids=["a tenth", "levels", "a single step"],
)
def test_flat_columns_vary_less_than_a_tenth_of_the_truth_within_a_window(forecast, target, flat):
    sums = ErrorSums(target.shape[1], T)
    sums.update(forecast, target)
    assert sums.flat(COLUMNS) == flat


def test_the_loss_is_the_mean_over_everything():
    forecast, target = both()
    assert mean_squared_error(forecast, target).item() == pytest.approx(float(((forecast - target) ** 2).mean()))
