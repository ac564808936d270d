"""Processes that begin with everything imported: `Popen` and `run` as subprocess has them, for commands of Python.

The program imports torch and Lightning for some six seconds of a processor; most tests that start a process are about
what becomes of it. They are forked from one process, this file as a program, which has imported what the commands need.
Only what forked_imports.py does is shared. Pid, signals, exit, files, folder, environment and what `ps` shows are those
of any process, with one thread of torch. What is tested of an interpreter's own start (what it imports and when,
variables that it reads then, who reads its output) starts a real one.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import forked_training

ROOT = Path(__file__).parents[1]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ARROWS = "jemalloc_bg_thd"  # pyarrow's allocator makes its thread anew in a fork
PLACE = "FORECAST_TESTS_FORK"  # names the socket to those that are forked, whose sweeps are forked too
LONGEST_COMMAND = 20_000
HEADER = 8  # digits of the length of what follows


class Popen:
    """As subprocess.Popen, of [sys.executable, "-m", MODULE, ...] or [sys.executable, FILE, ...].

    stdout, stderr: None, PIPE (read by communicate), DEVNULL, STDOUT or a file. env may name a host to enter
    (forked_training.py).
    """

    def __init__(self, args, *, stdin=None, stdout=None, stderr=None, cwd=None, env=None, start_new_session=False):
        self.args, self.returncode = [str(word) for word in args], None
        assert self.args[0] == sys.executable
        self._written, self._texts = {}, {}
        request = {
            "argv": self.args[1:],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        with Path(os.devnull).open("r+b") as null:

            def number(place, file, name):
                if file == subprocess.DEVNULL:
                    return null.fileno()
                if file == subprocess.PIPE:
                    self._written[name] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _text
                    return self._written[name].fileno()
                return place if file is None else file if isinstance(file, int) else file.fileno()

            out = number(1, stdout, "out")
            err = out if stderr == subprocess.STDOUT else number(2, stderr, "err")
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.connect(server())
            socket.send_fds(self._connection, [b"+"], [number(0, stdin, "in"), out, err])
        _send(self._connection, json.dumps(request).encode())
        self.pid = int(_receive(self._connection))

    def poll(self):
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = int(_receive(self._connection))
            self._connection.close()
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.poll()
        return self.returncode

    def communicate(self, timeout=None):
        self.wait(timeout)
        return tuple(self._texts.setdefault(name, self._text(name)) for name in ("out", "err"))

    def _text(self, name):
        if (file := self._written.pop(name, None)) is None:
            return None
        with file:
            file.seek(0)
            return file.read().decode()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def run(args, *, check=False, capture_output=False, text=True, timeout=None, **options):
    """As subprocess.run, of Popen; what it has captured is text."""
    assert text
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = Popen(args, **options)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def command(*words):
    """The words of a shell's command that begins such a process, where its environment has PLACE: server()."""
    return [sys.executable, "-IS", str(Path(__file__).with_name("forked_client.py")), *words]


def ready():
    """Waits for the first imports, where a test measures how long a command takes."""
    run([sys.executable, "-m", "forecast", "--version"], capture_output=True, check=True)


@contextlib.contextmanager
def forked_by(*modules):
    """What these modules of the program start, `python -m forecast train`, is forked too."""
    with contextlib.ExitStack() as stack:
        for name in modules:
            module = importlib.import_module(f"forecast.{name}")
            shim = SimpleNamespace(**{**vars(subprocess), "Popen": Popen})
            stack.enter_context(mock.patch.object(module, "subprocess", shim))
        yield


@functools.cache
def server():
    """The socket of the process that has imported everything; it ends with the one that first needs it."""
    if PLACE in os.environ:
        return os.environ[PLACE]
    folder = tempfile.TemporaryDirectory()
    path = f"{folder.name}/socket"
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT), PLACE: path}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(100)
        number = listening.fileno()
        command = [sys.executable, __file__, str(number), " " * LONGEST_COMMAND]
        process = subprocess.Popen(command, pass_fds=[number], stdin=subprocess.PIPE, env=environment)

    def end():
        process.stdin.close()
        process.wait()
        folder.cleanup()

    atexit.register(end)
    return path


def _send(connection, content):
    connection.sendall(b"%*d" % (HEADER, len(content)) + content)


def _receive(connection):
    return _read(connection, int(_read(connection, HEADER)))


def _read(connection, size):
    content = b""
    while len(content) < size:
        if not (part := connection.recv(size - len(content))):
            raise EOFError("the process that forks the others has ended")
        content += part
    return content


def serve(listening):
    """Forks a process for each request until stdin is closed. Returns in each, with its request and files."""
    while True:
        ready = select.select([listening, 0], [], [])[0]
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if listening not in ready:
            sys.exit()
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            return begun(connection)
        connection.close()


def begun(connection):
    """Forks once more: the parent tells how its child ends, and the child returns with its request and files."""
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(_receive(connection))
    child = os.fork()
    if not child:
        connection.close()
        return request, files
    for file in (0, 1, 2, *files):
        os.close(file)  # else what reads them waits
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # those of the group
    _send(connection, b"%d" % child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):  # who asked may have been killed
        _send(connection, b"%d" % code)
    os._exit(0)


def become(request, files):
    """Takes over what a process is given when it begins."""
    if request["session"]:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for number, name in enumerate(("stdin", "stdout", "stderr")):  # anew: a pipe in place of a file has no position
        before = getattr(sys, name)
        stream = open(number, before.mode, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdout.reconfigure(write_through=request["argv"][0] == "-u")
    sys.stderr.reconfigure(line_buffering=True)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    show([sys.executable, *request["argv"]])
    sys.modules.pop("forecast.__main__")
    forked_training.take_place()
    for name in ("forecast.apps.common.command", "forecast.apps.auto.command"):
        sys.modules[name].BEGUN = time.monotonic()


def show(command):
    """The command, where ps and /proc read it."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    text = b"\0".join(word.encode() for word in command)
    ctypes.memmove(start, text[: end - start - 1].ljust(end - start, b"\0"), end - start)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    importlib.import_module("forked_imports").import_all()
    tasks = {int(task.name): (task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
    others = {name for task, name in tasks.items() if task != os.getpid()}
    assert others <= {ARROWS}, f"a fork would lack the threads {others}"
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # of that thread
    gc.collect()
    gc.freeze()
    request, files = serve(socket.socket(fileno=int(sys.argv[1])))
    place = os.environ[PLACE]
    become(request, files)
    os.environ[PLACE] = place
    first, *words = request["argv"][request["argv"][0] == "-u" :]
    sys.path[0] = request["cwd"] if first == "-m" else str(Path(first).parent)
    sys.argv = words if first == "-m" else [first, *words]
    steps = mock.patch("forecast.jobs.steps.context", lambda _: multiprocessing.get_context("fork"))
    ours = forked_by("jobs.trainings")
    with steps, ours, forked_training.launchers(Popen):
        if first == "-m":
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
