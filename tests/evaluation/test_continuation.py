"""The steps after the end of every series: the model's own, whatever stands beside it and however they are cut."""

from decimal import Decimal
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import torch
from models.small import informer
from panels import made_panel
from scales import scales_of

from forecast.data.split import TargetRows
from forecast.data.values.calendar import time_features
from forecast.errors import UserError
from forecast.evaluation import predict
from forecast.evaluation.predict import Continuation
from forecast.models.base import ForecastModel
from forecast.models.naive import LastValue

SEQ_LEN, PRED_LEN, N_KNOWN = 19, 5, 3
MANY = np.random.default_rng(0).integers(SEQ_LEN, 40, size=700)


def forecaster(frame, *, model=None, pad=False, targets=(0, 1, 2), scale=True):
    """An Informer that continues a panel, each series scaled by all its rows."""
    torch.manual_seed(1)
    width = {"n_columns": len(frame.columns), "targets": targets, "n_known": N_KNOWN + pad}
    model = model or informer(**width, seq_len=SEQ_LEN, pred_len=PRED_LEN).eval()

    def scales(some):
        rows = TargetRows(some.offsets[:-1], some.offsets[1:])
        return scales_of(some, "series" if scale else "none", rows, context=SEQ_LEN)

    return Continuation(
        model=model,
        frame=frame,
        scales=scales,
        targets=targets,
        seq_len=SEQ_LEN,
        pred_len=PRED_LEN,
        encoding="timeF",
        pad=pad,
        device=torch.device("cpu"),
    )


def all_ends(ends, *cuts):
    """Series and values of all blocks between the cuts."""
    edges = [0, *cuts, len(ends.series)]
    blocks = [block for first, stop in pairwise(edges) for block in ends.blocks(first, stop)]
    return np.concatenate([b.series for b in blocks]), np.concatenate([b.values for b in blocks])


def by_hand(ends, series):
    """The forecast of one series from its last rows, one window in a batch."""
    frame = ends.frame
    rows = frame.rows(series).astype(np.float64)
    taken = np.maximum(np.arange(len(rows) - SEQ_LEN, len(rows)), 0)
    past = (rows[taken] - ends.scale.mean[series]) / ends.scale.std[series]
    times = frame.timestamps(series, PRED_LEN)
    steps = np.maximum(np.arange(len(rows) - SEQ_LEN, len(rows) + PRED_LEN), 0)
    known = time_features(times, frame.freq)[steps]
    if ends.pad:
        flags = np.arange(len(rows) - SEQ_LEN, len(rows) + PRED_LEN) < 0
        known = np.concatenate([known, flags[:, None]], axis=1)
    inputs = [torch.tensor(part, dtype=torch.float32)[None] for part in (past, known[:SEQ_LEN], known[SEQ_LEN:])]
    with torch.inference_mode():
        scaled = ends.model(*inputs)[0].double().numpy()
    columns = list(ends.targets)
    return scaled * ends.scale.std[series, columns] + ends.scale.mean[series, columns]


@pytest.mark.parametrize("targets", [(0, 1, 2), (2, 0)])
def test_each_series_is_continued_from_its_own_last_rows_in_original_units(targets):
    ends = forecaster(made_panel(columns="abc", seed=3), targets=targets)
    series, values = all_ends(ends)
    assert series.tolist() == [0, 2, 3]  # those of 31, 53 and 19 rows
    for number, found in zip(series, values, strict=True):
        np.testing.assert_allclose(found, by_hand(ends, number), rtol=1e-5)


def test_a_short_series_is_padded_where_the_training_padded():
    """Its first row is repeated, with its calendar: whatever other series are beside it."""
    frame = made_panel(columns="abc", seed=3, steps=(60, 60, 60, 60, 60))
    ends = forecaster(frame, pad=True)
    series, values = all_ends(ends)
    assert series.tolist() == [0, 1, 2, 3, 4]
    for number, found in zip(series, values, strict=True):
        np.testing.assert_allclose(found, by_hand(ends, number), rtol=1e-5)


def test_a_cut_at_whole_batches_changes_no_bit():
    ends = forecaster(made_panel(MANY, columns="abc", seed=3))
    size = predict.BATCH
    series, values = all_ends(ends)
    assert len(series) == 700
    for cuts in ([size], [2 * size], [size, 2 * size]):
        again = all_ends(ends, *cuts)
        assert (again[0] == series).all() and (again[1] == values).all()


def test_no_series_sees_another_one():
    """Other values in all series but one, before it and behind it, change nothing of its forecast."""
    frame = made_panel(columns="abc", seed=3)
    _, before = all_ends(forecaster(frame))
    other = made_panel(columns="abc", seed=4)
    rows = slice(*frame.offsets[2:4])
    other.values[rows] = frame.values[rows]
    _, after = all_ends(forecaster(other))
    assert (before[1] == after[1]).all() and (before[0] != after[0]).any() and (before[2] != after[2]).any()


def test_the_model_always_gets_batches_of_one_size(monkeypatch):
    monkeypatch.setattr(predict, "BATCH", 2)
    sizes = []

    class Counted(ForecastModel):
        def forecast(self, past, past_known, future_known):
            sizes.append(len(past))
            return past[:, -PRED_LEN:]

    frame = made_panel(columns="abc", seed=3)
    window = informer(n_columns=3, n_known=N_KNOWN, seq_len=SEQ_LEN, pred_len=PRED_LEN).window
    _, values = all_ends(forecaster(frame, model=Counted(window)))
    assert sizes == [2, 2] and len(values) == 3
    for number, found in zip((0, 2, 3), values, strict=True):
        np.testing.assert_allclose(found, frame.rows(number)[-PRED_LEN:], rtol=1e-6)


def test_a_forecast_has_the_digits_that_float32_keeps():
    frame = made_panel(columns="abc", seed=3)
    frame.values[:, 0] *= 1e6
    frame.values[:, 2] *= 1e-6
    window = informer(n_columns=3, n_known=N_KNOWN, seq_len=SEQ_LEN, pred_len=PRED_LEN).window
    ends = forecaster(frame, model=LastValue(window=window))
    _, values = all_ends(ends)
    std = ends.scale.std[ends.series][:, None]
    unit = 10.0 ** (np.ceil(np.log10(std)) - 7)
    np.testing.assert_allclose(values / unit, np.rint(values / unit), rtol=1e-12)
    last = np.stack([frame.rows(s)[-1] for s in ends.series])[:, None]
    assert (np.abs(values - last) <= 2e-6 * std).all()
    assert max(len(Decimal(repr(float(value))).normalize().as_tuple().digits) for value in values.ravel()) <= 9


def test_a_series_without_a_finite_forecast_is_named():
    class Diverged(ForecastModel):
        def forecast(self, past, past_known, future_known):
            forecast = past[:, -PRED_LEN:].clone()
            forecast[1, 3] = torch.nan
            return forecast

    frame = made_panel(columns="abc", seed=3)
    window = informer(n_columns=3, n_known=N_KNOWN, seq_len=SEQ_LEN, pred_len=PRED_LEN).window
    with pytest.raises(UserError, match=r"made\.csv, series 's2': the forecasts are not finite numbers: the training"):
        all_ends(forecaster(frame, model=Diverged(window)))


@pytest.mark.parametrize(("count", "batches"), [(100, 2), (201, 8)])
def test_few_forecasts_are_made_once_however_often_they_are_read(count, batches):
    """Of a thousand rows at most; the batches of one more than that are made each time."""
    ends = forecaster(made_panel(MANY[:count], columns="abc"))
    calls = mock.Mock(side_effect=ends.model.forward)
    with mock.patch.object(type(ends.model), "forward", lambda _, *inputs: calls(*inputs)):
        first, again = all_ends(ends), all_ends(ends)
    assert calls.call_count == batches
    np.testing.assert_array_equal(first[1], again[1])
