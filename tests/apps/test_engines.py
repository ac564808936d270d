"""predict engine=ray: the bytes of one process, parts that are gone on with, and what keeps it from its work.

A cluster is in test_on_ray.py; here is one in name, so that these run without Ray.
"""

import json
import re
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from apps.fake_ray import faked
from apps.test_predict_panel import WINDOW, long_table, predict, refused
from checkpoints import write_untrained
from filelock import FileLock
from program import call

from forecast.apps.common import scoring as command
from forecast.apps.common.engines import forecasts, parts
from forecast.data.forecast_files import beside
from forecast.evaluation import predict as core
from forecast.jobs import cluster as clusters
from forecast.text.overrides import install

ON_RAY = ("engine=ray",)
COLUMNS = [*WINDOW, "data.id_column=shop", "data.time_column=day", "data.target=sold"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panel")
    long_table().to_csv(folder / "p.csv", index=False)
    write_untrained(folder / "c.ckpt", *COLUMNS, f"data.path={folder}/p.csv", "model=nlinear")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Batches of three series; pictures are not drawn, and a worker's change of the folder is taken back."""
    for module in (core, command, forecasts):
        monkeypatch.setattr(module, "BATCH", 3)
    monkeypatch.setattr(command, "draw_ends", lambda path, *_: path.write_bytes(b"a picture"))
    monkeypatch.setattr(clusters, "REACHED", 0.0)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("shards", "ending"), [("null", ".csv"), ("null", ".parquet"), ("1", ".csv"), ("3", ".parquet"), ("50", ".csv")]
)
def test_any_number_of_parts_is_joined_to_the_bytes_of_one_process(folder, tmp_path, ending, shards):
    whole, output = tmp_path / f"whole{ending}", tmp_path / f"f{ending}"
    predict(folder / "c.ckpt", whole)
    with faked() as ray:
        predict(folder / "c.ckpt", output, *ON_RAY, f"ray.shards={shards}")
    assert output.read_bytes() == whole.read_bytes()
    assert beside(output).read_bytes() == beside(whole).read_bytes()
    asked = [call[1:] for call in ray.calls if call[0] == "work"]
    count = 4 if shards in ("null", "50") else int(shards)  # no part is less than a batch
    assert sorted(asked) == [(number, count) for number in range(1, count + 1)]
    assert ray.initialised is None and not (tmp_path / f"f{ending}.parts").exists()


def test_one_series_is_one_part(best, tmp_path):
    """Without ids nothing is beside it, on a cluster neither."""
    for name, changes in (("whole", ()), ("f", ON_RAY)):
        with faked() as ray:
            call("predict", f"ckpt_path={best}", f"output={tmp_path}/{name}.csv", "device=cpu", *changes)
    assert (tmp_path / "f.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert [call[1:] for call in ray.calls if call[0] == "work"] == [(1, 1)]


def test_workers_are_as_many_as_there_are_cpus_for_and_each_loads_once(folder, tmp_path, monkeypatch, capsys):
    loads, real = [], forecasts.load_checkpoint
    monkeypatch.setattr(forecasts, "load_checkpoint", lambda *a: loads.append(a) or real(*a))
    for keys, workers in (((), 3), (("ray.workers=2",), 2), (("ray.workers=8",), 3), (("ray.threads=2",), 1)):
        loads.clear()
        with faked(cpus=(2, 1)) as ray:
            predict(folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY, *keys)
        assert len(loads) == workers == len([call for call in ray.calls if call[0] == "ready"]), keys
        assert ray.options == {"num_cpus": 2 if keys == ("ray.threads=2",) else 1, "num_gpus": 0}
    assert "ray.workers=8: the cluster has CPUs for 3, which begin." in capsys.readouterr().out
    assert json.loads((tmp_path / "f.csv.json").read_text())["run"]["threads"] == 2


def test_a_part_is_what_predict_makes_of_that_shard(folder, tmp_path):
    predict(folder / "c.ckpt", tmp_path / "2.csv", "shard=2/3")
    with faked(killing=lambda name, given: given == (3, 3)), pytest.raises(SystemExit):
        predict(folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY, "ray.shards=3")
    names = sorted(path.name for path in (tmp_path / "f.csv.parts").iterdir())
    assert [re.sub("[0-9a-f]{12}", "CHECKSUM", name) for name in names] == [
        f"shard-0000{i}-of-00003-CHECKSUM.csv{end}" for i in (1, 2) for end in ("", ".json")
    ]
    part = tmp_path / "f.csv.parts" / names[2]
    assert part.read_bytes() == (tmp_path / "2.csv").read_bytes()
    assert beside(part).read_bytes() == (tmp_path / "2.csv.json").read_bytes()


def test_a_death_is_said_and_its_part_made_by_another(folder, tmp_path, capsys):
    predict(folder / "c.ckpt", tmp_path / "whole.csv")
    deaths = [("work", (2, 4)), ("work", (3, 4))]
    with faked(killing=lambda *call: call in deaths and not deaths.remove(call)) as ray:
        predict(folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY)
    assert not deaths and len([call for call in ray.calls if call[0] == "work"]) == 6
    assert (
        "The worker of part 2 of 4 died, and another one makes it: The actor died unexpectedly"
        in capsys.readouterr().out
    )
    assert (tmp_path / "f.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_what_failed_is_named_and_the_same_command_goes_on_with_the_rest(folder, tmp_path, capsys, monkeypatch):
    predict(folder / "c.ckpt", tmp_path / "whole.csv")
    output, scored, real = tmp_path / "f.csv", [], command.write_rows
    monkeypatch.setattr(command, "write_rows", lambda *given: scored.append(given[0].name) or real(*given))
    with faked(killing=lambda name, given: given == (2, 4)):
        text = refused(capsys, folder / "c.ckpt", output, *ON_RAY)
    assert "1 of 4 parts failed, the others are in" in text and "part 2: 3 workers died at it" in text
    assert "say the same command again, which goes on" in text
    assert not output.exists() and len(scored) == 3
    scored.clear()
    (damaged,) = (tmp_path / "f.csv.parts").glob("shard-00003-*.csv")
    damaged.write_text("damaged")
    with faked():
        predict(folder / "c.ckpt", output, *ON_RAY)
    assert [name[:13] for name in sorted(scored)] == [".shard-00002-", ".shard-00003-"]
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not (tmp_path / "f.csv.parts").exists()


def test_a_bad_series_is_named_and_the_parts_of_the_others_are_written(folder, tmp_path, capsys):
    table = long_table()
    table["sold"] = table["sold"].where((table["shop"] != "s5") | (table["day"] < "2024-03-15"), 1e38)
    table.to_csv(tmp_path / "bad.csv", index=False)
    squared = write_untrained(tmp_path / "informer.ckpt", *COLUMNS, f"data.path={folder}/p.csv")
    with faked():
        text = refused(capsys, squared, tmp_path / "f.csv", *ON_RAY, f"data.path={tmp_path}/bad.csv")
    assert re.search(r"1 of 4 parts failed, .*: part 2: .*bad\.csv: column 'sold' of series 's5' is 1e\+38 at", text)
    assert len([*(tmp_path / "f.csv.parts").glob("shard-*.csv")]) == 3


def test_parts_of_other_data_are_not_taken_and_go_when_all_is_joined(folder, tmp_path):
    output = tmp_path / "f.csv"
    with faked(killing=lambda name, given: given == (2, 4)), pytest.raises(SystemExit):
        predict(folder / "c.ckpt", output, *ON_RAY)
    long_table(seed=1).to_csv(tmp_path / "other.csv", index=False)
    other = (f"data.path={tmp_path}/other.csv",)
    predict(folder / "c.ckpt", tmp_path / "whole.csv", *other)
    (tmp_path / "f.csv.parts" / "mine.txt").write_text("a stranger's")
    with faked():
        predict(folder / "c.ckpt", output, *ON_RAY, *other)
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert [path.name for path in (tmp_path / "f.csv.parts").iterdir()] == ["mine.txt"]


def test_a_second_command_on_the_same_output_is_refused_at_once(folder, tmp_path, capsys):
    (tmp_path / "f.csv.parts").mkdir()
    with faked() as ray, FileLock(tmp_path / "f.csv.parts" / ".lock"):
        text = refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY)
    assert "f.csv.parts is in use: another process is at work there; wait for its end, stop it, or write else" in text
    assert "write elsewhere with output=FOLDER/forecast.csv" in text and not ray.calls


def test_without_ray_the_command_to_install_it_is_named(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    text = refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY)
    assert f"engine=ray: the package ray is not installed. Install it: {install('ray')}" in text


def test_a_page_waits_for_no_picture_and_nothing_but_engine_ray_imports_ray_or_the_engine(folder, tmp_path):
    """Both in one interpreter: to begin takes it some seconds."""
    arguments = [f"ckpt_path={folder}/c.ckpt", f"output={tmp_path}/f.csv", "device=cpu"]
    code = (
        "import sys, forecast.apps.common.page, forecast.apps.common.backtest_page\n"
        "print('matplotlib' in sys.modules)\n"
        f"sys.argv = ['predict.py', *{arguments!r}]\n"
        "from forecast.__main__ import start\nstart('predict')\n"
        "ours = ('commands.engines', 'jobs.cluster')\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'ray' or name.endswith(ours)])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = found.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("False", "[]")


VERSIONS = (
    "Version mismatch: The cluster was started with:\n    Ray: 2.51.0\n    Python: 3.12.3\n"
    "This process on node 10.0.0.7 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
)


def test_no_cluster_another_ray_and_an_address_that_is_none_are_refused(folder, tmp_path, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    none = ConnectionError("Could not find any running Ray instance. Please specify the one to connect to")
    other, full = RuntimeError(VERSIONS), RuntimeError("It is full.\nmore")
    for address, error, message in (
        ("auto", none, "ray.address=auto: no cluster runs on this machine. Start one with ray start --head"),
        (f"127.0.0.1:{port}", None, f"no cluster answers there. Start one with ray start --head --port={port}"),
        ("auto", other, "the cluster has Ray 2.51.0 and Python 3.12.3, this command Ray 2.60.0 and Python 3.11.7."),
        ("auto", full, "ray.address=auto: no cluster can be used there: It is full. Start one"),
        ("here", None, "ray.address=here is no HOST:PORT. Say ray.address=auto or ray.address=HOST:6379"),
        ("ray://head:10001", None, "this command must be a part of the cluster. Start it on one of its machines"),
    ):
        with faked(refused=error):
            keys = (*ON_RAY, f"ray.address='{address}'")
            assert message in refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", *keys)
        assert not (tmp_path / "f.csv.parts").exists()


def test_a_head_that_is_gone_is_said_once_while_no_part_is_answered(caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(clusters, "answers", lambda host, port: (host, port) != ("10.0.0.7", 6379))
    looks = iter([[], [], [], ["question"]])
    ray = SimpleNamespace(
        wait=lambda questions, *, num_returns, timeout: (next(looks), questions),
        get_runtime_context=lambda: SimpleNamespace(gcs_address="10.0.0.7:6379"),
    )
    ours = clusters.Cluster(key="ray", address="auto", workers=None, threads=1)
    shared = clusters.Shared(folder=tmp_path / "f.csv.parts", typed="output=f.csv", like="output=/SHARED/f.csv")
    pool = clusters.RayPool(ray, None, cluster=ours, shared=shared, given=lambda number: (number, 4))
    assert pool.first(["question"], working=True) == "question"
    (said,) = caplog.messages
    assert said.startswith("The head of the cluster, 10.0.0.7:6379, does not answer.") and "f.csv.parts" in said


def test_an_output_that_not_all_machines_share_is_found_before_any_part_is_begun(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(clusters.Path, "is_file", lambda path: not path.name.startswith(".seen") and path.exists())
    with faked() as ray:
        text = refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY)
    where = f"{socket.gethostname()}: output={tmp_path}/f.csv: {tmp_path}/f.csv.parts"
    assert f"{where} is no folder that all machines of the cluster share. Choose one that they do: output=/SH" in text
    assert {name for name, *_ in ray.calls} == {"ready"} and not (tmp_path / "f.csv.parts").exists()


OTHERS = {
    "torch": "Install the same there: pip install 'torch==",
    "data": "Name files on a folder that all machines share",
    "device": "Take machines with the same processors",
    "commit": "Install the same forecast on all machines",
}


@pytest.mark.parametrize("key", OTHERS)
def test_a_worker_that_would_forecast_otherwise_is_refused(folder, tmp_path, capsys, monkeypatch, key):
    real = parts.check_same
    monkeypatch.setattr(parts, "check_same", lambda ours, theirs: real(ours, {**theirs, key: "other"}))
    with faked() as ray:
        text = refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY)
    assert re.search(rf"its {key} is other, that of the command .*\. {OTHERS[key]}", text)
    assert {name for name, *_ in ray.calls} == {"ready"}


def test_too_few_cpus_a_worker_that_cannot_begin_and_a_shard_are_refused(folder, tmp_path, capsys):
    died = {"killing": lambda name, _: name == "ready"}
    for keys, ray, message in (
        (
            ("ray.threads=3",),
            {"cpus": (1, 2)},
            "ray.threads=3: no machine of the cluster has so many CPUs, the largest",
        ),
        ((), died, "a worker died as it began: The actor died unexpectedly"),
        (("shard=1/2",), {}, "shard=1/2 engine=ray: Ray's workers make all parts, and one file of them"),
        (("ray.shards=0",), {}, "ray.shards"),
    ):
        with faked(**ray):
            assert message in refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", *ON_RAY, *keys)
