"""The rule by which an update says that a model has grown old: false alarms, delay, and what it is made of."""

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from forecast.evaluation.watch import CHARTS, Chart, Day, Expected, alarms, normal_score, watched

DAYS, STEPS = 60, 3
RUNS = 400


NOTHING = np.full((1, len(CHARTS)), np.nan)


def one_day(steps, mae, baseline_mae, coverage=None):
    """The day of one series."""
    return Day(
        steps=steps,
        mae=np.array([mae]),
        baseline_mae=np.array([baseline_mae]),
        coverage=None if coverage is None else np.array([coverage]),
    )


def said_of(totals, row=0):
    """The charts that are above their limits, of all series, or of one."""
    return alarms({name: total for name, total in zip(CHARTS, totals[row], strict=True) if np.isfinite(total)})


def sums(draws, *, val, shift, at, series, rho=0.0, common=0.0, shifted=None, left=None):
    """After each of DAYS + 7 days the sums (1 + series, charts) of all series, and of each.

    Logarithms of the errors of days follow each other with the correlation rho; of the series they are correlated by
    `common`. From day `at` on they are `shift` standard deviations larger, of the first `shifted` series, None: of all.
    val: days of validation, before them. left: so many series have rows on the days, None: all.
    """
    noise = np.sqrt(1 - common) * draws.normal(size=(val + DAYS + 7, series))
    noise += np.sqrt(common) * draws.normal(size=(len(noise), 1))
    for i in range(1, len(noise)):
        noise[i] = rho * noise[i - 1] + math.sqrt(1 - rho**2) * noise[i]
    noise[val + at :, :shifted] += shift
    errors = np.exp(0.4 * noise + np.linspace(-1, 1, series))  # some are harder than others
    rows = np.repeat(errors[:val], STEPS, axis=0)  # windows begin at each row
    windows = np.repeat(rows.T.reshape(-1, 1), STEPS, axis=1)
    of = {"series": np.repeat(np.arange(series), len(rows)), "times": np.tile(np.arange(len(rows)), series)}
    expected = Expected.of(windows, windows * 0.9, np.array([]), np.zeros((0, *windows.shape)), **of)
    totals = np.full((1 + series, len(CHARTS)), np.nan)
    errors[val:, series if left is None else left :] = np.nan
    for error in errors[val:]:
        totals = watched(totals, expected.scores(Day(steps=STEPS, mae=error, baseline_mae=2 * error), None))
        yield totals


def first_alarms(days, rows):
    """The first day, from 1 on, on which the errors of each of these rows are above their limit; inf for none."""
    first = dict.fromkeys(rows, math.inf)
    for day, totals in enumerate(days, start=1):
        for row in [row for row, before in first.items() if before == math.inf and "errors" in said_of(totals, row)]:
            first[row] = day
        if math.inf not in first.values():
            break
    return np.array([*first.values()])


def alone(draws, **of):
    """The first alarms of RUNS series. As each is judged by itself, their days are computed at once."""
    return first_alarms(sums(draws, series=RUNS, **of), range(1, 1 + RUNS))


def together(draws, runs=RUNS, **of):
    """The first alarms of so many panels of 30 series."""
    return np.concatenate([first_alarms(sums(draws, series=30, **of), [0]) for _ in range(runs)])


@pytest.mark.parametrize(("val", "rho", "most"), [(10, 0.0, 0.08), (20, 0.0, 0.05), (50, 0.0, 0.03), (20, 0.3, 0.17)])
def test_sixty_days_without_a_break_seldom_raise_an_alarm(val, rho, most):
    assert np.mean(alone(np.random.default_rng(1), val=val, shift=0.0, at=0, rho=rho) <= DAYS) <= most


MANY = {
    "independent": {},
    "that err together": {"common": 0.5},
    "of which a half is left": {"common": 0.5, "left": 15},
    "of which one is left": {"left": 1},
}
TOGETHER = {"val": 20, "most": 0.17, "common": 0.5, "rho": 0.3}


@pytest.mark.slow
@pytest.mark.parametrize(
    "of",
    [*({"val": val, "most": most, **of} for of in MANY.values() for val, most in [(10, 0.08), (50, 0.03)]), TOGETHER],
    ids=[*(f"{val} days, {name}" for name in MANY for val in (10, 50)), "that err together from day to day"],
)
def test_many_series_raise_no_more_false_alarms_than_one(of):
    draws, most = np.random.default_rng(3), of["most"]
    of = {"shift": 0.0, "at": 0, **{key: value for key, value in of.items() if key != "most"}}
    assert np.mean(together(draws, **of) <= DAYS) <= most


@pytest.mark.parametrize(
    ("of", "least"), [({"common": 0.5, "shift": 3.0}, 0.95), ({"common": 0.2, "shift": 3.0, "shifted": 20}, 0.7)]
)
def test_a_break_of_most_of_many_series_is_said_within_a_week(of, least):
    days = together(np.random.default_rng(4), 100, val=20, at=30, **of)
    quiet = days > 30
    assert np.mean(days[quiet] <= 37) >= least and quiet.mean() > 0.9


def test_a_break_of_one_of_many_series_is_its_own():
    errors = np.exp(0.3 * np.random.default_rng(5).normal(size=(40, 20)))
    windows, of = np.repeat(errors[:30].T.reshape(-1, 1), STEPS, axis=1), np.arange(20)
    times = {"series": np.repeat(of, 30), "times": np.tile(np.arange(30), 20)}
    expected = Expected.of(windows, windows, np.array([]), np.zeros((0, *windows.shape)), **times)
    errors[30:, 7] *= 10
    totals = np.full((21, len(CHARTS)), np.nan)
    for error in errors[30:]:
        totals = watched(totals, expected.scores(Day(steps=STEPS, mae=error, baseline_mae=error), None))
    assert [row for row in range(21) if said_of(totals, row)] == [8]


def test_a_panel_of_one_is_judged_as_its_series():
    draws = np.random.default_rng(6)
    rows, naive, held = draws.gamma(2.0, size=(41, 5)), draws.gamma(2.0, size=(41, 5)), draws.uniform(size=(1, 41, 5))
    expected = Expected.of(rows, naive, np.array([80.0]), held)
    scores = expected.scores(one_day(4, 3.1, 2.2, 0.6), 80.0)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-12)


def test_of_a_series_that_no_window_of_validation_has_nothing_is_expected():
    expected = Expected.of(np.full((9, 3), 1.0), np.full((9, 3), 1.0), np.array([]), np.zeros((0, 9, 3))).with_series(2)
    day = Day(steps=3, mae=np.array([1.0, 9.0]), baseline_mae=np.array([1.0, 9.0]))
    scores = expected.scores(day, None)
    assert np.isnan(scores[2]).all() and scores[0, 0] == pytest.approx(0.0)


@pytest.mark.parametrize(("shift", "least"), [(2.0, 0.7), (3.0, 0.95), (5.0, 1.0)])
def test_a_break_of_some_deviations_is_said_within_a_week(shift, least):
    days = alone(np.random.default_rng(2), val=20, shift=shift, at=30)
    quiet = days > 30
    assert np.mean(days[quiet] <= 37) >= least and quiet.mean() > 0.95


def test_one_dreadful_day_says_nothing_and_a_lasting_one_is_said_on_the_third():
    expected = Expected.of(np.full((60, 3), 1.0), np.full((60, 3), 1.0), np.array([]), np.zeros((0, 60, 3)))
    bad, good = (one_day(3, mae, mae) for mae in (1e6, 1.0))
    totals = watched(NOTHING.repeat(2, axis=0), expected.scores(bad, None))
    assert said_of(totals) == [] and totals[0, 0] == pytest.approx(2.0)
    for _ in range(2):
        totals = watched(totals, expected.scores(good, None))
    assert totals[0, 0] == 0.0
    said = []
    for _ in range(20):
        totals = watched(totals, expected.scores(bad, None))
        said.append(said_of(totals))
    assert said[:3] == [[], [], ["errors"]]
    assert said_of(watched(totals, expected.scores(good, None))) == []  # a day as expected ends it


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
        assert found.mae[0, n - 1] == pytest.approx(np.mean(means))
        assert found.log_std[0, n - 1] == pytest.approx(np.std(np.log(means)))
        assert found.worse_std[0, n - 1] == pytest.approx(
            np.std([a[:n].mean() - b[:n].mean() for a, b in zip(errors, naive, strict=True)])
        )
        assert found.coverage[1, 0, n - 1] == pytest.approx(held[1, :, :n].mean())
    assert found.windows.tolist() == [93, 93]
    again = Expected(**found.arrays())
    assert (again.windows == 93).all() and (again.coverage_std == found.coverage_std).all()


def test_each_chart_measures_what_its_name_says():
    expected = Expected.of(np.full((60, 3), 1.0), np.full((60, 3), 1.0), np.array([80.0]), np.full((1, 60, 3), 0.8))
    assert expected.scores(one_day(3, 1.0, 1.0, 0.8), 80.0)[0] == pytest.approx(np.zeros(len(CHARTS)))
    for name, day in {
        "errors": one_day(3, 9.0, 9.0, 0.8),
        "coverage": one_day(3, 1.0, 1.0, 0.4),
        "baseline": one_day(3, 1.0, 0.5, 0.8),
    }.items():
        scores = expected.scores(day, 80.0)[0]
        assert [chart for chart, score in zip(CHARTS, scores, strict=True) if score > 3] == [name]


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
