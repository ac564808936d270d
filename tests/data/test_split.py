"""Row ranges: in order, disjoint, long enough, and the published window counts."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from data.csv_files import series_frame
from data.splits import split_rows
from panels import made_panel

from forecast.data.prepare import prepare
from forecast.data.split import (
    DateSplit,
    FoldSplit,
    RowSplit,
    ShareSplit,
    Split,
    TargetRows,
    WindowOrigins,
    panel_cuts,
)
from forecast.errors import UserError

ETTH = RowSplit(train=8640, val=2880, test=2880)


def frame(n, freq="h"):
    return series_frame(np.zeros((n, 1)), pd.date_range("2016-07-01", periods=n, freq=freq), ("a",), freq, "my.csv")


def windows(rows, seq_len, pred_len):
    return len(WindowOrigins.of(TargetRows.of(rows), np.array([0]), context=seq_len, pred_len=pred_len))


@pytest.mark.parametrize(("seq_len", "pred_len"), [(96, 24), (48, 48), (720, 168), (336, 720)])
def test_ett_has_the_published_window_counts(seq_len, pred_len):
    parts = split_rows(frame(17420), ETTH, seq_len=seq_len, pred_len=pred_len)
    counts = {name: windows(rows, seq_len, pred_len) for name, rows in parts.items()}
    assert counts == {
        "train": 8640 - seq_len - pred_len + 1,
        "val": 2881 - pred_len,
        "test": 2881 - pred_len,
        "tail": 3021 - pred_len,
    }
    assert list(parts) == ["train", "val", "test", "tail"]


def test_ett_splits_end_at_the_published_hours():
    full = frame(17420)
    parts = split_rows(full, ETTH, seq_len=96, pred_len=24)
    last = {name: str(full.timestamps(0)[rows[-1]]) for name, rows in parts.items()}
    assert last["train"] == "2017-06-25 23:00:00"
    assert last["val"] == "2017-10-23 23:00:00"
    assert last["test"] == "2018-02-20 23:00:00"


@pytest.mark.parametrize("n", [97, 101, 1009, 17420])
def test_shares_round_as_informer2020(n):
    parts = split_rows(frame(n), ShareSplit(train=0.7, val=0.1, test=0.2))
    assert {name: len(rows) for name, rows in parts.items()} == {
        "train": int(n * 0.7),
        "val": n - int(n * 0.7) - int(n * 0.2),
        "test": int(n * 0.2),
    }


SPLITS = [
    RowSplit(train=53, val=17, test=19),
    ShareSplit(train=0.5, val=0.3, test=0.2),
    DateSplit(val_start="2016-07-03 05:00", test_start="2016-07-03 12:00:00", end="2016-07-04 00:00"),
    DateSplit(val_start="2016-07-03 05:00", test_start="2016/7/4"),
]


@pytest.mark.parametrize("split", SPLITS, ids=["rows", "shares", "dates", "dates to the end"])
def test_parts_follow_each_other_and_share_no_row(split):
    parts = split_rows(frame(101), split, seq_len=7, pred_len=5)
    rows = [row for part in parts.values() for row in part]
    assert rows == list(range(101))


FOLDS = {"folds": 4, "step": 3, "horizon": 5, "val": 0.25}


def fold_rows(fold, rows=101, **changes):
    parts = split_rows(frame(rows), FoldSplit(**{**FOLDS, "fold": fold, **changes}))
    return {name: (part.start, part.stop) for name, part in parts.items()}


def test_folds_are_a_step_apart_and_the_last_one_ends_with_the_data():
    assert [fold_rows(fold)["test"] for fold in range(4)] == [(87, 92), (90, 95), (93, 98), (96, 101)]
    assert fold_rows(None)["test"] == (87, 101)  # all of them


@pytest.mark.parametrize("window", ["expanding", "sliding"])
@pytest.mark.parametrize("fold", [*range(4), None])
def test_a_fold_learns_from_all_rows_before_its_forecast_and_from_none_after(fold, window):
    parts = fold_rows(fold, window=window)
    first = 3 * (fold or 0) if window == "sliding" else 0
    learned = parts["test"][0] - first
    assert parts["train"][0] == first and parts["train"][1] == parts["val"][0] and parts["val"][1] == parts["test"][0]
    assert parts["val"][1] - parts["val"][0] == max(5, int(0.25 * learned))
    assert window == "expanding" or learned == 87  # as many as the first


def test_of_a_sliding_window_no_row_before_its_train_rows_is_read():
    splits = split_rows(frame(101), FoldSplit(**FOLDS, fold=3, window="sliding"), seq_len=7, pred_len=5)
    data = prepare(frame(101), splits=splits, targets=(0,), seq_len=7, pred_len=5, encoding="timeF")
    assert data.windows("train").places([0])[1] - 7 == splits["train"].start == 9
    first = split_rows(frame(101), FoldSplit(**FOLDS, fold=0), seq_len=7, pred_len=5)
    assert len(
        replace(data, splits={name: TargetRows.of(rows) for name, rows in first.items()}).windows("train")
    ) == len(data.windows("train"))


def test_val_has_one_horizon_at_least():
    assert fold_rows(0, val=0.01)["val"] == (82, 87)


def test_each_series_of_a_panel_has_its_folds_at_its_own_end():
    panel = made_panel()  # 31, 7, 53, 19, 2 rows
    lengths, begin = panel.lengths, panel.offsets[:-1]
    for fold in range(4):
        cuts = panel_cuts(FoldSplit(**FOLDS, fold=fold), panel, pred_len=5)
        for s, rows in enumerate(lengths):
            of_one = fold_rows(fold, rows=int(rows)) if rows > 5 + 3 * (3 - fold) else None
            found = {name: (part.first[s] - begin[s], part.stop[s] - begin[s]) for name, part in cuts.items()}
            if of_one is None:  # it begins after this fold
                assert found["test"][1] - found["test"][0] < 5 or found["train"] == (0, 0)
            else:
                assert found == {name: of_one[name] for name in found}


def test_dates_name_the_first_row_of_each_part():
    full = frame(101)
    parts = split_rows(full, DateSplit(val_start="2016-07-03 05:00", test_start="2016-07-03 22:30", end="2016-07-04"))
    assert {name: (rows.start, rows.stop) for name, rows in parts.items()} == {
        "train": (0, 53),
        "val": (53, 71),  # 22:30 is between two rows: 22:00 is val, 23:00 test
        "test": (71, 72),
        "tail": (72, 101),
    }


def test_only_context_comes_from_the_part_before():
    for rows, first in ((range(53), 7), (range(53, 70), 53), (range(5, 70), 7)):
        origins = WindowOrigins.of(TargetRows.of(rows), np.array([0]), context=7, pred_len=5)
        assert origins.places(np.arange(len(origins)))[1].tolist() == list(range(first, rows.stop - 5 + 1))


@pytest.mark.parametrize(("left", "names"), [(4, 3), (5, 4)])
def test_a_tail_shorter_than_a_forecast_is_left_out(left, names):
    parts = split_rows(frame(89 + left), RowSplit(train=53, val=17, test=19), seq_len=7, pred_len=5)
    assert len(parts) == names


def test_train_holds_one_window_with_its_context_and_every_other_part_one_forecast():
    parts = split_rows(frame(31), RowSplit(train=12, val=5, test=5), seq_len=7, pred_len=5)
    assert [windows(parts[name], 7, 5) for name in ("train", "val", "test")] == [1, 1, 1]


@pytest.mark.parametrize("date", ["soon", "2017-13-01", "2017-01-01 00:00Z"])
def test_an_unreadable_date_is_refused(date):
    with pytest.raises(UserError, match=rf"data.split.test_start={date} is no time without a zone. Write it as"):
        split_rows(frame(31), DateSplit(val_start="2016-07-02", test_start=date))


@pytest.mark.parametrize(
    ("test_start", "end"), [("2016-07-01", None), ("2016-07-02", None), ("2016-07-02 12:00", "2016-07-02 11:00")]
)
def test_dates_out_of_order_are_refused(test_start, end):
    with pytest.raises(UserError, match=r"2016-07-02 00:00:00 then .*val_start must be before test_start"):
        split_rows(frame(31), DateSplit(val_start="2016-07-02", test_start=test_start, end=end))


def test_a_split_that_shares_rows_is_our_own_fault():
    class Bad(Split):
        def cuts(self, lengths, frame):
            return np.stack([lengths * 0, lengths - 11, lengths - 12, lengths])

    with pytest.raises(AssertionError, match="share rows"):
        split_rows(frame(31), Bad(), seq_len=7, pred_len=5)


def test_of_many_series_one_must_have_the_rows_that_are_counted():
    split = RowSplit(train=20, val=7, test=5)
    with pytest.raises(UserError, match=r"20 \+ 7 \+ 5 = 32 rows, and the longest series has 31"):
        split.cuts(np.array([31, 3]))
    assert [part.tolist() for part in split.cuts(np.array([40, 23, 3]))] == [
        [0, 0, 0],
        [20, 20, 3],
        [27, 23, 3],
        [32, 23, 3],
    ]
