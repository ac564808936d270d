"""The config of a run as one frozen object, made at one place, `RunConfig.of`: of a composed config or a checkpoint's.

What is built of a class that the config names is a `Recipe`; all else is typed, with its ranges, in `TrainSettings`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, cast

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.bounds import CalendarEncoding, Positive, Sampling
from forecast.config import hydra_errors, resolvers
from forecast.config.allow_list import resolve_target
from forecast.config.build import build, fields_of, valid_value
from forecast.config.compose import compose_config, plain_values, without_hydra
from forecast.config.settings import TrainSettings
from forecast.errors import UserError
from forecast.text.overrides import hydra_value

T = TypeVar("T")
Plain = Mapping[str, object]  # plain values by their keys, as a config or a document holds them
Monitor = Literal["mse", "mae"]
Choices = Mapping[str, str | None]  # the chosen option of each group
PARTS = ("model", "loss", "optim", "schedule", "protocol", "trainer", "logger")
PLACES = ("path", "root")  # keys of data that say where files lie


@dataclass(frozen=True)
class Recipe:
    """A class and its keys, of which a part of a run is built. node: what stands in the config, at its `place`.

    A node without a `_target_` is that of a part that the config does not have.
    """

    node: Plain
    place: str

    @property
    def target(self) -> str:
        """The path of the class."""
        return str(self.node.get("_target_", ""))

    def get(self, key: str) -> object:
        """The value of a key; None where the config does not have it."""
        return self.node.get(key)

    def with_(self, **values: object) -> "Recipe":
        """The recipe with other values of these keys."""
        return replace(self, node={**self.node, **values})

    def extends(self, base: type) -> bool:
        """Whether the class is of a kind, or extends it. UserError for a target that is not allowed."""
        kind = resolve_target(self.node["_target_"], self.place)
        return isinstance(kind, type) and issubclass(kind, base)

    def build(self, kind: type[T], **provided: object) -> T:
        """What the recipe makes, of what is provided too. UserError as `build`, and for what is of another kind."""
        part: object = build(self.node, **provided)
        if not isinstance(part, kind):
            raise UserError(
                f"{self.place}._target_={self.target}: no {kind.__name__}; it must extend {kind.__module__}."
                f"{kind.__name__}"
            )
        return part

    def factory(self, kind: type[T]) -> Callable[..., T]:
        """What makes it of the arguments that a training hands in: the recipes of optimizers and schedules."""
        return cast(Callable[..., T], build(self.node))


@dataclass(frozen=True)
class DataRecipe(Recipe):
    """A source, and what a training draws of it."""

    place: str = "data"

    @property
    def name(self) -> str:
        """Of the data."""
        return str(self.node["name"])

    @property
    def batch_size(self) -> int:
        """Windows in a batch."""
        return cast(int, self._checked("batch_size", Positive))

    @property
    def windows_per_epoch(self) -> int | None:
        """How many are drawn for an epoch; None: all."""
        return cast(int | None, self._checked("windows_per_epoch", Positive | None))

    @property
    def recent(self) -> int | None:
        """So many of the last train rows of a series alone are trained on; None: all."""
        return cast(int | None, self._checked("recent", Positive | None))

    @property
    def sampling(self) -> Sampling:
        """How they are drawn."""
        return cast(Sampling, self._checked("sampling", Sampling, usual="windows"))

    @property
    def path(self) -> str | None:
        """Of the file; None where the source knows it."""
        return cast(str | None, self._checked("path", str | None))

    @property
    def first_target(self) -> str | None:
        """The first of the names of data.target."""
        target = self.node.get("target")
        return str(target[0]) if isinstance(target, list | tuple) else cast(str | None, target)

    def _checked(self, key: str, annotation: object, usual: object = None) -> object:
        return valid_value(self.node.get(key, usual), annotation, f"data.{key}")


@dataclass(frozen=True, kw_only=True)
class RunConfig(TrainSettings):
    """What a training is to do. plain: the config as it is saved, of which all else is made.

    callbacks: by their names, without those that are off.
    """

    plain: Plain
    data: DataRecipe
    model: Recipe
    loss: Recipe
    optim: Recipe
    schedule: Recipe
    protocol: Recipe
    trainer: Recipe
    logger: Recipe
    callbacks: Mapping[str, Recipe]

    @classmethod
    def of(cls, plain: Plain) -> "RunConfig":
        """Of plain values. UserError for a setting that is missing, of another type or out of its range."""
        nodes = {key: node for key, node in plain.items() if isinstance(node, Mapping)}
        own = {key: value for key, value in plain.items() if key in fields_of(TrainSettings)}
        settings = valid_value(own, TrainSettings)
        callbacks = {name: node for name, node in nodes.get("callbacks", {}).items() if isinstance(node, Mapping)}
        return cls(
            **vars(settings) | {key: Recipe(nodes.get(key, {}), key) for key in PARTS},
            plain=plain,
            data=DataRecipe(nodes.get("data", {})),
            callbacks={name: Recipe(node, f"callbacks.{name}") for name, node in callbacks.items()},
        )

    @classmethod
    def composed(cls, cfg: DictConfig) -> "RunConfig":
        """Of a composed config. Its paths become absolute: a checkpoint is used from other folders too."""
        config = cls.of(plain_values(cfg))
        data = {key: str(Path(str(path)).absolute()) for key in PLACES if (path := config.data.get(key))}
        weights = config.initial_weights and str(Path(config.initial_weights).absolute())
        return config.with_(initial_weights=weights, data={**config.data.node, **data})

    def with_(self, **values: object) -> "RunConfig":
        """The config with other values of these keys."""
        return RunConfig.of({**self.plain, **values})

    def with_model(self, options: Plain) -> "RunConfig":
        """The config with these keys of the model."""
        return self.with_(model={**self.model.node, **options})

    @property
    def encoding(self) -> CalendarEncoding:
        """How the model wants its calendar: its key `embedding` where it has one."""
        return cast(CalendarEncoding, self.model.node.get("embedding", "timeF"))

    @property
    def lengths(self) -> dict[str, int]:
        """Of a window's past and future."""
        return {"seq_len": self.seq_len, "pred_len": self.pred_len}

    @property
    def monitor(self) -> Monitor:
        """Which validation error chooses best.ckpt, and so the best trial."""
        checkpoint = self.callbacks.get("checkpoint")
        return "mae" if checkpoint is not None and checkpoint.get("monitor") == "mae" else "mse"


class Composed(NamedTuple):
    """A config of train, and the identity that a sweep would give it."""

    identity: str
    config: RunConfig


def composed(overrides: Sequence[str]) -> Composed:
    """What `forecast train OVERRIDES` would run, without running it. Raises UserError for what it would refuse."""
    if not OmegaConf.has_resolver(resolvers.identity.__name__):  # a sweep that runs keeps the folder it began in
        resolvers.register()
    cfg = train_config(overrides).values
    return Composed(resolvers.identity(_root_=cfg), RunConfig.of(plain_values(cfg)))


class TrainConfig(NamedTuple):
    """What `forecast train OVERRIDES` would run, its interpolations not resolved, and the chosen options of groups."""

    values: DictConfig
    options: Choices


def train_config(overrides: Sequence[str], folders: Sequence[str] = ()) -> TrainConfig:
    """Composes a config of train. folders: of a user's own YAML. Raises UserError for what train would refuse."""
    places = [f"hydra.searchpath={hydra_value([f'file://{folder}' for folder in folders])}"] if folders else []
    words = [*overrides, *places]
    try:
        return TrainConfig(*without_hydra(compose_config("train", words, hydra=True)))
    except (HydraException, OmegaConfBaseException) as error:
        text = hydra_errors.message(error, config_name="train", overrides=words)
        raise UserError(text or str(error)) from error
