"""The rule by which an update says that a model has grown old: false alarms, delay, and what it is made of."""

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from forecast.evaluation.watch import CHARTS, Chart, Day, Expected, alarms, normal_score, watched

DAYS, STEPS = 60, 3
RUNS = 400


def first_alarm(draws, *, val, shift, at, rho=0.0):
    """The day of the first alarm of errors in DAYS + 7 days, the first being 1; inf for none.

    Logarithms of the errors of days follow each other with the correlation rho; from day `at` on they are `shift`
    standard deviations larger. val: days of validation, before them.
    """
    noise = draws.normal(size=val + DAYS + 7)
    for i in range(1, len(noise)):
        noise[i] = rho * noise[i - 1] + math.sqrt(1 - rho**2) * noise[i]
    noise[val + at :] += shift
    errors = np.exp(0.4 * noise)[:, None].repeat(STEPS, axis=1)
    rows = np.repeat(errors[:val], STEPS, axis=0)  # windows begin at each row
    expected = Expected.of(rows, rows * 0.9, np.array([]), np.zeros((0, *rows.shape)))
    totals = {}
    for day, error in enumerate(errors[val:, 0], start=1):
        totals = watched(totals, expected.scores(Day(steps=STEPS, mae=error, baseline_mae=2 * error), None))
        if "errors" in alarms(totals):
            return day
    return math.inf


@pytest.mark.parametrize(("val", "rho", "most"), [(10, 0.0, 0.08), (20, 0.0, 0.05), (50, 0.0, 0.03), (20, 0.3, 0.17)])
def test_sixty_days_without_a_break_seldom_raise_an_alarm(val, rho, most):
    draws = np.random.default_rng(1)
    false = np.mean([first_alarm(draws, val=val, shift=0.0, at=0, rho=rho) <= DAYS for _ in range(RUNS)])
    assert false <= most


@pytest.mark.parametrize(("shift", "least"), [(2.0, 0.7), (3.0, 0.95), (5.0, 1.0)])
def test_a_break_of_some_deviations_is_said_within_a_week(shift, least):
    draws = np.random.default_rng(2)
    days = np.array([first_alarm(draws, val=20, shift=shift, at=30) for _ in range(RUNS)])
    quiet = days > 30
    assert np.mean(days[quiet] <= 37) >= least and quiet.mean() > 0.95


def test_one_dreadful_day_says_nothing_and_a_lasting_one_is_said_on_the_third():
    expected = Expected.of(np.full((60, 3), 1.0), np.full((60, 3), 1.0), np.array([]), np.zeros((0, 60, 3)))
    bad, good = (Day(steps=3, mae=mae, baseline_mae=mae) for mae in (1e6, 1.0))
    totals = watched({}, expected.scores(bad, None))
    assert alarms(totals) == [] and totals["errors"] == pytest.approx(2.0)
    for _ in range(2):
        totals = watched(totals, expected.scores(good, None))
    assert totals["errors"] == 0.0
    said = []
    for _ in range(20):
        totals = watched(totals, expected.scores(bad, None))
        said.append(alarms(totals))
    assert said[:3] == [[], [], ["errors"]]
    assert alarms(watched(totals, expected.scores(good, None))) == []  # a day as expected ends it


def test_what_is_expected_of_the_first_steps_are_running_means_of_the_windows():
    draws = np.random.default_rng(0)
    errors, naive, held = (
        draws.gamma(2.0, size=(31, 5)),
        draws.gamma(3.0, size=(31, 5)),
        draws.integers(0, 2, (2, 31, 5)),
    )
    found = Expected.of(errors, naive, np.array([80.0, 95.0]), held.astype(float), every=3)
    for n in range(1, 6):
        means = [window[:n].mean() for window in errors]
        assert found.mae[n - 1] == pytest.approx(np.mean(means))
        assert found.log_std[n - 1] == pytest.approx(np.std(np.log(means)))
        assert found.worse_std[n - 1] == pytest.approx(
            np.std([a[:n].mean() - b[:n].mean() for a, b in zip(errors, naive, strict=True)])
        )
        assert found.coverage[1, n - 1] == pytest.approx(held[1, :, :n].mean())
    assert found.windows == 93
    again = Expected(**found.arrays())
    assert again.windows == 93 and (again.coverage_std == found.coverage_std).all()


def test_each_chart_measures_what_its_name_says():
    expected = Expected.of(np.full((60, 3), 1.0), np.full((60, 3), 1.0), np.array([80.0]), np.full((1, 60, 3), 0.8))
    usual = Day(steps=3, mae=1.0, baseline_mae=1.0, coverage={80.0: 0.8})
    assert expected.scores(usual, 80.0) == pytest.approx(dict.fromkeys(CHARTS, 0.0))
    for name, day in {
        "errors": Day(steps=3, mae=9.0, baseline_mae=9.0, coverage={80.0: 0.8}),
        "coverage": Day(steps=3, mae=1.0, baseline_mae=1.0, coverage={80.0: 0.4}),
        "baseline": Day(steps=3, mae=1.0, baseline_mae=0.5, coverage={80.0: 0.8}),
    }.items():
        scores = expected.scores(day, 80.0)
        assert [chart for chart, score in scores.items() if score > 3] == [name]


@pytest.mark.parametrize("count", [2, 5, 20, 1000])
@pytest.mark.parametrize("value", [-4.0, -1.0, 0.0, 0.5, 3.0])
def test_a_score_is_the_normal_quantile_of_students_t(count, value):
    expected = norm.ppf(t.cdf(value / math.sqrt(1 + 1 / count), count - 1))
    assert normal_score(value, count) == pytest.approx(expected, abs=1e-9)


def test_few_validation_days_look_less_sure():
    scores = [normal_score(3.0, count) for count in (1, 2, 5, 20, 1000)]
    assert scores == sorted(scores) and scores[0] < 1.5 and scores[-1] == pytest.approx(3.0, abs=0.02)
    assert normal_score(1e9, 20) > 5


def test_a_sum_is_never_below_zero_nor_more_above_its_limit_than_a_usual_day_takes_off():
    chart = Chart(allowance=1.0, limit=4.0)
    assert chart.after(0.0, -math.inf) == 0.0 and chart.after(4.5, math.inf) == 5.0 and chart.after(5.0, 0.0) == 4.0
