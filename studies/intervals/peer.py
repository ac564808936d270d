"""neuralforecast's conformal intervals on the last steps of M4's hourly series, which are our test windows too."""

import csv
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.errors import UserError
from forecast.files import rounded, write_text
from studies.documents.run import ROOT, made_by
from studies.published.panels import panel_rows

PROGRAM = ROOT / "benchmarks" / "neuralforecast_intervals.py"
ROW, MODEL, STEPS = "m4_hourly", "MLP", 1000
LEVELS = (80, 95)


def record(python: str, root: Path, path: Path) -> None:
    """Trains and judges the peer by this interpreter. Raises UserError where it fails."""
    keys = panel_rows()[ROW]["every"]
    past, truth = (lines_of(root / "panels" / file) for file in panel_rows()[ROW]["files"])
    with TemporaryDirectory() as folder:
        table, forecast = Path(folder) / "table.parquet", Path(folder) / "forecast.parquet"
        parts = [
            pd.DataFrame({"unique_id": name, "ds": np.arange(len(values)), "y": values})
            for name, values in past.items()
        ]
        pd.concat(parts).to_parquet(table)
        task = {
            "table": str(table),
            "forecast": str(forecast),
            "steps": STEPS,
            "levels": LEVELS,
            **{key: keys[key] for key in ("seq_len", "pred_len")},
        }
        done = subprocess.run(
            [python, str(PROGRAM), json.dumps(task)], capture_output=True, text=True, check=False, cwd=folder
        )
        if done.returncode:
            raise UserError(
                f"--peer {python}: {PROGRAM.name} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
            )
        found = judged(pd.read_parquet(forecast), past, truth, period=keys["data.season"])
    version = subprocess.run(
        [python, "-c", "from importlib.metadata import version; print(version('neuralforecast'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    words = f"{version}, conformal_distribution of 2 windows"
    row = {"model": f"{MODEL}, {STEPS} steps", "intervals": words, **found}
    write_text(path, json.dumps(rounded({"made_by": made_by(), "rows": {ROW: row}}), indent=1) + "\n")


def lines_of(file: Path) -> dict[str, npt.NDArray[np.float64]]:
    """A file of a line a series, by name. Raises UserError for one that is not there."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file. Say where the panels lie: --root FOLDER")
    _, *rows = csv.reader(file.open(encoding="utf-8", newline=""))
    return {name: np.array([float(cell) for cell in cells if cell.strip()]) for name, *cells in rows}


def judged(
    forecast: pd.DataFrame,
    past: dict[str, npt.NDArray[np.float64]],
    truth: dict[str, npt.NDArray[np.float64]],
    *,
    period: int,
) -> dict[str, Any]:
    """Coverage, width and MSIS by level; the latter in units of each series' mean absolute seasonal difference."""
    if "unique_id" not in forecast:
        forecast = forecast.reset_index()
    names = list(truth)
    scale = np.array([np.abs(past[name][period:] - past[name][:-period]).mean() for name in names])[:, None]
    steps = next(iter(truth.values())).size
    series = {name: forecast[forecast["unique_id"] == name].sort_values("ds") for name in names}
    y = np.stack([truth[name][:steps] for name in names])
    found: dict[str, Any] = {"coverage": {}, "width": {}, "msis": {}}
    for level in LEVELS:
        low, high = (np.stack([series[name][f"{MODEL}-{end}-{level}"] for name in names]) for end in ("lo", "hi"))
        beyond = np.maximum(low - y, 0) + np.maximum(y - high, 0)
        score = (high - low + beyond * 2 / (1 - level / 100)) / scale
        found["coverage"][str(level)] = float(((low <= y) & (y <= high)).mean())
        found["width"][str(level)] = float(((high - low) / scale).mean())
        found["msis"][str(level)] = float(score.mean())
    return found
