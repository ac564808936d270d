"""`forecast update`: a forecast that is kept up, what is said of the former ones, and that it can be killed."""

import shutil
import subprocess
import sys
import time

import forked
import numpy as np
import pandas as pd
import pytest
from apps.updates import DAY, TRAINED, files_of, series, trained, updated, words, write
from filelock import FileLock
from program import call, refusal

from forecast import Forecaster
from forecast.apps.update import state as update_state

TABLE = series()


@pytest.fixture(scope="module")
def run(daily_run):
    return daily_run


def log_of(folder):
    return pd.read_csv(folder / "log.csv")


def test_each_morning_it_forecasts_what_predict_would_and_compares_yesterdays_with_what_came(run, tmp_path):
    folder, path = tmp_path / "u", tmp_path / "h.csv"
    forecaster = Forecaster.load(run / "checkpoints/best.ckpt")
    before = pd.DataFrame()
    std, errors = TABLE["load"][: int(0.4 * TRAINED * DAY)].std(ddof=0), []
    for day in range(TRAINED, TRAINED + 4):
        document = updated(run, write(path, TABLE, last=day), folder)
        latest = pd.read_csv(folder / "latest.csv", parse_dates=["date"])
        expected = forecaster.predict(path, level=[80, 90])
        assert list(latest) == ["date", "load", *(f"load-{end}-{level}" for level in (80, 90) for end in ("lo", "hi"))]
        np.testing.assert_allclose(latest.iloc[:, 1:], expected.iloc[:, 1:], rtol=1e-5)
        assert latest["date"].tolist() == TABLE["date"][day * DAY :][:DAY].tolist()
        if day > TRAINED:
            truth = TABLE["load"][(day - 1) * DAY : day * DAY].to_numpy()
            naive = TABLE["load"][(day - 2) * DAY : (day - 1) * DAY].to_numpy()
            inside = [
                low <= y <= high for low, y, high in zip(before["load-lo-80"], truth, before["load-hi-80"], strict=True)
            ]
            errors.append(np.abs(before["load"] - truth).mean() / std)
            last = log_of(folder).iloc[-1]
            assert (last["rows"], last["values"]) == (DAY, DAY)
            assert last["mae"] == pytest.approx(errors[-1], rel=1e-3)
            assert last["baseline_mae"] == pytest.approx(np.abs(naive - truth).mean() / std, rel=1e-3)
            assert last["coverage_80"] == pytest.approx(np.mean(inside), rel=1e-3)
            assert document["last"]["mae"] == pytest.approx(errors[-1], rel=1e-3)
        before = latest
    log = log_of(folder)
    assert log["time"].tolist() == [str(TABLE["date"][day * DAY - 1]) for day in range(TRAINED, TRAINED + 4)]
    assert (document["status"], document["updates"], document["alarms"], document["train_again"]) == (
        "updated",
        4,
        [],
        None,
    )
    assert document["baseline"] == "seasonal_naive" and document["output"] == str(folder / "latest.csv")


def test_the_same_file_again_is_a_plain_answer_and_changes_nothing(run, tmp_path, capsys):
    folder, path = tmp_path / "u", tmp_path / "h.csv"
    for day in (TRAINED, TRAINED + 1):
        updated(run, write(path, TABLE, last=day), folder)
    before = files_of(folder)
    call("update", *words(run, path, folder))  # exit status 0
    said = capsys.readouterr().out
    assert f"Nothing new: {path} ends at 2025-03-02 23:00:00, as before. The forecast stands." in said
    assert files_of(folder) == before
    (folder / "latest.csv").unlink()
    (folder / "log.csv").write_text("")
    assert updated(run, path, folder)["status"] == "nothing_new"
    assert files_of(folder) == before  # what somebody has deleted is there again


def test_the_new_rows_alone_are_as_good_as_the_whole_history(run, tmp_path):
    a, b, path = tmp_path / "a", tmp_path / "b", tmp_path / "h.csv"
    updated(run, write(path, TABLE, last=TRAINED), a)
    for day in (TRAINED + 1, TRAINED + 2):
        updated(run, write(path, TABLE, last=day), a)
    updated(run, write(path, TABLE, last=TRAINED), b)
    for day in (TRAINED + 1, TRAINED + 2):
        updated(run, write(path, TABLE, first=day - 1, last=day), b)
    assert (a / "latest.csv").read_bytes() == (b / "latest.csv").read_bytes()
    pd.testing.assert_frame_equal(log_of(a), log_of(b))


def test_the_file_trained_on_that_has_grown_needs_no_name_and_the_run_keeps_the_updates(tmp_path):
    run = trained(tmp_path, TABLE)
    write(tmp_path / "trained.csv", TABLE, last=TRAINED + 1)
    call("update", f"ckpt_path={run}/checkpoints/best.ckpt")
    write(tmp_path / "trained.csv", TABLE, last=TRAINED + 2)
    call("update", f"ckpt_path={run}/checkpoints/best.ckpt")
    assert log_of(run / "updates")["rows"].tolist()[1:] == [DAY]


def test_missed_days_count_as_far_as_they_were_forecast_and_hours_make_a_day_before_it_is_judged(run, tmp_path):
    folder, path = tmp_path / "u", tmp_path / "h.csv"
    rows = [TRAINED * DAY, TRAINED * DAY + 9, TRAINED * DAY + 24, (TRAINED + 3) * DAY]
    for last in rows:
        TABLE[:last].to_csv(path, index=False)
        updated(run, path, folder)
    log = log_of(folder)
    assert log["rows"].tolist()[1:] == [9, 15, 48]
    # nine of one forecast; fifteen of it, and of the one made nine hours later; then the rest of that, and a day
    assert log["values"].tolist() == [0, 9, 15 + 15, 9 + 24]
    state = update_state.read_state(folder)
    assert [line["day"] is None for line in state.log] == [True, True, False, False]


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def mornings(run, tmp_path_factory):
    """Of none and of two updates the folder after them, the history of the next, and the folder after that."""
    folder, found = tmp_path_factory.mktemp("mornings"), {}
    for days in range(3):
        before = shutil.copytree(folder / "u", folder / f"before{days}") if days else folder / "before0"
        path = write(folder / f"h{days}.csv", TABLE, last=TRAINED + days)
        updated(run, path, folder / "u")
        found[days] = before, path, files_of(folder / "u")
    return found


@pytest.mark.parametrize("moment", [(at, days) for at in (1, 2, 3) for days in (0, 2)])
def test_stopped_at_any_write_the_state_is_whole_and_the_same_command_goes_on_to_the_same_bytes(
    run, mornings, moment, tmp_path, monkeypatch
):
    """At the number of a file that takes its place; of the first update, and of the third."""
    at, days = moment
    (before, path, whole), folder = mornings[days], tmp_path / "u"
    if days:
        shutil.copytree(before, folder)
    replace, renames = type(path).replace, []

    def renamed(part, target):
        renames.append(target.name)
        if len(renames) == at:
            raise Killed
        return replace(part, target)

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "replace", renamed)
        with pytest.raises(Killed):
            call("update", *words(run, path, folder))
    state = update_state.read_state(folder)
    assert (0 if state is None else len(state.log)) == days + (at in (2, 3))
    updated(run, path, folder)
    assert files_of(folder) == whole


def test_what_a_killed_process_has_half_written_is_removed(run, tmp_path):
    path = write(tmp_path / "h.csv", TABLE, last=TRAINED)
    (tmp_path / "u").mkdir()
    (tmp_path / "u/.state.npz.1.part").write_bytes(b"half")
    updated(run, path, tmp_path / "u")
    assert not list((tmp_path / "u").rglob("*.part"))


@pytest.mark.slow
def test_killed_at_random_moments_it_goes_on_to_the_same_bytes(run, tmp_path):
    folder, whole, path = tmp_path / "u", tmp_path / "w", tmp_path / "h.csv"
    draws = np.random.default_rng(3)
    command = [sys.executable, "-m", "forecast", "update"]
    write(path, TABLE, last=TRAINED)
    forked.ready()
    begun = time.monotonic()
    forked.run([*command, *words(run, path, tmp_path / "timed")], check=True, capture_output=True)
    lasts = time.monotonic() - begun
    for day in range(TRAINED, TRAINED + 5):
        write(path, TABLE, last=day)
        updated(run, path, whole)
        process = forked.Popen(
            [*command, *words(run, path, folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(draws.uniform(0.1, 1.0) * lasts)
        process.kill()
        process.wait()
        forked.run([*command, *words(run, path, folder)], check=True, capture_output=True)
    assert files_of(folder) == files_of(whole)


def test_two_at_once_are_refused(run, tmp_path, capsys):
    path = write(tmp_path / "h.csv", TABLE, last=TRAINED)
    (tmp_path / "u").mkdir()
    with FileLock(tmp_path / "u" / ".lock"):
        assert "u is in use: another process is at work there" in refusal(
            capsys, "update", *words(run, path, tmp_path / "u")
        )
    updated(run, path, tmp_path / "u")


def test_files_are_written_as_the_history_is_and_hostile_names_are_harmless(tmp_path, capsys):
    name = "=cmd|'/c calc'!A0 \x1b[2J"
    table = TABLE.rename(columns={"load": name, "date": "when"})
    written = {"sep": ";", "decimal": ","}
    layout = ["data.time_column=when", "data.separator=';'", "data.decimal=','"]
    run = trained(tmp_path, table, *layout, **written)
    for day in (TRAINED, TRAINED + 1):
        path = write(tmp_path / "h.csv", table, last=day, **written)
        call("update", *words(run, path, tmp_path / "u"))
    assert "\x1b" not in capsys.readouterr().out
    latest = pd.read_csv(tmp_path / "u/latest.csv", **written)
    assert list(latest)[:2] == ["when", name] and latest[name].dtype == float
    earlier = write(tmp_path / "h.csv", table, last=TRAINED, **written)
    text = refusal(capsys, "update", *words(run, earlier, tmp_path / "u"))
    assert "earlier rows than before" in text
    table.loc[(TRAINED + 1) * DAY - 3, name] += 1
    text = refusal(
        capsys, "update", *words(run, write(tmp_path / "h.csv", table, last=TRAINED + 1, **written), tmp_path / "u")
    )
    assert r"=cmd|'/c calc'!A0 \x1b[2J" in text and "holds other values" in text and "\x1b" not in text


def test_another_file_may_be_written_otherwise(run, tmp_path):
    path = write(tmp_path / "h.csv", TABLE, last=TRAINED, sep=";", decimal=",")
    updated(run, path, tmp_path / "u", "data.separator=';'", "data.decimal=','")
    assert (tmp_path / "u/latest.csv").read_text().splitlines()[0].startswith("date;load;")
    updated(run, write(path, TABLE, last=TRAINED + 1), tmp_path / "u")
    assert (tmp_path / "u/latest.csv").read_text().splitlines()[0].startswith("date,load,")


def test_rows_without_a_time_are_counted(tmp_path):
    run = trained(tmp_path, TABLE[["load"]], "data.time_column=null", "data.freq=steps")
    for day in (TRAINED, TRAINED + 1):
        document = updated(run, write(tmp_path / "h.csv", TABLE[["load"]], last=day), tmp_path / "u")
    assert document["time"] == f"step {(TRAINED + 1) * DAY}" and document["last"]["values"] == DAY
    assert pd.read_csv(tmp_path / "u/latest.csv")["step"].iloc[0] == (TRAINED + 1) * DAY + 1


def test_columns_known_in_advance_are_told_as_predict_is(tmp_path, capsys):
    table = TABLE.assign(open=(TABLE["date"].dt.day_of_week < 5).astype(int))
    run = trained(tmp_path, table, "data.target=load", "data.known=[open]")
    path = write(tmp_path / "h.csv", table, last=TRAINED)
    assert "or into a file written as the history is, future=FILE" in refusal(
        capsys, "update", *words(run, path, tmp_path / "u")
    )
    for day in (TRAINED, TRAINED + 1):
        future = write(tmp_path / "f.csv", table.drop(columns="load"), first=day, last=day + 1)
        updated(run, write(path, table, last=day), tmp_path / "u", f"future={future}")
    assert log_of(tmp_path / "u")["values"].tolist() == [0, DAY]


def test_several_targets_gaps_and_no_intervals(tmp_path):
    """What was filled in is no truth: it counts in no error."""
    table = TABLE.assign(wind=np.random.default_rng(1).normal(size=len(TABLE)).round(3))
    run = trained(tmp_path, table, "data.gaps=forward_fill", "data.target=null", "calibration=none")
    path = write(tmp_path / "h.csv", table, last=TRAINED)
    updated(run, path, tmp_path / "u")
    table.loc[TRAINED * DAY + 3 : TRAINED * DAY + 7, "wind"] = np.nan
    document = updated(run, write(path, table, last=TRAINED + 1), tmp_path / "u")
    assert document["last"]["values"] == 2 * DAY - 5 and list(document["last"]) == ["values", "mae", "baseline_mae"]
    assert list(pd.read_csv(tmp_path / "u/latest.csv")) == ["date", "load", "wind"]


def test_a_refitted_model_is_measured_by_what_the_held_out_one_showed(tmp_path, capsys):
    run = trained(tmp_path, TABLE, "refit=true")
    refit = [f"ckpt_path={run}/checkpoints/refit.ckpt", f"hydra.run.dir={tmp_path}/u"]
    assert "The first update needs the whole history" in refusal(
        capsys, "update", *refit, f"data.path={write(tmp_path / 'e.csv', TABLE, first=55, last=58)}"
    )
    for day in (TRAINED, TRAINED + 1):
        call("update", *refit, f"data.path={write(tmp_path / 'h.csv', TABLE, last=day)}")
    updated(run, tmp_path / "h.csv", tmp_path / "best")
    mine, best = (update_state.read_state(tmp_path / name).reference.expected for name in ("u", "best"))
    np.testing.assert_array_equal(mine.log_mae, best.log_mae)
