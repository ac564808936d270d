"""Two hosts on one machine: network namespaces joined by a bridge, each with its own interface, loopback and name.

The file system is the machine's: the folder that they share. Only root may make them; `refused` says why not.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import forked
from forked_training import HOST

ROOT = Path(__file__).parents[1]
NAMES = Path("/etc/netns")  # `ip netns exec NAME` puts /etc/netns/NAME/hosts in place of /etc/hosts
PORT = 29400


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Host:
    """A host of the two: its namespace, which is its host name too, and the switch that it hangs on."""

    name: str
    switch: str

    def words(self, *command):
        """The words that run a command on this host."""
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh"]
        return ["ip", "netns", "exec", self.name, *named, *map(str, command)]

    def start(self, *command, cwd, **environment):
        """A command on this host, with its output in one pipe. One of Python is forked: forked.py."""
        clean = {k: v for k, v in os.environ.items() if k not in ("PL_GLOBAL_SEED", "LOCAL_RANK", "WORLD_SIZE")}
        fork = command[0] == sys.executable
        begin, words = (forked.Popen, command) if fork else (partial(subprocess.Popen, text=True), self.words(*command))
        return begin(
            words,
            cwd=cwd,
            env=clean | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), HOST: self.name, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def cut(self):
        """Pulls the cable: what is sent is lost, and nobody is told."""
        ip("-n", self.switch, "link", "set", self.name, "down")

    def mend(self):
        """Plugs it in again."""
        ip("-n", self.switch, "link", "set", self.name, "up")

    def worker(self):
        """The number of the process of this host that trains; torchrun, which has started it, is another one."""
        answer = subprocess.run(["ip", "netns", "pids", self.name], check=True, capture_output=True, text=True)
        numbers = map(int, answer.stdout.split())
        return next(n for n in numbers if b"torch.distributed.run" not in Path(f"/proc/{n}/cmdline").read_bytes())


@contextmanager
def two_hosts(*, first="", own=""):
    """The hosts, named after this process, without anything that this machine's own network would notice.

    first: more names of the first host. own: the address that each has of its own name; empty: the one that others use.
    """
    switch, *names = (f"fc{os.getpid()}{letter}" for letter in "sab")
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(names, 1):
            ip("netns", "add", name)
            ip("-n", switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", switch, "link", "set", name, "master", "bridge", "up")
            ip("-n", name, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            (NAMES / name).mkdir(parents=True)
            addresses = [own if own and other == name else f"10.77.0.{n}" for n, other in enumerate(names, 1)]
            lines = [f"{address} {other}" for address, other in zip(addresses, names, strict=True)]
            lines += ["127.0.0.1 localhost", *([f"10.77.0.1 {first}"] if first else [])]
            (NAMES / name / "hosts").write_text("\n".join(lines) + "\n")
        yield [Host(name, switch) for name in names]
    finally:
        for name in (switch, *names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            (NAMES / name / "hosts").unlink(missing_ok=True)
            if (NAMES / name).is_dir():
                (NAMES / name).rmdir()
        if NAMES.is_dir() and not any(NAMES.iterdir()):
            NAMES.rmdir()


def refused():
    """Why this machine makes no namespaces; empty where it does."""
    try:
        with two_hosts():
            return ""
    except FileNotFoundError as error:
        return f"no {error.filename} (Debian: apt-get install iproute2)"
    except (subprocess.CalledProcessError, OSError) as error:
        return (getattr(error, "stderr", "") or str(error)).strip()


def torchrun(hosts, *words, cwd, processes=1, program=ROOT / "train.py", options=(), **environment):
    """The same torchrun on each host, as one types it on a cluster."""
    start = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(hosts)}", f"--nproc-per-node={processes}"]
    start += [f"--master-addr={hosts[0].name}", f"--master-port={PORT}", "--rdzv-id=demo", *options]
    return [
        host.start(*start, f"--node-rank={number}", program, *words, cwd=cwd, **environment)
        for number, host in enumerate(hosts)
    ]
