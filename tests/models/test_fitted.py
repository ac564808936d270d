"""Models without gradients: what they forecast, what they choose, and on which rows."""

import re

import numpy as np
import pytest
import torch
from models.fitting import fitting_rows

from forecast.models.base import WindowShape
from forecast.models.naive import LastValue, SeasonalNaive, SeasonMean, TrainMean
from forecast.models.ridge import Ridge
from forecast.ops.ridge import intercept_share, maps_by_strength, mean_squared_error
from forecast.ops.window_sums import window_sums

B, C, L, P, N, TRAIN, VAL = 2, 5, 11, 7, 331, 211, 281
TARGETS = (3, 1)
GENERATOR = torch.Generator().manual_seed(0)


def window(targets=TARGETS, **sizes):
    return WindowShape(
        **{"n_columns": C, "targets": targets, "n_known": 0, "seq_len": L, "label_len": 0, "pred_len": P} | sizes
    )


def origins(split, look_back):
    first, end = {"train": (look_back, TRAIN), "val": (max(TRAIN, look_back), VAL)}[split]
    return np.arange(first, end - P + 1)


def rows(series, period=None):
    return fitting_rows(series, origins, P, period=period)


def season(period, *, noise, n_targets=1, slope=0.0):
    steps = torch.arange(N, dtype=torch.float64)
    waves = [torch.sin(2 * torch.pi * (steps + 2 * i) / period) for i in range(n_targets)]
    made = torch.stack(waves, 1) + slope * steps[:, None]
    return made + noise * torch.randn(N, n_targets, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def forecast(model, past):
    n = past.shape[0]
    return model(past, past.new_empty(n, past.shape[1], 0), past.new_empty(n, P, 0))


def error(model, series):
    """MSE over the rows after val, the model's own look-back before each origin."""
    starts = range(VAL, N - P + 1)
    past = torch.stack([series[s - model.look_back : s] for s in starts]).float()
    truth = torch.stack([series[s : s + P] for s in starts]).float()
    return (forecast(model, past) - truth).square().mean().item()


def test_last_value_repeats_the_last_value_of_each_target():
    past = torch.randn(B, L, C, generator=GENERATOR)
    out = forecast(LastValue(window=window()), past)
    assert out.shape == (B, P, 2)
    assert all(torch.equal(out[:, step], past[:, -1, list(TARGETS)]) for step in range(P))


@pytest.mark.parametrize("period", [1, 3, 11])
def test_seasonal_naive_repeats_the_last_season(period):
    past = torch.randn(B, L, C, generator=GENERATOR)
    model = SeasonalNaive(window=window(), period=period)
    assert model.look_back == period
    out = forecast(model, past)
    for step in range(P):
        assert torch.equal(out[:, step], past[:, L - period + step % period, list(TARGETS)])


@pytest.mark.parametrize("given, of_data, expected", [(None, 13, 13), (None, None, 1), (5, 13, 5)])
def test_seasonal_naive_takes_the_season_that_is_given_or_that_of_the_data(given, of_data, expected):
    model = SeasonalNaive(window=window(), period=given)
    assert model.fit(rows(season(13, noise=0.0), of_data)) == {"period": expected}
    assert model.look_back == expected


@pytest.mark.parametrize("given, of_data, expected", [(None, 5, 5), (None, None, L), (3, 5, 3)])
def test_the_mean_of_the_last_season_is_that_of_the_window_where_there_is_none(given, of_data, expected):
    past = torch.randn(B, L, C, generator=GENERATOR)
    model = SeasonMean(window=window(), period=given)
    assert model.fit(rows(season(13, noise=0.0), of_data)) == {"period": expected}
    mean = past[:, L - expected :, list(TARGETS)].mean(1, keepdim=True)
    torch.testing.assert_close(forecast(model, past), mean.expand(B, P, 2))


def test_ridge_continues_a_law_that_it_was_fitted_to():
    series = season(29, noise=0.0, slope=0.01)
    model = Ridge(window=window((0,), n_columns=1), strength=1e-6)
    model.fit(rows(series))
    assert error(model, series) < 1e-4


def test_ridge_finds_a_season_longer_than_seq_len():
    series = season(29, noise=0.3)
    model = Ridge(window=window((0,), n_columns=1))
    options = model.fit(rows(series, 29))
    assert options["look_back"] == model.look_back >= 29 > L
    assert error(model, series) < 1.3 * 0.3**2


@pytest.mark.parametrize("columns", ["shared", "each"])
def test_with_asinh_a_ridge_is_the_ridge_of_the_inverse_hyperbolic_sines(columns):
    law = torch.stack([3.0 * season(29, noise=0.01)[:, 0], 2.0 * season(13, noise=0.01)[:, 0]], 1)
    series, known = torch.sinh(law) + torch.tensor([5.0, -3.0]), {"strength": 1e-6, "columns": columns}
    model = Ridge(window=window((0, 1), n_columns=2), transform="asinh", **known)
    assert model.fit(rows(series))["transform"] == "asinh"
    train = series[1 : TRAIN - P + 1]
    median = train.median(0).values
    torch.testing.assert_close(model.median.double(), median, rtol=1e-6, atol=0)
    deviation = 1.4826 * (train - median).abs().median(0).values
    torch.testing.assert_close(model.deviation.double(), deviation, rtol=1e-4, atol=0)
    within = Ridge(window=window((0, 1), n_columns=2), **known)
    within.fit(rows(torch.asinh((series - model.median) / model.deviation)))
    past = series[None, -model.look_back :].float()
    flat = forecast(within, torch.asinh((past - model.median) / model.deviation))
    torch.testing.assert_close(forecast(model, past), torch.sinh(flat) * model.deviation + model.median)


def test_what_was_chosen_makes_a_model_of_the_same_shapes():
    sizes = window((0, 1, 2), n_columns=3)
    model = Ridge(window=sizes)
    options = model.fit(rows(season(13, noise=0.2, n_targets=3), 13))
    other = Ridge(window=sizes, **options)
    other.load_state_dict(model.state_dict())
    past = torch.randn(B, model.look_back, 3)
    assert other.look_back == model.look_back
    assert torch.equal(forecast(other, past), forecast(model, past))


@pytest.mark.parametrize("columns", ["shared", "each", None])
def test_each_target_may_have_a_map_of_its_own(columns):
    """Of two columns one repeats itself, the other one turns its sign every seven rows."""
    steps = torch.arange(N)
    noise = torch.randn(N, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wave = torch.sin(2 * torch.pi * steps / 14).double()
    series = torch.stack([wave, (-1.0) ** (steps // 7) * 1.0], 1) + 0.1 * noise
    series[:, 0] += 0.05 * noise[:, 0].cumsum(0)
    model = Ridge(window=window((0, 1), n_columns=2), columns=columns)
    options = model.fit(rows(series, 7))
    expected = "shared" if columns == "shared" else "each"
    assert options["columns"] == expected and len(model.weight) == {"shared": 1, "each": 2}[expected]
    past = torch.randn(B, model.look_back, 2)
    one = forecast(model, past)
    torch.testing.assert_close(forecast(model, past + torch.tensor([0.0, 5.0]))[..., 0], one[..., 0])


def test_with_many_targets_the_map_is_shared(monkeypatch):
    monkeypatch.setattr("forecast.models.ridge.MOST_COLUMNS", 2)
    model = Ridge(window=window((0, 1, 2), n_columns=3))
    assert model.fit(rows(season(13, noise=0.2, n_targets=3), 13))["columns"] == "shared"


def test_it_chooses_on_val_and_reads_nothing_after_it():
    series = season(13, noise=0.5)
    sizes = window((0,), n_columns=1)

    def fitted(changed):
        model = Ridge(window=sizes)
        model.fit(rows(changed, 13))
        return model.weight.detach()

    after, of_val = series.clone(), series.clone()
    after[VAL:] = 1e6
    assert torch.equal(fitted(after), fitted(series))
    of_val[TRAIN:VAL] = of_val[TRAIN:VAL].flip(0)
    assert not torch.equal(fitted(of_val)[..., -1], fitted(series)[..., -1])


def test_its_train_windows_lie_in_train_whole():
    series = season(13, noise=0.5)
    noisy = series.clone()
    noisy[TRAIN:] += torch.randn(N - TRAIN, 1, dtype=torch.float64)
    options = {"look_back": 26, "naive": "last", "strength": 0.1, "columns": "shared"}
    models = [Ridge(window=window((0,), n_columns=1), **options) for _ in range(2)]
    for model, one in zip(models, (series, noisy), strict=True):
        model.fit(rows(one, 13))
    assert torch.equal(models[0].weight, models[1].weight)


def test_without_tolerance_it_is_the_one_that_errs_least_on_val():
    series = season(13, noise=0.5)
    model = Ridge(window=window((0,), n_columns=1), tolerance=0.0)
    model.fit(rows(series, 13))
    (candidates,) = model.candidates(rows(series, 13), [series])
    best = min(candidates, key=lambda candidate: candidate.error)
    torch.testing.assert_close(model.weight[0], best.linear.weight.float())
    assert len({candidate.linear.weight.shape[1] for candidate in candidates}) > 3


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 1.0])
def test_the_share_of_a_map_falls_with_its_error_on_val_and_grows_with_its_look_back(tolerance):
    series = season(13, noise=0.5)
    model = Ridge(window=window((0,), n_columns=1), tolerance=tolerance)
    model.fit(rows(series, 13))
    (candidates,) = model.candidates(rows(series, 13), [series])
    errors = np.array([candidate.error for candidate in candidates])
    look_backs = np.array([candidate.linear.weight.shape[1] for candidate in candidates])
    shares = look_backs * np.exp(-(errors / errors.min() - 1) / tolerance)
    shares[shares <= 1e-3 * shares.max()] = 0
    past = series[:91, 0]
    forecasts = [one.weight @ past[-one.weight.shape[1] :] + one.bias for one, *_ in candidates]
    expected = sum(share * one for share, one in zip(shares / shares.sum(), forecasts, strict=True))
    torch.testing.assert_close(
        forecast(model, past[-model.look_back :].float()[None, :, None])[0, :, 0], expected.float()
    )
    assert np.count_nonzero(shares) > 1 and model.look_back <= 91


def test_look_backs_hold_whole_seasons_and_no_more_rows_than_there_are_windows():
    model = Ridge(window=window((0,), n_columns=1))
    assert model.look_backs(rows(season(13, noise=0.5), 13)) == [91, 52, 39, 26, 13]
    assert all(n <= len(origins("train", n)) for n in model.look_backs(rows(season(13, noise=0.5))))
    assert Ridge(window=window(), look_back=17).look_backs(rows(season(13, noise=0.5))) == [17]


def test_a_season_that_fits_into_no_look_back_is_refused():
    model = Ridge(window=window((0,), n_columns=1), naive="season", look_back=9)
    with pytest.raises(
        ValueError,
        match=re.escape("model.naive=season with a season of 13 and model.strength=None: no look-")
        + ".*"
        + re.escape("Set model.naive=null model.strength=null"),
    ):
        model.fit(rows(season(13, noise=0.5), 13))


def test_a_look_back_that_gaps_leave_few_val_windows_is_not_tried():
    """A gap in the middle of val: no window of more than 13 rows lies beside it whole."""
    series = season(5, noise=0.1)

    def beside_the_gap(split, look_back):
        found = origins(split, look_back)
        return found if split == "train" else found[(found - look_back >= TRAIN + 37) | (look_back <= 13)]

    model = Ridge(window=window((0,), n_columns=1))
    model.fit(fitting_rows(series, beside_the_gap, P, period=5))
    assert 5 <= model.look_back <= 13


def test_large_levels_cost_no_digits():
    series = season(13, noise=0.1)
    model = Ridge(window=window((0,), n_columns=1))
    model.fit(rows(series, 13))
    past = series[: model.look_back].float().unsqueeze(0)
    torch.testing.assert_close(forecast(model, past + 4096), forecast(model, past) + 4096, rtol=0, atol=2e-3)


def whole(series, period=None):
    """All rows as train rows."""

    def all_origins(split, look_back):
        return np.arange(look_back, N - P + 1) if split == "train" else origins(split, look_back)

    return fitting_rows(series, all_origins, P, period=period)


def test_a_ridge_refitted_to_the_same_rows_is_the_ridge():
    series = season(12, noise=0.3, n_targets=2)
    once, again = Ridge(window=window()), Ridge(window=window())
    assert once.fit(rows(series, 12)) == again.refit(rows(series, 12), rows(series, 12), {})
    assert torch.equal(once.weight, again.weight) and torch.equal(once.bias, again.bias)


@pytest.mark.parametrize("columns", ["shared", None])
def test_a_ridge_is_refitted_with_what_the_val_rows_chose(columns):
    """The rows after val are of another law: they change the maps, not what is chosen."""
    series = season(12, noise=0.3, n_targets=2)
    series[VAL:] = 20 * season(7, noise=0.0, n_targets=2)[VAL:]
    once, again = (Ridge(window=window((0, 1), n_columns=2), columns=columns) for _ in range(2))
    assert once.fit(rows(series, 12)) == again.refit(rows(series, 12), whole(series, 12), {})
    assert once.weight.shape == again.weight.shape
    assert error(again, series) < 0.1 * error(once, series)


def test_a_refitted_map_is_that_of_all_windows_at_the_strength_that_val_chose():
    series = season(12, noise=0.3)
    options = {"look_back": 9, "naive": "last", "columns": "shared", "tolerance": 0.0}
    model = Ridge(window=window(), **options)
    model.refit(rows(series, 12), whole(series, 12), {})
    train, val, every = (
        window_sums(series, origins_of(name, 9) - 9, 9 + P)
        for origins_of, name in ((origins, "train"), (origins, "val"), (whole(series).origins, "train"))
    )
    train, every = (
        sums._replace(intercept=intercept_share(series, origins_of("train", 9), look_back=9, pred_len=P))
        for sums, origins_of in ((train, origins), (every, whole(series).origins))
    )
    maps = maps_by_strength(train, 9, naive="last")
    best = min(maps, key=lambda strength: mean_squared_error(val, maps[strength]))
    expected = maps_by_strength(every, 9, naive="last", strengths=[best])[best]
    torch.testing.assert_close(model.weight[0].double(), expected.weight, rtol=0, atol=1e-6)
    torch.testing.assert_close(model.bias[0].double(), expected.bias, rtol=0, atol=1e-6)


def test_a_train_mean_is_refitted_to_the_mean_of_all_rows():
    model, some, every = TrainMean(window=window()), torch.ones(N, 2), torch.full((N, 2), 3.0)
    model.fit(rows(some))
    assert forecast(model, torch.zeros(B, L, C)).eq(1).all()
    model.refit(rows(some), rows(every), {})
    assert forecast(model, torch.zeros(B, L, C)).eq(3).all()


def test_a_model_without_weights_is_refitted_to_what_it_was():
    model = SeasonalNaive(window=window())
    assert model.refit(rows(season(12, noise=0.1), 12), whole(season(12, noise=0.1), 7), {}) == {"period": 12}
