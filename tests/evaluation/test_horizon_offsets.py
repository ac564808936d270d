"""Forecasts that begin some steps after their window: which rows they read, and every figure against NumPy."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from models.small import WINDOW, informer, window_shape
from scales import given_scales

from forecast.data.panel import Repair
from forecast.data.prepare import prepare
from forecast.data.split import TargetRows
from forecast.errors import UserError
from forecast.evaluation.blocks import check_offsets, offset_metrics
from forecast.evaluation.evaluate import Protocol
from forecast.models.base import ForecastModel

N, C, P = 211, WINDOW["n_columns"], WINDOW["pred_len"]
L, SEASON = 29, 24
SPLITS = {"train": range(101), "val": range(101, 131), "test": range(131, N)}
WINDOWS = 80 - P + 1
STAMPS = pd.date_range("2020-01-01", periods=N, freq="h")


def prepared(values, *, seq_len=L, scaler=None, filled=None, policy="mask"):
    missing = None if filled is None else np.repeat(filled[:, None], C, axis=1)
    frame = series_frame(values, STAMPS, ("a", "b", "c"), "h", "my.csv", missing=missing, repair=Repair(policy))
    return prepare(frame, splits=SPLITS, targets=(2, 0), seq_len=seq_len, pred_len=P, encoding="timeF", scaler=scaler)


@pytest.fixture(scope="module")
def data():
    return prepared(1e4 * np.random.default_rng(0).normal(size=(N, C)).cumsum(0) * [1.0, 10.0, 100.0])


class CalendarModel(ForecastModel):
    """Forecasts what the calendar says: its first feature, for every target."""

    def __init__(self):
        super().__init__(window_shape(seq_len=L, targets=(2, 0)))

    def forecast(self, past, past_known, future_known):
        return future_known[:, :, :1].expand(-1, -1, 2)

    def supports_horizon_offset(self):
        return True


class Mixed(CalendarModel):
    """Something of the window and something of the calendar."""

    def forecast(self, past, past_known, future_known):
        return past[:, 3:4, [0, 1]] - past[:, -1:, [2, 0]] + future_known[:, :, :2]


def figures(model, data, *offsets, batch_size=32, split="test", **options):
    protocol = Protocol(horizon_offsets=offsets, **options)
    where = {"split": split, "batch_size": batch_size, "device": torch.device("cpu")}
    metrics = offset_metrics(model.eval(), data, protocol=protocol, **where)
    assert list(metrics) == ["offsets"] and list(metrics["offsets"]) == [str(offset) for offset in offsets]
    return metrics["offsets"]


@pytest.mark.parametrize("offset", [1, 3, 24, 41])
def test_the_model_is_given_the_calendar_of_the_steps_that_count(offset):
    """The series is the hour of the day: a model that reads the hour of each target row makes no error."""
    hours = (STAMPS.hour.to_numpy() / 23 - 0.5)[:, None].repeat(C, 1)
    data = prepared(hours, scaler=given_scales(np.zeros(C), np.ones(C)))
    assert figures(CalendarModel(), data, offset)[str(offset)]["scaled"] == dict.fromkeys(
        ("mse", "mae", "rmse", "bias"), 0.0
    )


def by_hand(data, offset, forecast):
    """The errors of every window of test, one by one: forecast(t) -> (P, 2) for the window that begins at row t."""
    series = data.kept.double().numpy()
    starts = [t for t in range(N) if t + L + offset >= 131 and t >= 131 - L and t + L + offset + P <= N]
    errors = np.array([forecast(t) - series[t + L + offset : t + L + offset + P][:, [2, 0]] for t in starts])
    return len(starts), {
        "mse": np.square(errors).mean(),
        "mae": np.abs(errors).mean(),
        "rmse": np.square(errors).mean() ** 0.5,
        "bias": errors.mean(),
    }


def equal(actual, expected):
    assert actual["scaled"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("offset", [1, 7, 31])
def test_every_figure_is_that_of_a_loop_over_the_windows(data, offset):
    series = data.kept.double().numpy()
    metrics = figures(Mixed(), data, offset)[str(offset)]

    def model(t):
        later = series[t + L + offset : t + L + offset + P, C : C + 2]
        return series[t + 3, [0, 1]] - series[t + L - 1, [2, 0]] + later

    def season(t):
        return [series[t + L - SEASON + (h + offset) % SEASON, [2, 0]] for h in range(P)]

    count, expected = by_hand(data, offset, model)
    assert metrics["windows"] == count == WINDOWS - offset
    equal(metrics, expected)
    assert list(metrics["baselines"]) == ["last_value", "seasonal_naive"]
    assert metrics["baselines"]["seasonal_naive"]["period"] == SEASON
    equal(metrics["baselines"]["seasonal_naive"], by_hand(data, offset, season)[1])
    equal(metrics["baselines"]["last_value"], by_hand(data, offset, lambda t: series[t + L - 1, [2, 0]])[1])


def test_the_same_figures_come_to_the_last_bit_for_any_batch_size(data):
    torch.manual_seed(0)
    model = informer(seq_len=L, targets=(2, 0))
    first = figures(model, data, 3, 13)
    assert first["3"]["scaled"] != first["13"]["scaled"]
    for batch_size in (1, 7, 1000):
        assert figures(model, data, 3, 13, batch_size=batch_size) == first


def test_the_protocol_counts_the_windows_of_each_offset(data):
    metrics = figures(CalendarModel(), data, 11, 12, 13, drop_last_of=32)
    assert [metrics[o]["windows"] for o in ("11", "12", "13")] == [64, 64, 32]
    assert figures(CalendarModel(), data, 3, split="val")["3"]["windows"] == 30 - P + 1 - 3


def test_a_season_longer_than_the_window_goes_on_at_every_offset(data):
    long, short = (prepared(data.frame.values, seq_len=seq_len) for seq_len in (24, 23))
    expected, naive = (figures(CalendarModel(), one, 5)["5"]["baselines"]["seasonal_naive"] for one in (long, short))
    assert naive["scaled"] == pytest.approx(expected["scaled"]) and naive["period"] == 24


def test_without_offsets_nothing_is_forecast_and_no_key_is_gained(data):
    where = {"split": "test", "batch_size": 32, "device": torch.device("cpu")}
    assert offset_metrics(torch.nn.Module(), data, protocol=Protocol(), **where) == {}  # it has no forward


def test_a_model_that_goes_step_by_step_has_null_and_a_line_in_the_log(data, caplog):
    class Stepping(CalendarModel):
        def supports_horizon_offset(self):
            return False

        def forecast(self, past, past_known, future_known):
            raise AssertionError("nothing is to be forecast")

    with caplog.at_level("INFO"):
        assert figures(Stepping(), data, 3, 5) == {"3": None, "5": None}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "protocol.horizon_offsets=[3, 5]: no figures" in line and "right after its window" in line
    assert figures(torch.nn.Identity(), data, 3) == {"3": None}  # nor one that does not say


def test_a_forecast_that_is_not_finite_is_refused(data):
    class Diverged(CalendarModel):
        def forecast(self, past, past_known, future_known):
            return past[:, :P, :2] * float("nan")

    with pytest.raises(UserError, match="not finite"):
        figures(Diverged(), data, 3)


# refusals


@pytest.mark.parametrize(
    ("split", "options", "largest"), [("test", {}, 75), ("val", {}, 25), ("test", {"drop_last_of": 32}, 44)]
)
def test_an_offset_that_the_split_is_too_short_for_is_refused_with_the_largest(data, split, options, largest):
    check_offsets(data, split, Protocol(horizon_offsets=(3, largest), **options))
    with pytest.raises(UserError) as error:
        check_offsets(data, split, Protocol(horizon_offsets=(10**30, 3, largest + 1), **options))
    message = str(error.value)
    assert (
        f"my.csv: protocol.horizon_offsets=[{10**30}, 3, {largest + 1}]: at {10**30} and {largest + 1} steps" in message
    )
    assert f"{len(SPLITS[split])} rows of the split {split}: the largest possible is {largest}." in message


def test_where_no_offset_is_possible_the_refusal_says_so(data):
    one = replace(data, splits={**data.splits, "test": TargetRows.of(range(131, 131 + P))})
    check_offsets(one, "test", Protocol())
    with pytest.raises(UserError, match=r"in the 5 rows of the split test: no offset is possible"):
        check_offsets(one, "test", Protocol(horizon_offsets=(1,)))


def test_with_gaps_a_past_must_be_whole_and_targets_that_were_made_up_count_nowhere():
    """Whole are the rows up to 135, for a past that ends from 130 to 135; of later ones none is."""
    filled = np.arange(N) >= 136
    gappy = prepared(np.random.default_rng(0).normal(size=(N, C)), filled=filled)
    last = N - P - 131
    counts = {o: len(gappy.windows("test", offset=o)) for o in range(80)}
    assert counts == {o: min(6, max(0, last - o + 1)) for o in range(80)}
    assert not gappy.windows("test", offset=7).__getitems__(range(6)).measured.any()
    check_offsets(gappy, "test", Protocol(horizon_offsets=(24, last)))
    with pytest.raises(UserError, match=rf"at {last + 1} steps from its window .* the largest possible is {last}\."):
        check_offsets(gappy, "test", Protocol(horizon_offsets=(24, last + 1)))


@pytest.mark.parametrize("offsets", [(3, 5, 3), (1, 1)])
def test_an_offset_named_twice_is_refused(offsets):
    with pytest.raises(UserError, match=rf"{offsets[0]} is named twice; name each offset once"):
        Protocol(horizon_offsets=offsets)
