"""Windows: the right rows, whole batches, no copies of the series, fast."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data.csv_files import read_frame
from data.splits import split_rows
from evaluation.small_panels import panel, prepared
from scales import all_rows, given_scales
from tables import stacked, windows_of
from torch.utils.data import DataLoader

from forecast.data.panel import Repair
from forecast.data.split import RowSplit, WindowOrigins
from forecast.data.values.calendar import time_features
from forecast.data.windows import (
    Batch,
    Windows,
)

N, C, F, L, P = 101, 5, 3, 11, 7


def as_batch(batch):
    """For a DataLoader's collate_fn: `__getitems__` has made the batch already."""
    return batch


# Cell (row, column) holds row + column / 10: each number says where it comes from.
VALUES, KNOWN = np.add.outer(np.arange(N), np.arange(C) / 10), -np.add.outer(np.arange(N), np.arange(F) / 10)
SERIES = stacked(VALUES, KNOWN)


def windows(rows=range(N), targets=(1, 2), series=SERIES, **options):
    return windows_of(series, n_columns=C, rows=rows, seq_len=L, pred_len=P, targets=targets, **options)


@pytest.mark.parametrize(
    ("rows", "targets", "offset"),
    [
        (range(N), (0, 1, 2, 3, 4), 0),
        (range(N), (4,), 5),
        (range(23), (1, 3), 1),
        (range(19, 83), (3, 1), 5),
        (range(83, N), (0,), 0),
        (range(L + P - 1), (4,), 0),
        (range(L + P), (1, 3), 0),
        (range(L + P), (0,), 1),
    ],
)
def test_a_batch_holds_the_rows_that_a_loop_would_copy(rows, targets, offset):
    dataset = windows(rows, targets, offset=offset)
    assert len(dataset) == max(0, len(rows) - L - offset - P + 1)
    if not len(dataset):
        return
    indices = [len(dataset) - 1, 0, len(dataset) // 2]
    batch = dataset.__getitems__(indices)
    for b, index in enumerate(indices):
        t = int(dataset.places([index])[1][0] - L)
        assert t == rows.start + index
        later = t + L + offset
        past, future = slice(t, t + L), slice(later, later + P)
        copies = [VALUES[past], KNOWN[past], KNOWN[future], VALUES[future][:, list(targets)], VALUES[future]]
        for name, copy in zip(Batch._fields[:5], copies, strict=True):
            assert torch.equal(getattr(batch, name)[b], torch.tensor(copy, dtype=torch.float32)), name


def test_one_item_is_a_batch_of_one_and_no_known_features_are_a_width_of_zero():
    for one, many in zip(windows()[13][:5], windows().__getitems__([13])[:5], strict=True):
        assert torch.equal(one, many)
    batch = windows(series=stacked(VALUES, np.empty((N, 0))))[4]
    assert (batch.past_known.shape, batch.future_known.shape) == ((1, L, 0), (1, P, 0))


@pytest.mark.parametrize("rows", [range(N), range(19, 83)])
@pytest.mark.parametrize("chosen", [None, [0, 1, 17]])
def test_a_longer_look_back_changes_the_past_alone_and_repeats_the_first_row_before_the_series(rows, chosen):
    options = {"chosen": None if chosen is None else np.array(chosen), "offset": 2}
    usual, longer = windows(rows, **options), windows(rows, look_back=37, **options)
    every = range(len(usual))
    assert np.array_equal(longer.places(every), usual.places(every)) and len(longer) == len(usual)
    numbers = [0, 1, len(usual) - 1]
    batch, expected = longer.__getitems__(numbers), usual.__getitems__(numbers)
    for name in ("future_known", "target", "future"):
        assert torch.equal(getattr(batch, name), getattr(expected, name)), name
    for b, number in enumerate(numbers):
        end = usual.places([number])[1][0]
        wanted = np.maximum(0, np.arange(end - 37, end))
        assert torch.equal(batch.past[b], torch.tensor(VALUES[wanted], dtype=torch.float32))
        assert torch.equal(batch.past_known[b], torch.tensor(KNOWN[wanted], dtype=torch.float32))


@pytest.mark.parametrize("index", [-1, 84])
def test_a_window_that_does_not_exist_is_an_error(index):
    dataset = windows()
    assert len(dataset) == 84
    with pytest.raises((IndexError, RuntimeError)):
        dataset[index]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_data_loader_shuffles_and_keeps_the_ragged_last_batch(workers):
    dataset = windows()
    generator = torch.Generator().manual_seed(3)
    options = {"multiprocessing_context": "spawn"} if workers else {}
    loader = DataLoader(
        dataset, batch_size=13, shuffle=True, collate_fn=as_batch, generator=generator, num_workers=workers, **options
    )
    batches = list(loader)
    assert [len(batch.past) for batch in batches] == [13] * 6 + [6]
    assert all(isinstance(batch, Batch) for batch in batches)
    starts = torch.cat([batch.past[:, 0, 0] for batch in batches]).tolist()
    assert starts != sorted(starts)
    assert sorted(starts) == list(range(84))


@pytest.mark.parametrize("targets", [(1, 2), (3, 1)])
@pytest.mark.parametrize("size", [1, 13, 41, 43])
def test_windows_gathered_at_once_are_those_gathered_batch_by_batch(targets, size):
    dataset = windows(targets=targets)
    numbers = torch.randperm(84, generator=torch.Generator().manual_seed(3))[:41]
    batches = dataset.in_batches(numbers, size)
    expected = [dataset.__getitems__(part.tolist()) for part in numbers.split(size)]
    assert [len(batch.target) for batch in batches] == [len(batch.target) for batch in expected]
    for one, other in zip(batches, expected, strict=True):
        assert isinstance(one, Batch)
        assert all(torch.equal(x, y) for x, y in zip(one[:5], other[:5], strict=True))


def test_a_memory_mapped_series_is_read_only_where_its_windows_are(tmp_path):
    rows = 3_000_000
    mapped = np.memmap(tmp_path / "series.f64", dtype=np.float64, mode="w+", shape=(rows, C))
    late = rows - 23
    mapped[late : late + L + P] = np.arange((L + P) * C).reshape(L + P, C)
    small = windows()
    frame = replace(small.frame, values=mapped, offsets=np.array([0, rows]))
    count = np.array([rows - L - P + 1])
    origins = WindowOrigins(np.array([L]), count, count)
    sizes = {"n_columns": C, "seq_len": L, "pred_len": P, "targets": (1, 2)}
    scaler = given_scales(np.zeros(C), np.ones(C))
    calendar = torch.zeros(rows, 0)
    before = resident_bytes()
    dataset = Windows(frame, origins, calendar=calendar, scaler=scaler, **sizes)
    batch = dataset.__getitems__([late, 5])
    assert len(dataset) == rows - L - P + 1
    assert batch.past[0, :, 0].tolist() == [C * row for row in range(L)]
    assert batch.target[0, 0].tolist() == [C * L + 1, C * L + 2]
    assert batch.past[1].abs().max() == 0
    assert resident_bytes() - before < mapped.nbytes / 10


def resident_bytes():
    """What this process holds in memory, mapped files included (Linux)."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux tells")
    return 1024 * int(re.findall(r"VmRSS:\s*(\d+) kB", status.read_text())[0])


def test_a_batch_is_a_copy_that_may_be_changed_without_changing_others():
    first, second = windows().in_batches(range(26), 13)
    first.past.add_(1000)
    assert first.past.min() >= 1000 > windows()[0].past.max() and second.past.max() < 1000


@pytest.mark.golden_family("windows_")  # licensed data, so not in tests/golden: run with --golden FOLDER
def test_golden_windows_of_the_ett_loader(case, ett_root):
    config = json.loads(str(case["config"]))
    seq_len, label_len, pred_len = (config[key] for key in ("seq_len", "label_len", "pred_len"))
    columns = ["OT"] if config["features"] == "S" else None
    frame = read_frame(ett_root / f"{config['data']}.csv", columns=columns)
    parts = split_rows(frame, RowSplit(train=8640, val=2880, test=2880), seq_len=seq_len, pred_len=pred_len)
    scaler = all_rows(frame.values[parts["train"]], frame.columns)
    np.testing.assert_allclose(scaler.mean[0], case["scaler/mean"], rtol=1e-12)
    np.testing.assert_allclose(scaler.std[0], case["scaler/std"], rtol=1e-12)
    n_columns = len(frame.columns)
    series = stacked((frame.values - scaler.mean) / scaler.std, time_features(frame.timestamps, frame.freq))
    for part in ("train", "val", "test"):
        rows = range(max(0, parts[part].start - seq_len), parts[part].stop)
        lengths = {"seq_len": seq_len, "pred_len": pred_len}
        dataset = windows_of(series, n_columns=n_columns, rows=rows, targets=range(n_columns), **lengths)
        assert len(dataset) == case[f"{part}/count"]
        for which, index in (("first", 0), ("last", len(dataset) - 1)):
            batch = dataset[index]
            where = f"{part}/{which}"
            start = seq_len - label_len  # y begins with the start token, the end of the past
            y = torch.cat([batch.past[:, start:], batch.target], dim=1)
            y_mark = torch.cat([batch.past_known[:, start:], batch.future_known], dim=1)
            ours = {"x": batch.past, "x_mark": batch.past_known, "y": y, "y_mark": y_mark}
            for name, tensor in ours.items():
                np.testing.assert_allclose(tensor[0], case[f"{where}/{name}"], atol=1e-5, err_msg=f"{where}/{name}")


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("covariates", [(), ("x",)])
def test_windows_of_a_mapped_file_are_scaled_as_they_are_drawn_to_the_same_bits(gaps, pad, covariates, tmp_path):
    frame = replace(panel(gaps=gaps), repair=Repair("interpolate"))
    data = prepared(frame, pad=pad, targets=(0,), covariates=covariates)
    data.frame.values.tofile(tmp_path / "values")
    values = np.memmap(tmp_path / "values", dtype=np.float64, mode="r", shape=frame.values.shape)
    drawn = replace(data, frame=replace(data.frame, values=values), kept=None)
    assert data.kept is not None and drawn.kept is None
    for split in ("train", "val", "test"):
        for look_back in (None, 2 * data.seq_len):
            kept, other = (one.windows(split, look_back=look_back, masked=True) for one in (data, drawn))
            numbers = range(len(kept))
            for name, one, two in zip(
                Batch._fields, kept.__getitems__(numbers), other.__getitems__(numbers), strict=True
            ):
                assert (one is None) == (two is None) and (one is None or torch.equal(one, two)), name
