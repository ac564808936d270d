"""The scale of a panel in a checkpoint: kept to the bit, and given to known series; others have their own."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from panels import made_panel
from scales import scales_of

from forecast.data.panel import PanelFrame
from forecast.data.saved_scale import SavedScale, ids_of
from forecast.data.scaling import SeasonalDifferences
from forecast.data.split import TargetRows

LENGTHS = (7, 3, 11)


def panel(ids, lengths=LENGTHS, *, seed=0, measured=None):
    values = np.random.default_rng(seed).normal(50, 5, size=(sum(lengths), 2)).astype(np.float64)
    return PanelFrame(
        values=values,
        offsets=np.cumsum([0, *lengths]),
        steps=np.zeros(len(lengths), dtype=np.int64),
        ids=np.array(ids),
        first=pd.Timestamp("2024-01-01"),
        freq="D",
        columns=("a", "b"),
        name="panel",
        measured=measured,
    )


def fitted(frame, how="series"):
    return scales_of(frame, how, TargetRows(frame.offsets[:-1], frame.offsets[1:] - 1), context=2)


def naive_of(frame):
    """What MASE divides by, of one target, another number for each series."""
    absolute = np.arange(1.0, len(frame) + 1)[:, None]
    return SeasonalDifferences(period=7, absolute=absolute, squared=2 * absolute)


def saved_of(scaler, frame):
    return SavedScale.of(scaler, frame.ids, naive_of(frame))


def through_a_file(scale):
    """As a checkpoint keeps it: loaded without anything being executed."""
    file = io.BytesIO()
    torch.save(scale.state(), file)
    file.seek(0)
    return SavedScale.from_state(torch.load(file, weights_only=True))


@pytest.mark.parametrize("how", ["series", "global", "none"])
def test_a_file_gives_each_trained_series_its_scale_to_the_bit(how):
    frame = panel(["x", "y", "z"])
    scaler = fitted(frame, how)
    kept = through_a_file(saved_of(scaler, frame))
    again = kept.scaler(frame)
    assert (again.mean == scaler.mean).all() and (again.std == scaler.std).all()
    assert again.how == how and not again.own.any() and (kept.places(frame.ids) >= 0).all()


@pytest.mark.parametrize("ids", [["a\nb", "a", "b"], ["", "\\n", "\n"], ["ä", "日本", "\\"]])
def test_ids_may_be_any_text(ids):
    frame = panel(ids)
    kept = through_a_file(saved_of(fitted(frame), frame))
    assert kept.ids.tolist() == ids
    assert ids_of(b"a\nb\\\\c").tolist() == ["a", r"b\c"], "as 1.0 wrote them"


def test_series_are_found_by_their_ids_in_whatever_order_they_come():
    trained = panel(["x", "y", "z"])
    scaler = fitted(trained)
    other = panel(["z", "new", "x"], seed=1)
    found = saved_of(scaler, trained).scaler(other)
    assert found.own.tolist() == [False, True, False]
    assert (found.mean[0] == scaler.mean[2]).all() and (found.mean[2] == scaler.mean[0]).all()


@pytest.mark.parametrize(("context", "rows"), [(None, 3), (2, 2), (9, 3)])
def test_a_series_that_was_not_trained_on_has_the_scale_of_its_own_first_rows(context, rows):
    trained = panel(["x", "y", "z"])
    other = panel(["x", "new", "z"], seed=1)
    found = saved_of(fitted(trained), trained).scaler(other, context=context)
    own = other.rows(1)[:rows].astype(np.float64)
    np.testing.assert_allclose(found.mean[1], own.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.std[1], own.std(0), rtol=1e-12)


def test_made_up_cells_have_no_part_in_it_and_a_constant_series_is_not_divided_by_nothing():
    measured = np.ones((sum(LENGTHS), 2), dtype=bool)
    measured[8, 0] = False
    other = panel(["x", "new", "z"], seed=1, measured=measured)
    other.values[7:10, 1] = 3.5
    trained = panel(["x", "y", "z"])
    found = saved_of(fitted(trained), trained).scaler(other)
    known = other.rows(1)[[0, 2], 0].astype(np.float64)
    np.testing.assert_allclose([found.mean[1, 0], found.std[1, 0]], [known.mean(), known.std()], rtol=1e-12)
    assert found.mean[1, 1] == 3.5 and found.std[1, 1] == 1.0


def test_where_all_have_one_scale_a_new_series_has_it_too_and_is_known_as_new():
    trained = panel(["x", "y", "z"])
    scaler = fitted(trained, "global")
    other = panel(["x", "new", "z"], seed=1)
    kept = saved_of(scaler, trained)
    assert kept.places(other.ids).tolist() == [0, -1, 2]
    assert (kept.scaler(other).mean == scaler.mean[0]).all() and not kept.scaler(other).own.any()


def test_a_million_series_take_no_list_of_parts():
    frame = panel(["x", "y", "z"])
    state = saved_of(fitted(frame), frame).state()
    assert all(isinstance(part, torch.Tensor | str | int | None) for key, part in state.items() if key != "naive")
    assert {name for name, part in state.items() if isinstance(part, torch.Tensor)} == {"ids", "mean", "std"}


def test_a_trained_series_has_the_naive_errors_of_its_train_rows_and_a_new_one_its_own():
    trained, other = panel(["x", "y", "z"]), panel(["z", "new", "x"], seed=1)
    own = SeasonalDifferences(period=7, absolute=np.full((3, 1), 11.0), squared=np.full((3, 1), 13.0))
    known = through_a_file(saved_of(fitted(trained), trained)).naive_errors(own, other.ids)
    assert known.absolute[:, 0].tolist() == [3.0, 11.0, 1.0] and known.squared[:, 0].tolist() == [6.0, 13.0, 2.0]


def test_scaled_by_seasonal_differences_an_unseen_series_has_its_own():
    """Of a series that rises by one each row the difference from 3 rows before is 3."""
    frame = made_panel()
    rows = TargetRows(frame.offsets[:-1], frame.offsets[1:])
    scaler = scales_of(frame, "season", rows, context=11, period=3)
    assert scaler.std[:4].tolist() == [[3.0]] * 4 and scaler.std[4] == 0.5  # of two rows: their deviation
    saved = SavedScale.from_state(saved_of(scaler, frame).state())
    assert saved.how == "season" and saved.period == 3
    other = replace(frame, ids=np.array(["new", *frame.ids[1:]]), values=2 * frame.values)
    found = saved.scaler(other, context=7)
    assert found.own.tolist() == [True, False, False, False, False]
    assert found.std[0] == 6.0 and np.array_equal(found.std[1:], scaler.std[1:]) and found.period == 3
