"""predict engine=ray and hydra/launcher=ray on a Ray of this machine: what one process makes, whatever is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from apps.test_predict_panel import WINDOW, long_table
from checkpoints import write_untrained
from program import ONE_COLUMN

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint, its panel in four files, some of whose series are short, new or far, and one process's forecast."""
    folder = tmp_path_factory.mktemp("panel")
    table = long_table([40, 45, 10, 50] * 250)
    table.to_csv(folder / "p.csv", index=False)
    keys = [f"data.path={folder}/p.csv", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(folder / "c.ckpt", *WINDOW, *keys)
    table["shop"] = table["shop"].replace("s700", "new")
    late = table.groupby("shop").cumcount(ascending=False) < 22
    table["sold"] = table["sold"].where(~(table["shop"].isin(["s400", "s900"]) & late), 1e6)
    table.to_parquet(folder / "p.parquet")
    (folder / "files").mkdir()
    for number, rows in table.groupby(table.groupby("shop", sort=False).ngroup() // 256):  # of which 192 are long
        rows.to_parquet(folder / f"files/{number}.parquet")
    ended(started(folder, "predict", "ckpt_path=c.ckpt", "data.path='files/*.parquet'", "output=whole.parquet"))
    return folder


def on_ray(folder, *words, path="files"):
    ours = ("engine=ray", "ray.address=local", "device=cpu", f"data.path={path}", "output=f.parquet", "overwrite=true")
    return started(folder, "predict", "ckpt_path=c.ckpt", *ours, *words)


def test_a_task_for_each_file_is_joined_to_the_bytes_of_one_process_though_a_worker_is_killed(folder):
    process = on_ray(folder)

    def at_work():
        return [*folder.glob(".f.parquet.*/*.json")] and workers(process.pid)

    os.kill(wait_until(at_work, process)[0], signal.SIGKILL)
    text = ended(process)
    assert "750 series, 5 steps after the end of each, are in f.parquet." in text
    for count, words in ((250, "have fewer rows"), (1, "were not in the training"), (2, "end with rows of another")):
        assert f"{count} series {words}" in text
    for name in (".parquet", ".parquet.json"):
        assert (folder / f"f{name}").read_bytes() == (folder / f"whole{name}").read_bytes()
    assert not [*folder.glob(".f.parquet.*")]


def test_sigterm_ends_it_with_a_sentence_and_leaves_nothing(folder):
    process = on_ray(folder, "output=h.parquet")
    wait_until(lambda: workers(process.pid), process)
    process.terminate()
    assert "SIGTERM ended the command." in ended(process, status=143)
    assert not [*folder.glob("*h.parquet*")]


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


def test_what_keeps_a_task_from_its_work_is_said_in_one_sentence(folder, tmp_path):
    torn = tmp_path / "torn"
    torn.mkdir()
    table = pd.read_parquet(folder / "p.parquet")
    table[:3980].to_parquet(torn / "a.parquet")  # in the middle of a series
    table[3980:9000].to_parquet(torn / "b.parquet")
    for words, path, message in (
        ((), torn, r"a\.parquet and \S+b\.parquet both hold rows of the series 's\d+'\. engine=ray forecasts a folder"),
        (("ray.threads=512",), "files", r"ray\.threads=512: no machine of the cluster has so many, the largest has"),
        (("ray.address=127.0.0.1:9",), "files", "ray.address=127.0.0.1:9: no cluster can be used there: .* refused"),
    ):
        text = ended(on_ray(folder, *words, "output=g.parquet", path=path), status=1)
        assert re.search(message, text), text
        assert not [*folder.glob("*g.parquet*")]


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
