"""What the trainings of a backtest learn from: nothing that follows, no more than their window, the weights before."""

import numpy as np
import pandas as pd
import pytest
from apps.backtests import CUTOFFS, DLINEAR, FOLDS, OF_A_FILE, PRED_LEN, RIDGE, ROWS, backtested, series
from program import call, refusal

from forecast.run_folder import read_run


def test_noise_in_place_of_all_that_follows_leaves_a_folds_forecast_the_same_to_the_bit(tmp_path):
    """Through everything: reading, scaling, season, baselines, training, calibration."""
    truth, words = (
        series(),
        [*OF_A_FILE, "backtest.folds=2", "backtest.step=7", "backtest.refit=every_fold", "level=[80]"],
    )
    tables = []
    for name in ("true", "noisy"):
        values = truth.copy()
        if name == "noisy":
            values.iloc[CUTOFFS[1] + 1 :] += 100 * np.random.default_rng(0).normal(size=ROWS - CUTOFFS[1] - 1)
        values.rename_axis("date").to_frame().to_csv(tmp_path / f"{name}.csv")
        tables.append(backtested(tmp_path / name, *words, f"data.path={tmp_path}/{name}.csv")[0])
    first, other = (table[table["fold"] == 0] for table in tables)
    assert not np.isclose(first["y"], other["y"]).any()
    pd.testing.assert_frame_equal(first.drop(columns="y"), other.drop(columns="y"), check_exact=True)
    assert (tables[0]["forecast"] != tables[1]["forecast"]).iloc[PRED_LEN:].all()


@pytest.mark.slow
def test_refitted_forecasts_learn_from_new_rows_and_a_sliding_window_forgets_old_ones(tmp_path):
    """Of a series that begins with another one: a sliding ridge has forgotten it in the last fold."""
    table = series().rename_axis("date").to_frame()
    words = [*OF_A_FILE, "backtest.folds=2", "backtest.step=300", "backtest.refit=every_fold", "calibration=none"]
    forecasts = {}
    for begins in ("same", "other"):
        changed = table.copy()
        changed.iloc[:250] += 0.0 if begins == "same" else 50 * np.random.default_rng(0).normal(size=(250, 1))
        changed.to_csv(tmp_path / f"{begins}.csv")
        for window in ("expanding", "sliding"):
            folder = tmp_path / f"{begins}-{window}"
            paths = [f"data.path={tmp_path}/{begins}.csv", f"backtest.window={window}"]
            forecasts[begins, window] = backtested(folder, *words, *paths)[0]["forecast"].to_numpy()[-PRED_LEN:]
    np.testing.assert_array_equal(forecasts["same", "sliding"], forecasts["other", "sliding"])
    assert not np.isclose(forecasts["same", "expanding"], forecasts["other", "expanding"]).any()


@pytest.mark.parametrize("words", [(), ("data.path",)], ids=["the data trained on", "another file"])
def test_a_model_trained_once_more_on_all_rows_is_not_looked_back_with(words, tmp_path, capsys):
    call("train", *RIDGE, "refit=true", "calibration=none", f"hydra.run.dir={tmp_path}/run")
    best = tmp_path / "run/checkpoints/best.ckpt"
    series().rename_axis("date").to_frame().to_csv(tmp_path / "f.csv")
    more = [f"{word}={tmp_path}/f.csv" for word in words]
    common = ["backtest.folds=2", f"hydra.run.dir={tmp_path}/b", *more]
    text = refusal(capsys, "backtest", f"ckpt_path={best.with_name('refit.ckpt')}", *common)
    assert f"Look back with the held-out model: ckpt_path={best}" in text
    call("backtest", f"ckpt_path={best}", *common)


def test_a_fold_whose_training_fails_is_named_with_its_reason_and_the_others_are_kept(tmp_path, capsys):
    table = series().rename_axis("date").to_frame()
    table.iloc[320:395:10] = np.nan  # no window of the first fold's validation is whole
    table.to_csv(tmp_path / "f.csv")
    words = [*OF_A_FILE, *FOLDS, "backtest.step=150", "backtest.refit=every_fold", "data.gaps=mask"]
    words.append(f"data.path={tmp_path}/f.csv")
    text = refusal(capsys, "backtest", *words, f"hydra.run.dir={tmp_path}/b")
    assert "fold 1 of 3 has failed: " in text and "no series has a window for val" in text
    assert "What has finished is kept, and the same command runs the rest" in text
    assert [read_run(tmp_path / f"b/folds/fold-{k}").state for k in range(3)] == ["failed", "finished", "finished"]
    assert len(list((tmp_path / "b/parts").glob("fold-*"))) == 2


def test_initial_weights_that_cannot_be_are_refused(tmp_path, capsys):
    call("train", *DLINEAR, "calibration=none", f"hydra.run.dir={tmp_path}/run")
    best = tmp_path / "run/checkpoints/best.ckpt"
    refused = {
        ("model=dlinear", "initial_weights=nowhere.ckpt"): "nowhere.ckpt: there is no such file",
        ("model=ridge", f"initial_weights={best}"): "this model is fitted at once, from no weights. Leave it out",
        ("model=nlinear", f"initial_weights={best}"): "weights of another model, or of other sizes. ",
        (
            "model=dlinear",
            "seq_len=23",
            f"initial_weights={best}",
        ): "Leave initial_weights out, or set the model's keys",
    }
    for words, says in refused.items():
        text = refusal(capsys, "train", *DLINEAR, "calibration=none", *words, f"hydra.run.dir={tmp_path}/other")
        assert says in text
