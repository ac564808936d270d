"""What is said of a backtest: how sure, how often, which folds count, in which words."""

import numpy as np
import pandas as pd
import pytest

from forecast.comparison.backtests import cell_errors, fold_errors, printed, sentences, summary
from forecast.comparison.bootstrap import paired_interval

FOLDS, PRED_LEN = 13, 3


def table(forecast, ridge, *, y=None, folds=FOLDS, ids=("a", "b")):
    """Each forecast is the truth, 5, and an error; of two series."""
    parts = []
    for name in ids:
        rows = folds * PRED_LEN
        part = pd.DataFrame({"fold": np.repeat(np.arange(folds), PRED_LEN)})
        part["cutoff"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(part["fold"], "D")
        part["id"], part["time"], part["target"] = name, part["cutoff"] + pd.Timedelta("1h"), "load"
        part["y"] = 5.0 if y is None else y
        part["forecast"], part["lo-80"], part["hi-80"] = 5.0 + forecast, 4.0, 5.5
        part["last_value"], part["ridge"] = 6.0, 5.0 + ridge
        assert len(part) == rows
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


SCALES = pd.DataFrame({"id": ["a", "b"], "target": "load", "std": [2.0, 4.0], "naive": [0.5, 0.0]})


def document(folds, **keys):
    found = {"model": "informer", "pred_len": PRED_LEN, "step": PRED_LEN, "by_fold": folds, **keys}
    return {**found, **summary(folds, pred_len=PRED_LEN, step=found["step"])}


def of_errors(forecast, ridge, **options):
    """forecast, ridge (folds,): the error of all steps of a fold."""
    made = table(np.repeat(forecast, PRED_LEN), np.repeat(ridge, PRED_LEN), **options)
    return fold_errors(made, cell_errors(made, SCALES))


def test_each_series_is_in_units_of_its_own_and_mase_of_those_that_have_one():
    first, *_ = of_errors(np.full(FOLDS, 1.0), np.full(FOLDS, -2.0))
    assert first["fold"] == 0 and first["cutoff"] == "2024-01-01 00:00:00" and first["values"] == 2 * PRED_LEN
    assert first["model"] == pytest.approx({"mse": (0.25 + 0.0625) / 2, "mae": (0.5 + 0.25) / 2, "mase": 2.0})
    assert first["ridge"] == pytest.approx({"mse": (1 + 0.25) / 2, "mae": (1 + 0.5) / 2, "mase": 4.0})
    assert first["coverage"] == {"80": 1.0}


def test_a_cell_without_truth_does_not_count_and_a_fold_of_such_has_no_error():
    y = np.full(FOLDS * PRED_LEN, 5.0)
    y[:PRED_LEN], y[PRED_LEN] = np.nan, np.nan
    found = of_errors(np.ones(FOLDS), np.ones(FOLDS), y=y)
    assert found[0]["model"]["mse"] is None and found[0]["coverage"] == {"80": None} and found[0]["values"] == 0
    assert found[1]["values"] == 2 * (PRED_LEN - 1) and found[1]["model"]["mse"] == found[2]["model"]["mse"]
    whole = summary(found, pred_len=PRED_LEN, step=PRED_LEN)
    assert whole["differences"]["last_value"]["folds"] == FOLDS - 1


@pytest.mark.parametrize(("step", "block"), [(PRED_LEN, 1), (2 * PRED_LEN, 1), (2, 2), (1, 3)])
def test_the_interval_is_the_paired_one_with_blocks_of_the_folds_that_overlap(step, block):
    draws = np.random.default_rng(0)
    found = of_errors(draws.normal(size=FOLDS), draws.normal(size=FOLDS))
    ours, theirs = (np.array([[fold[name]["mse"] for fold in found]]) for name in ("model", "ridge"))
    expected = paired_interval(ours, theirs, block=block)
    difference = summary(found, pred_len=PRED_LEN, step=step)["differences"]["ridge"]
    assert (difference["mse"], difference["low"], difference["high"], difference["blocks"]) == expected
    assert difference["better_in"] == (ours < theirs).sum()


def test_the_verdict_says_who_was_better_how_often_and_how_sure_that_is():
    wins = document(of_errors(np.linspace(0.1, 0.3, FOLDS), np.linspace(0.8, 0.9, FOLDS)))
    first, second = sentences(wins)
    assert first.startswith("Over 13 forecasts of 3 steps, made from 2024-01-01 00:00:00 to 2024-01-13 00:00:00, the")
    assert "would have worked: its MSE is 9" in first and "below the best baseline, ridge" in first
    assert second.startswith("It had the lower MSE in 13 of 13 forecasts, and the difference to ridge is sure: 95 %")

    loses = document(of_errors(np.full(FOLDS, 0.9), np.full(FOLDS, 0.3)))
    assert "ridge would have been the better choice: the model's MSE is 800 % above it" in sentences(loses)[0]

    errors = 0.1 + 0.5 * np.random.default_rng(1).random(FOLDS)
    chance = document(of_errors(0.99 * errors, errors[::-1]))
    assert "the model's MSE is 2 % below the best baseline, ridge" in sentences(chance)[0]
    assert (
        "which of them is better is not sure" in sentences(chance)[1]
        and "More backtest.folds would tell" in sentences(chance)[1]
    )

    few = document(of_errors(np.full(4, 0.1), np.full(4, 0.3), folds=4))
    assert "in 4 of 4 forecasts; 4 apart say nothing of how sure that is, it takes 5" in sentences(few)[1]


def test_a_model_is_no_rival_of_itself_and_narrow_intervals_are_named():
    found = document(of_errors(np.full(FOLDS, 0.3), np.full(FOLDS, 0.3)), model="ridge")
    assert "below the best baseline, last value" in sentences(found)[0] and len(sentences(found)) == 2
    other = document(of_errors(np.full(FOLDS, 0.4), np.full(FOLDS, 0.3)), model="ridge")  # with other keys
    assert "the ridge baseline would have been the better choice" in sentences(other)[0]
    high = of_errors(np.full(FOLDS, 0.3), np.full(FOLDS, 0.3), y=np.tile([5.0, 6.0, 6.0], FOLDS))
    assert sentences(document(high))[-1] == "The 80 % intervals held 33 % of the truths: too narrow."


def test_the_printed_table_has_a_line_a_fold_or_the_first_and_last_of_many():
    few = printed(document(of_errors(np.full(FOLDS, 0.1), np.full(FOLDS, 0.3))))
    assert few.count("2024-01-") == FOLDS and "model less it" in few and "in 80 %" in few
    many = printed(document(of_errors(np.full(99, 0.1), np.full(99, 0.3), folds=99)))
    assert many.count("2024-0") == 30 and "2024-04-08" in many and "99 folds" in many
