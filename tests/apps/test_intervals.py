"""Intervals through the commands: calibrated in training, reported, predicted, refused."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from apps.tunings import DLINEAR
from program import call, refusal

from forecast.apps.forecaster import Forecaster
from forecast.checkpoint.load import load_checkpoint
from forecast.evaluation.scored_intervals import windows_needed
from forecast.report.verdict import coverage_sentences
from forecast.training import calibrated
from forecast.training.calibrated import half_means

ROWS, P = 1201, 5
SIZES = ("seq_len=19", "label_len=7", f"pred_len={P}", "logger=none", "checks.leakage=false")


def noisy(rows=ROWS, seed=0, scale=1.0):
    """Two columns of hours: a daily wave and noise of size `scale`, which may be one of each row."""
    generator = np.random.default_rng(seed)
    steps = np.arange(rows)
    waves = np.stack([10 * np.sin(2 * np.pi * steps / 24), 5 * np.cos(2 * np.pi * steps / 24)], 1)
    noise = generator.normal(size=(rows, 2)) * np.broadcast_to(scale, rows)[:, None]
    table = pd.DataFrame((waves + noise).round(4), columns=["load", "wind"])
    table.insert(0, "date", pd.date_range("2022-01-01", periods=rows, freq="h"))
    return table


def train(folder, table, *changes):
    table.to_csv(folder / "own.csv", index=False)
    run = folder / "run"
    call("train", "model=ridge", "data=csv", f"data.path={folder}/own.csv", *SIZES, *changes, f"hydra.run.dir={run}")
    return run, json.loads((run / "metrics.json").read_text())


@pytest.fixture(scope="module")
def ridge(tmp_path_factory):
    return train(tmp_path_factory.mktemp("ridge"), noisy())


def best(run):
    return run / "checkpoints" / "best.ckpt"


def test_a_run_says_how_often_its_intervals_held(ridge):
    run, metrics = ridge
    test = metrics["test"]
    assert set(test["coverage"]) == {"80", "95"}
    assert test["coverage"]["80"] == pytest.approx(0.80, abs=0.05) and test["coverage"]["95"] == pytest.approx(
        0.95, abs=0.03
    )
    found = test["intervals"]
    assert found["calibration"] == "static" and found["blocks"] == int(ROWS * 0.1) // P
    # 1.2816 and 1.96 standard deviations of the noise on either side, and a little for what the ridge errs
    assert np.mean([column["levels"]["80"]["width"] for column in found["columns"].values()]) == pytest.approx(
        2 * 1.2816, rel=0.08
    )
    assert found["columns"]["wind"]["levels"]["95"]["width"] == pytest.approx(2 * 1.96, rel=0.2)
    steps = pd.read_csv(run / "metrics_by_step.csv")
    assert steps["coverage_80"].mean() == pytest.approx(test["coverage"]["80"], abs=1e-5) and len(steps) == P
    drawn = np.load(run / "forecasts.npz")
    assert drawn["lower"].shape == (*drawn["forecast"].shape, 2) and (drawn["lower"] <= drawn["upper"]).all()


def test_another_evaluation_gives_the_same_intervals(ridge, tmp_path):
    run, metrics = ridge
    call("evaluate", f"ckpt_path={best(run)}", f"hydra.run.dir={tmp_path}/e")
    assert json.loads((tmp_path / "e" / "metrics.json").read_text())["test"] == metrics["test"]


def test_an_evaluation_takes_other_levels_or_none(ridge, tmp_path):
    run, metrics = ridge
    for name, changes in {"more": ["level=[50,90]"], "none": ["calibration=none"]}.items():
        call("evaluate", f"ckpt_path={best(run)}", *changes, f"hydra.run.dir={tmp_path}/{name}")
    more, none = (json.loads((tmp_path / name / "metrics.json").read_text())["test"] for name in ("more", "none"))
    assert list(more["coverage"]) == ["50", "90"]
    assert more["intervals"]["reliability"] == metrics["test"]["intervals"]["reliability"]
    assert "coverage" not in none and "intervals" not in none and none["scaled"] == metrics["test"]["scaled"]


def test_adaptive_intervals_follow_noise_that_grows(tmp_path):
    """In the middle of the test rows the noise grows threefold: what is too narrow is said, and followed."""
    rows = 3001
    table = noisy(rows, scale=np.where(np.arange(rows) < 2700, 1.0, 3.0))
    run, metrics = train(tmp_path, table)
    call("evaluate", f"ckpt_path={best(run)}", "calibration=adaptive", f"hydra.run.dir={tmp_path}/e")
    adaptive = json.loads((tmp_path / "e" / "metrics.json").read_text())["test"]
    assert metrics["test"]["coverage"]["95"] < 0.85 and 0.92 < adaptive["coverage"]["95"] < 0.97
    assert adaptive["intervals"]["calibration"] == "adaptive" and adaptive["scaled"] == metrics["test"]["scaled"]


def test_what_is_too_narrow_is_said_in_plain_words(tmp_path, capsys):
    rows = 1201
    train(tmp_path, noisy(rows, scale=np.where(np.arange(rows) < 960, 1.0, 2.0)))
    said = " ".join(capsys.readouterr().out.split())
    assert "95 % intervals held" in said and "too narrow at every step." in said and "calibration=adaptive" in said


def test_a_forecast_has_the_ends_of_its_intervals(ridge, tmp_path):
    run, _ = ridge
    for name, changes in {"plain": [], "ends": ["level=[80,95]"]}.items():
        call("predict", f"ckpt_path={best(run)}", *changes, f"output={tmp_path}/{name}.csv")
    plain, ends = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("plain", "ends"))
    assert list(plain.columns) == ["date", "load", "wind"]
    names = [f"{name}-{end}-{level}" for name in ("load", "wind") for level in (80, 95) for end in ("lo", "hi")]
    assert list(ends.columns) == [*plain.columns, *names]
    pd.testing.assert_frame_equal(ends[plain.columns], plain)
    for name in ("load", "wind"):
        order = ends[[f"{name}-lo-95", f"{name}-lo-80", name, f"{name}-hi-80", f"{name}-hi-95"]].to_numpy()
        assert (np.diff(order) > 0).all()
    call("predict", f"ckpt_path={best(run)}", "level=[90]", f"output={tmp_path}/ends.csv")  # its own forecast
    table = Forecaster.load(best(run)).predict(level=[80, 95])
    np.testing.assert_allclose(table[names].to_numpy(), ends[names].to_numpy(), atol=1e-4)


def test_the_truths_that_come_lie_in_them(ridge):
    """Of forecasts from many histories, 80 % intervals hold about 80 % of what came."""
    run, _ = ridge
    forecaster, table = Forecaster.load(best(run)), noisy(2201, seed=1).set_index("date")
    held = []
    for end in range(400, 2200 - P, 37):
        found = forecaster.predict(table[:end], level=[80])
        truth = table[end : end + P]
        for name in ("load", "wind"):
            inside = truth[name].to_numpy() - found[f"{name}-lo-80"] >= 0
            held.append(inside & (truth[name].to_numpy() <= found[f"{name}-hi-80"]))
    assert np.mean(held) == pytest.approx(0.80, abs=0.05)


LEVELS = {
    "level=[0]": "level[0]=0: must be at least 1 and less than 100: per cent, as in level=[80,95]",
    "level=[80,100]": "level[1]=100: must be at least 1 and less than 100",
    "level=[0.8]": "level[0]=0.8: must be at least 1",
    "level=80": "level=80: must be a list",
    "calibration=rolling": "calibration=rolling: must be 'static', 'adaptive' or 'none'",
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param((program, change, words), id=f"{program} {change[:16]}")
        for program in ("train", "evaluate", "predict")
        for change, words in LEVELS.items()
        if program == "evaluate" or change == "level=[0]"
    ],
)
def test_levels_that_mean_nothing_are_refused(ridge, tmp_path, capsys, case):
    run, (program, change, words) = ridge[0], case
    own = ["model=ridge", "data=csv", f"data.path={run.parent}/own.csv", *SIZES]
    where = f"output={tmp_path}/f.csv" if program == "predict" else f"hydra.run.dir={tmp_path}/r"
    said = refusal(capsys, program, *(own if program == "train" else [f"ckpt_path={best(run)}"]), change, where)
    assert words in said.replace("\n", " ")


def test_a_level_with_too_few_windows_is_left_out_or_refused(tmp_path, capsys):
    """80 validation rows hold 16 windows of 5 steps that do not overlap, and 95 % need 19."""
    run, metrics = train(tmp_path, noisy(800))
    assert list(metrics["test"]["coverage"]) == ["80"] and metrics["test"]["intervals"]["blocks"] == 16
    assert "No intervals of 95 %" in (run / "train.log").read_text()
    said = refusal(capsys, "predict", f"ckpt_path={best(run)}", "level=[95]", f"output={tmp_path}/f.csv")
    assert "intervals of 95 % need 19 validation windows that do not overlap" in said and "calibrated on 16" in said
    typed = ["model=ridge", "data=csv", f"data.path={tmp_path}/own.csv", *SIZES, "level=[80,95]"]
    said = refusal(capsys, "train", *typed, f"hydra.run.dir={tmp_path}/again")
    assert "95 % need 19" in said and "Or ask for level=[80]" in said
    words = said.partition("For those of 95 %: ")[2].partition(". ")[0].split()
    assert words and words[0] == "data/split=last"
    _, metrics = train(tmp_path, noisy(800), *words)
    assert set(metrics["test"]["coverage"]) == {"80", "95"}


def test_where_no_split_has_windows_enough_intervals_are_of_the_errors_of_all_steps_and_say_so(tmp_path):
    """Six horizons of rows: one judges, whose five errors in two columns give one margin a column."""
    split = ["data/split=last", "data.split.val=1", "data.split.test=0", "level=[80,95]"]
    run, metrics = train(tmp_path, noisy(29), *split)
    call("predict", f"ckpt_path={best(run)}", f"output={tmp_path}/f.csv", "level=[80]")
    forecast = pd.read_csv(tmp_path / "f.csv")
    width = forecast["wind-hi-80"] - forecast["wind-lo-80"]
    assert width.min() > 0.2 and np.ptp(width) < 1e-3
    (sentence,) = coverage_sentences(metrics, "test")
    assert "80, 95 % intervals may well be too narrow" in sentence


def test_of_each_level_with_too_few_windows_the_number_it_needs_is_said():
    assert windows_needed([80.0]) == "80 % need 4"
    assert windows_needed([80.0, 95.0, 97.5]) == "80 % need 4, of 95 % 19, of 97.5 % 39"
    assert windows_needed([10.0, 20.0, 80.0]) == "10, 20 % need 1, of 80 % 4"


def test_a_level_that_was_not_calibrated_names_the_command(ridge, tmp_path, capsys):
    run, _ = ridge
    said = refusal(capsys, "predict", f"ckpt_path={best(run)}", "level=[85]", f"output={tmp_path}/f.csv")
    assert "is calibrated for 10, 20," in said and "level=[85]" in said and "forecast train" in said


def test_a_checkpoint_without_intervals_says_so(tmp_path, capsys):
    run, metrics = train(tmp_path, noisy(700), "calibration=none")
    assert "coverage" not in metrics["test"]
    said = refusal(capsys, "predict", f"ckpt_path={best(run)}", "level=[80]", f"output={tmp_path}/f.csv")
    assert "has no calibrated intervals" in said and "Leave level out" in said


def test_a_target_with_the_name_of_an_end_is_refused(tmp_path, capsys):
    run, _ = train(tmp_path, noisy(700).rename(columns={"wind": "load-lo-80"}))
    said = refusal(capsys, "predict", f"ckpt_path={best(run)}", "level=[80]", f"output={tmp_path}/f.csv")
    assert "a target is called 'load-lo-80' itself" in said


def test_a_trained_model_is_calibrated_half_by_half(tmp_path):
    """The weights that each half of the validation windows chose lie beside best.ckpt; a resumed run keeps its bits."""
    keys = [
        *(word for word in DLINEAR if "max_epochs" not in word),
        "trainer.max_epochs=4",
        f"hydra.run.dir={tmp_path}/whole",
    ]
    call("train", *keys)
    call("train", *keys[:-1], "trainer.max_epochs=2", f"hydra.run.dir={tmp_path}/parts")
    call("train", f"ckpt_path={tmp_path}/parts/checkpoints/last.ckpt", "trainer.max_epochs=4")
    whole, parts = (load_checkpoint(best(tmp_path / name)).record.calibration for name in ("whole", "parts"))
    assert whole["parts"] == 2 and torch.equal(whole["margins"], parts["margins"])
    halves = sorted(path.name for path in (tmp_path / "whole" / "checkpoints").iterdir())
    assert halves == ["best.ckpt", "chosen_by_first_half.pt", "chosen_by_second_half.pt", "last.ckpt"]


def test_each_half_is_forecast_with_the_weights_that_the_other_half_chose(tmp_path, monkeypatch):
    chosen, calibrate, parts = calibrated.chosen_weights, calibrated.calibrate, []

    def told_apart(folder):
        halves = zip(chosen(folder).items(), (1.0, 2.0), strict=True)
        return {half: {name: torch.full_like(one, value) for name, one in of.items()} for (half, of), value in halves}

    def kept(given, *args, **options):
        parts.extend(given)
        return calibrate(given, *args, **options)

    monkeypatch.setattr(calibrated, "chosen_weights", told_apart)
    monkeypatch.setattr(calibrated, "calibrate", kept)
    call("train", *DLINEAR, f"hydra.run.dir={tmp_path}/run")
    first, second = parts
    assert first.windows.start == 0 < first.windows.stop == second.windows.start == second.windows.stop // 2
    assert {one for part in first.model.state_dict().values() for one in part.flatten().tolist()} == {2.0}
    assert {one for part in second.model.state_dict().values() for one in part.flatten().tolist()} == {1.0}


def test_a_half_is_judged_by_its_own_windows():
    errors = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert half_means(errors) == (1.5, 28 / 3)
    assert np.isnan(half_means(errors[:1])[0]) and half_means(errors[:1])[1] == 1.0
