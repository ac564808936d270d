"""report.html of a run: written with its results, or anew from the files of its folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from omegaconf import OmegaConf

from forecast.apps.common.command import Answer
from forecast.apps.common.outputs import keep_others
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.documents import read_arrays
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.report.page.run import run_page
from forecast.run_folder import (
    AHEAD,
    ATTENTION,
    FILES,
    FORECASTS,
    METRICS,
    NOT_IDENTITY,
    PAGE,
    RUN_INFO,
    SERIES_ERRORS,
    STEP_ERRORS,
    Run,
    checkpoint_path,
    read_run,
    read_windows,
    sha256,
    torn,
)
from forecast.run_folder.shapes import Metrics, Origin
from forecast.text.terminal import say

# The columns of errors_by_series.csv by their order: in the file the ids may have the name of another column.
SERIES_COLUMNS = ("id", "windows", "mse", "mae", "mase", "rmsse", "smape", "wape")


def origin_of(checkpoint: Checkpoint) -> Origin:
    """What a page says of how a checkpoint came about, less what two runs of one experiment may differ in."""
    record = checkpoint.record
    return {
        "config": _less(record.config.plain, NOT_IDENTITY),
        "choices": {key: option for key, option in record.choices.items() if key not in NOT_IDENTITY},
        "data": record.data,
        "scale": record.column_scale,
        "versions": {**record.versions},
    }


def _less(node: Mapping[str, object], paths: Sequence[str]) -> dict[str, object]:
    """A tree without the keys at these paths, `data.root`."""
    kept = {}
    for key, value in node.items():
        if key not in paths:
            below = [path.removeprefix(f"{key}.") for path in paths if path.startswith(f"{key}.")]
            kept[key] = _less(value, below) if below and isinstance(value, Mapping) else value
    return kept


def page_of(
    place: Callable[[str], Path],
    metrics: Metrics,
    split: str,
    origin: Origin,
    *,
    ahead: Path | None = None,
    attention: Path | None = None,
) -> str:
    """The page, from the files of a run alone: where `place` says that they lie.

    metrics: that become metrics.json; origin: of the model. ahead: the file of what is forecast; attention: that of
    `forecast attend`; None without one.
    """
    by_step = pd.read_csv(place(STEP_ERRORS)).drop(columns="step")
    windows = read_windows(place(FORECASTS))
    series = None
    if "series" in windows:
        blank = {key: [""] for key in SERIES_COLUMNS[1:]}  # not of the ids, which are text: NA may be one
        series = pd.read_csv(
            place(SERIES_ERRORS),
            header=0,
            names=SERIES_COLUMNS,
            dtype={"id": str},
            na_values=blank,
            keep_default_na=False,
        )
    return run_page(
        json.loads(json_text(metrics)),  # rounded as the file: a page made anew from it is the same
        split,
        by_step={str(name): by_step[name].tolist() for name in by_step},
        windows=windows,
        ahead=None if ahead is None else read_windows(ahead),
        attention=None if attention is None else read_arrays(attention, ["places"]),
        series=series,
        origin=json.loads(json_text(origin)),
    )


def remake(folder: Path, *, overwrite: bool) -> Answer:
    """Writes report.html of a run whose results stand, and its checksum into metrics.json.

    Raises UserError for one that has not finished, and where the checkpoint that its results are of is gone.
    """
    run = read_run(folder)
    check_results(run)
    metrics = run.metrics.copy()
    split = next((key for key, block in metrics.items() if isinstance(block, Mapping) and "skill" in block), None)
    if split is None:
        raise UserError(f"{folder} has no results to report: {METRICS} has no skill. Run it again.")
    origin = origin_of(load_checkpoint(evaluated_checkpoint(run)))
    ahead = folder / AHEAD if (folder / AHEAD).is_file() and "leaderboard" in metrics else None
    attention = folder / ATTENTION if (folder / ATTENTION).is_file() else None

    known: dict[str, str] = metrics.get(FILES, {})
    ours, fix = overwrite or PAGE in known, "move it away, or say --overwrite"
    keep_others([folder / PAGE], ours=ours, key=str(folder), like="a page of this run", fix=fix)
    page = page_of(lambda name: folder / name, metrics, split, origin, ahead=ahead, attention=attention)
    with together(folder) as place:
        place(PAGE).write_text(page, encoding="utf-8")
        metrics[FILES] = {**known, PAGE: sha256(place(PAGE))}
        place(METRICS).write_text(json_text(metrics), encoding="utf-8")
    say(f"{folder / PAGE}: {len(page.encode()) / 1e6:.2f} MB")
    return Answer({"folder": str(folder), "files": [PAGE]})


def check_results(run: Run) -> None:
    """Raises UserError unless the results of a training or an evaluation stand whole in its folder."""
    folder, last = run.path, checkpoint_path(run.path, "last")
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder. With --page it is that of one run, as outputs/DATE/TIME.")
    again = f"forecast train ckpt_path={last} goes on with it" if last.is_file() else "train again"
    training = bool(run.run_info)
    if not run.run_info and not run.metrics and any((entry / RUN_INFO).is_file() for entry in folder.iterdir()):
        raise UserError(f"{folder} has no results to report: it holds runs. Their page: forecast report {folder}")
    if not run.metrics or run.state == "failed" or (training and run.state in ("unfinished", "foreign")):
        reason = run.reason or "it has no results"
        raise UserError(f"{folder} has no results to report: {reason}. Name a finished run; of a killed one {again}.")
    if other := torn(folder, run.metrics):
        raise UserError(f"{folder}: {other} is not the one that {METRICS} was written with. Run it again.")


def evaluated_checkpoint(run: Run) -> Path:
    """The checkpoint whose results lie in a folder: of a training its own, of an evaluation the one that it names."""
    if run.run_info:
        best = checkpoint_path(run.path, "best")
        return best if best.is_file() else checkpoint_path(run.path, "last")
    config = run.path / ".hydra" / "config.yaml"
    named = OmegaConf.select(OmegaConf.load(config), "ckpt_path") if config.is_file() else None
    if not named or not Path(named).is_file():
        raise UserError(
            f"{run.path}: the checkpoint that was evaluated, {named or 'which it does not name'}, is not there. "
            "forecast evaluate ckpt_path=CKPT writes the page with the results."
        )
    return Path(named)
