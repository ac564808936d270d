"""What a checkpoint holds beside Lightning's part: all that evaluating and forecasting need.

`training.record` makes it; `Record.of` reads it from a file whose content `checkpoint.validate` has checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from torch import Tensor
from typing_extensions import NotRequired, TypedDict

from forecast.checkpoint.formats import FORMAT, PANEL, REFIT, ROWS
from forecast.config.run_config import Plain, RunConfig
from forecast.data.scaling import How
from forecast.run_folder.shapes import DataRecord, Imported

ALWAYS = ("parameters", "best_step")  # entries that may be None
FITS = ("nlinear_weight", "ridge_weight", "ridge_effect")  # weights of the fitted baselines


class PanelScale(TypedDict):
    """How the series are scaled, their ids as bytes, mean and deviation of each (N, C)."""

    how: How
    ids: Tensor
    mean: Tensor
    std: Tensor
    period: NotRequired[int | None]


class PanelRecord(TypedDict):
    """The scale of each series of a panel, how a forecast is written, whether windows begin before their series."""

    scale: PanelScale
    id_column: str
    time_column: str
    pad: NotRequired[bool]


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
    """How the mean of an ensemble's members was judged."""

    error: str
    mean: float
    best_member: float
    alone: bool | None


@dataclass(frozen=True, kw_only=True)
class Record:
    """choices: the chosen option of each config group. fits: the weights of the baselines, see FITS. rows: of each
    series, see `RecordedRows`.

    parameters: how many the training changes; best_step: of the validation that was the best so far, None without one.
    """

    versions: Mapping[str, str]
    config: RunConfig
    choices: Mapping[str, str | None]
    data: DataRecord
    panel: PanelRecord | None = None
    fits: Mapping[str, Tensor] = field(default_factory=dict)
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    parameters: int | None = None
    best_step: int | None = None
    stacking: Stacking | None = None
    imported: Imported | None = None
    calibration: CalibrationState | None = None
    refit: RefitRecord | None = None

    @classmethod
    def of(cls, saved: Mapping[str, object]) -> "Record":
        """Of a checkpoint's entry. Raises UserError for a config that is none of a run."""
        plain = {key: value for key, value in saved.items() if key in cls.__dataclass_fields__}
        fits = {key: saved[key] for key in FITS if key in saved}
        config = RunConfig.of(cast(Plain, saved["config"]))
        return cls(**cast(dict[str, object], {**plain, "config": config, "fits": fits}))  # type: ignore[arg-type]

    def saved(self) -> dict[str, object]:
        """As a checkpoint holds it."""
        values = {
            "format": FORMAT,
            "versions": self.versions,
            "config": self.config.plain,
            "choices": self.choices,
            "data": self.data,
            PANEL: self.panel,
            ROWS: self.rows,
            **self.fits,
            "parameters": self.parameters,
            "best_step": self.best_step,
            "stacking": self.stacking,
            "imported": self.imported,
            "calibration": self.calibration,
            REFIT: self.refit,
        }
        return {key: value for key, value in values.items() if value is not None or key in ALWAYS}
