"""Search spaces of `forecast tune`: what may vary of a config, and how a point of a space is typed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.bounds import ABOVE_0
from forecast.config.schema import valid_value
from forecast.config.settings import Settings
from forecast.config.values import yaml_reason
from forecast.errors import UserError
from forecast.text.overrides import hydra_value
from forecast.text.terminal import label

SPACES = Path(__file__).with_name("spaces.yaml")
HOW = "write a list, [16, 32], or {low: 1e-4, high: 1e-2, log: true}"
Scalar = bool | int | float | str | None
Point = Mapping[str, Scalar]
# Trials that differ in one of these forecast other values, or are judged otherwise: their errors cannot be compared.
NOT_COMPARABLE = (
    *("pred_len", "data", "protocol", "seed", "eval_seed", "callbacks.checkpoint", "trainer.limit_val_batches"),
    *("trainer.fast_dev_run", "experiment"),
)
BUT = ("data.batch_size", "data.windows_per_epoch", "data.sampling")
# They change no validation error.
WITHOUT_EFFECT = (
    "logger",
    "calibration",
    "level",
    "refit",
    "ckpt_path",
    "checks",
    "tune",
    "hydra",
    "initial_weights",
    "process_timeout",
)


@dataclass(frozen=True, kw_only=True)
class Range(Settings):
    """Numbers from low to high; whole ones where both are. log: drawn by their logarithm. step: between them."""

    low: int | float
    high: int | float
    step: Annotated[int | float, ABOVE_0] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError where nothing can be drawn."""
        if not self.low < self.high < math.inf:
            raise ValueError("high must be above low")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("with log: true low must be above 0, and there is no step")
        if self.whole and isinstance(self.step, float):
            raise ValueError(f"between whole numbers the step is one too; write low: {self.low:.1f}")

    @property
    def whole(self) -> bool:
        """Whether its numbers are."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def has(self, value: object) -> bool:
        """Whether a value may be drawn."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        steps = (value - self.low) / self.step if self.step else 0.0
        return self.low <= value <= self.high and abs(steps - round(steps)) < 1e-9


@dataclass(frozen=True)
class Choices:
    """One of some values."""

    values: tuple[Scalar, ...]

    def has(self, value: object) -> bool:
        """Whether a value may be drawn; True is no 1."""
        return any(type(value) is type(choice) and value == choice for choice in self.values)


Space = Mapping[str, Range | Choices]


@cache
def spaces() -> Mapping[str, Mapping[str, object]]:
    """The models that have a space, each with its own."""
    return cast(Mapping[str, Mapping[str, object]], _plain(OmegaConf.load(SPACES)))


def find_space(given: object, *, model: str | None, typed: Sequence[str]) -> Space:
    """The space of a command: its own, as a mapping or the name of a file, else that of the model less what was typed.

    typed: the keys of the command line. Raises UserError for a model without one, and for what is no space.
    """
    if given is not None:
        where = "tune.space" if isinstance(given, Mapping) else f"tune.space={label(str(given))}"
        return _read(given if isinstance(given, Mapping) else _of_file(given), where)
    if model is None or model not in spaces():
        raise UserError(
            f"model={model} has no search space; these have one: {', '.join(spaces())}. Give one of your own: "
            'tune.space=FILE, or "tune.space={optim.lr: [1e-3, 1e-4]}"'
        )
    left = {key: values for key, values in spaces()[model].items() if key not in typed}
    if not left:
        raise UserError(
            f"the command says every key that the space of model={model} varies ({', '.join(spaces()[model])}), so "
            "nothing is left to tune: leave some of them out"
        )
    return _read(left, f"forecast/config/{SPACES.name}")


def check_space(space: Space) -> None:
    """Raises UserError for a key that makes trials incomparable, or that changes nothing."""
    for key in space:
        path = key.replace("/", ".").partition("@")[0]
        if _lies_in(path, WITHOUT_EFFECT):
            raise UserError(f"tune.space: {label(key, 40)} changes no validation error; leave it out of the space")
        if path == "model" or (_lies_in(path, NOT_COMPARABLE) and path not in BUT):
            raise UserError(
                f"tune.space: trials that differ in {label(key, 40)} cannot be compared by their validation errors; "
                f"leave it out of the space and tune for each: forecast tune {key}=VALUE"
            )


def first_point(space: Space) -> Point:
    """The first value of each key."""
    return {key: domain.values[0] if isinstance(domain, Choices) else domain.low for key, domain in space.items()}


def as_it_stands(space: Space, cfg: DictConfig, options: Mapping[str, str | None]) -> Point | None:
    """The point of a config itself; None where it lies outside of its space. options: chosen, of each group."""
    point = {key: options[key] if key in options else OmegaConf.select(cfg, key) for key in space}
    return point if all(space[key].has(value) for key, value in point.items()) else None


def typed_keys(overrides: Sequence[str]) -> list[str]:
    """The keys of a command line, as a space has them."""
    return [word.lstrip("+~").partition("=")[0] for word in overrides]


def as_trained(point: Point) -> Point:
    """What a trial trains with for what was drawn: numbers of as many digits as the report has."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in point.items()}


def typed_point(point: Point) -> list[str]:
    """The overrides that give a config these values."""
    return [f"{key}={hydra_value(value)}" for key, value in as_trained(point).items()]


def written(space: Space) -> dict[str, object]:
    """A space as plain values, as in YAML."""
    return {
        key: list(domain.values)
        if isinstance(domain, Choices)
        else {name: value for name, value in asdict(domain).items() if value not in (None, False) or name == "low"}
        for key, domain in space.items()
    }


def _of_file(name: object) -> object:
    path = Path(str(name))
    try:
        return _plain(OmegaConf.load(path))
    except (OSError, ValueError, yaml.YAMLError, RecursionError, OmegaConfBaseException) as error:
        shown = label(str(name))
        raise UserError(
            f"tune.space={shown} cannot be read: {yaml_reason(error)}. It is a YAML file whose lines are like "
            "optim.lr: [1e-3, 1e-4]"
        ) from error


def _plain(node: object) -> object:
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _read(document: object, where: str) -> Space:
    if not isinstance(document, Mapping) or not document:
        raise UserError(f"{where} names no key to vary: {HOW} behind each, as optim.lr: [1e-3, 1e-4]")
    return {str(key): _values(value, f"{where}: {label(str(key), 40)}") for key, value in document.items()}


def _values(value: object, where: str) -> Range | Choices:
    """What may be drawn for one key."""
    if isinstance(value, Mapping):
        return cast(Range, valid_value(value, Range, where))
    if not isinstance(value, list) or not value:
        raise UserError(f"{where}={label(str(value), 40)} is no range: {HOW}")
    return Choices(tuple(dict.fromkeys(cast(list[Scalar], valid_value(value, list[Scalar], where)))))


def _lies_in(path: str, names: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{name}.") for name in names)
