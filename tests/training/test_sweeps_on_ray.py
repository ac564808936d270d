"""hydra/launcher=ray on a cluster of two nodes: what one machine makes, nothing lost and nothing twice."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from program import ONE_COLUMN

pytest.importorskip("ray", minversion="2.60", reason='needs ray: pip install -e ".[ray]"')
from benchmarks.ray_nodes import end_node, environment, ray_nodes, start_node, wait_for  # it imports Ray

pytestmark = pytest.mark.slow
LIMIT = 200
LONG = ["data.rows=900", "trainer.max_epochs=4"]
JOBS = ["seed=1,2,3"]


@pytest.fixture(scope="module")
def address():
    with ray_nodes(2) as address:
        yield address


def started(folder, *words, command=("train", "-m"), before=("-m", "forecast")):
    words = [sys.executable, *before, *command, *ONE_COLUMN, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, env=environment(), cwd=folder, **pipes)


def on_ray(folder, *words, address, **named):
    return started(folder, *words, "hydra/launcher=ray", f"hydra.launcher.address={address}", **named)


def ended(process, status=0):
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == status and "Traceback" not in text, text
    return text


def runs(folder):
    paths = [*folder.glob("multirun/*/*/run.json"), *folder.glob("ray/folds/*/run.json")]
    return {path.parent.name: path.parent for path in paths}


def states(folder):
    found = {}
    for name, run in runs(folder).items():
        text = (run / "run.json").read_text()
        found[name] = json.loads(text)["status"] if text else "running"
    return found


def wait_until(folder, process, *, finished, running):
    end = time.monotonic() + LIMIT
    while (now := [*states(folder).values()]).count("finished") < finished or now.count("running") < running:
        assert time.monotonic() < end and process.poll() is None, now
        time.sleep(0.02)


def holder(run):
    """The process that trains there."""
    return int(re.match(r"process (\d+) on ", (run / ".lock.holder").read_text())[1])


def trainings(folder):
    """How often each run was trained to its end, by its log."""
    return {name: (run / "train.log").read_text().count("Speed: ") for name, run in runs(folder).items()}


def written(folder):
    done = [name for name, state in states(folder).items() if state == "finished"]
    return {name: (runs(folder)[name] / "metrics.json").stat().st_mtime_ns for name in done}


def results(run):
    metrics = json.loads((run / "metrics.json").read_text())
    return {key: value for key, value in metrics.items() if key != "cost"}


def same_weights(one, other):
    one, other = (torch.load(run / "checkpoints" / "best.ckpt")["state_dict"] for run in (one, other))
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_jobs_end_with_the_bits_and_the_words_of_one_machine_where_some_fail_too(address, tmp_path):
    jobs, texts = ["model.n_heads=2,3", "seed=1,2"], {}  # d_model 14 is not divisible by 3
    for name, start in {"basic": started, "ray": partial(on_ray, address=address)}.items():
        (tmp_path / name).mkdir()
        words = [*jobs, "hydra.launcher.workers=1"] if name == "ray" else jobs  # one process after the other, as there
        texts[name] = ended(start(tmp_path / name, *words), status=1)
        assert sorted(states(tmp_path / name).values()) == ["failed"] * 2 + ["finished"] * 2
    ours, theirs = runs(tmp_path / "basic"), runs(tmp_path / "ray")
    assert ours.keys() == theirs.keys()
    for name in written(tmp_path / "basic"):
        assert results(ours[name]) == results(theirs[name]) and same_weights(ours[name], theirs[name])
    for line in ("skill: 1 - MSE", "seed 2", "an equal part", "`forecast report FOLDER` compares"):
        assert texts["ray"].count(line) == texts["basic"].count(line) > 0, line
    assert not [*(tmp_path / "ray").glob("multirun/*/.seen*")]


def test_a_killed_workers_job_is_run_once_more(address, tmp_path):
    process = on_ray(tmp_path, *JOBS, *LONG, address=address)
    wait_until(tmp_path, process, finished=1, running=1)
    victim = next(name for name, state in states(tmp_path).items() if state == "running")
    os.kill(holder(runs(tmp_path)[victim]), signal.SIGKILL)
    text = ended(process)
    assert len(re.findall(r"The worker of job #\d died: ", text)) == 1, text
    assert [*states(tmp_path).values()] == ["finished"] * 3
    assert [*trainings(tmp_path).values()] == [1] * 3


def test_after_a_killed_sweep_the_same_command_runs_the_unfinished_jobs_alone(address, tmp_path):
    process = on_ray(tmp_path, *JOBS, *LONG, address=address)
    wait_until(tmp_path, process, finished=1, running=1)
    process.kill()
    ended(process, status=-signal.SIGKILL)
    before = written(tmp_path)
    text = ended(on_ray(tmp_path, *JOBS, *LONG, address=address))
    assert [*states(tmp_path).values()] == ["finished"] * 3, text
    assert [*trainings(tmp_path).values()] == [1] * 3
    assert before.items() <= written(tmp_path).items()
    assert all(f"{name} has finished before" in text for name in before)


def test_two_sweeps_at_once_share_the_jobs(address, tmp_path):
    both = [on_ray(tmp_path, *JOBS, *LONG, "hydra.launcher.workers=1", address=address) for _ in range(2)]
    texts = [ended(process) for process in both]
    assert [*states(tmp_path).values()] == ["finished"] * 3
    assert [*trainings(tmp_path).values()] == [1] * 3
    passed_over = sum(len(re.findall("Left out: |has finished before", text)) for text in texts)
    assert passed_over == 3, texts


def test_the_folds_of_a_backtest_whose_sweep_is_killed_end_with_the_table_of_one_machine(address, tmp_path):
    words, named = ["backtest.folds=3", "backtest.refit=every_fold", "trainer.max_epochs=4"], {"command": ("backtest",)}
    ended(started(tmp_path, *words, "hydra.run.dir=basic", **named))
    words += ["hydra.run.dir=ray", "hydra.launcher.workers=1"]
    process = on_ray(tmp_path, *words, address=address, **named)
    wait_until(tmp_path, process, finished=1, running=1)
    sweep = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
    os.kill(int(sweep.stdout), signal.SIGKILL)
    process.communicate(timeout=LIMIT)  # it may have gone on, or say that the same command does
    before = written(tmp_path)
    ended(on_ray(tmp_path, *words, address=address, **named))
    assert before and before.items() <= written(tmp_path).items()
    basic, ray = ((tmp_path / name / "backtest.parquet").read_bytes() for name in ("basic", "ray"))
    assert basic == ray
    assert [*trainings(tmp_path).values()] == [1] * 3


def test_a_folder_that_a_node_does_not_share_is_found_before_any_job_is_begun(address, tmp_path):
    own = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs tmpfs {tmp_path} && exec "$@"', "sh"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to a view of the disk of one's own")
    node = start_node([f"--address={address}"], log=tmp_path.parent / "third.log", before=own)
    try:
        wait_for(address, 3)
        text = ended(on_ray(tmp_path, "seed=1,2,3", address=address), status=1)
    finally:
        end_node(node)
    assert re.search(r"hydra\.sweep\.dir=multirun/\S+: \S+ is no folder that all machines of the cluster share", text)
    assert not runs(tmp_path)
