"""Several processes on one study, one that is killed or stopped, and the time that it takes."""

import os
import random
import signal
import subprocess
import time

import forked
import pytest
from apps.tunings import command, drawn, read, started

from forecast.apps.tune.studies import SECONDS

LONG = ["trainer.max_epochs=400", "callbacks.early_stopping.patience=400", "data.batch_size=4"]


def journal(folder):
    file = folder / "journal.log"
    return file.read_text() if file.is_file() else ""


def wait_for(process, reached, seconds=120):
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline and process.poll() is None, (process.args, process.poll())
        time.sleep(0.01)


def ended(process, folder):
    code = process.wait(200)
    assert code == 0, (folder.parent / f"{folder.name}.output").read_text()


def epochs(folder):
    return journal(folder).count('"intermediate_value"')


@pytest.mark.slow
def test_two_processes_share_a_study_and_each_point_is_trained_once(tmp_path):
    folder = tmp_path / "study"
    for process in [started(folder, "tune.trials=14") for _ in range(2)]:
        ended(process, folder)
    document = read(folder)
    assert [trial["trial"] for trial in document["trials"]] == list(range(len(document["trials"])))
    assert len(document["trials"]) == 14 and set(document["states"]) <= {"finished", "pruned"}
    configs = [tuple(trial["config"].values()) for trial in document["trials"]]
    assert len({*configs}) == 14
    assert len({line.split('"process":"')[1][:12] for line in journal(folder).splitlines() if '"process"' in line}) == 2


@pytest.mark.slow
def test_killed_at_a_random_moment_it_goes_on_and_the_trial_that_ran_has_failed(tmp_path):
    folder = tmp_path / "study"
    draw = random.Random(5)
    for _ in range(3):
        process, before = started(folder, "tune.trials=30", *LONG[:2]), epochs(folder)
        more = draw.randrange(1, 40)
        wait_for(process, lambda before=before, more=more: epochs(folder) > before + more)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    count = journal(folder).count('"op_code":4')
    ended(started(folder, f"tune.trials={count}", *LONG[:2]), folder)
    document = read(folder)
    killed = [trial for trial in document["trials"] if trial["state"] == "failed"]
    assert 1 <= len(killed) <= 3 and {trial["reason"] for trial in killed} == {"its process was killed"}
    assert len(document["trials"]) - len(killed) == count
    which = ", ".join(str(trial["trial"]) for trial in killed)
    said = f"Trials {which} have" if len(killed) > 1 else f"Trial {which} has"
    assert f"{said} failed: its process was killed" in (folder / "report.html").read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow
def test_a_signal_leaves_a_study_that_goes_on_and_what_was_found_so_far(number, code, tmp_path):
    folder = tmp_path / "study"
    words = ["tune.trials=3", "trainer.max_epochs=60", "callbacks.early_stopping.patience=60"]
    process = started(folder, *words)
    wait_for(process, lambda: epochs(folder) > 70)  # in the second trial
    process.send_signal(number)
    assert process.wait(60) == code
    output = (tmp_path / "study.output").read_text()
    assert f"The study in {folder} goes on with the same command." in output and "Traceback" not in output
    document = read(folder)
    assert document["status"] == "interrupted" and document["best"]["trial"] == 0
    assert [trial["state"] for trial in document["trials"]] == ["finished", "failed"]
    ended(started(folder, *words), folder)
    assert [trial["state"] for trial in read(folder)["trials"]][2:] in (["finished"] * 2, ["finished", "pruned"])
    assert drawn(read(folder))[:2] == drawn(document)


@pytest.mark.parametrize(
    ("words", "minutes", "run"),
    [([], 1, subprocess.run), (LONG, 0.5, forked.run)],
    ids=["many short trials, of a minute 5 per cent", "trials longer than the time"],
)
@pytest.mark.slow
def test_the_minutes_are_kept_to_within_three_seconds(words, minutes, run, tmp_path):
    """Those of the interpreter's start and the imports count too: the first case has them."""
    folder = tmp_path / "study"
    forked.ready()
    begin = time.monotonic()
    run = run(command(folder, f"tune.minutes={minutes}", *words), capture_output=True, text=True, timeout=200)
    seconds = time.monotonic() - begin
    assert run.returncode == 0, run.stderr
    assert 0.9 * 60 * minutes < seconds < 60 * minutes + 3
    document = read(folder)
    assert document["seconds"] < 60 * minutes + 3
    if words:
        assert document["best"]["state"] == "cut" and document["states"] == {"cut": 1}
        assert "was cut off after" in run.stdout


@pytest.mark.slow
def test_the_minutes_are_of_the_study_whatever_kills_it(tmp_path):
    folder, words = tmp_path / "study", ["tune.minutes=0.4"]
    forked.ready()
    process, begin = started(folder, *words), time.monotonic()
    wait_for(process, lambda: time.monotonic() > begin + 12 and SECONDS in journal(folder))  # a trial has ended
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(8)  # does not count
    begin = time.monotonic()
    ended(started(folder, *words), folder)
    assert time.monotonic() - begin < 0.4 * 60 - 12 + 7  # less than the seconds between
    before = read(folder)
    assert 0.4 * 60 - 8 < before["seconds"] < 0.4 * 60 + 2
    ended(started(folder, *words), folder)  # nothing is left: it only says what was found
    assert drawn(read(folder)) == drawn(before)
