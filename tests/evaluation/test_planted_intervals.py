"""Planted cases: a model that is too sure, a drift in mid test, noise that is known."""

import dataclasses
import math
import re

import numpy as np
import pytest
import torch

from forecast.evaluation.calibrate import ValPart, calibrate
from forecast.evaluation.conformal import outside_of
from forecast.evaluation.evaluate import look_back_of
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals, interval_metrics
from forecast.models.base import ForecastModel, WindowShape
from forecast.models.spread import Quantiles
from forecast.report.verdict import coverage_sentences
from studies.intervals.plain_conformal import plain_calibration
from studies.intervals.simulated import KINDS, LEVELS, ROWS, TRAIN, KnownMean, series_data, simulated

CPU = torch.device("cpu")
NAIVE = np.ones((1, 1))
GROWTH = 5  # of the noise in mid test; the margins' unrest makes up for half of it


class SureOfItself(ForecastModel):
    """A quantile head that forecasts about 0, and that the truth lies within a tenth of the noise's deviation."""

    def __init__(self, data):
        levels = [0.025, 0.1, 0.5, 0.9, 0.975]
        lengths = {"seq_len": data.seq_len, "label_len": 0, "pred_len": data.pred_len}
        super().__init__(WindowShape(n_columns=1, targets=(0,), n_known=0, outputs=len(levels), **lengths))
        self.add_spread(Quantiles(levels=levels))

    def forecast(self, past, past_known, future_known):
        distance = math.log(math.expm1(0.05))  # softplus makes 0.05 of it, twice either way
        raw = torch.tensor([0.0, distance, distance, distance, distance])
        return raw.expand(len(past), self.window.pred_len, -1)


def noise(rows, *, seed=0):
    return np.random.default_rng(seed).normal(size=rows)


def calibrated(model, data):
    part = ValPart(model=model, windows=range(len(data.windows("val"))))
    return calibrate([part], data, levels=LEVELS, batch_size=64, device=CPU)


def known_mean(data):
    return KnownMean(0.0, *(float(part[0, 0]) for part in data.target_scale))


def scored_on_test(model, data, calibration, *, adaptive=False):
    """The sums over the test windows, and the intervals of each (W, P, T, K)."""
    intervals = Intervals(calibration=calibration, wanted_levels=LEVELS, adaptive=adaptive)
    mean, std = data.target_scale
    scored = ScoredIntervals(intervals, pred_len=data.pred_len, mean=mean, std=std)
    windows = data.windows("test")
    with torch.inference_mode():
        batch = windows.in_batches(torch.arange(len(windows)), len(windows))[0]
        scored.add(model, batch, look_back_of(model, data))
    return scored, scored.last, batch.target


def said(scored):
    return " ".join(coverage_sentences({"test": interval_metrics(scored, ["y"], NAIVE)}, "test"))


def test_a_head_that_is_too_sure_is_said_to_be_too_narrow_and_calibration_widens_it():
    data = series_data(noise(TRAIN + 2 * ROWS))
    model = SureOfItself(data).eval()
    right = calibrated(model, data)
    alone = dataclasses.replace(right, margins=torch.zeros_like(right.margins))  # what the head says by itself
    sentences = said(scored_on_test(model, data, alone)[0])
    assert re.search(r"80 % intervals held [2-6] % of the truths on test: too narrow at every step\.", sentences)
    assert re.search(r"95 % intervals held [5-9] % of the truths on test: too narrow at every step\.", sentences)
    assert "calibration=adaptive follows" in sentences
    coverage = interval_metrics(scored_on_test(model, data, right)[0], ["y"], NAIVE)["coverage"]
    assert abs(coverage["80"] - 0.80) < 0.05 and abs(coverage["95"] - 0.95) < 0.03


def test_halved_margins_are_said_to_be_too_narrow():
    data = series_data(noise(TRAIN + 2 * ROWS))
    model = known_mean(data)
    right = calibrated(model, data)
    assert not said(scored_on_test(model, data, right)[0])
    halved = dataclasses.replace(right, margins=right.margins / 2)
    sentences = said(scored_on_test(model, data, halved)[0])
    assert sentences.count("too narrow at every step") == len(LEVELS)


def drifting(after):
    """Noise that is GROWTH times as large from the middle of the test rows on, of which `after` draws the last rows."""
    values, middle = noise(TRAIN + 2 * ROWS), TRAIN + ROWS + ROWS // 2
    values[middle:] *= GROWTH
    last = middle + ROWS // 4
    values[last:] = GROWTH * noise(len(values) - last, seed=after)
    return series_data(values), last - (TRAIN + ROWS)


def test_adaptive_intervals_come_back_after_a_drift_and_static_ones_do_not():
    data, _ = drifting(after=1)
    model = known_mean(data)
    right, held = calibrated(model, data), {}
    for adaptive in (False, True):
        _, ends, truth = scored_on_test(model, data, right, adaptive=adaptive)
        held[adaptive] = (~outside_of(*ends, truth))[:, :, 0, right.levels.index(80.0)].double()
    middle, window = ROWS // 2, 40  # windows after which the widths have grown
    assert abs(held[False][: middle - 3].mean() - 0.8) < 0.06
    assert held[False][middle:].mean() < 0.65
    assert held[True][middle : middle + 10].mean() < 0.6 and held[True][middle + window :].mean() > 0.75


def test_no_interval_knows_of_a_later_truth():
    """Other truths from some row on change, to the bit, no interval of a window that begins before it or at it."""
    (data, last), (other, _) = drifting(after=1), drifting(after=2)
    model = known_mean(data)
    right = calibrated(model, data)
    first, second = (torch.cat(scored_on_test(model, one, right, adaptive=True)[1], -1) for one in (data, other))
    assert torch.equal(first[: last + 1], second[: last + 1]) and not torch.equal(first[last + 1 :], second[last + 1 :])


@pytest.mark.parametrize("kind", ["iid", "ar"])
def test_coverage_is_nominal_where_windows_are_alike(kind):
    for form in simulated(KINDS[kind], series=30).values():
        for level, one in form.items():
            assert abs(one["coverage"] - float(level) / 100) < 3.5 * one["error"]


def test_noise_that_follows_the_hour_is_held_on_average_and_at_no_hour():
    of_80 = simulated(KINDS["seasonal"], series=20)["static"]["80"]
    assert abs(of_80["coverage"] - 0.8) < 0.03 and of_80["calm"] > 0.95 and of_80["wild"] < 0.65


def test_the_plain_margins_are_the_residuals_of_their_rank():
    data = series_data(noise(TRAIN + 2 * ROWS))
    model = known_mean(data)
    margins = plain_calibration(model, data, LEVELS).margins  # (K, P, 1)
    truth = data.original(data.kept[TRAIN : TRAIN + ROWS, :1].numpy()[None], np.array([0]))[0, :, 0]
    for step in range(data.pred_len):
        residuals = sorted(abs(truth[step : step + ROWS - data.pred_len + 1]))
        for level, margin in zip(LEVELS, margins[:, step, 0], strict=True):
            rank = round((len(residuals) + 1) * level / 100)
            assert float(margin * data.target_scale[1][0, 0]) == pytest.approx(residuals[rank - 1], rel=1e-5)
