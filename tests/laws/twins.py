"""The same rows as one series and as a panel of one, and what is made of them, as plain arrays and plain values.

The laws compare what is here alone: a stage of the redesign that renames a class changes this file, and no law.
"""

import dataclasses
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from config.composed import run_config
from hypothesis import strategies as st

from forecast.apps.common.training_data import read_data
from forecast.data.sources import CsvSource
from forecast.data.split import DateSplit, FoldSplit, LastSplit, RowSplit, ShareSplit
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines, make_baselines, season
from forecast.evaluation.evaluate import Protocol, evaluate
from forecast.evaluation.metrics import naive_errors

SERIES, PANEL, ID = "a series", "a panel of one", "shop"
FIRST = pd.Timestamp("2020-01-06")
ROWS, SEQ_LEN, PRED_LEN = 97, 7, 3


@dataclass(frozen=True)
class File:
    """Rows of a file, and how they are read.

    rows: of the whole grid. absent: rows that the file does not hold; empty: cells (row, column) without a value;
    repeated: rows that it holds twice, the second time 1 higher. level: the mean of the columns c0, c1, ... split, and
    what `keys` names: as data.KEY. given: the rows themselves, in place of generated ones.
    """

    rows: int = ROWS
    columns: int = 2
    absent: tuple[int, ...] = ()
    empty: tuple[tuple[int, int], ...] = ()
    repeated: tuple[int, ...] = ()
    seed: int = 0
    level: float = 10.0
    freq: str = "D"
    split: object = field(default_factory=ShareSplit)
    keys: tuple[tuple[str, object], ...] = ()
    seq_len: int = SEQ_LEN
    given: pd.DataFrame | None = field(default=None, compare=False, repr=False)

    def table(self):
        """The rows, in the order of time; `given`, where there are such."""
        if self.given is not None:
            return self.given
        rng, rows = np.random.default_rng(self.seed), np.arange(self.rows)
        values = self.level + 3 * np.sin(2 * np.pi * rows / 7)[:, None] + rng.normal(size=(self.rows, self.columns))
        values = values.round(3)
        for row, column in self.empty:
            values[row, column] = np.nan
        table = pd.DataFrame(values, columns=[f"c{i}" for i in range(self.columns)])
        table.insert(0, "date", pd.date_range(FIRST, periods=self.rows, freq=self.freq))
        again = table.iloc[list(self.repeated)].copy()
        again.iloc[:, 1:] += 1
        kept = table.drop(index=list(self.absent))
        return pd.concat([kept, again]).sort_values("date", kind="stable", ignore_index=True)

    def with_keys(self, **keys):
        """The same read with other keys of data=csv."""
        return dataclasses.replace(self, keys=(*self.keys, *keys.items()))


def series_file(file, path):
    """Writes the rows as one series; the keys that read them."""
    file.table().to_csv(path, index=False)
    return {}


def long_file(file, path):
    """Writes the rows with an id column; the keys that read them."""
    table = file.table()
    table.insert(0, ID, "berlin")
    table.to_csv(path, index=False)
    return {"id_column": ID}


@contextmanager
def written(file, write):
    """The source of a file, for as long as that is there."""
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "rows.csv"
        keys = {"path": str(path), "target": None, **dict(file.keys), **write(file, path)}
        yield CsvSource(split=file.split, **keys)
    finally:
        shutil.rmtree(folder)


def read(file, write):
    """The data of a training, or the sentence with which it is refused."""
    try:
        with written(file, write) as source:
            return read_data(source, run_config("model=dlinear").with_(seq_len=file.seq_len, pred_len=PRED_LEN))
    except UserError as error:
        return str(error)


def both(file):
    """The file as a series and as a panel of one."""
    return read(file, series_file), read(file, long_file)


def is_panel(data):
    return data.frame.id_column is not None


def windows_of(data, split, series=0):
    """The windows of a split: when each forecast begins -> its past, what is known, its targets, what counts.

    series: of a panel, the number of that which is looked at.
    """
    windows = data.windows(split)
    numbers = np.arange(len(windows))
    numbers = np.flatnonzero(windows.places(numbers)[0] == series)
    _, rows = windows.places(numbers)
    times = data.frame.calendar()[rows - data.frame.offsets[series] + data.frame.steps[series]]
    if not len(numbers):
        return {}
    batch = windows.__getitems__(numbers)
    measured = torch.ones_like(batch.target, dtype=torch.bool) if batch.measured is None else batch.measured
    parts = [batch.past, batch.past_known, batch.future_known, torch.where(measured, batch.target, torch.nan), measured]
    return {str(time): [part[i].numpy() for part in parts] for i, time in enumerate(times)}


def scale_of(data, series=0):
    """Mean and deviation (2, C)."""
    return np.stack([data.scaler.mean[series], data.scaler.std[series]])


def naive_of(data, series=0):
    """By what MASE and RMSSE are scaled (2, T), scaled units."""
    scale = naive_errors(data, "test")
    return np.stack([scale.absolute[series], scale.squared[series]])


def fits_of(data):
    """The season, and the weights of the fitted baselines by name."""
    return {"season": np.array(season(data) or 0), **{k: w.numpy() for k, w in fit_baselines(data).items()}}


def evaluated(data, fitted):
    """The last value, and baselines, on the test windows."""
    model = make_baselines(data)["last_value"].eval()
    options = {"protocol": Protocol(), "batch_size": 32, "device": torch.device("cpu")}
    return evaluate(model, data, split="test", fitted=fitted, **options)


def errors_of_series(data, series):
    """All metrics (T,) of one series of a panel, of the forecasters that learn from its own past alone."""
    evaluation = evaluated(data, {})
    forecasters = {"model": evaluation.errors, **evaluation.baselines}
    return {
        f"{name} {key}": values[series]
        for name, errors in forecasters.items()
        for key, values in errors.series(evaluation.naive).items()
    }


def errors_of(data):
    """MSE and MAE in scaled units, sMAPE, and how many windows, of last value and the baselines, by forecaster."""
    evaluation = evaluated(data, fit_baselines(data))
    numbers = {"windows": evaluation.errors.n_windows}
    for name, errors in {"model": evaluation.errors, **evaluation.baselines}.items():
        overall = errors.overall()
        numbers |= {f"{name} {key}": overall["scaled"][key] for key in ("mse", "mae", "bias")}
        numbers[f"{name} smape"] = overall["smape"]
    return {key: np.array(value, dtype=float) for key, value in numbers.items()}


SPLITS = st.sampled_from(
    [
        ShareSplit(),
        ShareSplit(train=0.5, val=0.2, test=0.3),
        RowSplit(train=41, val=11, test=13),
        LastSplit(horizon=PRED_LEN, val=2, test=4),
        DateSplit(val_start="2020-02-10", test_start="2020-02-20"),
        FoldSplit(folds=3, step=2, horizon=PRED_LEN, fold=1),
        FoldSplit(folds=3, step=2, horizon=PRED_LEN),
    ]
)
ROLES = st.sampled_from(
    [
        {},
        {"features": "S"},
        {"features": "MS"},
        {"target": ["c0"], "past": ["c1"]},
        {"target": ["c1"], "known": ["c0"]},
        {"season": 5},
        {"duplicates": "mean"},
        {"duplicates": "first"},
        {"duplicates": "last"},
        {"duplicates": "sum"},
    ]
)


@st.composite
def whole_files(draw):
    """Files without a gap: lengths, splits, seasons, roles, repeated rows."""
    keys = draw(ROLES)
    rows = draw(st.integers(67, 131))
    repeated = draw(st.lists(st.integers(0, rows - 1), max_size=3, unique=True)) if "duplicates" in keys else ()
    return File(
        rows=rows,
        columns=draw(st.integers(2, 3)),
        repeated=tuple(repeated),
        seed=draw(st.integers(0, 99)),
        split=draw(SPLITS),
        seq_len=draw(st.integers(3, 11)),
        keys=tuple(keys.items()),
    )


@st.composite
def files_with_gaps(draw):
    """Files that lack rows and cells, none of them at an end."""
    file = draw(whole_files())
    rows = st.integers(file.seq_len + 1, file.rows - 2)
    absent = draw(st.lists(rows, max_size=4, unique=True))
    empty = draw(st.lists(st.tuples(rows, st.integers(0, 1)), min_size=1, max_size=4, unique=True))
    kept = [cell for cell in empty if cell[0] not in absent]
    return dataclasses.replace(file, absent=tuple(absent), empty=tuple(kept), repeated=())


def same(first, second, *, within=0.0):
    """Fails where two readings differ: in what they hold, where NaN stands, or by more than `within` x (1 + value)."""
    refused = [isinstance(one, str) for one in (first, second)]
    assert refused[0] == refused[1], (
        f"{(PANEL, SERIES)[refused[0]]} is served; the other: {(second, first)[refused[0]]}"
    )
    if all(refused):  # both are refused; in which words is the commands' own business
        return
    if isinstance(first, dict):
        extra = sorted(map(str, first.keys() ^ second.keys()))
        assert not extra, f"{len(first)} of {SERIES}, {len(second)} of {PANEL}; not in both: {extra[:3]}"
        for name, value in first.items():
            try:
                same(value, second[name], within=within)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            same(one, other, within=within)
    else:
        first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        assert first.shape == second.shape, f"{first.shape} of {SERIES}, {second.shape} of {PANEL}"
        np.testing.assert_allclose(second, first, rtol=within, atol=within)


def same_made(make, first, second, *, within=0.0):
    """`same` of what `make` makes of both; of data that are refused the refusals."""

    def result(data):
        try:
            return data if isinstance(data, str) else make(data)
        except UserError as error:
            return str(error)

    same(result(first), result(second), within=within)
