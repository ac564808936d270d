"""report.html of a run: written with its results, or anew from the files of its folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from forecast.apps.common.refit import chosen_checkpoint
from forecast.checkpoint.load import Checkpoint
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
    SERIES_ERRORS,
    STEP_ERRORS,
    read_run,
    read_windows,
    sha256,
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


def remake(folder: Path) -> None:
    """Writes report.html of a training whose results stand, and its checksum into metrics.json.

    Raises UserError for one without results.
    """
    run = read_run(folder)
    split = next((key for key, block in run.metrics.items() if isinstance(block, Mapping) and "skill" in block), None)
    if split is None or run.state not in ("finished", "interrupted"):
        raise UserError(f"{folder} has no results to report: {run.reason or f'{METRICS} has no skill'}. Run it again.")
    metrics = run.metrics.copy()
    ahead = folder / AHEAD if (folder / AHEAD).is_file() and "leaderboard" in metrics else None
    attention = folder / ATTENTION if (folder / ATTENTION).is_file() else None
    origin = origin_of(chosen_checkpoint(folder))
    page = page_of(lambda name: folder / name, metrics, split, origin, ahead=ahead, attention=attention)
    with together(folder) as place:
        place(PAGE).write_text(page, encoding="utf-8")
        metrics[FILES] = {**metrics.get(FILES, {}), PAGE: sha256(place(PAGE))}
        place(METRICS).write_text(json_text(metrics), encoding="utf-8")
    say(f"{folder / PAGE}: {len(page.encode()) / 1e6:.2f} MB")
