"""A column known in advance that is a target is found whatever it is called; one that merely follows it is not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from data.csv_files import series_frame
from data.splits import split_rows
from evaluation.small_panels import panel, prepared

from forecast.apps.common.training_data import warn_of_known_targets
from forecast.data.panel import Repair
from forecast.data.prepare import prepare
from forecast.data.split import LastSplit, ShareSplit, TargetRows
from forecast.evaluation.known_targets import known_targets

N, L, P = 401, 19, 5
LENGTHS = (211, 307, 97)


def walk(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).cumsum() + 20


def shifted(values, lag):
    """The value `lag` rows before; the ends are filled with others."""
    return np.where(
        (np.arange(len(values)) - lag) % len(values) == np.arange(len(values)) - lag, np.roll(values, lag), 3.0
    )


def series_of(target, known, **repair):
    values = np.stack([target, walk(len(target), 1), known], axis=1)
    frame = series_frame(
        values, pd.date_range("2021-03-01", periods=len(values), freq="h"), ("y", "z", "x"), "h", "a.csv", **repair
    )
    splits = split_rows(frame, ShareSplit(), seq_len=L, pred_len=P)
    return prepare(frame, splits=splits, targets=(0, 1), seq_len=L, pred_len=P, encoding="timeF", covariates=("x",))


def panel_of(target, known):
    """target, known: of the rows of one series, made of their number and a seed."""
    parts = [np.stack([target(n, s), walk(n, 9 + s), known(n, s)], axis=1) for s, n in enumerate(LENGTHS)]
    frame = panel(LENGTHS, ("y", "z", "x"), values=np.concatenate(parts))
    return prepared(frame, targets=(0, 1), covariates=("x",), split=LastSplit(horizon=P, val=2, test=2))


COPIES = {
    "the same": (lambda y: y, 0),
    "scaled": (lambda y: 2.54 * y - 7, 0),
    "upside down": (lambda y: 100 - y, 0),
    "written with few digits": (lambda y: (0.3 * y).round(3), 0),
    "of the row before": (lambda y: shifted(y, 1), 1),
    "of the last row that is still forecast": (lambda y: shifted(y, P - 1), P - 1),
    "of later rows": (lambda y: 3 * shifted(y, -2), -2),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_target_under_another_name_is_found(kind):
    copy, lag = COPIES[kind]
    data = series_of(walk(N), copy(walk(N)))
    ends = abs(lag)  # where nothing is known of it, as at the beginning of such a column
    train = data.splits["train"]
    data = replace(data, splits=data.splits | {"train": TargetRows(train.first + ends, train.stop - ends)})
    assert known_targets(data) == {"x": f"'x' is the target 'y' at lag {lag}, or a line of it"}


@pytest.mark.parametrize("kind", ["the same", "scaled", "of the row before"])
def test_a_target_under_another_name_is_found_in_a_panel(kind):
    copy, lag = COPIES[kind]
    data = panel_of(walk, lambda n, seed: copy(walk(n + 20, seed))[:n] if lag == 0 else np.roll(walk(n, seed), lag))
    if lag:
        data.splits["train"].first[:] += lag
    assert known_targets(data) == {"x": f"'x' is the target 'y' at lag {lag}, or a line of it"}


def test_gaps_hide_no_copy():
    missing = np.random.default_rng(3).random((N, 3)) < 0.1
    values = np.where(missing, 0.0, walk(N)[:, None])
    data = series_of(values[:, 0], values[:, 2], missing=missing, repair=Repair("forward_fill"))
    assert known_targets(data) == {"x": "'x' is the target 'y' at lag 0, or a line of it"}


HONEST = {
    "a constant": lambda n, seed: np.ones(n),
    "the number of a row": lambda n, seed: np.arange(n, dtype=float),
    "the hour": lambda n, seed: np.arange(n) % 24.0,
    "a weekend": lambda n, seed: (np.arange(n) // 24 % 7 > 4).astype(float),
    "a promotion": lambda n, seed: (np.random.default_rng(seed + 50).random(n) < 0.1).astype(float),
    "another walk": lambda n, seed: walk(n, seed + 60),
    "a forecast of it": lambda n, seed: walk(n, seed) + np.random.default_rng(seed + 50).normal(size=n) / 20,
    "the target of rows that are known by then": lambda n, seed: np.roll(walk(n, seed), P),
    "a running mean": lambda n, seed: np.convolve(walk(n + 4, seed), np.ones(5) / 5, mode="valid"),
}


@pytest.mark.parametrize("kind", HONEST)
def test_what_merely_goes_with_the_target_is_no_copy_of_it(kind):
    assert not known_targets(series_of(walk(N), HONEST[kind](N, 0)))
    assert not known_targets(panel_of(walk, HONEST[kind]))


@pytest.mark.parametrize(
    "target", [np.arange(N) * 2.0, np.ones(N), np.arange(N) ** 2 / 1000.0 + np.sin(np.arange(N) / 40)]
)
def test_two_smooth_curves_are_no_copies(target):
    assert not known_targets(series_of(target, np.arange(N) * 1.0))


def test_of_a_panel_every_series_must_have_it():
    assert not known_targets(panel_of(walk, lambda n, seed: walk(n, 0 if seed else 70)))


def test_the_warning_names_column_target_and_rows_and_how_to_leave_it_out(caplog):
    warn_of_known_targets(series_of(walk(N), COPIES["scaled"][0](walk(N))))
    assert "'x' is the target 'y' at lag 0, or a line of it. What is known in advance" in caplog.text
    assert "name it in data.drop in place of data.known" in caplog.text
    caplog.clear()
    warn_of_known_targets(series_of(walk(N), walk(N, 5)))
    assert not caplog.text
