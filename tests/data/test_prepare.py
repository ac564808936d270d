"""From a frame to windows: who is scaled by what."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from copies import Copies
from data.csv_files import series_frame
from scales import given_scales

from forecast.data.prepare import prepare
from forecast.errors import UserError

N, L, P = 61, 7, 3
SPLITS = {"train": range(31), "val": range(31, 43), "test": range(43, N)}


@pytest.fixture
def frame():
    values = np.random.default_rng(0).normal(size=(N, 2)).cumsum(0) + np.array([5.0, -40.0])
    return series_frame(values, pd.date_range("2020-01-01", periods=N, freq="h"), ("a", "b"), "h", "test")


def prepared(frame, **changes):
    settings = {"splits": SPLITS, "targets": (1,), "seq_len": L, "pred_len": P, "encoding": "timeF"}
    return prepare(frame, **{**settings, **changes})


def test_only_train_rows_scale_the_data(frame):
    data = prepared(frame)
    np.testing.assert_allclose(data.scaler.mean[0], frame.values[:31].mean(0))
    np.testing.assert_allclose(data.scaler.std[0], frame.values[:31].std(0))
    expected = (frame.values - frame.values[:31].mean(0)) / frame.values[:31].std(0)
    np.testing.assert_allclose(data.kept[:, :2].numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_given_scaler_is_used_as_it_is_whatever_the_frame(frame):
    scaler = given_scales([1.0, 2.0], [3.0, 5.0])
    data = prepared(frame, scaler=scaler)
    np.testing.assert_allclose(data.kept[:, 1].numpy(), (frame.values[:, 1] - 2.0) / 5.0, rtol=1e-5)
    np.testing.assert_allclose(data.original(np.array([[[0.5]]]), np.array([0])), [[[4.5]]])
    assert (data.target_names, data.target_scale[1].tolist(), data.n_columns, data.n_known) == (["b"], [[5.0]], 2, 4)


def with_value(frame, row, value):
    values = frame.values.copy()
    values[row, 1] = value
    return replace(frame, values=values)


@pytest.mark.parametrize("value", [1e308, -1e200])
def test_train_rows_too_large_for_a_mean_or_deviation_are_refused(frame, value):
    with pytest.raises(
        UserError, match=rf"test: column 'b' reaches {re.escape(f'{abs(value):g}')}, too far .*data.gaps"
    ):
        prepared(with_value(frame, 11, value))


def test_data_on_a_device_share_one_series_there_and_give_batches_there(frame):
    data = prepared(frame)
    placed = data.on(torch.device("meta"))
    assert placed.kept.device.type == "meta" and data.kept.device.type == "cpu"
    assert {part.device.type for split in SPLITS for part in placed.windows(split)[0][:5]} == {"meta"}
    with Copies() as copies:
        again = placed.on(torch.device("meta"))
    assert copies.seen == [] and again.kept is placed.kept
    served = [again.windows(split) for split in SPLITS]
    with Copies() as copies:
        for windows in served:
            windows.in_batches(torch.arange(3, device="meta"), 2)
    assert copies.seen == [] and copies.gathered == 3


def test_of_a_mapped_file_the_rows_stay_and_batches_come_to_the_device_all_the_same(frame, tmp_path):
    frame.values.tofile(tmp_path / "values")
    mapped = np.memmap(tmp_path / "values", dtype=np.float64, mode="r", shape=frame.values.shape)
    windows = prepared(replace(frame, values=mapped)).on(torch.device("meta")).windows("train")
    assert windows.home.type == "cpu"
    assert {part.device.type for part in windows[0][:5]} == {"meta"}


def test_recent_rows_are_the_last_of_each_series_train_rows_and_of_no_other_split(frame):
    data = prepared(frame)
    some = replace(data, recent=13)
    for split in ("val", "test"):
        assert np.array_equal(some.origins(split).first, data.origins(split).first)
    assert some.origins("train").first == 31 - 13 and data.origins("train").first == L
    assert (some.origins("train").counts, data.origins("train").counts) == (13 - P + 1, 31 - L - P + 1)
    assert some.windows("train")[0].past.equal(data.windows("train")[31 - 13 - L].past)
    assert replace(data, recent=100).origins("train").first == L
