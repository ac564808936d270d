"""A process of a Ray cluster that scores parts of a forecast: it reads the series itself, and no number travels."""

import hashlib
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from forecast.commands.engines.share_out import Failed
from forecast.commands.forecaster import Forecaster
from forecast.commands.predict_panel import Scoring, scoring_of, series_of, sources, written_or_refused
from forecast.config.code_hash import code_hash
from forecast.config.settings import PredictSettings
from forecast.config.trust import trusting
from forecast.data.panel.parts import Part
from forecast.errors import UserError

REACHED = 5.0  # seconds for an address to answer, and for a file to be seen through a network file system


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is told. folder: where the command was started. token: in the name of the file that all must see.

    run: of the command's own scoring, which the worker's must equal. trust: modules, see `config.trust`.
    """

    settings: PredictSettings
    folder: str
    pieces: Path
    token: str
    trust: frozenset[str]
    run: dict[str, Any]
    code: str


class Worker:
    """A process on the cluster: reads model and series once, then scores parts. A Failed is what the user can mend."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.scoring: Scoring | None = None

    def ready(self) -> str | Failed:
        """Reads model and series; the name of a file that the command must see."""
        node = socket.gethostname()
        try:
            self._scoring()
            seen = self.order.pieces / f".seen-{self.order.token}-{node}-{os.getpid()}"
            with written_or_refused(Path(self.order.settings.output)):
                seen.write_text(self.order.token)
        except UserError as error:
            return Failed(f"{node}: {error}")
        return seen.name

    def score(self, number: int, of: int) -> Part | Failed:
        """Writes a part, unless it is there."""
        try:
            scoring = replace(self._scoring(), shard=(number, of))
            path = self.order.pieces / name_of((number, of), scoring)
            with written_or_refused(Path(self.order.settings.output)):
                return scoring.piece(path, *series_of((number, of), len(scoring.ends.series)))
        except UserError as error:
            return Failed(str(error))

    def _scoring(self) -> Scoring:
        if self.scoring is None:
            settings = self.order.settings
            check_seen(self.order.pieces / f".seen-{self.order.token}", settings.output)
            torch.set_num_threads(settings.ray.threads)
            with suppress(OSError):  # a folder that is not shared; what is named from there is missed by its name
                os.chdir(self.order.folder)
            with trusting(self.order.trust):
                forecaster = Forecaster.load(settings.ckpt_path, device=settings.device, root=settings.data.root)
                scoring = scoring_of(settings, forecaster, *sources(settings, forecaster), worker=True)
            check_same({**self.order.run, "code": self.order.code}, {**scoring.run, "code": code_hash()})
            self.scoring = scoring
        return self.scoring


def check_seen(path: Path, output: str) -> None:
    """UserError unless a file is there, within REACHED seconds."""
    end = time.monotonic() + REACHED
    while not path.is_file():
        if time.monotonic() > end:
            raise UserError(
                f"output={output}: {path.parent} is no folder that all machines of the cluster share. Choose one that "
                "they do: output=/SHARED/forecast.parquet"
            )
        time.sleep(0.1)


def check_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """UserError where a worker's forecasts would be of something else, or end in other digits."""
    fixes = {
        "torch": f"Install the same there: pip install 'torch=={ours['torch']}'",
        "code": "Install the same forecast on all machines",
        "device": "Take machines with the same processors",
    }
    for key, value in ours.items():
        if value != theirs.get(key):
            fix = fixes.get(key, "Name files on a folder that all machines share: ckpt_path=, data.path=, future=")
            raise UserError(f"its {key} is {theirs.get(key)}, that of the command {value}. {fix}")


def name_of(shard: tuple[int, int], scoring: Scoring) -> str:
    """The file of a part: its number, and the checksum of all that its bits depend on."""
    known = json.dumps(scoring.run, sort_keys=True).encode()
    checksum = hashlib.md5(known, usedforsecurity=False).hexdigest()[:12]
    return f"shard-{shard[0]:05}-of-{shard[1]:05}-{checksum}{scoring.run['ending']}"
