"""Exponential smoothing with many settings: its sums by a slow loop, what it errs, and windows that hold little."""

import itertools
import re

import numpy as np
import pytest
import torch
from models.fitting import fitting_rows

from forecast.models.base import WindowShape
from forecast.models.naive import LastValue, SeasonalNaive
from forecast.models.smoothing import KEPT, Smoothing
from forecast.ops.smoothing import Setting, setting_grid, smoothed

P, SEASON, N, TRAIN, VAL = 7, 12, 480, 300, 400


def window(**sizes):
    given = {"n_columns": 1, "targets": (0,), "n_known": 0, "seq_len": 24, "label_len": 0, "pred_len": P}
    return WindowShape(**{**given, **sizes})


def rows(series, *, first=0, train=TRAIN, val=VAL, **more):
    """Of rows `first` on, as one series."""

    def origins(split, look_back):
        begin, end = {"train": (first + look_back, train), "val": (max(train, first + look_back), val)}[split]
        return np.arange(begin, end - P + 1)

    return fitting_rows(series, origins, P, **{"period": SEASON, "seasons": (SEASON,), **more})


def made(*, noise=1.0, seed=0, gain=0.05, season_gain=0.01, slope=0.05):
    """Level, trend and season, all of which wander: (N, 1)."""
    random = np.random.default_rng(seed)
    level, season, values = 100.0, 8 * np.sin(2 * np.pi * np.arange(SEASON) / SEASON), []
    for step in range(N):
        error = noise * random.normal()
        values.append(level + season[step % SEASON] + error)
        level += slope + gain * error
        season[step % SEASON] += season_gain * error
    return torch.tensor(values, dtype=torch.float64)[:, None]


def error(model, series, first=VAL):
    """MAE of windows after `first`, with as many rows before each as there are, the first one in place of others."""
    errors = []
    for origin in range(first, len(series) - P + 1):
        places = np.maximum(np.arange(origin - model.look_back, origin), 0)
        errors.append((forecast_of(model, series[places][None].float()) - series[origin : origin + P]).abs().mean())
    return float(torch.stack(errors).mean())


def forecast_of(model, past):
    return model(past, past.new_empty(*past.shape[:2], 0), past.new_empty(len(past), model.window.pred_len, 0))


def fitted(series, sizes=None, *, of=None, **options):
    model = Smoothing(window=window(**sizes or {}), **options)
    model.fit(rows(series) if of is None else of)
    return model


def fitted_with(model, settings):
    """A model that forecasts as another one does, with other settings."""
    options = {"look_back": model.rows, "seasons": model.seasons, "clip": model.clip}
    return Smoothing(window=window(), **options, fitted=settings)


@pytest.mark.parametrize("seasons", [(), (4,), (3, 12), (4, 10)])
def test_each_setting_is_the_textbooks_recursion(seasons):
    """Written out for one series after the other, in Python's numbers."""
    values, steps, origins = np.random.default_rng(1).normal(size=(61, 2)).cumsum(0), range(P), (40, 61)
    settings = [Setting(0.2), *setting_grid(len(seasons))[::5]]
    found = smoothed(values, settings, seasons, dict.fromkeys(origins, steps))
    begin = max([1, *seasons])
    for (s, series), (g, one) in itertools.product(enumerate(values.T.tolist()), enumerate(settings)):
        gains = [one.season, one.second][: len(seasons)]
        level, slope, rest = sum(series[:begin]) / begin, 0.0, 0.0
        beyond, effects = [value - level for value in series[:begin]], []
        for period, gain in zip(seasons, gains, strict=True):
            mean = [sum(beyond[step::period]) / len(beyond[step::period]) for step in range(period)]
            beyond = [value - mean[row % period] for row, value in enumerate(beyond)]
            effects.append(mean if gain else [0.0] * period)
        for row in range(begin, len(series) + 1):
            if row in origins:
                for h in steps:
                    expected = level + slope * sum(one.damping ** (i + 1) for i in range(h + 1))
                    expected += sum(effect[(row + h) % len(effect)] for effect in effects)
                    expected += one.remainder ** (h + 1) * rest
                    assert found[row][h, s, g] == pytest.approx(expected, abs=1e-9)
            if row == len(series):
                break
            slope *= one.damping
            level += slope
            missed = series[row] - level - sum(effect[row % len(effect)] for effect in effects)
            level += one.level * missed
            slope += one.level * one.trend * missed
            for effect, gain in zip(effects, gains, strict=True):
                effect[row % len(effect)] += gain * missed
            rest = missed * (1 - one.level - sum(gains))


@pytest.mark.parametrize("number", [0, 2, 3])
def test_a_model_of_one_setting_forecasts_what_the_recursion_does(number):
    past = made()[: 5 * SEASON]
    plain = Smoothing(window=window(), seasons=[SEASON], look_back=5 * SEASON)
    setting = plain.settings[number]
    model = Smoothing(window=window(), seasons=[SEASON], look_back=5 * SEASON, fitted=[[*setting, 0.0]])
    first = past.view(5, SEASON)[:2].mean(0)  # as many seasons as lie in the first half
    begun = torch.cat([first, past[:, 0]])[:, None].numpy()
    expected = smoothed(begun, [setting], [SEASON], {len(begun): range(P)})[len(begun)][..., 0]
    torch.testing.assert_close(
        forecast_of(model, past[None].float())[0].double(), torch.from_numpy(expected), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_a_series_with_level_trend_and_season_it_errs_a_fifth_less_than_what_is_naive(seed):
    """And a fifth more at most than the noise, which is the least that any forecast errs."""
    series = made(seed=seed)
    found = error(fitted(series), series)
    naive = [error(one, series) for one in (LastValue(window=window()), SeasonalNaive(window=window(), period=SEASON))]
    assert found < 0.8 * min(naive)
    assert found < 1.2 * np.sqrt(2 / np.pi)


def test_what_was_chosen_makes_the_same_model():
    series, sizes = made(), {"n_columns": 3, "targets": (2, 0)}
    model = Smoothing(window=window(**sizes))
    options = model.fit(rows(torch.cat([series, series.flip(0)], 1)))
    other = Smoothing(window=window(**sizes), **options)
    other.load_state_dict(model.state_dict())
    past = torch.randn(2, model.look_back, 3).cumsum(1)
    assert other.look_back == model.look_back and KEPT // 2 < len(options["fitted"]) <= KEPT
    assert torch.equal(forecast_of(other, past), forecast_of(model, past))


def test_it_reads_nothing_after_val():
    series = made()
    later = series.clone()
    later[VAL:] = 1e6
    models = [Smoothing(window=window()) for _ in range(2)]
    first, second = (model.fit(rows(one)) for model, one in zip(models, (series, later), strict=True))
    assert first == second


@pytest.mark.parametrize("count", [1, 2, 3, SEASON, 2 * SEASON, 3 * SEASON])
@pytest.mark.parametrize("seasons", [None, [SEASON]])
def test_a_few_rows_are_forecast_near_their_values(count, seasons):
    """The first row fills the window, as it does in front of a short series."""
    series = made()[:count]
    model = fitted(series, of=rows(series, train=max(1, count - 2 * P), val=count), seasons=seasons)
    places = np.maximum(np.arange(count - model.look_back, count), 0)
    made_of = forecast_of(model, series[places][None].float())
    assert made_of.shape == (1, P, 1)
    assert ((made_of > series.min() - 3) & (made_of < series.max() + 3)).all()


def test_rows_in_front_of_a_series_do_not_count():
    """A window of three seasons forecasts the same however many times its first row stands before it."""
    short, made_of, setting = made()[: 3 * SEASON, 0], [], Setting(0.3, 0.1, 0.9, season=0.1)
    for filled in (0, 1, 5 * SEASON + 1):
        model = Smoothing(
            window=window(),
            seasons=[SEASON],
            look_back=3 * SEASON + filled,
            clip=1.5,
            fitted=[[*setting, 0.0]],
        )
        past = torch.cat([short[:1].expand(filled), short])[None, :, None].float()
        made_of.append(forecast_of(model, past))
    torch.testing.assert_close(made_of[1], made_of[0], rtol=1e-5, atol=0)
    torch.testing.assert_close(made_of[2], made_of[0], rtol=1e-5, atol=0)


@pytest.mark.parametrize("value", [0.0, 0.1, -7e6])
def test_a_constant_is_forecast_as_it_is(value):
    series = torch.full((N, 1), value, dtype=torch.float64)
    model = fitted(series)
    past = torch.full((1, model.look_back, 1), value)
    assert torch.equal(forecast_of(model, past), torch.full((1, P, 1), value))


def test_a_season_that_is_not_held_twice_is_none():
    series = made()
    model = fitted(series[:23], of=rows(series[:23], first=0, train=9, val=9, period=12))
    assert model.seasons == [] and model.look_back < 2 * SEASON
    model = fitted(series, look_back=2 * SEASON)
    assert model.seasons == [SEASON]


@pytest.mark.parametrize(
    "period, seasons, expected",
    [
        (24, (24, 96), [24, 96]),
        (None, (7,), [7]),
        (5, (7, 12, 20), [5, 7]),
        pytest.param(24, (), [24, 168], id="no calendar, so a week of days"),
        (12, (), [12]),
    ],
)
def test_the_season_of_the_data_and_the_shortest_other_one_are_taken(period, seasons, expected):
    series = made()
    of = rows(series, period=period, seasons=seasons, train=400, val=N)
    assert fitted(series, of=of).seasons == expected


def test_spikes_are_clipped_where_that_errs_less():
    series = made()
    spiked = series.clone()
    spiked[np.random.default_rng(0).choice(N, N // 20, replace=False)] += 60.0
    assert fitted(series).clip == 0
    chosen, plain = fitted(spiked), fitted(spiked, clip=0.0)
    assert chosen.clip > 0
    assert error(chosen, spiked) < 0.95 * error(plain, spiked)


def test_the_temperature_decides_whether_one_setting_has_all():
    """At none nearly; at a high one each has the same share."""
    series = made()
    past = series[None, VAL - 180 : VAL].float()
    sharp, even = (fitted(series, temperature=temperature, look_back=180) for temperature in (1e-5, 1e5))
    assert sharp.settings == even.settings
    alone = [forecast_of(fitted_with(even, [[*setting, 0.0]]), past)[0, :, 0] for setting in even.settings]
    torch.testing.assert_close(forecast_of(even, past)[0, :, 0], torch.stack(alone).mean(0), rtol=1e-5, atol=0)
    assert min((forecast_of(sharp, past)[0, :, 0] - one).abs().max() for one in alone) < 1e-3


def test_a_window_weighs_the_settings_by_its_own_errors():
    """One column has a season, the other one is a random walk: no share of a setting serves both."""
    walk = 100 + 3 * torch.randn(N, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)
    both = torch.cat([made(noise=0.5), walk], 1)
    model = fitted(both, {"n_columns": 2, "targets": (0, 1)})
    places = torch.arange(VAL, N - P + 1)[:, None] + torch.arange(-model.look_back, P)
    past, truth = both[places.clamp(min=0)].split([model.look_back, P], dim=1)
    errors = (forecast_of(model, past.float()) - truth).abs().mean((0, 1))
    assert errors[0] < 0.9 * (past[:, -SEASON : P - SEASON] - truth).abs().mean((0, 1))[0]
    assert errors[1] < 1.1 * (past[:, -1:] - truth).abs().mean((0, 1))[1]


def test_more_seasons_than_two_are_refused():
    with pytest.raises(ValueError, match=re.escape("model.seasons=[3, 7, 12]: 2 at most are smoothed.")):
        Smoothing(window=window(), seasons=[12, 3, 7])
