"""The plain keys at the top of conf/train.yaml and those of the other commands, with their types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from typing import Annotated, Any, Literal

from forecast.bounds import ABOVE_0, SHARE_ABOVE_0, Level, Networks, Positive, Seed, at_least
from forecast.data.reading.layout import Layout
from forecast.errors import UserError

AS_TRAINED = "as_trained"
CalibrationName = Literal["static", "adaptive", "none"]


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What a training makes sure of before it begins."""

    leakage: bool


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The keys of train.yaml that belong to no group."""

    seed: Seed
    seeds: Networks
    eval_seed: Seed | None
    seq_len: Positive
    label_len: Annotated[int, at_least(0)]
    pred_len: Positive
    calibration: CalibrationName
    level: Sequence[Level]
    compile: Literal["default", "reduce-overhead", "max-autotune"] | None
    initial_weights: str | None
    refit: Literal["val"] | bool
    process_timeout: Positive
    ckpt_path: str | None
    checks: Checks


# The keys of a layout, each as in training unless it is given.
Reading: Any = make_dataclass(
    "Reading",
    [(key.name, Literal["as_trained"] | key.type) for key in fields(Layout)],
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class OtherFile(Reading):  # type: ignore[misc]
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
class RaySettings:
    """The cluster that scores with engine=ray."""

    address: str
    workers: Positive | None
    threads: Positive
    shards: Positive | None


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """The keys of evaluate.yaml that belong to no group."""

    ckpt_path: str
    pred_len: Positive | None
    split: str
    calibration: CalibrationName | None
    level: Sequence[Level] | None
    overwrite: bool
    device: str
    engine: Literal["local", "ray"]
    ray: RaySettings
    data: OtherData


@dataclass(frozen=True, kw_only=True)
class Folds:
    """Which forecasts a backtest looks back on, and what each learns from."""

    folds: Positive
    step: Positive | None
    window: Literal["expanding", "sliding"]
    refit: Literal["never", "every_fold", "warm"]
    val: Annotated[float, SHARE_ABOVE_0]


@dataclass(frozen=True, kw_only=True)
class BacktestSettings:
    """The keys of backtest.yaml beside those of train.yaml."""

    backtest: Folds


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How long a study goes on, and what it varies. space: null, a file, or {key: values}, see spaces.yaml."""

    minutes: Annotated[float, ABOVE_0] | None
    trials: Positive | None
    space: object


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The keys of tune.yaml beside those of train.yaml."""

    tune: Tuning


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """The keys of predict.yaml."""

    ckpt_path: str
    pred_len: Positive | None
    output: str
    output_safe: bool
    overwrite: bool
    future: str | None
    level: Sequence[Level] | None
    shard: str | None
    unseen: Literal["scale", "refuse"]
    device: str
    engine: Literal["local", "ray"]
    ray: RaySettings
    data: OtherFile


@dataclass(frozen=True, kw_only=True)
class UpdateChecks:
    """What an update makes sure of beside whether rows continue."""

    scale: bool


@dataclass(frozen=True, kw_only=True)
class UpdateSettings:
    """The keys of update.yaml."""

    ckpt_path: str
    level: Sequence[Level] | None
    future: str | None
    checks: UpdateChecks
    device: str
    data: OtherFile
