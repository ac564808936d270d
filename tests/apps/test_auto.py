"""`forecast auto`: from a file to a forecast, a leaderboard, a page and a checkpoint, in the time that was given."""

import argparse
import io
import json
import pickle
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import forked
import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from program import call, refusal

from forecast import Forecaster
from forecast.apps.auto import steps
from forecast.apps.auto.budget import check_folder, default_folder
from forecast.apps.auto.command import PRESETS, Auto
from forecast.checkpoint.load import load_checkpoint
from forecast.config.compose import options
from forecast.config.run_config import composed
from forecast.errors import UserError
from forecast.evaluation.leakage_windows import NothingShown
from forecast.jobs import Ended
from forecast.report.verdict import SHARED_ROWS, verdict
from forecast.run_folder.lock import in_use, release

ROWS, PERIOD, H = 503, 24, 7
COLUMNS = {"model", "validation", "test", "mase", "seconds", "chosen", "weight"}
BASELINES = ["last_value", "train_mean", "closed_form_nlinear"]
MEMBERS = ["seasonal_naive", "ridge", "smoothing", "boosted_trees", *BASELINES, "informer_plus"]
FAST = ("--preset", "fast", "--horizon", str(H), "--minutes", "20")  # far more than they take


def table(rows=ROWS):
    """A day's wave and a slower one, with noise, of two columns."""
    steps, generator = np.arange(rows), np.random.default_rng(0)
    wave = np.sin(2 * np.pi * steps / PERIOD) + 0.5 * np.sin(2 * np.pi * steps / 41)
    values = np.stack([wave, -wave], 1) + 0.3 * generator.normal(size=(rows, 2))
    times = pd.date_range("2022-01-01", periods=rows, freq="h")
    return pd.DataFrame({"date": times, "load": values[:, 0].round(4), "heat": values[:, 1].round(4)})


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "own.csv"
    table().to_csv(path, index=False)
    return path


def auto(*words):
    """The command, whose time begins now and not with the process of the tests; returns what it prints."""
    with mock.patch("forecast.apps.auto.command.BEGUN", time.monotonic()), redirect_stdout(io.StringIO()) as printed:
        call("auto", *words)
    return printed.getvalue()


def board(folder):
    return json.loads((folder / "leaderboard.json").read_text())


def in_this_process(_, step, arguments, **__):
    """As run_step, whose processes are tested in test_auto_parts.py and in what is slow here."""
    try:
        return Ended(pickle.loads(pickle.dumps(getattr(steps, step)(**pickle.loads(pickle.dumps(arguments))))))
    except UserError as error:
        return Ended(error=str(error))


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """The presets with few trees and few steps of a network."""
    settings = OmegaConf.load(PRESETS)
    settings.fitted.boosted_trees["model.trees"] = 10
    settings.every_network.update({"data.batch_size": 64, "trainer.max_steps": 10})
    path = tmp_path_factory.mktemp("presets") / "presets.yaml"
    OmegaConf.save(settings, path)
    command = "forecast.apps.auto.command"
    with (
        mock.patch(f"{command}.PRESETS", path),
        mock.patch(f"{command}.begin_server"),
        mock.patch(f"{command}.run_step", in_this_process),
    ):
        yield


@pytest.fixture(scope="module")
def found(csv, brief, tmp_path_factory):
    folder = tmp_path_factory.mktemp("auto") / "out"
    auto(str(csv), *FAST, "--output", str(folder))
    return folder


def test_the_leaderboard_has_every_model_and_one_that_was_chosen(found):
    rows = board(found)
    assert {row["model"] for row in rows} - {"weighted_ensemble"} == set(MEMBERS)
    assert all(set(row) == COLUMNS for row in rows)
    assert [row["validation"] for row in rows] == sorted(row["validation"] for row in rows)
    assert sum(row["chosen"] for row in rows) == 1
    members = [row for row in rows if row["model"] != "weighted_ensemble"]
    assert sum(row["weight"] for row in members) == pytest.approx(1, abs=1e-4)


def test_the_forecast_is_of_the_steps_after_the_file_with_intervals_and_by_a_model_of_all_rows(found, csv):
    forecast = pd.read_csv(found / "forecast.csv")
    assert len(forecast) == H and forecast["date"].iloc[0] == str(table()["date"].iloc[-1] + pd.Timedelta("1h"))
    assert {"load", "heat", "load-lo-80", "load-hi-80"} <= set(forecast)
    best, refit = (found / f"checkpoints/{name}.ckpt" for name in ("best", "refit"))
    assert load_checkpoint(refit).trained_until == str(table()["date"].iloc[-1]) > load_checkpoint(best).trained_until
    again = Forecaster.load(refit).predict(csv)
    np.testing.assert_allclose(forecast["load"], again["load"], atol=1e-3)


def test_the_page_shows_the_leaderboard_and_the_run_is_a_run(found):
    page = (found / "report.html").read_text()
    assert 0 < page.index('id="ahead"') < page.index('id="verdict"') and "<h2>The forecast</h2>" in page
    assert '"title":"The forecast"' in page
    assert "Models tried" in page and "informer_plus" in page and "Chosen: " in page
    metrics = json.loads((found / "metrics.json").read_text())
    assert metrics["model"] == "weighted_ensemble" and metrics["test"]["windows"] > 50


def test_the_same_command_again_finds_all_done_and_forecasts_the_same(found, csv):
    before, begin = (found / "forecast.csv").read_bytes(), time.monotonic()
    rows, metrics = board(found), json.loads((found / "metrics.json").read_text())
    printed = auto(str(csv), *FAST, "--output", str(found))
    assert all(sentence in printed for sentence in verdict(metrics, "test"))
    assert f"Page: {found / 'report.html'}" in printed
    assert board(found) == rows and (found / "forecast.csv").read_bytes() == before
    assert time.monotonic() - begin < 60


def test_what_is_not_trained_on_all_rows_is_said_and_forecasts_as_held_out(found, csv, tmp_path, capsys):
    out = Path(shutil.copytree(found, tmp_path / "out"))
    for refitted in out.rglob("refit.ckpt"):
        refitted.unlink()

    def without_refits(module, step, arguments, **settings):
        return Ended(error="no memory") if step == "refit_run" else in_this_process(module, step, arguments)

    command = "forecast.apps.auto.command"
    with mock.patch(f"{command}.run_step", without_refits):
        printed = auto(str(csv), *FAST, "--output", str(out))
    said = capsys.readouterr().err
    weighed = [row["model"] for row in board(out) if row["weight"]]
    assert weighed and all(f"refit {name} is left out: no memory" in said for name in weighed)
    assert f"Model: {out / 'checkpoints/best.ckpt'}" in printed
    until = load_checkpoint(out / "checkpoints/best.ckpt").trained_until
    learned = f"The model has learned from the rows up to {until}, and not from those after it"
    assert learned in printed.splitlines()[-3] and learned in (out / "report.html").read_text()


def test_of_too_few_rows_for_any_window_there_is_a_forecast_with_intervals_and_it_says_that_nothing_was_judged(
    brief, tmp_path
):
    table(5).to_csv(tmp_path / "short.csv", index=False)
    words = ("--horizon", "50", "--level", "90", "--output", str(tmp_path / "out"))
    printed = auto(str(tmp_path / "short.csv"), *words)
    forecast = pd.read_csv(tmp_path / "out" / "forecast.csv")
    assert len(forecast) == 50
    low, middle, high = (forecast[f"load{end}"] for end in ("-lo-90", "", "-hi-90"))
    assert (low < middle).all() and (middle < high).all() and np.isfinite(high - low).all()
    assert "too few to judge" in printed and "its own errors on the rows that it learned from" in printed
    (row,) = board(tmp_path / "out")
    assert row["chosen"] and row["test"] is None and "too few to judge" in row["reason"]


def test_of_a_panel_the_shortest_series_are_forecast_too_and_one_without_values_is_a_failure(brief, tmp_path, capsys):
    lengths = {"a": 40, "b": 40, "c": 15, "d": 4, "e": 1, "empty": 9}
    rows = pd.concat([table(count).assign(date=table(40)["date"][:count], id=name) for name, count in lengths.items()])
    rows.loc[rows["id"] == "empty", ["load", "heat"]] = np.nan
    rows.to_csv(tmp_path / "few.csv", index=False)
    words = [str(tmp_path / "few.csv"), "--preset", "fast", "--horizon", "12", "--output", str(tmp_path / "out")]
    message = refusal(capsys, "auto", *words)
    assert "lacks series of the file: empty (no row with a value" in message
    forecast = pd.read_csv(tmp_path / "out" / "forecast.csv")
    assert forecast.groupby("id").size().to_dict() == dict.fromkeys("abcde", 12)
    said = "6 series: 5 have a forecast, 3 were judged, 2 are too short for that."
    assert said in (tmp_path / "out" / "report.html").read_text()
    assert verdict(json.loads((tmp_path / "out" / "metrics.json").read_text()), "test")[0] == SHARED_ROWS


def test_a_run_of_seconds_weighs_all_baselines_and_hands_over_a_model_of_all_rows(csv, brief, tmp_path):
    printed = auto(str(csv), *FAST[:-2], "--minutes", "0.05", "--output", str(tmp_path))
    rows = {row["model"]: row for row in board(tmp_path)}
    compared = json.loads((tmp_path / "metrics.json").read_text())["baselines"].keys()
    assert {"ridge", "seasonal_naive", *BASELINES} <= compared
    models = {"closed_form_nlinear", *options("model")} - {"smoothing"}  # a model of more settings than the baseline
    assert all(rows[name]["validation"] > 0 for name in compared & models)
    assert rows["informer_plus"]["reason"] == rows["boosted_trees"]["reason"] == "there was no time for it"
    assert rows["ridge"]["weight"] > rows["seasonal_naive"]["weight"]
    last = str(table()["date"].iloc[-1])
    assert load_checkpoint(tmp_path / "checkpoints/refit.ckpt").trained_until == last
    assert f"The model has learned from the rows up to {last}, the last" in printed.splitlines()[-3]


def with_members(run, **seconds):
    """The fitted members of a run, of which trees err least, with their seconds."""
    figures = {"seconds": 1.0, "refit_seconds": 1.0, "windows": 100, "val_seconds": 0.0, "test_seconds": 0.0}
    for name in MEMBERS[:-1]:
        errors = {"scaled": dict.fromkeys(("mse", "mae"), 0.5 if name == "boosted_trees" else 1.0)}
        of_trees = seconds if name == "boosted_trees" else {}
        (run.members / name).mkdir()
        document = {**figures, "val": errors, "test": errors, **of_trees}
        (run.members / name / "member.json").write_text(json.dumps(document))
    return run


def test_seconds_to_train_the_best_member_once_more_are_kept_before_a_network_begins(csv, tmp_path):
    run = with_members(begun(csv, tmp_path, H), seconds=600.0, refit_seconds=500.0)
    with mock.patch("forecast.apps.auto.command.run_step", return_value=Ended({"windows": 100})) as begin:
        run.train_all()
    ((_, step, arguments),) = (call.args for call in begin.call_args_list)
    assert step == "train_member" and arguments["folder"].name == "informer_plus"
    assert 250 < arguments["allowance"] < (1200 - 500) / 2


def test_the_heaviest_member_is_trained_once_more_by_the_seconds_of_the_steps_that_validation_chose(csv, tmp_path):
    run = with_members(begun(csv, tmp_path, H), seconds=80.0, refit_seconds=40.0)
    run.budget.before += 1145  # of 1200 seconds
    weighed = {"weights": [0.0, 0.13, 0.0, 0.87, 0.0, 0.0, 0.0], "alone": False}
    with mock.patch("forecast.apps.auto.command.run_step", return_value=Ended()) as begin:
        run.refit(run.judged(), weighed)
    folders = [call.args[2]["folder"].name for call in begin.call_args_list]
    assert folders == ["boosted_trees", "ridge", tmp_path.name]


# so many minutes that no network has fewer epochs for want of time, however busy the machine is
LONG = [sys.executable, "-m", "forecast", "auto", *FAST, "--minutes", "300"]
UNSEEN = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture(scope="module")
def undisturbed(csv, tmp_path_factory):
    """The folder of a run as a process, and the seconds that it took."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    forked.ready()
    begun = time.monotonic()
    forked.run([*LONG, str(csv), "--output", str(folder)], check=True, **UNSEEN)
    return folder, time.monotonic() - begun


@pytest.mark.slow
def test_no_test_row_has_a_part_in_what_is_chosen(undisturbed, tmp_path):
    scrambled = table()
    test = slice(ROWS - int(0.2 * ROWS), ROWS)
    scrambled.loc[scrambled.index[test], ["load", "heat"]] = np.random.default_rng(1).normal(size=(int(0.2 * ROWS), 2))
    scrambled.to_csv(tmp_path / "own.csv", index=False)
    forked.run([*LONG, str(tmp_path / "own.csv"), "--output", str(tmp_path / "out")], check=True, **UNSEEN)
    ours, theirs = ({row["model"]: row for row in board(folder)} for folder in (undisturbed[0], tmp_path / "out"))
    for name in MEMBERS:
        assert ours[name]["validation"] == pytest.approx(theirs[name]["validation"], abs=1e-6)
        assert ours[name]["weight"] == pytest.approx(theirs[name]["weight"], abs=1e-5)
        errors = ours[name]["test"], theirs[name]["test"]
        # noise about 0 is near to its last value: that member alone errs less on it
        assert errors[0] != errors[1] if name == "last_value" else errors[0] < errors[1]


@pytest.mark.slow
def test_seconds_are_enough_for_an_answer(csv, tmp_path):
    begin = time.monotonic()
    auto(str(csv), "--horizon", str(H), "--minutes", "0.05", "--output", str(tmp_path / "out"))
    assert len(pd.read_csv(tmp_path / "out" / "forecast.csv")) == H
    rows = board(tmp_path / "out")
    assert any(row["chosen"] for row in rows)
    assert any("no time" in row.get("reason", "") for row in rows)
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.csv"], "nowhere.csv"),
        (["FILE", "--target", "lod"], "load"),
        (["FILE", "model=ridge"], "the rest it chooses"),
        (["FILE", "data.separatr=x"], "separator"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(csv, tmp_path, capsys, words, said):
    words = [str(csv) if word == "FILE" else word for word in words]
    message = refusal(capsys, "auto", *words, "--output", str(tmp_path / "out"))
    assert said in message and "Traceback" not in message


def begun(csv, folder, horizon, *words, preset="fast"):
    """A run that has found its task, and would train now."""
    check_folder(folder)
    keys = {
        "target": None,
        "level": [80, 95],
        "settings": list(words),
        "metric": "mse",
        "preset": preset,
        "minutes": 20.0,
    }
    try:
        return Auto(argparse.Namespace(file=str(csv), horizon=horizon, **keys), folder, begun=time.monotonic())
    finally:
        release(folder / "members")


def test_a_refused_request_leaves_nothing_in_the_way_of_the_corrected_one(csv, tmp_path, capsys):
    message = refusal(capsys, "auto", str(csv), "--target", "lod", "--output", str(tmp_path / "out"))
    assert "load" in message and not (tmp_path / "out").exists()
    assert begun(csv, tmp_path / "out", 51).budget.total == 1200


def test_another_request_for_the_same_folder_is_refused(csv, tmp_path, capsys):
    begun(csv, tmp_path, H)
    (tmp_path / "members" / "ridge").mkdir()
    (tmp_path / "members" / "ridge" / "member.json").write_text("{}")
    message = refusal(capsys, "auto", str(csv), "--preset", "good", "--horizon", str(H), "--output", str(tmp_path))
    assert "another automatic run was begun there, with another minutes, preset" in message
    copy = tmp_path / "copy.csv"
    table()[:-1].to_csv(copy, index=False)
    assert "with another file, horizon, minutes" in refusal(capsys, "auto", str(copy), "--output", str(tmp_path))
    assert not in_use(tmp_path / "members") and not (tmp_path / "members" / ".lock.holder").exists()


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Ended(error="leakage check, borders: x changes"), "leakage check, borders: x changes"),
        (
            Ended(error="leakage check: NaN", kind=NothingShown.__name__),
            "Nothing could be trained. seasonal_naive: leakage check: NaN; ridge: leakage check: NaN",
        ),
        (Ended(error="no memory"), "Nothing could be trained. seasonal_naive: no memory; ridge: no memory"),
    ],
)
def test_what_ends_without_a_model_is_one_sentence_and_its_folder_serves_the_next_command(
    csv, tmp_path, capsys, outcome, expected
):
    with mock.patch("forecast.apps.auto.command.run_step", return_value=outcome):
        message = refusal(capsys, "auto", str(csv), *FAST, "--output", str(tmp_path / "out"))
    assert expected in message and "report.html" not in message
    assert ("Nothing could be trained" in message) == expected.startswith("Nothing")
    assert not any((tmp_path / "out").glob("*.*")) and not any((tmp_path / "out" / "members").glob("*.json"))
    assert begun(csv, tmp_path / "out", H + 1).budget.before == 0


def test_every_member_is_checked_for_leaks_unless_that_is_switched_off(csv, tmp_path):
    run = begun(csv, tmp_path / "a", H)
    assert not any("leakage" in word for name in MEMBERS for word in run.overrides(name))
    off = begun(csv, tmp_path / "b", H, "checks.leakage=false")
    assert all("checks.leakage=false" in off.overrides(name) for name in MEMBERS)


@pytest.mark.parametrize("preset", ["fast", "good", "best"])
def test_each_member_is_a_training_that_is_accepted_where_columns_are_known_in_advance(tmp_path, preset):
    told = table().rename(columns={"heat": "warmth"})
    told.to_csv(tmp_path / "told.csv", index=False)
    later = pd.date_range(told["date"].iloc[-1], periods=H + 1, freq="h")[1:]
    pd.DataFrame({"date": later, "warmth": 0.0}).to_csv(tmp_path / "later.csv", index=False)
    words = ["data.known=[warmth]", "data.target=load", f"future={tmp_path / 'later.csv'}"]
    run = begun(tmp_path / "told.csv", tmp_path / "out", H, *words, preset=preset)
    configs = {name: composed(run.overrides(name)).config for name in run.names}
    assert configs["informer_plus_ahead"].seq_len == 7 * 24 and configs["ridge"].seq_len != 7 * 24
    assert configs["informer_plus_ahead"].networks == 5
    alone = [name for name, config in configs.items() if not config.data.get("known")]
    assert alone == ["seasonal_naive", "smoothing", *BASELINES]


def test_without_a_folder_it_is_called_after_the_file():
    assert default_folder("data/own.csv") == Path("auto/own")
    with pytest.raises(UserError, match=r"shops/\*\.csv names several files\. Say where .* --output DIR"):
        default_folder("shops/*.csv")


def test_a_folder_with_other_files_is_not_touched(csv, tmp_path, capsys):
    (tmp_path / "forecast.csv").write_text("mine")
    assert "forecast.csv" in refusal(capsys, "auto", str(csv), *FAST, "--output", str(tmp_path))
    assert (tmp_path / "forecast.csv").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_from_python_a_strangers_table_is_kept_and_a_refused_one_leaves_nothing_in_the_way(tmp_path):
    with pytest.raises(UserError, match=r"There is no column 'lod'"):
        Forecaster.auto(table(), target="lod", output=tmp_path / "out")
    assert not (tmp_path / "out" / "data.parquet").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"holds another data\.parquet\. Choose another folder"):
        Forecaster.auto(table(), horizon=H, output=tmp_path / "other")
    assert (tmp_path / "other" / "data.parquet").read_text() == "mine"


@pytest.mark.slow
def test_from_python_a_table_gives_a_forecaster_and_a_member_that_fails_is_said_and_left_out(tmp_path):
    (tmp_path / "out" / "members" / "informer_plus").mkdir(parents=True)
    (tmp_path / "out" / "members" / "informer_plus" / "pace.json").write_text('{"model.d_model": -1}')
    forecaster = Forecaster.auto(table(), horizon=H, minutes=3, output=tmp_path / "out", preset="fast", target="load")
    predicted = forecaster.predict()
    assert list(predicted)[:2] == ["date", "load"] and len(predicted) == H
    shown = forecaster.leaderboard()
    assert list(shown["model"]) == [row["model"] for row in board(tmp_path / "out")] and shown["chosen"].sum() == 1
    rows = {row["model"]: row for row in board(tmp_path / "out")}
    assert "must be" in rows["informer_plus"]["reason"] and rows["informer_plus"]["validation"] is None
    assert rows["ridge"]["validation"] > 0 and board(tmp_path / "out")[0]["validation"] > 0
    assert len(pd.read_csv(tmp_path / "out" / "forecast.csv")) == H


# The logs that the steps of a run begin with, in their order. After each of them a kill comes, at a random moment.
STEPS = ["seasonal_naive", "ridge", "boosted_trees", "informer_plus", "ensemble"]
STEPS += ["refit_ridge", "refit_informer_plus", "refit_ensemble"]
SOON = 0.05  # of the whole run


@pytest.mark.slow
def test_killed_at_eight_moments_it_ends_with_the_same_leaderboard(undisturbed, csv, tmp_path):
    found, lasts = undisturbed
    out, draws = tmp_path / "out", np.random.default_rng(3)
    words = [*LONG, str(csv), "--output", str(out)]
    moments = [(out / f"members/{name}.log", SOON * lasts * draws.uniform()) for name in STEPS]
    for name, seconds in moments:
        # the first is an interpreter of its own, with a server of forks of its own
        begin = subprocess.Popen if name == moments[0][0] else forked.Popen
        process = begin(words, start_new_session=True, **UNSEEN)
        while not name.exists():
            assert process.poll() is None, name
            time.sleep(0.01)
        time.sleep(seconds)
        assert process.poll() is None, name
        process.kill()
        process.wait()
        time.sleep(0.5)  # what it had begun ends with it
    assert len(moments) == len(STEPS) and not (out / "leaderboard.json").exists()
    forked.run(words, check=True, **UNSEEN)
    without = [{**row, "seconds": None} for row in board(out)]
    expected = [{**row, "seconds": None} for row in board(found)]
    assert without == expected
    assert (out / "forecast.csv").read_bytes() == (found / "forecast.csv").read_bytes()
