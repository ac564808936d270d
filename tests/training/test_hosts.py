"""One training on two hosts: network namespaces with a bridge between them, torchrun on each, a folder that they share.

The hosts end with the bits of two processes on one host, whatever has befallen them meanwhile.
"""

import hashlib
import json
import os
import signal
import time

import hosts
import pytest
from program import ONE_COLUMN
from training.test_processes import DDP, checkpoint, torchrun

# dropout and ProbSparse's keys draw: a process that goes on elsewhere than it stopped would end with other bits
DRAWING = [*ONE_COLUMN, *DDP, "model.dropout=0.1", "data.batch_size=16", "trainer.max_epochs=3"]
DRAWING += ["callbacks.checkpoint.every_n_train_steps=4", "calibration=none"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def possible():
    if why := hosts.refused():
        pytest.skip(f"no network namespaces here: {why}")


@pytest.fixture
def two(possible):
    with hosts.two_hosts() as both:
        yield both


@pytest.fixture(scope="module")
def one_host(possible, tmp_path_factory):
    """The run folder of two processes on one host, which nothing disturbs."""
    folder = tmp_path_factory.mktemp("one_host")
    torchrun(folder, *DRAWING, "hydra.run.dir=run")
    return folder / "run"


def ended(processes, within=120):
    """What each host printed, when all have ended; the statuses, and the seconds until the last one ended."""
    began, texts = time.monotonic(), []
    try:
        for process in processes:
            texts.append(process.communicate(timeout=max(began + within - time.monotonic(), 1))[0])
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return texts, [process.returncode for process in processes], time.monotonic() - began


def begun(processes, folder):
    """The run folder, as soon as there is a checkpoint in it."""
    while not (found := [*folder.glob("outputs/*/checkpoints/last.ckpt")]):
        assert all(process.poll() is None for process in processes), processes[0].communicate()[0]
        time.sleep(0.02)
    return found[0].parents[1]


def weights(run):
    """SHA-256 of all weights."""
    state = checkpoint(run)["state_dict"]
    return hashlib.sha256(b"".join(state[name].numpy().tobytes() for name in sorted(state))).hexdigest()


def goes_on(two, folder, run, one_host):
    """The same command again, with ckpt_path: to the bits of the run that nothing has disturbed."""
    again = [*DRAWING, f"ckpt_path={run}/checkpoints/last.ckpt"]
    texts, statuses, _ = ended(hosts.torchrun(two, *again, cwd=folder))
    assert statuses == [0, 0], texts
    assert weights(run) == weights(one_host)
    assert [*folder.glob("outputs/*")] == [run]
    results = [json.loads((path / "metrics.json").read_text())["test"] for path in (run, one_host)]
    assert results[0] == results[1]


def test_two_hosts_of_which_one_is_slow_train_to_the_bits_of_two_processes_on_one(two, tmp_path, one_host):
    processes = hosts.torchrun(two, *DRAWING, cwd=tmp_path)
    run = begun(processes, tmp_path)
    slow = two[1].worker()
    os.kill(slow, signal.SIGSTOP)
    time.sleep(3)
    assert processes[0].poll() is None
    os.kill(slow, signal.SIGCONT)
    texts, statuses, _ = ended(processes)
    assert statuses == [0, 0], texts
    assert weights(run) == weights(one_host)
    assert [*tmp_path.glob("outputs/*")] == [run] and run.name == "torchrun-demo"
    assert {path.name for path in run.glob("*.log")} == {"train.log", "train-process1.log"}
    assert [text.count("Everything about this run is in") for text in texts] == [1, 0]


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_both_hosts_and_the_same_command_goes_on_to_the_same_bits(
    two, tmp_path, one_host, killed
):
    processes = hosts.torchrun(two, *DRAWING, cwd=tmp_path)
    run = begun(processes, tmp_path)
    os.kill(two[killed].worker(), signal.SIGKILL)
    texts, statuses, seconds = ended(processes)
    assert seconds < 30
    assert statuses == [1, 1]
    said = texts[1 - killed]
    assert said.count("Another process of this training has ended") == 1
    assert f"ckpt_path={run}/checkpoints/last.ckpt" in said and "Error executing job" not in said
    assert "SIGKILL" in texts[killed]  # torchrun's own words
    goes_on(two, tmp_path, run, one_host)


def test_hosts_whose_own_name_is_a_loopback_address_are_told_their_interface(possible, tmp_path):
    """As Debian's /etc/hosts has it: gloo would wait for the others there, where they never come."""
    with hosts.two_hosts(own="127.0.1.1") as two:
        few = [*ONE_COLUMN, *DDP, "process_timeout=7"]
        texts, statuses, _ = ended(hosts.torchrun(two, *few, cwd=tmp_path))
        assert 0 not in statuses
        assert "GLOO_SOCKET_IFNAME" in "".join(texts)
        texts, statuses, _ = ended(hosts.torchrun(two, *few, cwd=tmp_path, GLOO_SOCKET_IFNAME="eth0"))
        assert statuses == [0, 0], texts


def test_a_lost_link_ends_both_hosts_after_the_time_that_is_said(two, tmp_path, one_host):
    processes = hosts.torchrun(two, *DRAWING, "process_timeout=7", cwd=tmp_path)
    run = begun(processes, tmp_path)
    two[1].cut()
    texts, statuses, seconds = ended(processes)
    assert 5 < seconds < 7 + 30
    assert statuses == [1, 1]
    for text in texts:
        assert text.count("did not answer within process_timeout seconds") == 1, text
        assert f"ckpt_path={run}/checkpoints/last.ckpt" in text and "Error executing job" not in text
    two[1].mend()
    goes_on(two, tmp_path, run, one_host)
