"""A run folder, without torch: its name and those of its files, and reading a run.

Reading says whether a run has finished, with which overrides, and how well it did. The name of a job in a sweep is
made in `forecast.config.resolvers`.
"""

import contextlib
import datetime
import functools
import hashlib
import itertools
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import yaml

from forecast.documents import Arrays, DocumentError, check_document, read_arrays, read_document
from forecast.errors import UserError
from forecast.run_folder.lock import running_or_killed
from forecast.run_folder.shapes import FinishedMetrics, Metrics, RunInfo

log = logging.getLogger(__name__)

State = Literal["finished", "failed", "interrupted", "unfinished", "foreign"]

METRICS, RUN_INFO = "metrics.json", "run.json"
OVERRIDES = ".hydra/overrides.yaml"
# In metrics.json: the name of each file that was written with it -> its SHA-256.
FILES: Final = "files"
# In metrics.json: the overrides that choose the same data, with the path where they lie.
SAME_DATA = "same_data"
WINDOW_ERRORS, STEP_ERRORS, FORECASTS = "errors_by_window.npz", "metrics_by_step.csv", "forecasts.npz"
AHEAD = "forecast_ahead.npz"  # of forecast auto: what it forecasts, for its page
ATTENTION = "attention.npz"  # of forecast attend: what the attentions look at in one window
# The picture of some forecasts; what a run of `reproduce` printed; the DataFrame that a run of Python was trained on.
PICTURE, OUTPUT, TRAINING_TABLE = "forecast.png", "output.txt", "data.parquet"
SERIES_ERRORS = "errors_by_series.csv"
# Errors by time; the page for a person.
PAGE = "report.html"
# What an evaluation writes, all at once; metrics.json last.
RESULTS = (WINDOW_ERRORS, SERIES_ERRORS, FORECASTS, STEP_ERRORS, PICTURE, PAGE, METRICS)

# What may differ between two runs that are one experiment: loggers, paths, the progress bar.
NOT_IDENTITY = (
    "hydra",
    "tune",
    "logger",
    "callbacks.progress",
    "ckpt_path",
    "checks",
    "process_timeout",
    "tags",
    "data.root",
    "data.path",
    "trainer.default_root_dir",
    "trainer.logger",
    "trainer.enable_progress_bar",
    "trainer.log_every_n_steps",
)
ENDED = {"failed": "no reason is known", "interrupted": "Ctrl-C, or a signal"}
DATA_KEYS = ("name", "checksum", "columns", "targets", "known", "freq", "splits", "trained_until", "gaps")
# Arrays of forecasts.npz: of W windows past (W, L, T) and forecast (W, P, T), original units. Beside them are truth
# (W, P, T), ends of intervals (W, P, T, A) and forecasts of baselines.
WINDOWS = ("past", "forecast", "timestamps", "columns")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder.

    reason: why it is not `finished`, in words. overrides: key -> value of the command line, in its order. job: its
    number in its sweep. metrics, run_info: metrics.json and run.json, empty where they are not there.
    """

    path: Path
    state: State
    reason: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    job: int = 0
    metrics: Metrics = field(default_factory=dict)
    run_info: RunInfo = field(default_factory=dict)


def checkpoint_path(folder: str | Path, name: str) -> Path:
    """RUN/checkpoints/best.ckpt, last.ckpt or refit.ckpt."""
    return Path(folder) / "checkpoints" / f"{name}.ckpt"


def final_checkpoint(folder: str | Path) -> Path:
    """What a run forecasts with: refit.ckpt where there is one, else best.ckpt."""
    refit = checkpoint_path(folder, "refit")
    return refit if refit.is_file() else checkpoint_path(folder, "best")


def run_of(checkpoint: Path) -> Path:
    """RUN, absolute, for a file RUN/checkpoints/X."""
    return checkpoint.absolute().parent.parent


def write_run_info(folder: Path, info: Mapping[str, object]) -> None:
    """Writes run.json. Where that fails, whatever else has happened is what the user should hear of."""
    from forecast.files import write_json  # numpy, which `--help` does not wait for

    try:
        write_json(folder / RUN_INFO, info)
    except OSError as error:
        if info["status"] in ("running", "finished"):
            raise
        if folder.is_dir():  # else the whole folder is gone, and the command says so
            log.error("%s cannot be written: %s", folder / RUN_INFO, error.strerror)


def read_run(folder: Path) -> Run:
    """The run in `folder`, whatever state it is in."""
    try:
        info = read_document(folder / RUN_INFO, RunInfo) or {}
        if "overrides" not in info and not (folder / OVERRIDES).is_file():
            return Run(path=folder, state="foreign", reason=f"there is no {OVERRIDES}: no run of forecast train")
        metrics = read_document(folder / METRICS, Metrics) or {}
        overrides, job = _overrides_and_job(folder, info)
        state, reason = _state(folder, metrics, info)
    except DocumentError as error:
        return Run(path=folder, state="foreign", reason=str(error).removeprefix(f"{folder}/"))
    return Run(path=folder, state=state, reason=reason, overrides=overrides, job=job, metrics=metrics, run_info=info)


def result_line(run: Run) -> dict[str, object]:
    """The keys of metrics.json and run.json in one: what a result can be judged by on another machine.

    What run.json says of the data is under `data_read`, since `data` is their name; without the path.
    """
    described = {key: value for key, value in (run.run_info.get("data") or {}).items() if key in DATA_KEYS}
    # the files are not on that machine
    metrics = {key: value for key, value in run.metrics.items() if key not in (FILES, SAME_DATA)}
    return {**run.run_info, **metrics, "data_read": described}


def torn(folder: Path, metrics: Metrics) -> str | None:
    """The first result file in `folder` that is there and not the one that metrics.json was written with.

    None: they belong together, as far as metrics.json names them.
    """
    files = metrics.get(FILES, {})
    checked = (WINDOW_ERRORS, SERIES_ERRORS, FORECASTS, STEP_ERRORS)
    there = (name for name in checked if name in files and (folder / name).is_file())
    return next((name for name in there if sha256(folder / name) != files[name]), None)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _state(folder: Path, metrics: Metrics, info: RunInfo) -> tuple[State, str]:
    """The state and the reason, by the first thing that keeps the run from being finished. May raise DocumentError."""
    status = info.get("status")
    if status in ENDED:
        return status, str(info.get("error") or ENDED[status])
    if lacking := running_or_killed(folder) if status == "running" else _lacking(folder, metrics, info):
        return "unfinished", lacking
    errors = check_document(folder / METRICS, metrics, FinishedMetrics).test.scaled
    if None in (errors.mse, errors.mae):
        return "failed", "its test error is not a finite number"
    return "finished", ""


def _lacking(folder: Path, metrics: Metrics, info: RunInfo) -> str | None:
    """What is not there of a run that has ended, or not as it was written."""
    for name, content in ((RUN_INFO, info), (METRICS, metrics)):
        if not content:
            return f"there is no {name}"
    files = metrics.get(FILES, {})
    few = WINDOW_ERRORS in files or SERIES_ERRORS not in files  # windows, so that their errors were written
    if few and not (folder / WINDOW_ERRORS).is_file():
        return f"there is no {WINDOW_ERRORS}"
    if (other := torn(folder, metrics)) is None:
        return None
    both = f"forecast train ckpt_path={checkpoint_path(folder, 'last')} writes both anew"
    return f"{other} is not the one that {METRICS} was written with: {both}"


def _overrides_and_job(folder: Path, info: RunInfo) -> tuple[dict[str, str], int]:
    """The overrides, {"seed": "1", ...}, and the number of the job, as run.json has them.

    Hydra's own file is written anew each time a sweep comes by.
    """
    lines, job = info.get("overrides"), info.get("job")
    if lines is None:
        lines = yaml.safe_load((folder / OVERRIDES).read_bytes()) or []
    pairs = (line.partition("=") for line in lines)
    return {key.lstrip("+"): value for key, _, value in pairs}, job if isinstance(job, int) else 0


def read_windows(path: Path) -> Arrays:
    """forecasts.npz; without truth, what is forecast after the end of the data. Raises DocumentError for none."""
    return read_arrays(path, WINDOWS)


def continued_run(ckpt_path: str | None) -> Path | None:
    """RUN for RUN/checkpoints/X with RUN/.hydra beside it, else None.

    Raises UserError when there is no such file, or its folder may not be entered.
    """
    if not ckpt_path:
        return None
    path = Path(ckpt_path)
    try:
        there = path.is_file()
    except OSError as error:
        raise UserError(f"ckpt_path={ckpt_path}: {error.strerror}. Check the path and its permissions") from error
    if not there:
        raise UserError(f"ckpt_path={ckpt_path}: there is no such file. It is RUN/checkpoints/last.ckpt or best.ckpt")
    run = run_of(path)
    in_a_run = path.absolute().parent == checkpoint_path(run, "last").parent and (run / ".hydra").is_dir()
    return run if in_a_run else None


@functools.cache
def new_folder() -> Path:
    """outputs/DATE/TIME, with -2, -3 ... when that is taken; the same one all through this process.

    For several processes that were started together the same one in all of them.
    """
    if shared := shared_folder():
        return Path("outputs") / shared
    now = datetime.datetime.now()
    for number in itertools.count(1):
        folder = Path("outputs", f"{now:%Y-%m-%d}", f"{now:%H-%M-%S}" + (f"-{number}" if number > 1 else ""))
        with contextlib.suppress(FileExistsError):
            # Made, not only looked for: two trainings started in the same second must not share it.
            folder.mkdir(parents=True)
            break
    return folder


def rank() -> int:
    """The number of this process among those that train together, 0 for a single one.

    Of torchrun (RANK), Lightning (LOCAL_RANK, one machine) or srun with several tasks (SLURM_PROCID). Read from what
    the launcher leaves in the environment, before torch is there to ask.
    """
    names = ["RANK", "LOCAL_RANK"] + (["SLURM_PROCID"] if _under_srun() else [])
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


def shared_folder() -> Path | None:
    """The run folder, below outputs, of processes that torchrun or srun started together; None for a single process.

    Named by what all of them know: torchrun's --rdzv-id or SLURM's numbers. Raises UserError where torchrun has no id.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        name, restarts = os.environ["TORCHELASTIC_RUN_ID"], os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        if name == "none":
            raise UserError(
                "torchrun gave this run no name by which its processes could find one folder: say torchrun "
                "--standalone, on several machines torchrun --rdzv-id=NAME"
            )
        # a restart begins anew: the results of the attempt before stay
        return Path(f"torchrun-{name}" + (f"-restart{restarts}" if restarts != "0" else ""))
    if _under_srun():
        return Path(f"slurm-{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_STEP_ID', '0')}")
    return None


def _under_srun() -> bool:
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1
