"""What run folders hold as JSON, and what a reader of it counts on; docs/reference/run-folder.md describes each key.

Documents are handed on as they are, with keys that nobody here names: pages and other programs read them.
"""

from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

Metrics = dict[str, Any]  # metrics.json
Block = dict[str, Any]  # a part of it: the model or a baseline on the windows of a split
RunInfo = dict[str, Any]  # run.json
Backtest = dict[str, Any]  # backtest.json
StudyDocument = dict[str, Any]  # trials.json
Trial = dict[str, Any]  # one of its trials


class Scale(TypedDict):
    """Mean and deviation of each column."""

    columns: list[str]
    mean: list[float]
    std: list[float]


class DataRecord(TypedDict, total=False):
    """The data of a run: where they lay, what a model must know of them, how their rows were split.

    splits: first row and end of each, of one series; windows: how many each has. covariates: of each
    the words of its categories, None for a number; hidden: those that are observed; facts: of the series, their scale.
    floor: below what no forecast of these targets is.
    """

    name: str
    path: str | None
    checksum: str
    columns: list[str]
    targets: list[str]
    known: list[str]
    freq: str
    time_format: str | None
    season: int | None
    scaling: str
    splits: dict[str, list[int]]
    trained_until: str
    covariates: dict[str, list[str] | None]
    hidden: list[str]
    facts: Scale
    floor: dict[str, float]
    gaps: Block | None
    windows: dict[str, int]
    series: Block


class Origin(TypedDict):
    """What a page tells of how a checkpoint came about."""

    config: dict[str, object]
    choices: dict[str, str | None]
    data: DataRecord
    scale: Scale
    versions: dict[str, str]


@dataclass
class ScaledErrors:
    """None: not finite."""

    mse: float | None
    mae: float | None


@dataclass
class TestWindows:
    """Of the test windows."""

    windows: int
    scaled: ScaledErrors


@dataclass
class FinishedMetrics:
    """What tables, pages and verdicts count on in the metrics.json of a finished training."""

    model: str
    data: str
    features: str
    protocol: str
    seed: int
    seq_len: int
    pred_len: int
    test: TestWindows
    baselines: dict[str, Block]
    cost: Block
    files: dict[str, str] = field(default_factory=dict)


def is_many(metrics: Metrics, split: str) -> bool:
    """Whether windows of several series were judged, each of which then counts alike."""
    of_series = metrics[split].get("series")
    return of_series is not None and of_series["count"] > 1
