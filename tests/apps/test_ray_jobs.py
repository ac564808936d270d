"""hydra/launcher=ray: what keeps it from its work, and what is said of a worker that dies.

A cluster is in tests/training/test_sweeps_on_ray.py; here is one in name, so that these run without Ray.
"""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from apps.fake_ray import faked
from program import ONE_COLUMN, call

import forecast.apps.train  # noqa: F401 - here: `faked` takes back what is imported in its block
from forecast.jobs import cluster
from forecast.text.overrides import install

ON_RAY = ("-m", *ONE_COLUMN, "hydra/launcher=ray")


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch, tmp_path):
    """A worker changes the folder, the environment and the threads of its process, which here is the test's."""
    monkeypatch.setattr(cluster, "REACHED", 0.0)
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    torch.set_num_threads(1)


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        call("train", *ON_RAY, *words)
    text = capsys.readouterr()
    assert ended.value.code == 1 and "Traceback" not in text.err + text.out
    return text.err


def states():
    return [json.loads(path.read_text())["status"] for path in Path("multirun").glob("*/*/run.json")]


def calls(ray):
    return [name for name, *_ in ray.calls]


def test_each_job_is_run_once_its_words_are_printed_and_the_command_is_told_as_ever(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORECAST_DATA", "there")
    with faked() as ray:
        call("train", *ON_RAY, "seed=1,2", "hydra.launcher.gpus=0.5")
    assert states() == ["finished"] * 2 and ray.initialised is None
    assert ray.options == {"num_cpus": 1, "num_gpus": 0.5}
    assert calls(ray) == ["ready", "ready", "work", "work"]
    text = capsys.readouterr().out
    assert text.count("skill: 1 - MSE") == 2
    assert re.search(r"#0 : .* seed=1\n", text) and re.search(r"#1 : .* seed=2\n", text)
    assert not [*Path().glob("multirun/*/.seen*")]


def test_a_workers_death_is_said_and_at_the_third_the_job_is_given_up(capsys):
    deaths = [1]
    with faked(cpus=(1,), killing=lambda name, _: name == "work" and bool(deaths) and deaths.pop()) as ray:
        call("train", *ON_RAY, "seed=1")
    assert states() == ["finished"] and calls(ray) == ["ready", "work", "ready", "work"]
    assert "The worker of job #0 died: The actor died unexpectedly" in capsys.readouterr().out

    with faked(cpus=(1,), killing=lambda name, given: name == "work" and given[0].seed == 2):
        text = refused(capsys, "seed=1,2,3")
    assert "3 workers died at it, the last one so: The actor died unexpectedly" in text
    assert "What has finished is kept: the same command runs the rest" in text
    assert states() == ["finished"] * 3


def test_a_signal_to_a_worker_is_a_death_and_not_the_jobs_end():
    def stopped(_):
        raise KeyboardInterrupt

    worker = cluster.Worker(cluster.Order(begin=lambda: None, shared=None, threads=1))
    worker.do = stopped
    with pytest.raises(SystemExit):
        worker.work(None)


def test_a_worker_has_the_commands_environment_and_threads(tmp_path, monkeypatch):
    shared = cluster.Shared(folder=tmp_path, typed="", like="")
    monkeypatch.setenv("FORECAST_DATA", "the command's")
    order = cluster.Order(begin=lambda: print, shared=shared, threads=2)
    order.seen.touch()
    monkeypatch.setenv("FORECAST_DATA", "the cluster's")
    monkeypatch.setenv("FORECAST_OTHER", "the cluster's")
    assert (tmp_path / cluster.Worker(order).ready().value).is_file()
    assert torch.get_num_threads() == 2 and os.environ["OMP_NUM_THREADS"] == "2"
    assert os.environ["FORECAST_DATA"] == "the command's" and "FORECAST_OTHER" not in os.environ


def test_what_it_cannot_begin_with_is_refused(capsys, monkeypatch):
    none = ConnectionError("Could not find any running Ray instance. Please specify the one to connect to")
    for words, ray, message in (
        ([], {"refused": none}, "hydra.launcher.address=auto: no cluster runs on this machine. Start one with ray st"),
        (
            ["hydra.launcher.address=here"],
            {},
            "hydra.launcher.address=here is no HOST:PORT. Say hydra.launcher.address",
        ),
        (["hydra.launcher.threads=3"], {"cpus": (2, 1)}, "hydra.launcher.threads=3: no machine of the cluster has so"),
        (
            ["hydra.launcher.threads=0"],
            {},
            "hydra.launcher.threads=0: must be at least 1. Set hydra.launcher.threads=1",
        ),
        (["hydra.launcher.workers=0"], {}, "hydra.launcher.workers=0: must be at least 1"),
        (["hydra.launcher.gpus=-1"], {}, "hydra.launcher.gpus=-1.0: must be at least 0"),
    ):
        with faked(**ray):
            assert message in refused(capsys, "seed=1,2", *words)
    monkeypatch.setitem(sys.modules, "ray", None)
    text = refused(capsys, "seed=1,2")
    assert f"hydra/launcher=ray: the package ray is not installed. Install it: {install('ray')}" in text
    assert not states()


def test_a_folder_that_not_all_machines_share_and_another_program_are_found_before_any_job(capsys, monkeypatch):
    real = cluster.check_same
    monkeypatch.setattr(cluster, "check_same", lambda ours, theirs: real(ours, {**theirs, "torch": "1.0"}))
    with faked() as ray:
        assert re.search(r"its torch is 1\.0, that of the command \S+\. Install the same", refused(capsys, "seed=1,2"))
    monkeypatch.setattr(cluster.Path, "is_file", lambda path: not path.name.startswith(".seen") and path.exists())
    with faked() as other:
        text = refused(capsys, "seed=1,2", "hydra.sweep.dir=here")
    assert f"{socket.gethostname()}: hydra.sweep.dir=here: {Path('here').absolute()} is no folder that all" in text
    assert "Choose one that they do: hydra.sweep.dir=/SHARED/sweep" in text
    assert {*calls(ray), *calls(other)} == {"ready"} and not states()


def test_another_launcher_imports_neither_ray_nor_the_engine(tmp_path):
    words = ["train.py", "-m", "data=csv", "data.path=none.csv", "seed=1"]  # refused before torch is imported
    code = (
        f"import sys; sys.argv = {words!r}\n"
        "from forecast.__main__ import start\n"
        "try: start('train')\n"
        "except SystemExit: pass\n"
        "print('hydra_plugins.forecast_ray' in sys.modules)\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'ray' or 'jobs.cluster' in name])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-2:] == ["True", "[]"]
