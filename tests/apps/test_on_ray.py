"""hydra/launcher=ray on a Ray of this machine: what one process makes, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from program import ONE_COLUMN

from forecast.errors import UserError
from forecast.jobs.cluster import Cluster, run_tasks

pytest.importorskip("ray", minversion="2.60", reason='needs ray: pip install -e ".[ray]"')
pytestmark = pytest.mark.slow
LIMIT = 200  # seconds
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_AUTH_MODE": "disabled",
    "PYTHONPATH": str(Path(__file__).parents[2]),
}
JOBS = [*ONE_COLUMN, "seed=1,2,3", "data.rows=900", "trainer.max_epochs=4"]


def started(folder, *words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-m", "forecast", *words], env=ENVIRONMENT, cwd=folder, **pipes)


def ended(process, status=0):
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == status and "Traceback" not in text, text
    return text


def wait_until(reached, process):
    end = time.monotonic() + LIMIT
    while not (value := reached()):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    return value


def workers(pid):
    """The processes of the Ray of a command that are at a task."""
    parents, busy = {}, []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            busy += [int(path.name)] * (path / "cmdline").read_bytes().startswith(b"ray::run_in_worker")
        except OSError:
            continue
    return [number for number in busy if pid in ancestors(number, parents)]


def ancestors(pid, parents):
    while pid := parents.get(pid):
        yield pid


def test_what_keeps_a_job_from_its_work_is_said_in_one_sentence():
    for more, message in (
        ({"threads": 512}, r"x\.threads=512: no machine of the cluster has so many, the largest has"),
        ({"address": "127.0.0.1:9"}, r"x\.address=127\.0\.0\.1:9: no cluster can be used there: .* refused"),
    ):
        cluster = Cluster(**{"key": "x", "address": "local", "threads": 1} | more)
        with pytest.raises(UserError, match=message):
            list(run_tasks(cluster, os._exit, [(1,)]))


def runs(folder):
    return [path.parent for path in folder.glob("multirun/*/*/run.json")]


def states(folder):
    return {
        run.name: json.loads((run / "run.json").read_text() or "{}").get("status", "running") for run in runs(folder)
    }


def sweep(folder, *words, launcher="ray"):
    ray = ("hydra/launcher=ray", "hydra.launcher.address=local") if launcher == "ray" else ()
    return started(folder, "train", "-m", *words, *ray)


def test_jobs_end_with_the_figures_and_the_words_of_one_machine_where_some_fail_too(tmp_path):
    jobs, texts, figures = [*ONE_COLUMN, "model.n_heads=2,3", "seed=1,2"], {}, {}  # d_model 14 is no multiple of 3
    for name in ("basic", "ray"):
        (tmp_path / name).mkdir()
        texts[name] = ended(sweep(tmp_path / name, *jobs, launcher=name), status=1)
        assert sorted(states(tmp_path / name).values()) == ["failed"] * 2 + ["finished"] * 2
        metrics = {run.name: run / "metrics.json" for run in runs(tmp_path / name) if (run / "metrics.json").exists()}
        figures[name] = {run: json.loads(path.read_text()) | {"cost": None} for run, path in metrics.items()}
    assert figures["ray"] == figures["basic"]
    for line in ("seed=2  mse", "an equal part", "`forecast report FOLDER` compares"):
        assert texts["ray"].count(line) == texts["basic"].count(line) > 0, line


def test_a_killed_workers_job_is_run_once_more_and_a_killed_sweep_runs_the_rest(tmp_path):
    def some_finished():
        now = [*states(tmp_path).values()]
        return "finished" in now and "running" in now

    process = sweep(tmp_path, *JOBS)
    wait_until(some_finished, process)
    process.kill()
    ended(process, status=-signal.SIGKILL)
    done = {run: (run / "metrics.json").stat().st_mtime_ns for run in runs(tmp_path) if (run / "metrics.json").exists()}
    again = sweep(tmp_path, *JOBS)
    os.kill(wait_until(lambda: workers(again.pid), again)[0], signal.SIGKILL)
    ended(again)
    assert [*states(tmp_path).values()] == ["finished"] * 3
    assert [(run / "train.log").read_text().count("Speed: ") for run in runs(tmp_path)] == [1] * 3
    assert done.items() <= {run: (run / "metrics.json").stat().st_mtime_ns for run in runs(tmp_path)}.items()


def test_a_task_at_which_three_workers_die_is_given_up():
    cluster = Cluster(key="ray", address="local", threads=1)
    ((number, ended),) = run_tasks(cluster, os._exit, [(1,)])
    assert number == 0 and ended.error.startswith("3 workers died at it, the last one so: The worker died unexpectedly")
