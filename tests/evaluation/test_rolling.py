"""Forecasts at the origins of a backtest: which windows, how many calls of the model, what is left out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame

from forecast.data.prepare import prepare
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines, window_shape
from forecast.evaluation.rolling import rolled
from forecast.models.naive import LastValue

SEQ_LEN, PRED_LEN, ROWS = 11, 5, 700
CPU = torch.device("cpu")


class Counted(LastValue):
    """Remembers how many windows each call had."""

    def forecast(self, past, past_known, future_known):
        self.calls = [*getattr(self, "calls", []), len(past)]
        return super().forecast(past, past_known, future_known)


@pytest.fixture(scope="module")
def data():
    values = np.random.default_rng(0).normal(size=(ROWS, 2)).cumsum(axis=0)
    frame = series_frame(values, pd.date_range("2020-01-01", periods=ROWS, freq="h"), ("a", "b"), "h", "my.csv")
    splits = {"train": range(80), "val": range(80, 99), "test": range(99, ROWS)}
    return prepare(frame, splits=splits, targets=(0, 1), seq_len=SEQ_LEN, pred_len=PRED_LEN, encoding="timeF")


def forecasts(data, folds, step, **options):
    model = Counted(window=window_shape(data))
    common = {"split": "test", "batch_size": 32, "device": CPU, "fitted": fit_baselines(data)}
    return model, rolled(model, data, folds=folds, step=step, **common, **options)


@pytest.mark.parametrize(("folds", "step", "calls"), [(20, 5, [20]), (100, 5, [100]), (7, 3, [7]), (1, 1, [1])])
def test_all_folds_are_one_batched_pass(data, folds, step, calls):
    model, table = forecasts(data, folds, step)
    assert model.calls == calls
    assert len(table) == folds * PRED_LEN * 2
    ends = table.groupby("fold")["time"].max()
    expected = data.frame.timestamps(0)[[ROWS - 1 - step * (folds - 1 - fold) for fold in range(folds)]]
    assert ends.tolist() == list(expected)


def test_the_truth_and_the_last_value_are_the_rows_of_the_frame(data):
    _, table = forecasts(data, 3, 5)
    for (fold, target), rows in table.groupby(["fold", "target"]):
        last = ROWS - 1 - 5 * (3 - fold)
        column = data.frame.values[:, data.frame.columns.index(target)]
        np.testing.assert_array_equal(rows["y"], column[last + 1 : last + 6])
        np.testing.assert_allclose(rows["forecast"], column[last], rtol=1e-4)
        np.testing.assert_allclose(rows["last_value"], rows["forecast"], rtol=1e-12)
        assert (rows["cutoff"] == data.frame.timestamps(0)[last]).all()


def test_a_fold_in_a_gap_is_left_out_and_gaps_everywhere_are_refused(data):
    filled = np.zeros(ROWS, dtype=bool)
    filled[ROWS - 8] = True  # in the truth of the last fold but one, which counts nowhere
    repair = replace(data.frame.repair, policy="mask")
    measured = ~filled[:, None] | np.zeros((1, 2), bool)
    masked = replace(data, frame=replace(data.frame, measured=measured, repair=repair))
    _, table = forecasts(masked, 5, 5)
    assert table["fold"].unique().tolist() == [0, 1, 2, 3]  # of the last one it is in the past
    assert table["y"].isna().sum() == 2
    measured[ROWS - 11] = False
    with pytest.raises(UserError, match=r"leave no origin of a backtest with a whole window. Choose another"):
        forecasts(masked, 2, 5)
