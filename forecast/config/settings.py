"""The plain keys at the top of conf/train.yaml, evaluate.yaml and predict.yaml, with their types."""

from dataclasses import dataclass
from typing import Annotated, Literal

from forecast.bounds import Positive, Seed, at_least


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What a training makes sure of before it begins."""

    leakage: bool


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The keys of train.yaml that belong to no group."""

    seed: Seed
    eval_seed: Seed | None
    seq_len: Positive
    label_len: Annotated[int, at_least(0)]
    pred_len: Positive
    compile: Literal["default", "reduce-overhead", "max-autotune"] | None
    ckpt_path: str | None
    checks: Checks


@dataclass(frozen=True, kw_only=True)
class OtherData:
    """Where evaluate finds other data than the run's own."""

    path: str | None
    root: str | None
    batch_size: Positive | None


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """The keys of evaluate.yaml that belong to no group."""

    ckpt_path: str
    split: str
    overwrite: bool
    device: str
    data: OtherData


@dataclass(frozen=True, kw_only=True)
class History:
    """Where predict finds the past that it continues."""

    path: str | None
    root: str | None


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """The keys of predict.yaml."""

    ckpt_path: str
    output: str
    output_safe: bool
    overwrite: bool
    device: str
    data: History
