"""What a checkpoint holds beside Lightning's part: all that evaluating and forecasting need, in plain values."""

import functools
import hashlib
import logging
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning
import numpy
import pandas
import torch
from torch import Tensor

import forecast
from forecast.checkpoint.load import FORMAT, calendar_encoding
from forecast.data.prepare import PreparedData
from forecast.data.sources import Source
from forecast.data.time_features import feature_names

log = logging.getLogger(__name__)


def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    return {
        "forecast": forecast.__version__,
        "code": code_hash(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "lightning": lightning.__version__,
        "numpy": numpy.__version__,
        "pandas": pandas.__version__,
    }


@functools.cache
def code_hash() -> str:
    """12 hex digits that tell one state of this package's code from another, also between releases."""
    digest = hashlib.sha256()
    folder = Path(forecast.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def make_record(
    config: dict[str, Any],
    choices: dict[str, str | None],
    source: Source,
    data: PreparedData,
    nlinear_weight: Tensor,
) -> dict[str, Any]:
    """The record of a training.

    config: the resolved config. choices: the chosen option of each config group. nlinear_weight (P, L): the fitted
    baseline, so that an evaluation needs no train rows.
    """
    return {
        "format": FORMAT,
        "versions": versions(),
        "config": config,
        "choices": choices,
        "data": describe_data(config, source, data),
        "nlinear_weight": nlinear_weight,
        "parameters": None,  # set when the model is built
        "best_step": None,  # set by the validation that was the best so far
    }


def describe_data(config: dict[str, Any], source: Source, data: PreparedData) -> dict[str, Any]:
    """Where the data came from and what the model must know of them."""
    timestamps = data.frame.timestamps
    return {
        **source.describe(),
        "columns": list(data.frame.columns),
        "targets": data.target_names,
        "known": list(feature_names(data.frame.freq, calendar_encoding(config))),
        "freq": data.frame.freq,
        "scaler": data.scaler.state(),
        "splits": {name: [rows.start, rows.stop] for name, rows in data.splits.items()},
        "trained_until": str(timestamps[data.splits["train"].stop - 1]),
        "gaps": describe_gaps(data),
    }


def describe_gaps(data: PreparedData) -> dict[str, Any]:
    """What was filled in, and how many windows of each split that cost."""
    left_out = {name: data.windows(name).left_out for name in ("train", "val", "test")}
    if any(left_out.values()):
        counts = ", ".join(f"{count} of {name}" for name, count in left_out.items())
        log.info("data.gaps=%s: windows left out beside gaps: %s", data.frame.repair.policy, counts)
    return {**asdict(data.frame.repair), "windows_left_out": left_out}
