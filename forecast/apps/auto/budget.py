"""The time that an automatic run may take, over all the processes that it took, and what it has decided."""

import json
import shutil
from glob import has_magic
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from forecast.apps.common.outputs import keep_others, writable
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.files import write_json
from forecast.jobs.steps import REAL_TIME, Clock
from forecast.run_folder import METRICS, PAGE, RUN_INFO

FOLDER, STATE = "members", "auto.json"
OUTCOMES = "outcomes.json"  # beside members: what ended without figures, and what steps took
BOARD, FORECAST = "leaderboard.json", "forecast.csv"
MEMBER, PACE = "member.json", "pace.json"  # of a member: its figures, and the overrides that fit it into its time
RIDGE = "ridge"  # the member whose run fits the baselines of all
SHARE, SECONDS = 0.05, 15.0  # by which the promise may be missed
WRITTEN = 1.0  # seconds between two notes of the time that has passed


class AutoState(BaseModel):
    """auto.json: what was asked for, and the seconds that it took so far."""

    format: Literal[2]
    request: dict[str, object]
    seconds: float


def check_folder(folder: Path, *, make: bool = False) -> None:
    """Raises UserError for a folder that holds what is not ours. make: makes it; UserError where none can be made."""
    ours = (folder / RUN_INFO).exists() or (folder / FOLDER / STATE).exists()
    files = map(folder.joinpath, (BOARD, FORECAST, METRICS, PAGE))
    keep_others(files, ours=ours, key=f"--output {folder}", like="a file of forecast auto", fix="choose another folder")
    with writable("--output DIR"):
        if make:
            (folder / FOLDER).mkdir(parents=True, exist_ok=True)


def default_folder(file: str) -> Path:
    """Where a run goes that names no folder. UserError for several files, which have no one name."""
    if has_magic(file):
        raise UserError(f"{file} names several files. Say where their results go: --output DIR")
    return Path("auto") / Path(file).stem


class Budget:
    """Seconds since the beginning of the first process, without those between a kill and the next start.

    folder: of the run. request: what was asked for, as plain values, which must be the same in each process. minutes:
    how long it may take. begun: when the process has, by the clock. Raises UserError for a folder in which
    something else has trained a model; one in which nothing has is begun anew.
    """

    def __init__(
        self, folder: Path, request: dict[str, object], *, minutes: float, begun: float, clock: Clock = REAL_TIME
    ) -> None:
        self.path, self.total, self.clock = folder / FOLDER / STATE, 60.0 * minutes, clock
        self.begin, self.before, self.noted = begun, 0.0, 0.0
        self.request = json.loads(json.dumps(request))
        state = read_document(self.path, AutoState)
        if state is not None and state.request != self.request and not any(self.path.parent.glob(f"*/{MEMBER}")):
            self.forget()
            state = None
        if state is not None:
            if state.request != self.request:
                differs = dict.fromkeys(
                    key.lower() for key in self.request if state.request.get(key) != self.request[key]
                )
                raise UserError(
                    f"--output {folder}: another automatic run was begun there, with another {', '.join(differs)}. "
                    "Choose another folder, or ask for the same."
                )
            self.before = state.seconds
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self.note()

    @property
    def passed(self) -> float:
        """Seconds so far."""
        return self.before + self.clock() - self.begin

    @property
    def left(self) -> float:
        """Seconds to the end, below 0 after it."""
        return self.total - self.passed

    @property
    def last_moment(self) -> float:
        """Seconds to the last moment that the promise allows."""
        return self.left + SHARE * self.total + 0.5 * SECONDS

    def note(self) -> None:
        """Writes down how much time has passed, for a process that goes on after a kill."""
        if not self.noted or self.passed - self.noted >= WRITTEN:
            self.noted = self.passed
            write_json(self.path, AutoState(format=2, request=self.request, seconds=self.passed).model_dump())

    def forget(self) -> None:
        """Removes what was begun, but for its logs: the next command, corrected or not, begins anew."""
        for path in self.path.parent.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
        for name in (STATE, OUTCOMES):
            (self.path.parent / name).unlink(missing_ok=True)
