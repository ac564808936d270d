"""A Ray cluster of several nodes on this machine, each with one CPU: for timings, and for the tests of engine=ray."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

START = 180.0  # seconds until all nodes are there
RAY = (sys.executable, "-m", "ray.scripts.scripts")
STORE = 80_000_000  # bytes of each object store, about the least that Ray takes; no forecast travels through it
# No usage statistics; and no token, which would be written into the home folder.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
COUNT = (
    "import sys, time, ray; ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)\n"
    "while sum(node['Alive'] for node in ray.nodes()) < int(sys.argv[2]): time.sleep(0.2)"
)


def environment() -> dict[str, str]:
    """That of the nodes, and of a command that uses them."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": path}


def free_port() -> int:
    """A port that nobody listened at a moment ago."""
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def listens(address: str) -> bool:
    """Whether somebody does there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0


@contextmanager
def ray_nodes(count: int) -> Iterator[str]:
    """The address of a cluster of so many nodes, all ended with the block."""
    with head_and_nodes(count) as (address, _):
        yield address


@contextmanager
def head_and_nodes(count: int, **more: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The same, and the nodes, of which the first is the head. more: of their environment."""
    folder = Path(tempfile.mkdtemp(prefix="ray"))  # short: the names of sockets have a limit
    port = free_port()
    address = f"{import_module('ray.util').get_node_ip_address()}:{port}"
    client = f"--ray-client-server-port={free_port()}"
    head = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false", client]
    nodes = []
    try:
        nodes.append(start_node(head, log=folder / "0.log", **more))
        end = time.monotonic() + START
        while not listens(address) and time.monotonic() < end:
            time.sleep(0.2)
        for number in range(1, count):
            nodes.append(start_node([f"--address={address}"], log=folder / f"{number}.log", **more))
        wait_for(address, count)
        yield address, nodes
    finally:
        for node in reversed(nodes):
            end_node(node)
        shutil.rmtree(folder, ignore_errors=True)


def start_node(
    arguments: Sequence[str], *, log: Path, before: Sequence[str] = (), **more: str
) -> subprocess.Popen[bytes]:
    """A node in a process that ends it when it is ended. before: words in front of the command. more: environment."""
    words = ["start", "--block", "--num-cpus=1", f"--object-store-memory={STORE}", "--disable-usage-stats"]
    ports = ["--min-worker-port=0", "--max-worker-port=0"]
    with log.open("wb") as file:
        command = [*before, *RAY, *words, *ports, *arguments]
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env={**environment(), **more})


def wait_for(address: str, count: int) -> None:
    """Until so many nodes are there."""
    command = [sys.executable, "-c", COUNT, address, str(count)]
    subprocess.run(command, env=environment(), check=True, timeout=START, capture_output=True)


def end_node(node: subprocess.Popen[bytes]) -> None:
    """SIGTERM, at which the node ends all that it has started."""
    node.terminate()
    try:
        node.wait(timeout=40)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()
