"""The plain keys at the top of conf/train.yaml and those of the other commands, with their types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from typing import Annotated, Literal

from forecast.bounds import ABOVE_0, SHARE_ABOVE_0, Level, Networks, Positive, Seed, at_least
from forecast.config.build import CONFIG
from forecast.data.reading.layout import Layout
from forecast.errors import UserError

AS_TRAINED = "as_trained"
CalibrationName = Literal["static", "adaptive", "none"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Keys that belong to no group, as pydantic reads them."""

    __pydantic_config__ = CONFIG


@dataclass(frozen=True, kw_only=True)
class Checks(Settings):
    """What a training makes sure of before it begins."""

    leakage: bool


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """The keys of train.yaml that belong to no group."""

    seed: Seed
    networks: Networks
    eval_seed: Seed | None
    seq_len: Positive
    label_len: Annotated[int, at_least(0)]
    pred_len: Positive
    calibration: CalibrationName
    level: Sequence[Level]
    compile: Literal["none", "graphs", "default", "reduce-overhead", "max-autotune"] | None
    initial_weights: str | None
    refit: Literal["val"] | bool
    tags: Sequence[str]
    process_timeout: Positive
    ckpt_path: str | None
    checks: Checks


# The keys of a layout, each as in training unless it is given.
Reading = make_dataclass(
    "Reading",
    [(key.name, Literal["as_trained"] | key.type) for key in fields(Layout)],
    bases=(Settings,),
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class OtherFile(Reading):  # type: ignore[misc, valid-type]
    """Another file than the one trained on, and how it is read."""

    path: str | None
    root: str | None

    def reading(self) -> Mapping[str, object]:
        """The keys of a layout that are given. UserError for one without a file that it could be about."""
        values = {key.name: getattr(self, key.name) for key in fields(Layout)}
        given = {key: value for key, value in values.items() if value != AS_TRAINED}
        if given and self.path is None:
            raise UserError(
                f"data.{next(iter(given))} says how another file is read, and none is named. Add data.path=FILE."
            )
        return given


@dataclass(frozen=True, kw_only=True)
class OtherData(OtherFile):
    """Where evaluate finds other data than the run's own."""

    batch_size: Positive | None


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings(Settings):
    """The keys of every command that takes a checkpoint."""

    ckpt_path: str
    device: str
    data: OtherFile


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(CheckpointSettings):
    """The keys of evaluate.yaml that belong to no group."""

    level: Sequence[Level] | None
    pred_len: Positive | None
    split: str
    calibration: CalibrationName | None
    overwrite: bool
    data: OtherData


@dataclass(frozen=True, kw_only=True)
class Folds(Settings):
    """Which forecasts a backtest looks back on, and what each learns from."""

    folds: Positive
    step: Positive | None
    window: Literal["expanding", "sliding"]
    refit: Literal["never", "every_fold"]
    val: Annotated[float, SHARE_ABOVE_0]


@dataclass(frozen=True, kw_only=True)
class BacktestSettings(Settings):
    """The keys of backtest.yaml beside those of train.yaml."""

    backtest: Folds


@dataclass(frozen=True, kw_only=True)
class Tuning(Settings):
    """How long a study goes on, and what it varies. space: null, or {key: values}, as in spaces.yaml."""

    minutes: Annotated[float, ABOVE_0] | None
    trials: Positive | None
    space: Mapping[str, object] | None


@dataclass(frozen=True, kw_only=True)
class TuneSettings(Settings):
    """The keys of tune.yaml beside those of train.yaml."""

    tune: Tuning


@dataclass(frozen=True, kw_only=True)
class PredictSettings(CheckpointSettings):
    """The keys of predict.yaml."""

    pred_len: Positive | None
    output: str
    output_safe: bool
    overwrite: bool
    future: str | None
    level: Sequence[Level] | None
    shard: str | None
    unseen: Literal["scale", "refuse"]


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(CheckpointSettings):
    """The keys of update.yaml."""

    future: str | None
