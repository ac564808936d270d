"""Streaming errors: against independent libraries and by hand, in both units, for any batches and processes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from devices import META, other_device
from sklearn.metrics import mean_absolute_error as mean_absolute_error_of
from sklearn.metrics import mean_squared_error as mean_squared_error_of
from utilsforecast import losses

from forecast.data.prepare import prepare
from forecast.data.scaling import SeasonalDifferences
from forecast.evaluation.metrics import SUMMED, UNIT_FREE, BeforeEachWindow, ErrorSums, mean_squared_error, naive_errors

N, P, T = 37, 5, 3
STD, MEAN = np.array([0.5, 2.0, 11.0]), np.array([3.0, -7.0, 0.1])
COLUMNS = ["a", "b", "c"]


def both():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, P, T, generator=generator), torch.randn(N, P, T, generator=generator)


def summed(batch_size):
    forecast, target = both()
    sums = ErrorSums(P, MEAN[None], STD[None])
    per_window = [sums.update(f, t) for f, t in zip(forecast.split(batch_size), target.split(batch_size), strict=True)]
    return sums, per_window


TRAIN = np.random.default_rng(1).normal(size=(59, T)).cumsum(0) * STD + MEAN
PERIOD = 7


def naive():
    """One season back over the train rows, scaled units: a loop over rows."""
    steps = [(TRAIN[row] - TRAIN[row - PERIOD]) / STD for row in range(PERIOD, len(TRAIN))]
    absolute, squared = np.abs(steps).mean(0), np.square(steps).mean(0)
    return SeasonalDifferences(period=PERIOD, absolute=absolute[None], squared=squared[None])


def by_library(loss, column, unit="original", **options):
    """utilsforecast on a long table of one column, in which each window is a series: its figure of each window (N,)."""
    scale, shift = (STD, MEAN) if unit == "original" else (np.ones(T), np.zeros(T))
    forecast, target = ((x.double().numpy() * scale + shift)[:, :, column] for x in both())
    table = pd.DataFrame({"unique_id": np.repeat(np.arange(N), P), "y": target.ravel(), "model": forecast.ravel()})
    if "seasonality" in options:
        train = {"unique_id": np.repeat(np.arange(N), len(TRAIN)), "y": np.tile(TRAIN[:, column], N)}
        options["train_df"] = pd.DataFrame(train)
    return loss(table, models=["model"], **options)["model"].to_numpy()


LOSSES = {
    "mse": (losses.mse, {}, lambda x: x.mean()),
    "mae": (losses.mae, {}, lambda x: x.mean()),
    "bias": (losses.bias, {}, lambda x: x.mean()),
    "rmse": (losses.mse, {}, lambda x: np.sqrt(x.mean())),
    "mase": (losses.mase, {"seasonality": PERIOD}, lambda x: x.mean()),
    "rmsse": (losses.rmsse, {"seasonality": PERIOD}, lambda x: np.sqrt(np.square(x).mean())),
    "smape": (losses.smape, {}, lambda x: 200 * x.mean()),  # theirs goes from 0 to 1
}


@pytest.mark.parametrize("batch_size", [1, 7, 37])
@pytest.mark.parametrize("metric", LOSSES)
def test_the_metrics_of_a_column_equal_an_independent_library_for_any_batch_size(batch_size, metric):
    loss, options, mean = LOSSES[metric]
    columns = summed(batch_size)[0].columns(COLUMNS, naive())
    for number, name in enumerate(COLUMNS):
        figures = columns[name] if metric in UNIT_FREE else columns[name]["original"]
        assert figures[metric] == pytest.approx(mean(by_library(loss, number, **options)), rel=1e-12)
        if metric in ("mse", "mae"):
            expected = mean(by_library(loss, number, "scaled", **options))
            assert columns[name]["scaled"][metric] == pytest.approx(expected, rel=1e-12)


def test_overall_figures_are_means_over_columns_and_never_over_different_units():
    forecast, target = (x.double().numpy() for x in both())
    sums, error = summed(7)[0], forecast - target
    overall, columns = sums.overall(naive()), sums.columns(COLUMNS, naive())
    mse, mae = (loss(target.ravel(), forecast.ravel()) for loss in (mean_squared_error_of, mean_absolute_error_of))
    assert overall["scaled"] == pytest.approx({"mse": mse, "mae": mae, "rmse": mse**0.5, "bias": error.mean()})
    assert "original" not in overall
    for metric in UNIT_FREE:
        assert overall[metric] == pytest.approx(np.mean([columns[name][metric] for name in COLUMNS]))


def of_one_column(forecast, target, *, naive=None, mean=0.0, std=1.0):
    """The metrics of one window of one column, both scaled as they stand."""
    sums = ErrorSums(len(forecast), np.array([[mean]]), np.array([[std]]))
    sums.update(torch.tensor(forecast)[None, :, None], torch.tensor(target)[None, :, None])
    return sums.overall(naive)


def test_by_hand():
    # original units: forecasts 14, 10, 6 of 10, 10, 10; the season of the train rows errs by 1 and 3: 2 and sqrt(5)
    naive = SeasonalDifferences(period=1, absolute=np.array([[2.0 / 4]]), squared=np.array([[5.0 / 16]]))
    figures = of_one_column([1.0, 0.0, -1.0], [0.0, 0.0, 0.0], naive=naive, mean=10.0, std=4.0)
    assert figures["original"] == pytest.approx({"mse": 32 / 3, "mae": 8 / 3, "rmse": (32 / 3) ** 0.5, "bias": 0.0})
    assert figures["mase"] == pytest.approx(8 / 3 / 2)
    assert figures["rmsse"] == pytest.approx((32 / 3 / 5) ** 0.5)
    assert figures["smape"] == pytest.approx(200 / 3 * (4 / 24 + 4 / 16))


@pytest.mark.parametrize(
    ("forecast", "target", "smape", "bias"),
    [([0.0, 0.0], [0.0, 0.0], 0.0, 0.0), ([1.0, 0.0], [0.0, 0.0], 100.0, 0.5), ([-2.0, 2.0], [2.0, 2.0], 100.0, -2.0)],
    ids=["nothing of nothing", "something of nothing", "the other sign"],
)
def test_smape_goes_from_0_to_200_percent_and_bias_has_a_sign(forecast, target, smape, bias):
    figures = of_one_column(forecast, target)
    assert figures["smape"] == pytest.approx(smape)
    assert figures["original"]["bias"] == pytest.approx(bias)


def test_a_column_that_repeats_itself_has_no_mase_and_is_left_out_of_the_mean():
    scale = naive()
    scale.absolute[0, 1] = scale.squared[0, 1] = 0.0
    sums = summed(7)[0]
    columns = sums.columns(COLUMNS, scale)
    assert (columns["b"]["mase"], columns["b"]["rmsse"]) == (None, None)
    assert sums.overall(scale)["mase"] == pytest.approx((columns["a"]["mase"] + columns["c"]["mase"]) / 2)
    assert sums.overall()["mase"] is None and sums.overall()["smape"] is not None


def test_sums_of_two_processes_are_those_of_one():
    forecast, target = both()
    whole, first, second = (ErrorSums(P, MEAN[None], STD[None]) for _ in range(3))
    for sums, rows in ((whole, slice(None)), (first, slice(11)), (second, slice(11, None))):
        sums.update(forecast[rows], target[rows])
    vectors = []
    second.reduce(lambda sums: vectors.append(sums.clone()) or sums)
    first.reduce(lambda sums: sums + vectors[0])
    assert first.n_windows == N
    assert first.columns(COLUMNS, naive()) == {
        name: pytest.approx(block | {unit: pytest.approx(block[unit]) for unit in ("scaled", "original")})
        for name, block in whole.columns(COLUMNS, naive()).items()
    }


def prepared(values, *, season=PERIOD, **changes):
    frame = series_frame(values, pd.date_range("2020-01-01", periods=len(values), freq="h"), ("a", "b", "c"), "h", "x")
    splits = {"train": range(2, 61), "val": range(61, 71), "test": range(71, 83)}
    lengths = {"seq_len": 5, "pred_len": 3, "encoding": "timeF"}
    return prepare(replace(frame, **changes), splits=splits, targets=(2, 0), season=season, **lengths)


def test_mase_is_scaled_by_the_season_of_the_train_rows_alone():
    values = np.random.default_rng(2).normal(size=(83, 3)) * STD + MEAN
    data = prepared(values)
    errors = naive_errors(data, "test")
    steps = np.array([values[row, [2, 0]] - values[row - PERIOD, [2, 0]] for row in range(2 + PERIOD, 61)])
    np.testing.assert_allclose(errors.absolute[0] * data.target_scale[1][0], np.abs(steps).mean(0))
    np.testing.assert_allclose(errors.squared[0] * data.target_scale[1][0] ** 2, np.square(steps).mean(0))
    later = values.copy()
    later[:2] = later[61:] = 1e6
    again = naive_errors(prepared(later), "test")
    assert np.array_equal(again.absolute, errors.absolute) and np.array_equal(again.squared, errors.squared)


def test_cells_that_were_filled_in_do_not_calm_the_season():
    values = np.random.default_rng(2).normal(size=(83, 3))
    missing = np.zeros((83, 3), dtype=bool)
    missing[20:40, 2] = missing[[7, 50], 0] = True
    data = prepared(values, season=None, freq="7min", measured=~missing)  # which has no season: one step
    for place, column in enumerate((2, 0)):
        kept = [row for row in range(3, 61) if not missing[row - 1 : row + 1, column].any()]
        steps = np.abs([values[row, column] - values[row - 1, column] for row in kept]).mean()
        assert naive_errors(data, "test").absolute[0, place] * data.target_scale[1][0, place] == pytest.approx(steps)


def test_before_each_window_made_up_cells_do_not_calm_the_season_either():
    values = np.random.default_rng(2).normal(size=(83, 3))
    missing = np.zeros((83, 3), dtype=bool)
    missing[20:40, 2] = missing[[7, 50], 0] = True
    data, origins = prepared(values, season=PERIOD, measured=~missing), np.array([31, 47, 80])
    absolute, squared = BeforeEachWindow(data).at(np.zeros_like(origins), origins)
    for place, column in enumerate((2, 0)):
        for number, origin in enumerate(origins):
            kept = [row for row in range(PERIOD, origin) if not missing[[row - PERIOD, row], column].any()]
            steps = (
                np.array([values[row, column] - values[row - PERIOD, column] for row in kept])
                / data.target_scale[1][0, place]
            )
            assert float(absolute[number, place]) == pytest.approx(np.abs(steps).mean())
            assert float(squared[number, place]) == pytest.approx(np.square(steps).mean())


def test_a_column_that_is_constant_up_to_rounding_over_the_train_rows_is_constant():
    values = np.random.default_rng(2).normal(size=(83, 3))
    values[:, 2] = 0.3
    values[5:30, 2] = 0.1 + 0.2
    errors = naive_errors(prepared(values, season=3), "test")
    assert errors.absolute[0, 0] == errors.squared[0, 0] == 0.0 < errors.squared[0, 1]


def by_step(cells):
    """Of (N, P, T) the means over the columns (P,), each its mean over the windows."""
    table = pd.DataFrame({c: pd.DataFrame(cells[:, :, c]).mean() for c in range(T)})  # without NaN
    return table.mean(axis=1).to_numpy()


def by_column(cells):
    """Of (N, P, T) the means over windows and steps (T,)."""
    return np.nanmean(cells, axis=(0, 1))


@pytest.mark.parametrize("batch_size", [5, 37])
def test_a_cell_that_was_made_up_counts_in_no_mean(batch_size):
    """The validation of a panel: a mean is over the measured cells, whatever stands in the others."""
    forecast, target = both()
    measured = torch.rand(N, P, T, generator=torch.Generator().manual_seed(1)) < 0.7
    measured[:, 2, 1] = False  # a step of a column that was measured in no window
    target[~measured] = 1e6
    sums = ErrorSums.scaled(P, T)
    for parts in zip(*(one.split(batch_size) for one in (forecast, target, measured)), strict=True):
        sums.update(*parts)
    error = np.where(measured, (forecast.double() - target.double()).numpy(), np.nan)
    for wanted, (squared, absolute) in ((by_step, sums.steps()), (by_column, sums.by_column())):
        np.testing.assert_allclose(squared, wanted(error**2), rtol=1e-12)
        np.testing.assert_allclose(absolute, wanted(np.abs(error)), rtol=1e-12)


def test_errors_by_step_and_by_column_are_means_over_the_rest():
    forecast, target = (x.double().numpy() for x in both())
    sums, _ = summed(7)
    error = forecast - target
    for (squared, absolute), axes in ((sums.steps(), (0, 2)), (sums.by_column(), (0, 1))):
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
        update(ErrorSums.scaled(P, T), torch.zeros(forecast), torch.zeros(target))


def test_no_windows_have_no_mean_error():
    with pytest.raises(ValueError, match="no windows were evaluated"):
        ErrorSums.scaled(P, T).overall()


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
    sums = ErrorSums.scaled(target.shape[1], T)
    sums.update(forecast, target)
    assert sums.flat(COLUMNS) == flat


def test_the_loss_is_the_mean_over_everything():
    forecast, target = both()
    assert mean_squared_error(forecast, target).item() == pytest.approx(float(((forecast - target) ** 2).mean()))


@pytest.mark.parametrize("with_gaps", [False, True])
@pytest.mark.parametrize("of_series", [False, True])
def test_a_batch_on_another_device_is_added_without_a_wait_and_its_sums_are_the_same(of_series, with_gaps):
    generator = torch.Generator().manual_seed(3)
    forecast, target = (torch.randn(13, 7, 3, generator=generator) for _ in range(2))
    measured = torch.rand(13, 7, 3, generator=generator) < 0.8 if with_gaps else None
    series = torch.arange(13) % 5 if of_series else None
    here, there = (ErrorSums(7, np.full((5, 3), 0.5), np.full((5, 3), 2.0)) for _ in range(2))
    batch = (forecast, target, measured, series)
    with other_device() as waits:
        moved = [part if part is None else part.to(META) for part in batch]
        for _ in range(2):  # the first brings the sums there
            waits.clear()
            of_windows = there.update(*moved)
        assert not waits and all(part.device == META for part in of_windows)
        means = [part.cpu() for part in of_windows]
        assert waits  # to read them is to wait
        there.total("squared")
    for _ in range(2):
        expected = here.update(*batch)
    for actual, mean in zip(means, expected, strict=True):
        torch.testing.assert_close(actual, mean, equal_nan=True)
    assert there.n_windows == here.n_windows == 26
    for name in SUMMED:
        np.testing.assert_allclose(there.total(name), here.total(name))
    np.testing.assert_allclose(there.steps(), here.steps())
