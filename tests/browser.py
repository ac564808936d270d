"""A page in Debian's chromium, told what to do through its debugging pipe: no driver and no package is needed."""

import base64
import json
import os
import shlex
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    "--remote-debugging-pipe",
]
LONGEST = 60.0  # seconds for one answer


class Page:
    """A tab. problems: what its console has said, errors that nobody caught, requests that left the file."""

    def __init__(self, reading, writing):
        self._reading, self._writing, self._number, self._rest, self._events = reading, writing, 0, b"", []
        self.problems, self.requests, self._session = [], [], None
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method, **params):
        """The answer to one command of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path, *, width=1280, height=900, dark=False, script=True):
        """Loads a file and waits until it stands."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self("Emulation.setScriptExecutionDisabled", value=not script)
        self._events.clear()
        self("Page.navigate", url=Path(path).resolve().as_uri())
        until = time.monotonic() + LONGEST
        while "Page.loadEventFired" not in self._events:
            assert time.monotonic() < until
            self._note(self._next())

    def evaluate(self, expression):
        """The value of a JavaScript expression."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def drag(self, begin, end):
        """The mouse, pressed at one place of the window and released at another."""
        for kind, (x, y) in (
            ("mouseMoved", begin),
            ("mousePressed", begin),
            ("mouseMoved", end),
            ("mouseReleased", end),
        ):
            pressed = (
                {} if kind == "mouseMoved" and (x, y) == begin else {"button": "left", "buttons": 1, "clickCount": 1}
            )
            self("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def screenshot(self, path, *, whole=True):
        """A picture of the whole page."""
        shot = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append([argument.get("value") for argument in params["args"]])
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {params['message']}")

    def _next(self):
        while b"\0" not in self._rest:
            part = os.read(self._reading, 1 << 20)
            assert part, "chromium has gone"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def browser(folder):
    """A `Page` in a chromium of its own, whose profile lies in `folder`."""
    to_it, our_end = os.pipe()
    from_it, its_end = os.pipe()
    command = shlex.join([CHROMIUM, *FLAGS, f"--user-data-dir={folder}"])
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command} 3<&{to_it} 4>&{its_end}"],
        pass_fds=(to_it, its_end),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_it)
    os.close(its_end)
    try:
        yield Page(from_it, our_end)
    finally:
        process.terminate()
        process.wait(timeout=LONGEST)
        os.close(our_end)
        os.close(from_it)
