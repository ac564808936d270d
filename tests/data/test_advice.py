"""What fits a file: drift of the level seen before the test rows, an Informer for as many windows as there are."""

import numpy as np
import pytest

from forecast.data.describe.check import find_drift
from forecast.data.seasonality import STEPS_TO_TRAIN, Lengths, fitted_model, informer_settings

TRAIN, VAL, ROWS = range(70), range(70, 83), 101
LENGTHS = Lengths(seq_len=96, label_len=48, pred_len=24)


def series(**levels):
    """Columns of deviation 1 around 5, and around 5 + level in the val rows."""
    columns = {name: np.tile([4.0, 6.0], 51)[:ROWS] for name in levels}
    for name, level in levels.items():
        columns[name][VAL.start : VAL.stop] = 5 + level
    return np.stack(list(columns.values()), axis=1), tuple(levels)


@pytest.mark.parametrize("level", [2.0, -0.51])
def test_a_level_drifts_when_the_val_rows_lie_off_the_train_rows(level):
    values, names = series(calm=0.3, moved=level, least=-0.2)
    assert find_drift(values * 7 - 3, names, train=TRAIN, val=VAL) == ("moved", pytest.approx(level))


def test_a_level_that_stays_or_never_moved_does_not_drift():
    values, names = series(calm=0.3, least=-0.49)
    assert find_drift(values, names, train=TRAIN, val=VAL) is None
    flat = np.ones((ROWS, 2))
    flat[VAL.start :] = 9.0  # no deviation to measure by
    assert find_drift(flat, ("a", "b"), train=TRAIN, val=VAL) is None


def test_the_test_rows_have_no_say_in_the_drift():
    values, names = series(calm=0.3, moved=0.6)
    before = find_drift(values, names, train=TRAIN, val=VAL)
    values[VAL.stop :] = 1e6
    assert find_drift(values, names, train=TRAIN, val=VAL) == before


def settings(train, val=0, test=0, lengths=LENGTHS, drifts=False):
    return informer_settings({"train": train, "val": val, "test": test}, lengths, drifts=drifts)


def test_few_windows_get_a_narrow_model_small_batches_and_instance_normalisation():
    few, some, many = settings(67), settings(1_009), settings(12_007)
    for key, values in {
        "model.d_model": [32, 64, 64],
        "data.batch_size": [8, 16, 32],
        "model.instance_norm": [True, True, None],
        "trainer.max_epochs": [119, 20, 2],
        "callbacks.early_stopping.patience": [23, 4, None],
    }.items():
        assert [one.get(key) for one in (few, some, many)] == values, key
    assert settings(12_007, drifts=True)["model.instance_norm"] is True


@pytest.mark.parametrize("rows", [144, 2_003, 10_007, 17_389, 30_011, 50_021])
@pytest.mark.parametrize("lengths", [LENGTHS, Lengths(336, 48, 24), Lengths(576, 288, 288)])
def test_no_training_takes_more_than_so_many_steps_of_windows(rows, lengths):
    counts = {"train": int(0.7 * rows), "val": rows // 10, "test": rows // 5}
    chosen = informer_settings(counts, lengths, drifts=True)
    epochs, batch_size = chosen["trainer.max_epochs"], chosen["data.batch_size"]
    batches = min(chosen.get("trainer.limit_train_batches", np.inf), counts["train"] / batch_size)
    trained = epochs * (batches * batch_size + counts["val"] / 3) + (counts["val"] + counts["test"]) / 3
    least = 2 * 50 * 32 + counts["val"] + counts["test"] / 3
    assert trained * sum(lengths) <= max(STEPS_TO_TRAIN, least * sum(lengths)) + 1
    assert epochs >= 20 or "trainer.limit_train_batches" in chosen or trained * sum(lengths) > STEPS_TO_TRAIN / 2


@pytest.mark.parametrize(
    ("val", "test", "columns", "model"),
    [
        pytest.param(216, 500, 1, "ridge", id="nine forecasts on val"),
        pytest.param(217, 500, 1, "boosted_trees", id="ten"),
        pytest.param(10_000, 20_000, 6, "boosted_trees", id="some millions of steps"),
        pytest.param(10_000, 20_000, 7, "ridge", id="more than can be evaluated in minutes"),
    ],
)
def test_trees_are_for_rows_that_can_judge_them_in_minutes(val, test, columns, model):
    windows = {"train": 100_000, "val": val, "test": test}
    found, keys = fitted_model(windows, LENGTHS, columns=columns)
    assert found == model and keys == ({"model.error": "absolute"} if model == "boosted_trees" else {})
