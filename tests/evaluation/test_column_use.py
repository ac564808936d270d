"""What a column is worth: a model that uses one, one that is misled by another, and one that it does not read."""

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from data.splits import split_rows
from evaluation.small_panels import panel

from forecast.data.prepare import prepare
from forecast.data.split import LastSplit, ShareSplit, panel_cuts
from forecast.evaluation.column_use import column_use
from forecast.evaluation.evaluate import Protocol
from forecast.models.base import ForecastModel, WindowShape

N, L, P = 701, 19, 5
COLUMNS = ("sales", "visitors", "promo", "moon", "colour")
KNOWN = COLUMNS[2:]
ROLES = {"visitors": "past", **dict.fromkeys(KNOWN, "known")}


class Knowing(ForecastModel):
    """The promotion of each step, a little of the moon, and of the last visitors."""

    def forecast(self, past, past_known, future_known):
        promo, moon, _colour = future_known[..., -3:].unbind(-1)
        return (promo + 0.1 * moon + 0.05 * past[:, -1:, 1]).unsqueeze(2)


def frame():
    draws = np.random.default_rng(0)
    columns = draws.normal(size=(N, 5))
    columns[:, 0] = 7 + 3 * columns[:, 2] + 0.1 * draws.normal(size=N)  # the sales are the promotion
    times = pd.date_range("2021-03-01", periods=N, freq="h")
    return series_frame(columns, times, COLUMNS, "h", "own.csv")


@pytest.fixture(scope="module")
def one_series():
    lengths = {"seq_len": L, "pred_len": P}
    table = frame()
    splits = split_rows(table, ShareSplit(), **lengths)
    return prepare(table, splits=splits, targets=(0,), encoding="timeF", covariates=KNOWN, **lengths)


def model_for(data):
    lengths = {"seq_len": L, "label_len": 0, "pred_len": P}
    window = WindowShape(
        n_columns=data.n_columns,
        targets=(0,),
        n_known=data.n_known,
        covariates=data.covariate_sizes,
        **lengths,
    )
    return Knowing(window)


def test_columns_are_told_apart(one_series):
    found = column_use(model_for(one_series), one_series, split="test", protocol=Protocol(), roles=ROLES)
    assert {name: row["use"] for name, row in found.items()} == {
        "visitors": "useless",
        "promo": "useful",
        "moon": "useless",
        "colour": "without effect",
    }
    assert {name: row["role"] for name, row in found.items()} == ROLES
    # Two independent standard normal numbers differ by 2 / sqrt(pi) on average.
    assert found["promo"]["change"] == pytest.approx(2 / np.sqrt(np.pi), rel=0.1)
    assert found["promo"]["importance"] == pytest.approx(2 / np.sqrt(np.pi), rel=0.15)
    assert found["moon"]["change"] == pytest.approx(0.1 * 2 / np.sqrt(np.pi), rel=0.1)
    assert found["colour"] == {"role": "known", "change": 0.0, "importance": 0.0, "error": 0.0, "use": "without effect"}


def test_a_model_that_looks_less_far_back_than_the_window(one_series):
    class Short(Knowing):
        look_back = 3

    model = model_for(one_series)
    model.__class__ = Short
    found = column_use(model, one_series, split="test", protocol=Protocol(), roles=ROLES)
    assert found["promo"]["use"] == "useful"


def test_the_figures_of_a_column_do_not_depend_on_which_others_are_asked_for(one_series):
    asked = [ROLES, {"promo": "known"}]
    all_of_them, alone = (
        column_use(model_for(one_series), one_series, split="val", protocol=Protocol(), roles=roles) for roles in asked
    )
    assert alone["promo"] == all_of_them["promo"]


def test_the_data_are_left_as_they_were(one_series):
    before = one_series.kept.clone()
    column_use(model_for(one_series), one_series, split="test", protocol=Protocol(stride=P), roles=ROLES)
    assert torch.equal(one_series.kept, before)


def test_series_of_a_panel_exchange_their_columns_too():
    lengths = (61, 67, 43, 89, 71, 43, 97)
    draws = np.random.default_rng(0)
    values = draws.normal(size=(sum(lengths), 5))
    values[:, 0] = values[:, 2]
    frame = panel(lengths, columns=COLUMNS, values=values)
    data = prepare(
        frame,
        splits=panel_cuts(LastSplit(horizon=P, val=3, test=3), frame, pred_len=P),
        targets=(0,),
        seq_len=L,
        pred_len=P,
        encoding="timeF",
        pad=False,
        scaling="series",
        covariates=KNOWN,
    )
    found = column_use(model_for(data), data, split="test", protocol=Protocol(), roles=ROLES)
    assert found["promo"]["use"] == "useful" and found["colour"]["use"] == "without effect"


def test_one_window_has_nothing_to_exchange(one_series):
    only = Protocol(stride=10_000)
    assert column_use(model_for(one_series), one_series, split="test", protocol=only, roles=ROLES) == {}
