"""Windows: the right rows, whole batches, no copies of the series, fast."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from forecast.data.frame import read_frame
from forecast.data.scaling import Scaler
from forecast.data.split import RowSplit, split_rows, window_rows
from forecast.data.time_features import time_features
from forecast.data.windows import Batch, WindowDataset, as_batch, stack_series

N, C, F, L, P = 101, 5, 3, 11, 7


@pytest.fixture
def values() -> np.ndarray:
    """Cell (row, column) holds row + column / 10: each number says where it comes from."""
    return np.add.outer(np.arange(N), np.arange(C) / 10)


@pytest.fixture
def known() -> np.ndarray:
    return -np.add.outer(np.arange(N), np.arange(F) / 10)


def windows(
    values: np.ndarray,
    known: np.ndarray,
    rows: range = range(N),
    targets: tuple[int, ...] = (1, 2),
    offset: int = 0,
) -> WindowDataset:
    series = stack_series(values, known)
    return WindowDataset(series, n_columns=C, rows=rows, seq_len=L, pred_len=P, targets=targets, offset=offset)


@pytest.mark.parametrize("rows", [range(N), range(23), range(19, 83), range(90 - 7, N)])
@pytest.mark.parametrize("targets", [(0, 1, 2, 3, 4), (4,), (0,), (1, 3), (3, 1)])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_a_batch_holds_the_rows_that_a_loop_would_copy(
    values: np.ndarray, known: np.ndarray, rows: range, targets: tuple[int, ...], offset: int
) -> None:
    dataset = windows(values, known, rows, targets, offset)
    assert len(dataset) == max(0, len(rows) - L - offset - P + 1)
    if not len(dataset):
        return
    indices = [len(dataset) - 1, 0, len(dataset) // 2]
    batch = dataset.__getitems__(indices)
    for b, index in enumerate(indices):
        t = dataset.start_row(index)
        assert t == rows.start + index
        later = t + L + offset
        expected = Batch(
            *(
                torch.tensor(x, dtype=torch.float32)
                for x in (
                    values[t : t + L],
                    known[t : t + L],
                    known[later : later + P],
                    values[later : later + P][:, list(targets)],
                    values[later : later + P],
                )
            )
        )
        for name in Batch._fields:
            assert torch.equal(getattr(batch, name)[b], getattr(expected, name)), name


def test_shapes_and_dtype(values: np.ndarray, known: np.ndarray) -> None:
    batch = windows(values, known).__getitems__([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41])
    assert [tuple(x.shape) for x in batch] == [(13, L, C), (13, L, F), (13, P, F), (13, P, 2), (13, P, C)]
    assert {x.dtype for x in batch} == {torch.float32}


def test_no_known_features_are_a_width_of_zero(values: np.ndarray) -> None:
    batch = windows(values, np.empty((N, 0)))[4]
    assert (batch.past_known.shape, batch.future_known.shape) == ((1, L, 0), (1, P, 0))


@pytest.mark.parametrize(("rows", "count"), [(L + P - 1, 0), (L + P, 1), (L + P + 1, 2), (N, N - L - P + 1)])
def test_every_position_is_one_window(values: np.ndarray, known: np.ndarray, rows: int, count: int) -> None:
    assert len(windows(values, known, range(rows))) == count


def test_no_window_leaves_its_rows(values: np.ndarray, known: np.ndarray) -> None:
    dataset = windows(values, known, range(19, 83))
    batch = dataset.__getitems__(range(len(dataset)))
    assert batch.past.min() == 19
    assert batch.target.max() < 83


@pytest.mark.parametrize("index", [-1, 84])
def test_a_window_that_does_not_exist_is_an_error(values: np.ndarray, known: np.ndarray, index: int) -> None:
    dataset = windows(values, known)
    assert len(dataset) == 84
    with pytest.raises((IndexError, RuntimeError)):
        dataset[index]
    with pytest.raises(AssertionError):
        dataset.start_row(index)


def test_one_item_is_a_batch_of_one(values: np.ndarray, known: np.ndarray) -> None:
    dataset = windows(values, known)
    for one, many in zip(dataset[13], dataset.__getitems__([13]), strict=True):
        assert torch.equal(one, many)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_shuffles_and_keeps_the_ragged_last_batch(
    values: np.ndarray, known: np.ndarray, workers: int
) -> None:
    dataset = windows(values, known)
    generator = torch.Generator().manual_seed(3)
    options = {"multiprocessing_context": "spawn"} if workers else {}
    loader = DataLoader(
        dataset,
        batch_size=13,
        shuffle=True,
        collate_fn=as_batch,
        generator=generator,
        num_workers=workers,
        **options,
    )
    batches = list(loader)
    assert [len(batch.past) for batch in batches] == [13] * 6 + [6]
    assert all(isinstance(batch, Batch) for batch in batches)
    starts = torch.cat([batch.past[:, 0, 0] for batch in batches]).tolist()
    assert starts != sorted(starts)
    assert sorted(starts) == list(range(84))


def test_datasets_share_the_memory_of_the_series(values: np.ndarray, known: np.ndarray) -> None:
    series = stack_series(values, known)
    assert series.dtype == torch.float32
    assert series.is_contiguous()
    for rows in (range(53), range(42, N)):
        dataset = WindowDataset(series, n_columns=C, rows=rows, seq_len=L, pred_len=P, targets=(0,))
        assert dataset._windows.untyped_storage().data_ptr() == series.untyped_storage().data_ptr()


def test_a_batch_is_a_copy_that_may_be_changed(values: np.ndarray, known: np.ndarray) -> None:
    dataset = windows(values, known)
    dataset[3].past.add_(1000)
    assert dataset[3].past.max() < 1000


def test_scaled_values_are_rounded_to_float32_once() -> None:
    series = stack_series(np.array([[1 / 3], [2 / 3]]), np.array([[0.1], [0.2]]))
    assert series.tolist() == np.array([[1 / 3, 0.1], [2 / 3, 0.2]], dtype=np.float32).tolist()


def test_gathering_32_windows_takes_less_than_a_fifth_of_a_millisecond() -> None:
    rng = np.random.default_rng(3)
    series = stack_series(rng.normal(size=(8640, 7)), rng.normal(size=(8640, 4)))
    dataset = WindowDataset(series, n_columns=7, rows=range(8640), seq_len=96, pred_len=24, targets=range(7))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    seconds = []
    for _ in range(1000):
        indices = rng.integers(len(dataset), size=32).tolist()
        start = time.perf_counter()
        dataset.__getitems__(indices)
        seconds.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    assert np.median(seconds) < 2e-4


@pytest.mark.golden_family("windows_")  # licensed data, so not in tests/golden: run with --golden FOLDER
def test_golden_windows_of_the_ett_loader(case: dict[str, np.ndarray], ett_root: Path) -> None:
    expected, config = case, json.loads(str(case["config"]))
    seq_len, label_len, pred_len = (config[key] for key in ("seq_len", "label_len", "pred_len"))
    columns = ["OT"] if config["features"] == "S" else None
    frame = read_frame(ett_root / f"{config['data']}.csv", columns=columns)
    parts = split_rows(frame, RowSplit(train=8640, val=2880, test=2880), seq_len=seq_len, pred_len=pred_len)
    scaler = Scaler.fit(frame.values[parts["train"]], frame.columns)
    np.testing.assert_allclose(scaler.mean, expected["scaler/mean"], rtol=1e-12)
    np.testing.assert_allclose(scaler.std, expected["scaler/std"], rtol=1e-12)
    n_columns = len(frame.columns)
    series = stack_series(scaler.transform(frame.values), time_features(frame.timestamps, frame.freq))
    for part in ("train", "val", "test"):
        rows = window_rows(parts[part], seq_len=seq_len)
        dataset = WindowDataset(
            series,
            n_columns=n_columns,
            rows=rows,
            seq_len=seq_len,
            pred_len=pred_len,
            targets=range(n_columns),
        )
        assert len(dataset) == expected[f"{part}/count"]
        for which, index in (("first", 0), ("last", len(dataset) - 1)):
            batch = dataset[index]
            where = f"{part}/{which}"
            start = seq_len - label_len  # y begins with the start token, the end of the past
            y = torch.cat([batch.past[:, start:], batch.target], dim=1)
            y_mark = torch.cat([batch.past_known[:, start:], batch.future_known], dim=1)
            got = {"x": batch.past, "x_mark": batch.past_known, "y": y, "y_mark": y_mark}
            for name, tensor in got.items():
                np.testing.assert_allclose(tensor[0], expected[f"{where}/{name}"], atol=1e-5, err_msg=f"{where}/{name}")


def test_columns_that_lie_column_by_column_make_the_same_series() -> None:
    """As pandas hands them out; with one calendar feature (monthly data) nothing else puts them in order."""
    values, known = np.arange(26.0).reshape(13, 2), np.arange(13.0).reshape(13, 1)
    by_column = stack_series(np.asfortranarray(values), np.asfortranarray(known))
    assert by_column.is_contiguous()
    assert torch.equal(by_column, stack_series(values, known))
