"""What a command with engine=ray begins with: a cluster to talk to, and a folder that no other command is at."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from forecast.commands.engines.ray_worker import REACHED
from forecast.commands.engines.work import Place
from forecast.commands.predict_panel import written_or_refused
from forecast.config.settings import RaySettings
from forecast.errors import UserError
from forecast.run_folder.lock import LOCK, hold, release
from forecast.text.terminal import label


@contextmanager
def at_work(settings: RaySettings, pieces: Path, place: Place) -> Iterator[Any]:
    """Ray, with a cluster; other commands are kept out of the folder of the parts, which goes where all went well.

    UserError where another command is at work there, without Ray, and where no cluster of this Ray answers.
    """
    if find_spec("ray") is None:
        raise UserError(
            "engine=ray: the package ray is not installed. Install it: pip install 'forecast[ray]', or pip install "
            "'ray>=2.60,<3'"
        )
    threads = torch.get_num_threads()
    with only_one(pieces, place), connected(settings) as ray:
        torch.set_num_threads(settings.threads)  # the bits are those of one process with as many
        try:
            yield ray
        finally:
            torch.set_num_threads(threads)


@contextmanager
def only_one(folder: Path, place: Place) -> Iterator[None]:
    """Holds the folder of the parts. At the end its own files are removed, and where all went well all parts."""
    with written_or_refused(place.value, key=place.key, other=place.other):
        folder.mkdir(parents=True, exist_ok=True)
        hold(folder, elsewhere=f"write elsewhere with {place.key}={place.other}")
    done = False
    try:
        yield
        done = True
    finally:
        with suppress(OSError):
            for pattern in (".seen-*", *((".shard-*.part", "shard-*-of-*") if done else ())):
                for path in folder.glob(pattern):
                    path.unlink(missing_ok=True)
            (folder / LOCK).unlink(missing_ok=True)
        release(folder)
        with suppress(OSError):  # there are parts, for another time
            folder.rmdir()


@contextmanager
def connected(settings: RaySettings) -> Iterator[Any]:
    """Ray, with a cluster to talk to. UserError where there is none."""
    address = settings.address
    if address.startswith("ray://"):
        raise UserError(
            f"ray.address={address}: this command must be a part of the cluster. Start it on one of its machines with "
            "ray.address=auto"
        )
    if host := re.fullmatch(r"(.+):(\d+)", address):
        check_reached(address, host[1], int(host[2]))
    elif address not in ("auto", "local"):
        raise UserError(f"ray.address={label(address)} is no HOST:PORT. Say ray.address=auto or ray.address=HOST:6379")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # address=local starts a cluster; others have their own
    ray: Any = import_module("ray")
    quiet = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
    if address != "local":
        del quiet["include_dashboard"]
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UserError(f"ray.address={address}: {why_not(str(error))}") from error
    try:
        yield ray
    finally:
        ray.shutdown()  # ends the workers of this command


def check_reached(address: str, host: str, port: int) -> None:
    """UserError where nobody listens: Ray itself would try for a minute."""
    try:
        socket.create_connection((host, port), timeout=REACHED).close()
    except OSError as error:
        raise UserError(
            f"ray.address={address}: no cluster answers there. Start one with ray start --head --port={port}, or name "
            "the head's address"
        ) from error


def why_not(text: str) -> str:
    """Ray's words for a cluster that it cannot use, as one sentence with the fix."""
    versions = re.findall(r"(?:Ray|Python): (\S+)", text)
    if "mismatch" in text and len(versions) == 4:
        theirs, ours = versions[:2], versions[2:]
        return (
            f"the cluster has Ray {theirs[0]} and Python {theirs[1]}, this command Ray {ours[0]} and Python {ours[1]}. "
            f"Install the cluster's here: pip install 'ray=={theirs[0]}' in a Python {theirs[1]}"
        )
    if "Could not find any running Ray" in text:
        return "no cluster runs on this machine. Start one with ray start --head, or name one: ray.address=HOST:6379"
    first = next(iter(text.strip().splitlines()), "no reason is given").rstrip(".")
    return f"no cluster can be used there: {label(first)}. Start one with ray start --head"
