"""What a checkpoint holds beside Lightning's part: all that evaluating and forecasting need, in one `FORMAT`.

`training.record` makes it; `Record.of` reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from torch import Tensor
from typing_extensions import NotRequired, TypedDict

import forecast
from forecast.config.run_config import Plain, RunConfig
from forecast.data.saved_scale import RecordedRows, SavedScale, State
from forecast.errors import UserError
from forecast.run_folder.shapes import Block, DataRecord, Scale

ALWAYS = ("parameters", "best_step")  # entries that may be None
# Of the fitted baselines.
FITS = ("train_mean", "nlinear_weight", "ridge_weight", "ridge_effect", "smoothing", "smoothing_rows")
RECORD = "forecast"  # the key of our part
SERIES = "series"  # its entry on the series of the training
REFIT = "refit"  # its entry on the rows that a model was trained on once more
FORMAT = 4  # raised when another program could misread a file


class SeriesState(TypedDict):
    """A `SeriesRecord` as a checkpoint holds it."""

    scale: State
    rows: dict[str, Tensor]
    id_column: str | None
    time_column: str | None
    pad: bool


@dataclass(frozen=True, kw_only=True)
class SeriesRecord:
    """The scale of each series, its rows, how a forecast is written, whether windows begin before their series.

    id_column: None of a file that is one series.
    """

    scale: SavedScale
    rows: RecordedRows
    id_column: str | None
    time_column: str | None
    pad: bool

    @classmethod
    def of(cls, saved: SeriesState) -> "SeriesRecord":
        """Of a checkpoint's entry."""
        scale, rows = SavedScale.from_state(saved["scale"]), RecordedRows.from_state(saved["rows"])
        named = {"id_column": saved["id_column"], "time_column": saved["time_column"]}
        return cls(scale=scale, rows=rows, pad=saved["pad"], **named)

    def saved(self) -> SeriesState:
        """As a checkpoint holds it."""
        named = {"id_column": self.id_column, "time_column": self.time_column, "pad": self.pad}
        return cast(SeriesState, {"scale": self.scale.state(), "rows": self.rows.state(), **named})


class CalibrationState(TypedDict):
    """Margins (K, P, T) by which intervals of these levels were widened, and on how many windows they rest."""

    levels: list[float]
    margins: Tensor
    typical: Tensor
    rows: int
    period: int
    windows: int
    blocks: int
    parts: int
    targets: NotRequired[list[str]]


class RefitRecord(TypedDict):
    """The splits that a refitted model learned from, until when, and metrics.json of the held-out model."""

    rows: list[str]
    trained_until: str
    held_out: dict[str, object]


class Stacking(TypedDict):
    """How the mean of an ensemble's members was judged, and each of these."""

    error: str
    mean: float
    members: list[float]
    alone: bool | None


@dataclass(frozen=True, kw_only=True)
class Record:
    """choices: the chosen option of each config group. fits: the weights of the baselines, see FITS.

    parameters: how many the training changes; best_step: of the validation that was the best so far, None without one.
    """

    versions: Mapping[str, str]
    config: RunConfig
    choices: Mapping[str, str | None]
    data: DataRecord
    series: SeriesRecord
    fits: Mapping[str, Tensor] = field(default_factory=dict)
    parameters: int | None = None
    best_step: int | None = None
    stacking: Stacking | None = None
    imported: Block | None = None
    calibration: CalibrationState | None = None
    refit: RefitRecord | None = None

    @property
    def column_scale(self) -> Scale:
        """Means over the series of what they are scaled by, for a reader who asks what size the values have."""
        mean, std = (part.mean(0).tolist() for part in (self.series.scale.mean, self.series.scale.std))
        return {"columns": self.data["columns"], "mean": mean, "std": std}

    @classmethod
    def of(cls, saved: Mapping[str, object]) -> "Record":
        """Of a checkpoint's entry. Raises UserError for a config that is none of a run."""
        plain = {key: value for key, value in saved.items() if key in cls.__dataclass_fields__}
        fits = {key: saved[key] for key in FITS if key in saved}
        config = RunConfig.of(cast(Plain, saved["config"]))
        series = SeriesRecord.of(cast(SeriesState, saved[SERIES]))
        values = {**plain, "config": config, "fits": fits, SERIES: series}
        return cls(**values)  # type: ignore[arg-type]

    def saved(self) -> dict[str, object]:
        """As a checkpoint holds it."""
        values = {
            "format": FORMAT,
            "versions": self.versions,
            "config": self.config.plain,
            "choices": self.choices,
            "data": self.data,
            SERIES: self.series.saved(),
            **self.fits,
            "parameters": self.parameters,
            "best_step": self.best_step,
            "stacking": self.stacking,
            "imported": self.imported,
            "calibration": self.calibration,
            REFIT: self.refit,
        }
        return {key: value for key, value in values.items() if value is not None or key in ALWAYS}


def check_format(path: Path, record: dict[str, object]) -> None:
    """Raises UserError for a file of another format, whose other entries may mean something else."""
    number, versions = record.get("format"), record.get("versions")
    if isinstance(number, int) and number != FORMAT:
        writer = versions.get("forecast", "?") if isinstance(versions, dict) else "?"
        fix = "Update it: git pull, then pip install -e ." if number > FORMAT else "Train anew"
        raise UserError(
            f"ckpt_path={path} has format {number}, written by forecast {writer}; this is forecast "
            f"{forecast.__version__}, which reads format {FORMAT}. {fix}"
        )
