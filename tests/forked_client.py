"""For shells: python -IS forked_client.py -m MODULE ..., or a file; a forked process in place of an interpreter.

It has the streams, folder and environment of this one, is sent the signals that this one gets, and ends it with its
status. It imports next to nothing: to begin an interpreter takes a hundredth of what the program imports.
"""

import json
import os
import signal
import socket
import sys
from array import array
from pathlib import Path

HEADER = 8  # as in forked.py


def receive(connection):
    def read(size):
        content = b""
        while len(content) < size:
            if not (part := connection.recv(size - len(content))):
                sys.exit("the process that forks the others has ended")
            content += part
        return content

    return int(read(int(read(HEADER))))


def main():
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["FORECAST_TESTS_FORK"])
    connection.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [0, 1, 2]))])
    request = {"argv": sys.argv[1:], "cwd": str(Path.cwd()), "env": dict(os.environ), "session": False}
    content = json.dumps(request).encode()
    connection.sendall(b"%*d" % (HEADER, len(content)) + content)
    process = receive(connection)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(process, number))
    status = receive(connection)
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
