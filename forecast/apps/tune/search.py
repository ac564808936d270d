"""What a study of `forecast tune` is of: the config of its trials, what varies, its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from filelock import FileLock
from omegaconf import DictConfig, OmegaConf
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from forecast.apps.common.outputs import keep_others
from forecast.apps.tune.command import OF
from forecast.checkpoint.model import is_fitted_at_once
from forecast.config.allow_list import trusted
from forecast.config.check import check_config, read_settings
from forecast.config.compose import in_sweep, plain_values, run_folder, task_overrides, users_folders
from forecast.config.resolvers import identity, program, typed_keys
from forecast.config.run_config import RunConfig, TrainConfig, train_config
from forecast.config.settings import TuneSettings, Tuning
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.files import rounded, write_json
from forecast.run_folder import METRICS, PAGE, RUN_INFO
from forecast.text.overrides import hydra_value

TRIALS = "trials.json"  # what came of a study
JOURNAL, LOCK = "journal.log", ".study.lock"
OUTPUTS = (TRIALS, PAGE, JOURNAL, RUN_INFO, METRICS)
SPACES = Path(__file__).with_name("spaces.yaml")
# Trials that differ in one of these forecast other values, or are judged otherwise: their errors cannot be compared.
NOT_COMPARABLE = (
    *("pred_len", "data", "protocol", "seed", "eval_seed", "callbacks.checkpoint", "trainer.limit_val_batches"),
    *("trainer.fast_dev_run", "experiment"),
)
BUT = ("data.batch_size", "data.windows_per_epoch", "data.sampling")
# They change no validation error.
WITHOUT_EFFECT = (
    *("logger", "calibration", "level", "refit", "ckpt_path", "checks", "tune", "hydra", "initial_weights"),
    "process_timeout",
)
Scalar = bool | int | float | str | None
Point = Mapping[str, Scalar]
Space = Mapping[str, list[Scalar] | Mapping[str, float]]  # as in spaces.yaml


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a study is of. words: the overrides of train that hold for every trial. folders: of a user's own YAML."""

    folder: Path
    settings: Tuning
    words: Sequence[str]
    folders: Sequence[str]
    base: TrainConfig
    space: Space
    distributions: dict[str, BaseDistribution]

    @cached_property
    def config(self) -> RunConfig:
        """Of the trials, as it is without what a trial draws."""
        return RunConfig.of(plain_values(self.base.values))

    @property
    def metric(self) -> str:
        """By what its trials are judged, in words."""
        return f"val {self.config.monitor}, scaled"

    @property
    def at_once(self) -> bool:
        """Whether its models are fitted at once, in a step that nothing cuts off."""
        return is_fitted_at_once(self.config.model)


def read_search(cfg: DictConfig) -> Search:
    """The checked config. Raises UserError for whatever is wrong before any data are read."""
    if in_sweep():
        raise UserError("forecast tune -m: a study is of one model. Leave -m out, and run a command for each model")
    settings = read_settings(OmegaConf.masked_copy(cfg, ["tune"]), TuneSettings).tune
    if settings.minutes is None and settings.trials is None:
        raise UserError("tune.minutes=null: nothing would end the study. Say tune.trials=20, or tune.minutes=10")
    for key, value in (("ckpt_path", cfg.ckpt_path), ("refit", cfg.refit)):
        if value:
            raise UserError(
                f"{key}={value}: a trial is a new training, for its validation error alone. Leave {key} out here, "
                "and say it to the forecast train that this command ends with"
            )
    folders = users_folders()
    words = [word for word in task_overrides() if not typed_keys([word])[0].startswith("tune.")]
    base = train_config(words, folders)
    given = plain_values(cfg.tune)["space"]
    space = find_space(given, model=str(base.options["model"]), typed=typed_keys(words))
    check_config(base.values)
    check_keys(space)
    distributions = {key: distribution(key, values) for key, values in space.items()}
    lists = {key: values if isinstance(values, list) else [values["low"]] for key, values in space.items()}
    check_config(train_config([*words, *typed_point({key: each[0] for key, each in lists.items()})], folders).values)
    return Search(
        folder=run_folder(),
        settings=settings,
        words=words,
        folders=folders,
        base=base,
        space=space,
        distributions=distributions,
    )


def find_space(given: object, *, model: str, typed: Sequence[str]) -> Space:
    """The space of a command, else that of its model less the `typed` keys. UserError where nothing may vary."""
    if given is not None:
        if not isinstance(given, Mapping) or not given:
            raise UserError(
                f"tune.space={given}: it names no key to vary, as tune.space={{optim.lr: [1e-3, 1e-4]}} does"
            )
        return cast(Space, given)
    spaces = cast(Mapping[str, Space], plain_values(cast(DictConfig, OmegaConf.load(SPACES))))
    if model not in spaces:
        raise UserError(
            f"model={model} has no search space; these have one: {', '.join(spaces)}. Give one of your own: "
            '"tune.space={optim.lr: [1e-3, 1e-4]}"'
        )
    space = spaces[model]
    left = {key: values for key, values in space.items() if key not in typed}
    if not left:
        raise UserError(
            f"the command says every key that the space of model={model} varies ({', '.join(space)}), so nothing is "
            "left to tune: leave some of them out"
        )
    return left


def check_keys(space: Space) -> None:
    """Raises UserError for a key that makes trials incomparable, or that changes nothing."""
    for key in space:
        path = key.replace("/", ".").partition("@")[0]
        if _lies_in(path, WITHOUT_EFFECT):
            raise UserError(f"tune.space: {key} changes no validation error; leave it out of the space")
        if path == "model" or (_lies_in(path, NOT_COMPARABLE) and path not in BUT):
            raise UserError(
                f"tune.space: trials that differ in {key} cannot be compared by their validation errors; leave it out "
                f"of the space and tune for each: forecast tune {key}=VALUE"
            )


def _lies_in(path: str, names: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{name}.") for name in names)


def distribution(key: str, values: object) -> BaseDistribution:
    """What Optuna draws a key from: a list of values, or {low, high, log, step}. UserError for what is neither."""
    try:
        if isinstance(values, Mapping):
            whole = isinstance(values.get("low"), int) and isinstance(values.get("high"), int)
            return IntDistribution(**values) if whole else FloatDistribution(**values)
        return CategoricalDistribution(cast(list[Scalar], values))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"tune.space: {key}={values} is no range: {error}. Write a list, [16, 32], or {{low: 1e-4, high: 1e-2, "
            "log: true}"
        ) from error


def as_it_stands(search: Search) -> Point | None:
    """The point of the config itself; None where it lies outside of its space."""
    options, point = search.base.options, {}
    for key, drawn in search.distributions.items():
        point[key] = options[key] if key in options else OmegaConf.select(search.base.values, key)
        try:
            if not drawn._contains(drawn.to_internal_repr(point[key])):
                return None
        except ValueError:
            return None
    return point


def as_trained(point: Point) -> Point:
    """What a trial trains with for what was drawn: numbers of as many digits as the report has."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in point.items()}


def typed_point(point: Point) -> list[str]:
    """The overrides that give a config these values."""
    return [f"{key}={hydra_value(value)}" for key, value in as_trained(point).items()]


def begin(search: Search, cfg: DictConfig) -> None:
    """Marks a folder as that of this study. UserError where it holds another one, or a stranger's files."""
    folder, key = search.folder, f"hydra.run.dir={search.folder}"
    now = {"config": identity(_root_=cfg), "program": program(trusted()), "space": rounded(dict(search.space))}
    with FileLock(folder / LOCK):  # of two that begin at once the second finds what the first has written
        if before := read_document(folder / OF, dict[str, object]):
            names = {"config": "model, data or other settings", "program": "program", "space": "search space"}
            if other := [name for part, name in names.items() if before.get(part) != now[part]]:
                raise UserError(
                    f"{key} holds a study of another {other[0]}. Choose another folder, or leave hydra.run.dir out"
                )
            return
        keep_others(map(folder.joinpath, OUTPUTS), ours=False, key=key, like="of a study", fix="choose another folder")
        write_json(folder / OF, now)
