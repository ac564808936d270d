"""The rows on which intervals are judged, studies/intervals/intervals.yaml, and what was recorded of them."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from forecast.errors import UserError
from studies.published.panels import panel_rows

MEAN, RUNS = "their weighted mean", "model.runs"


@cache
def interval_rows() -> dict[str, dict[str, Any]]:
    """What the file says of each row, by its name."""
    return dict(yaml.safe_load((Path(__file__).with_name("intervals.yaml")).read_text(encoding="utf-8")))


def models_of(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The models of a row, with all keys of each beside those of the data's place; RUNS names models of the row."""
    if "panel" not in row:
        return {name: {**row["every"], **own} for name, own in row["models"].items()}
    panel = panel_rows()[row["panel"]]
    found = {name: {**panel["every"], **panel["models"][name], **row.get("every", {})} for name in row["models"]}
    if "mean" in row:
        data = {key: value for key, value in found[row["mean"][0]].items() if not key.startswith("model")}
        found[MEAN] = {**data, "model": "weighted_ensemble", RUNS: row["mean"]}
    return {name: {key: value for key, value in own.items() if value is not None} for name, own in found.items()}


def read(path: Path) -> dict[str, Any]:
    """What was recorded, by row and model. Raises UserError when nothing was."""
    if not path.is_file():
        raise UserError(f"{path.name} is not there: record it, python scripts/intervals.py --root FOLDER")
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return recorded
