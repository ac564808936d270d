"""The demo series: the same everywhere, beatable, and with a known best error."""

import numpy as np
import pytest

from forecast.config.run_config import composed
from forecast.data import sources
from forecast.data.sources import LATER, NOISE, DemoSource, RecallSource
from forecast.data.split import ShareSplit

COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
ROWS = 4000
TRAIN = range(2800)
FIRST_AND_LAST = [9.082299, 1.894014, 11.808272]


def demo(*, seed=7, rows=ROWS):
    return DemoSource(split=ShareSplit(), demo_seed=seed, rows=rows)


def parts(seed=7, rows=ROWS):
    _, signal, phi, sigma = sources._parts(seed, rows)
    return signal, phi, sigma


def test_the_numbers_are_the_same_on_every_platform():
    values = demo().frame().values
    np.testing.assert_allclose(values[[0, 1999, 3999], [0, 3, 6]], FIRST_AND_LAST, atol=2e-6)


def test_a_seed_gives_one_series_of_so_many_rows_and_another_gives_another():
    first, again, other = (demo(seed=seed, rows=1009).frame().values for seed in (3, 3, 5))
    assert (first == again).all() and not np.allclose(first, other)
    assert len(first) == 1009


def test_best_mse_is_the_variance_of_the_noise_ahead():
    """An independent sum: h steps ahead the noise is e[h] + phi e[h-1] + ..., each of variance sigma^2."""
    _, phi, sigma = parts(seed=3, rows=1009)
    best = demo(seed=3, rows=1009).best_mse(["OT", "HULL"], 5)
    assert best.shape == (5, 2)
    for k, c in enumerate((6, 1)):
        for h in range(1, 6):
            assert best[h - 1, k] == pytest.approx(sum(sigma[c] ** 2 * phi[c] ** (2 * j) for j in range(h)))


def test_the_optimal_forecast_reaches_best_mse_and_seasonal_naive_is_clearly_worse():
    """Whoever knows the signal and the noise of the last hour, over the test rows of many seeds."""
    steps, starts = 24, np.arange(TRAIN.stop, ROWS - 24, 24)
    ahead = starts[:, None] + np.arange(steps)
    optimal_to_best, naive_to_best = [], []
    for seed in range(53):
        signal, phi, _ = parts(seed)
        values = demo(seed=seed).frame().values
        noise = (values - signal)[starts - 1][:, None] * phi ** np.arange(1, steps + 1)[:, None]
        optimal = (values[ahead] - signal[ahead] - noise) ** 2
        naive = (values[ahead] - values[ahead - 24]) ** 2
        best = demo(seed=seed).best_mse(COLUMNS, steps)
        optimal_to_best.append(optimal.mean(axis=0) / best)
        naive_to_best.append(naive.mean(axis=(0, 1)) / best.mean(axis=0))
    ratio = np.mean(optimal_to_best, axis=0)  # (24, 7)
    assert ratio.mean() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(ratio.mean(axis=1), 1, atol=0.05)  # at every step
    np.testing.assert_allclose(ratio.mean(axis=0), 1, atol=0.05)  # in every column
    assert np.min(naive_to_best) > 1.6


STEPS = 17  # of which the last five ask for hours that are still to come


def recalled(values):
    """What somebody forecasts who knows the rule, (W, STEPS), and the truth; of marks still to come by their share."""
    (mark, signal, y), origins = values.T, np.arange(100, len(values) - STEPS)
    last = np.maximum.accumulate(np.where(mark > 0, np.arange(len(mark)), -1))
    seen = np.minimum(origins[:, None] + np.arange(STEPS) - LATER, origins[:, None] - 1)
    share = 0.75 ** np.maximum(0, np.arange(1, STEPS + 1) - LATER)
    return share * signal[last[seen]], y[origins[:, None] + np.arange(STEPS)]


def recall(**keys):
    return RecallSource(split=ShareSplit(), **keys).frame().values


def test_who_recalls_the_last_marked_hour_reaches_the_best_error_of_recall():
    source = composed(["data=recall", "data.demo_seed=3"]).config.data.build(RecallSource)
    frame = source.frame()
    assert frame.columns == ("mark", "signal", "y") and len(frame.values) == 24_000
    forecast, truth = recalled(frame.values)
    best = source.best_mse(["y"], STEPS)[:, 0]
    assert best[:LATER] == pytest.approx(NOISE**2) and (np.diff(best[LATER - 1 :]) > 0).all()
    np.testing.assert_allclose(((forecast - truth) ** 2).mean(0), best, rtol=0.06)


def test_a_linear_map_of_all_that_is_seen_is_far_from_it():
    values = recall(rows=6000)
    windows = np.lib.stride_tricks.sliding_window_view(values, 36, axis=0)[:-LATER].reshape(-1, 3 * 36)
    for step in (1, LATER):
        truth = values[35 + step :][: len(windows), 2]
        left = truth - windows @ np.linalg.lstsq(windows, truth, rcond=None)[0]
        assert left.var() > 10 * NOISE**2


def test_recall_is_its_seed_and_no_column_tells_y_alone():
    first, again, other = (recall(demo_seed=seed, rows=1009) for seed in (3, 3, 5))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert set(np.unique(first[:, 0])) == {0, 1} and 0.2 < first[:, 0].mean() < 0.3
    assert abs(np.corrcoef(first[:-LATER, 1], first[LATER:, 2])[0, 1]) < 0.6  # 0.5: at a marked hour it is just that
