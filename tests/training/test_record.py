"""What a checkpoint says of its data, and what the log does."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
from data.csv_files import series_frame
from data.splits import split_rows
from evaluation.small_panels import panel, prepared

from forecast.data.prepare import prepare
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit, TargetRows
from forecast.training.record import describe_data, trained_until

N, L, P = 131, 7, 3


def test_the_checksum_is_the_frames_and_constant_columns_have_one_log_line(caplog):
    values = np.random.default_rng(0).normal(size=(N, 3))
    values[:91, 1] = 7.0  # the train rows
    frame = series_frame(values, pd.date_range("2021", periods=N, freq="h"), ("a", "stuck", "c"), "h", "my.csv")
    frame = replace(frame, checksum="c0ffee")
    source, lengths = CsvSource(path="my.csv", split=ShareSplit()), {"seq_len": L, "pred_len": P}
    splits = split_rows(frame, source.split, **lengths)
    with caplog.at_level(logging.INFO, logger="forecast"):
        data = prepare(frame, splits=splits, targets=(0, 1, 2), encoding="timeF", **lengths)
        described = describe_data(source, data)
    assert (described["path"], described["checksum"]) == ("my.csv", "c0ffee")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["Constant in the train rows, so not scaled (std 1): stuck"]


def test_a_series_without_train_rows_is_not_what_a_training_knew_last():
    frame = panel((61, 43), columns=("y",))  # the second begins later
    data = prepared(frame, targets=(0,))
    train = data.splits["train"]
    late = replace(data, splits={**data.splits, "train": TargetRows(train.first, np.array([9, train.first[1]]))})
    assert trained_until(late) == str(frame.calendar()[8])
