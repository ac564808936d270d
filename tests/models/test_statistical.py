"""Theta, ETS and ARIMA forecast each window as statsforecast does; what it cannot fit is said and filled."""

import logging
import re
import sys
import warnings

import numpy as np
import pytest
import torch
from models.fitting import fitting_rows

from forecast.errors import UserError
from forecast.models.base import WindowShape
from forecast.models.statistical import ARIMA, ETS, ORDERS, Statistical, Theta
from forecast.text.overrides import install

B, C, L, P, N, TRAIN, VAL = 2, 5, 11, 7, 331, 211, 281
TARGETS = (3, 1)
WINDOW = WindowShape(n_columns=C, targets=TARGETS, n_known=0, seq_len=L, label_len=0, pred_len=P)
KINDS = [Theta, ETS, ARIMA]


def rows(period=None, *, train=TRAIN, series=None):
    def origins(split, look_back):
        first, end = {"train": (look_back, train), "val": (max(train, look_back), VAL)}[split]
        return np.arange(first, end - P + 1)

    return fitting_rows(past(N)[0] if series is None else series, origins, P, period=period)


def past(length, period=5, batch=1):
    """Targets with a season, a trend and noise: (B, L, T)."""
    steps = torch.arange(length, dtype=torch.float64)[None, :, None]
    noise = torch.randn(batch, length, len(TARGETS), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.sin(2 * torch.pi * steps / period) + 0.01 * steps + 0.1 * noise


class Repeats:
    """In place of a model of statsforecast: the last value, and nothing for windows that end below zero."""

    def forecast(self, *, y, h):
        if y[-1] < -1:
            raise ZeroDivisionError("no variance")
        return {"mean": np.full(h, np.nan if y[-1] < 0 else y[-1])}


@pytest.fixture
def repeating(monkeypatch):
    monkeypatch.setattr("forecast.models.statistical.require_statsforecast", lambda: None)
    monkeypatch.setattr(Statistical, "forecaster", lambda self: Repeats())
    return Statistical


@pytest.mark.parametrize(
    ("given", "of_data", "train", "period", "look_back"),
    [
        ({}, 13, 211, 13, 65),  # five seasons
        ({}, 5, 211, 5, 60),  # sixty rows at least
        ({}, None, 211, 1, 60),
        ({}, 13, 59, 13, 52),  # whole seasons that leave pred_len rows of train
        ({}, 17, 1999, 17, 85),
        ({}, 336, 1999, 336, 1008),
        ({}, 719, 1999, 719, 1438),  # two seasons at least
        ({"period": 7}, 13, 211, 7, 56),
        ({"period": 7, "look_back": 15}, 13, 211, 7, 15),
    ],
)
def test_period_and_look_back_are_given_or_those_of_the_data(given, of_data, train, period, look_back):
    model = Statistical(window=WINDOW, **given)
    assert model.fit(rows(of_data, train=train)) == {"period": period, "look_back": look_back}
    assert (model.period, model.look_back) == (period, look_back)


@pytest.mark.parametrize(
    ("given", "of_data", "said"),
    [
        (
            {"look_back": 25},
            13,
            "model.period=13: model.look_back (25 rows) holds less than two seasons. Say model.look_back=26, or "
            "model.period=1 for a forecast without a season.",
        ),
        (
            {"period": 200},
            13,
            "model.period=200: the longest look-back that the train rows allow (200 rows) holds less than two "
            "seasons. Give more rows, or model.period=1 for a forecast without a season.",
        ),
    ],
)
def test_rows_of_less_than_two_seasons_are_refused(given, of_data, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Statistical(window=WINDOW, **given).fit(rows(of_data))


@pytest.mark.parametrize("order", [[], [1, 1], [1, 1, 1, 0]])
def test_an_order_of_other_than_three_numbers_is_refused(order):
    said = f"model.order={order}: give the three numbers p, d, q, as model.order=[1,1,1]"
    with pytest.raises(ValueError, match=re.escape(said)):
        ARIMA(window=WINDOW, order=order)


def test_a_fit_that_fails_or_is_not_finite_repeats_the_last_season_and_is_counted(repeating, caplog):
    model = repeating(window=WINDOW, period=3, look_back=L)
    given = past(L, batch=B).float()
    given[0, -1], given[1, -1] = torch.tensor([-2.0, 0.75]), torch.tensor([-0.5, 0.25])
    with caplog.at_level(logging.WARNING):
        out = model.extend(given)
        model.extend(given)
    assert out.shape == (B, P, 2) and out.dtype == torch.float32
    for window in range(B):
        assert torch.equal(out[window, :, 1], given[window, -1, 1].expand(P))
        assert torch.equal(out[window, :, 0], given[window, -3:, 0].repeat(3)[:P])
    assert [record.getMessage() for record in caplog.records] == [
        f"{failed} of {fits} fits so far failed (no variance): the last season is repeated in their place."
        for failed, fits in ((2, 4), (4, 8))
    ]


def test_only_the_targets_are_fitted_in_their_order(repeating):
    model = repeating(window=WINDOW, look_back=L)
    columns = torch.arange(1.0, C + 1).expand(B, L, C)
    out = model(columns, columns[..., :0], columns[:, :P, :0])
    assert torch.equal(out, torch.tensor([4.0, 2.0]).expand(B, P, 2))


def test_the_order_is_that_which_errs_least_on_val(repeating, monkeypatch):
    errors = dict(zip(ORDERS, (3.0, 2.0, 1.0, 4.0), strict=True))
    monkeypatch.setattr(ARIMA, "val_error", lambda self, rows, order: errors[order])
    model = ARIMA(window=WINDOW)
    assert model.fit(rows(5)) == {"period": 5, "look_back": 60, "order": list(ORDERS[2])}
    assert model.order == ORDERS[2]
    assert ARIMA(window=WINDOW, order=[2, 0, 0]).fit(rows(5))["order"] == [2, 0, 0]


def test_an_order_is_judged_on_val_and_by_nothing_after_it(repeating, monkeypatch):
    monkeypatch.setattr(ARIMA, "forecaster", lambda self: Repeats())
    series = past(N)[0] + 10
    model = ARIMA(window=WINDOW)
    Statistical.fit(model, rows(series=series))
    error = model.val_error(rows(series=series), (1, 0, 0))
    after, of_val = series.clone(), series.clone()
    after[VAL:], of_val[VAL - P : VAL] = 1e6, 1e6
    assert model.val_error(rows(series=after), (1, 0, 0)) == error
    assert model.val_error(rows(series=of_val), (1, 0, 0)) > 1e6


def test_without_the_package_a_forecast_is_refused_with_the_command_that_installs_it(monkeypatch):
    for name in ("statsforecast", "statsforecast.models"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=f"^statsforecast cannot .*{re.escape(install('stats'))}, or choose model=ri"):
        Theta(window=WINDOW, look_back=L).extend(past(L))


@pytest.fixture(scope="module")
def statsforecast():
    """Its models; its own imports warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("statsforecast.models", reason='needs statsforecast: pip install -e ".[stats]"')


def directly(package, kind, period):
    """The same forecaster, as the package's documentation makes it."""
    if kind is Theta:
        return package.AutoTheta(season_length=period, decomposition_type="additive")
    if kind is ETS and period <= 24:
        return package.AutoETS(season_length=period, model="AZZ")
    rest = package.AutoETS(model="AZN") if kind is ETS else package.ARIMA(order=(0, 1, 1), method="ML")
    return rest if period == 1 else package.MSTL(season_length=period, trend_forecaster=rest)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the package's own
@pytest.mark.parametrize("period", [1, 5, 29])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_is_that_of_statsforecast_for_each_window_and_target(statsforecast, kind, period):
    model = kind(window=WINDOW, period=period, look_back=61, **({"order": [0, 1, 1]} if kind is ARIMA else {}))
    given = past(61, period, batch=B)
    out = model.extend(given)
    for window in range(B):
        for target in range(2):
            expected = directly(statsforecast, kind, period).forecast(y=given[window, :, target].numpy(), h=P)["mean"]
            np.testing.assert_array_equal(out[window, :, target].numpy(), expected)
    assert model._failed == 0
