"""A run folder, without torch: the names of its files, and reading a run.

Reading says whether a run has finished, with which overrides, and how well it did. The folder's own name is made in
`forecast.config.resolvers`.
"""

import hashlib
import logging
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from forecast.documents import Array, Arrays, DocumentError, read_arrays, read_json, read_yaml
from forecast.run_folder.lock import running_or_killed
from forecast.run_folder.shapes import Metrics, RunInfo

log = logging.getLogger(__name__)

State = Literal["finished", "failed", "interrupted", "unfinished", "foreign"]

METRICS, RUN_INFO, OVERRIDES = "metrics.json", "run.json", ".hydra/overrides.yaml"
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
RELIABILITY = "reliability.png"  # of intervals
# Errors by time; the page for a person.
RESIDUALS, PAGE = "residuals.csv", "report.html"
# What an evaluation writes, all at once; metrics.json last.
RESULTS = (WINDOW_ERRORS, SERIES_ERRORS, FORECASTS, STEP_ERRORS, PICTURE, RELIABILITY, RESIDUALS, PAGE, METRICS)

# What may differ between two runs that are one experiment: loggers, paths, the progress bar.
NOT_IDENTITY = (
    "hydra",
    "logger",
    "callbacks.progress",
    "ckpt_path",
    "checks",
    "process_timeout",
    "tags",
    "data.root",
    "data.path",
    "data.static_path",
    "trainer.default_root_dir",
    "trainer.logger",
    "trainer.enable_progress_bar",
    "trainer.log_every_n_steps",
)
DATA_KEYS = ("name", "checksum", "columns", "targets", "known", "freq", "splits", "trained_until", "gaps")
# Without these metrics.json is another program's.
KEYS: Mapping[str, type] = {
    **dict.fromkeys(("model", "data", "features", "protocol"), str),
    **dict.fromkeys(("seed", "seq_len", "pred_len"), int),
    **dict.fromkeys(("test", "baselines", "cost"), dict),
}
# The arrays of forecasts.npz: of W windows past (W, L, T), truth and forecast (W, P, T), original units, ends of
# intervals (W, P, T, A). All others in the file are forecasts of baselines.
WINDOWS = {
    **dict.fromkeys(("past", "truth", "forecast"), Array("f", 3)),
    "timestamps": Array("M", 2),
    "columns": Array("U", 1),
    "series": Array("U", 1, optional=True),
    "levels": Array("fi", 1, optional=True),
    **dict.fromkeys(("lower", "upper"), Array("f", 4, optional=True)),
}


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
    metrics: Metrics = field(default_factory=Metrics)
    run_info: RunInfo = field(default_factory=RunInfo)


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
        info = read_json(folder / RUN_INFO, RunInfo) or RunInfo()
        metrics = read_json(folder / METRICS, Metrics) or Metrics()
        overrides, job = _overrides_and_job(folder, info)
    except DocumentError as error:
        return Run(path=folder, state="foreign", reason=f"{error.name}: {error.reason}")
    except ValueError as error:
        return Run(path=folder, state="foreign", reason=str(error))
    state, reason = _state(folder, metrics, info)
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
    written = metrics.get(FILES)
    files = written if isinstance(written, Mapping) else {}
    checked = (WINDOW_ERRORS, SERIES_ERRORS, FORECASTS, STEP_ERRORS, RESIDUALS)
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
    """The state and the reason, by the first thing that keeps the run from being finished."""
    status, error = info.get("status"), info.get("error")
    if status == "failed":
        return "failed", str(error or "no reason is known")
    if status == "interrupted":
        return "interrupted", str(error or "Ctrl-C, or a signal")
    missing = [f"there is no {name}" for name, content in ((RUN_INFO, info), (METRICS, metrics)) if not content]
    if status == "running":
        missing = [running_or_killed(folder)]
    elif not missing and not _has_errors(folder, metrics):
        missing = [f"{WINDOW_ERRORS} is missing or cut off"]
    elif not missing and (other := torn(folder, metrics)):
        both = f"forecast train ckpt_path={checkpoint_path(folder, 'last')} writes both anew"
        missing = [f"{other} is not the one that {METRICS} was written with: {both}"]
    if missing:
        return "unfinished", missing[0]
    lacking = [key for key, kind in KEYS.items() if type(metrics.get(key)) is not kind]  # True is no int here
    if lacking or "windows" not in metrics["test"]:
        lacking = lacking or ["test.windows"]
        return "foreign", f"{METRICS} has no {', '.join(lacking)}"
    errors = metrics["test"].get("scaled")
    values = [errors.get(name) for name in ("mse", "mae")] if isinstance(errors, Mapping) else [None]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        return "failed", "its test error is not a finite number"
    return "finished", ""


def _has_errors(folder: Path, metrics: Metrics) -> bool:
    """Whether the errors by window are there and whole, where these were few enough to be written."""
    written = metrics.get(FILES)
    if isinstance(written, Mapping) and WINDOW_ERRORS not in written and SERIES_ERRORS in written:
        return True
    return (folder / WINDOW_ERRORS).is_file() and zipfile.is_zipfile(folder / WINDOW_ERRORS)


def _overrides_and_job(folder: Path, info: RunInfo) -> tuple[dict[str, str], int]:
    """The overrides, {"seed": "1", ...}, and the number of the job.

    As run.json has them: Hydra's own files are written anew each time a sweep comes by. Raises ValueError where neither
    has them.
    """
    lines, job = info.get("overrides"), info.get("job")  # type: list[str] | None, object
    if lines is None:
        lines = read_yaml(folder / OVERRIDES, list[str])
    if lines is None:
        raise ValueError(f"there is no {OVERRIDES}: no run of forecast train")
    if "job" not in info:
        job = read_yaml(folder / ".hydra" / "hydra.yaml", dict[str, object])
        for key in ("hydra", "job", "num"):
            job = job.get(key) if isinstance(job, Mapping) else None
    pairs = (line.partition("=") for line in lines)
    return {key.lstrip("+"): value for key, _, value in pairs}, job if isinstance(job, int) else 0


def read_windows(path: Path, *, truth: bool = True) -> Arrays:
    """forecasts.npz; without truth, what is forecast after the end of the data.

    Raises DocumentError where there is none, or none whose arrays belong together.
    """
    import numpy as np

    expected = {name: array for name, array in WINDOWS.items() if truth or name != "truth"}
    arrays = read_arrays(path, expected, rest=Array("f", 3))
    if arrays is None:
        raise DocumentError(path, "there is no such file")
    (windows, rows, columns), steps = arrays["past"].shape, arrays["forecast"].shape[1]
    sizes = {
        **{name: (windows, steps, columns) for name, array in arrays.items() if array.ndim == 3},
        "past": (windows, rows, columns),
        "timestamps": (windows, rows + steps),
        "columns": (columns,),
        "series": (windows,),
        **dict.fromkeys(("lower", "upper"), (windows, steps, columns, len(arrays.get("levels", ())))),
    }
    if wrong := [name for name in arrays if name in sizes and arrays[name].shape != sizes[name]]:
        raise DocumentError(path, f"the array {wrong[0]} is of other windows")
    if arrays["timestamps"].dtype != np.dtype("datetime64[ns]") or np.isnat(arrays["timestamps"]).any():
        raise DocumentError(path, "its timestamps are none")
    return arrays
