"""engine=ray on a cluster of two nodes: the bytes of one process, whatever is killed on the way."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from apps.test_predict_panel import WINDOW
from checkpoints import write_untrained

from forecast.data.forecast_files import beside

pytest.importorskip("ray", minversion="2.60", reason='needs ray: pip install -e ".[ray]"')
from benchmarks.ray_nodes import (  # it imports Ray
    end_node,
    environment,
    head_and_nodes,
    ray_nodes,
    start_node,
    wait_for,
)

pytestmark = pytest.mark.slow
SERIES, ROWS, LIMIT = 8_000, 45, 200


@pytest.fixture(scope="module")
def address():
    with ray_nodes(2) as address:
        yield address


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A panel, a checkpoint of it that reads it from a cache, and one process's forecast."""
    folder = tmp_path_factory.mktemp("panel")
    table = {
        "shop": np.repeat([f"s{number:05}" for number in range(SERIES)], ROWS),
        "day": np.tile(pd.date_range("2024-01-01", periods=ROWS), SERIES),
        "sold": np.random.default_rng(0).normal(50, 9, SERIES * ROWS).round(2),
    }
    pd.DataFrame(table).to_parquet(folder / "p.parquet")
    keys = [f"data.path={folder}/p.parquet", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(folder / "c.ckpt", *WINDOW, *keys, f"data.cache={folder}/cache")
    ended(started(folder, folder / "whole.parquet"))
    return folder


def started(folder, output, *keys, before=("-m", "forecast", "predict"), **more):
    command = [sys.executable, *before, f"ckpt_path={folder}/c.ckpt", f"output={output}", "device=cpu", *keys]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env={**environment(), **more}, cwd=folder, **pipes)


def on_ray(folder, output, address, *keys, **named):
    return started(folder, output, "engine=ray", f"ray.address={address}", *keys, **named)


def ended(process, status=0):
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == status and "Traceback" not in text, text
    return text


def waited_for(pattern, output, count):
    """The files of such a name in the folder of the parts, when there are so many."""
    end = time.monotonic() + LIMIT
    while len(found := [*output.with_name(f"{output.name}.parts").glob(pattern)]) < count:
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def killed(folder, output, address):
    """A command that is killed once there are three parts."""
    process = on_ray(folder, output, address)
    waited_for("shard-*.parquet.json", output, 3)
    process.kill()
    ended(process, status=-signal.SIGKILL)
    time.sleep(5)  # Ray ends the workers, which may finish a part


def check_whole(folder, output):
    """Byte for byte one process's: nothing lost, nothing twice."""
    assert output.read_bytes() == (folder / "whole.parquet").read_bytes()
    assert beside(output).read_bytes() == beside(folder / "whole.parquet").read_bytes()
    counts = pd.read_parquet(output, columns=["shop"])["shop"].value_counts()
    assert len(counts) == SERIES and set(counts) == {5}
    assert not output.with_name(f"{output.name}.parts").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_one_and_two_workers_write_the_bytes_of_one_process(folder, address, tmp_path, workers):
    process = on_ray(folder, tmp_path / "f.parquet", address, f"ray.workers={workers}")
    waited_for(".seen-*-*-*", tmp_path / "f.parquet", workers)
    text = ended(process)
    assert f"{SERIES} of {SERIES} series" in text
    check_whole(folder, tmp_path / "f.parquet")


def test_a_killed_worker_costs_the_part_that_it_was_at(folder, address, tmp_path):
    output = tmp_path / "f.parquet"
    process = on_ray(folder, output, address)
    waited_for("shard-*.parquet", output, 2)
    worker = waited_for(".seen-*-*-*", output, 2)[0]
    os.kill(int(worker.name.rpartition("-")[2]), signal.SIGKILL)
    text = ended(process)
    assert len(re.findall(r"The worker of part \d+ of 32 died, and another one makes it: ", text)) == 1, text
    check_whole(folder, output)


def test_after_a_killed_command_the_next_goes_on_with_the_parts_that_are_there(folder, address, tmp_path):
    output = tmp_path / "f.parquet"
    killed(folder, output, address)
    before = {path: path.stat().st_mtime_ns for path in waited_for("shard-*.parquet", output, 3)}
    assert not output.exists() and len(before) < 32
    again = on_ray(folder, output, address)
    seen = {}
    while again.poll() is None:
        for path in before:
            try:
                seen[path] = path.stat().st_mtime_ns
            except OSError:
                break
        time.sleep(0.1)
    assert f"{len(before)} of 32 parts are there from a former command." in ended(again)
    assert seen == before, "none was written again"
    check_whole(folder, output)


def test_a_second_command_on_the_same_output_is_refused_and_the_first_goes_on(folder, address, tmp_path):
    output = tmp_path / "f.parquet"
    first = on_ray(folder, output, address)
    waited_for(".seen-*", output, 1)
    text = ended(on_ray(folder, output, address), status=1)
    assert re.search(rf"f\.parquet\.parts is in use: process {first.pid} on .* is at work there", text)
    ended(first)
    check_whole(folder, output)


def processes_below(pid):
    """A process and all that it has started."""
    children, found = {}, [pid]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    for one in found:
        found += children.get(one, [])
    return found


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_killed_head_ends_a_long_forecast_and_the_same_command_goes_on_elsewhere(folder, tmp_path):
    output, soon = tmp_path / "f.parquet", {"RAY_gcs_rpc_server_reconnect_timeout_s": "12"}
    with head_and_nodes(2, **soon) as (address, nodes):
        process = on_ray(folder, output, address, **soon)
        waited_for("shard-*.parquet.json", output, 2)
        workers = [int(path.name.rpartition("-")[2]) for path in waited_for(".seen-*-*-*", output, 2)]
        head = processes_below(nodes[0].pid)
        others = [worker for worker in workers if worker not in head]
        send(others, signal.SIGSTOP)  # at a part that takes long
        send(head, signal.SIGKILL)
        text, _ = process.communicate(timeout=LIMIT)
        send(others, signal.SIGCONT)
    assert process.returncode != 0 and not output.exists()
    assert re.search(r"The head of the cluster, \S+, does not answer\. .* goes on with what is in \S+f\.parquet", text)
    before = len([*output.with_name("f.parquet.parts").glob("shard-*.json")])
    assert 2 <= before < 32
    with ray_nodes(1) as other:
        assert f"{before} of 32 parts are there from a former command." in ended(on_ray(folder, output, other))
    check_whole(folder, output)


def test_a_clock_that_was_set_back_loses_and_doubles_nothing(folder, address, tmp_path):
    fake = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if fake is None:
        pytest.skip("no libfaketime: apt-get install faketime")
    output = tmp_path / "f.parquet"
    killed(folder, output, address)
    before = len([*output.with_name("f.parquet.parts").glob("shard-*.json")])
    again = on_ray(folder, output, address, LD_PRELOAD=str(fake), FAKETIME="-400d", DONT_FAKE_MONOTONIC="1")
    assert f"{before} of 32 parts are there from a former command." in ended(again)
    check_whole(folder, output)


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("no right to mount a small disk")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_on_a_full_disk_it_is_said_and_with_room_gone_on(folder, address, small_disk):
    output = small_disk / "f.parquet"
    text = ended(on_ray(folder, output, address), status=1)
    assert "cannot be written: No space left on device. Make room" in text
    there = len([*(small_disk / "f.parquet.parts").glob("shard-*.json")])
    assert 0 < there < 32 and not output.exists()
    subprocess.run(["mount", "-o", "remount,size=60m", small_disk], check=True)
    assert f"{there} of 32 parts are there from a former command." in ended(on_ray(folder, output, address))
    check_whole(folder, output)


def test_an_output_that_a_node_does_not_share_is_found_before_any_part_is_begun(folder, address, tmp_path):
    own = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs tmpfs {tmp_path} && exec "$@"', "sh"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to a view of the disk of one's own")
    node = start_node([f"--address={address}"], log=folder / "third.log", before=own)
    try:
        wait_for(address, 3)
        text = ended(on_ray(folder, tmp_path / "f.parquet", address), status=1)
    finally:
        end_node(node)
    assert re.search(r"f\.parquet\.parts is no folder that all machines of the cluster share", text)
    assert [*tmp_path.iterdir()] == []


def test_a_cluster_of_another_ray_is_refused(folder, address, tmp_path):
    code = "import ray; ray.__version__ = '2.51.0'; from forecast.__main__ import start; start('predict')"
    text = ended(on_ray(folder, tmp_path / "f.parquet", address, before=("-c", code)), status=1)
    assert re.search(r"the cluster has Ray 2\.\d+\.\d+ and Python 3\.\S+, this command Ray 2\.51\.0", text)
