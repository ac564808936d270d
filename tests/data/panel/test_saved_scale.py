"""The scale of a panel in a checkpoint: kept to the bit, and given to known series; others have their own."""

import io

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.saved_scale import SavedScale
from forecast.data.panel.scaling import PanelScaler
from forecast.data.panel.splits import PanelRows

LENGTHS = (7, 3, 11)


def panel(ids, lengths=LENGTHS, *, seed=0, measured=None):
    values = np.random.default_rng(seed).normal(50, 5, size=(sum(lengths), 2)).astype(np.float32)
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
    return PanelScaler.fit(frame, how, PanelRows(frame.offsets[:-1], frame.offsets[1:] - 1), context=2)


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
    mean, std, unseen = through_a_file(SavedScale.of(scaler, frame.ids)).scale(frame.ids, frame)
    assert (mean == scaler.mean).all() and (std == scaler.std).all() and not unseen.any()


@pytest.mark.parametrize("ids", [["a\nb", "a", "b"], ["", "\\n", "\n"], ["ä", "日本", "\\"]])
def test_ids_may_be_any_text(ids):
    frame = panel(ids)
    kept = through_a_file(SavedScale.of(fitted(frame), frame.ids))
    assert kept.ids.tolist() == ids


def test_series_are_found_by_their_ids_in_whatever_order_they_come():
    trained = panel(["x", "y", "z"])
    scaler = fitted(trained)
    other = panel(["z", "new", "x"], seed=1)
    mean, _, unseen = SavedScale.of(scaler, trained.ids).scale(other.ids, other)
    assert unseen.tolist() == [False, True, False]
    assert (mean[0] == scaler.mean[2]).all() and (mean[2] == scaler.mean[0]).all()


@pytest.mark.parametrize(("context", "rows"), [(None, 3), (2, 2), (9, 3)])
def test_a_series_that_was_not_trained_on_has_the_scale_of_its_own_first_rows(context, rows):
    trained = panel(["x", "y", "z"])
    other = panel(["x", "new", "z"], seed=1)
    mean, std, _ = SavedScale.of(fitted(trained), trained.ids).scale(other.ids, other, context)
    own = other.rows(1)[:rows].astype(np.float64)
    np.testing.assert_allclose(mean[1], own.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std[1], own.std(0), rtol=1e-12)


def test_made_up_cells_have_no_part_in_it_and_a_constant_series_is_not_divided_by_nothing():
    measured = np.ones((sum(LENGTHS), 2), dtype=bool)
    measured[8, 0] = False
    other = panel(["x", "new", "z"], seed=1, measured=measured)
    other.values[7:10, 1] = 3.5
    trained = panel(["x", "y", "z"])
    mean, std, _ = SavedScale.of(fitted(trained), trained.ids).scale(other.ids, other)
    known = other.rows(1)[[0, 2], 0].astype(np.float64)
    np.testing.assert_allclose([mean[1, 0], std[1, 0]], [known.mean(), known.std()], rtol=1e-12)
    assert mean[1, 1] == 3.5 and std[1, 1] == 1.0


def test_where_all_have_one_scale_a_new_series_has_it_too_and_is_known_as_new():
    trained = panel(["x", "y", "z"])
    scaler = fitted(trained, "global")
    other = panel(["x", "new", "z"], seed=1)
    mean, _, unseen = SavedScale.of(scaler, trained.ids).scale(other.ids, other)
    assert unseen.tolist() == [False, True, False]
    assert (mean == scaler.mean[0]).all()


def test_a_million_series_take_no_list_of_parts():
    frame = panel(["x", "y", "z"])
    state = SavedScale.of(fitted(frame), frame.ids).state()
    assert {name: type(part).__name__ for name, part in state.items()} == {
        "how": "str",
        **dict.fromkeys(("ids", "mean", "std"), "Tensor"),
    }
