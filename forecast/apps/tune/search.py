"""What a study of `forecast tune` is of: the config of its trials, what varies, its folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from filelock import FileLock
from omegaconf import DictConfig, OmegaConf

from forecast.apps.common.outputs import keep_others
from forecast.checkpoint.model import is_fitted_at_once
from forecast.config.allow_list import trusted
from forecast.config.check import check_config, read_settings
from forecast.config.compose import in_sweep, run_folder, task_overrides, users_folders
from forecast.config.resolvers import program, tuned_identity
from forecast.config.run_config import RunConfig
from forecast.config.settings import TuneSettings, Tuning
from forecast.config.space import Space, check_space, find_space, first_point, typed_keys, typed_point, written
from forecast.config.trials import TrainConfig, train_config
from forecast.config.values import plain_values
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.files import rounded, write_json
from forecast.run_folder import METRICS, PAGE, RUN_INFO

OF, TRIALS = "study.json", "trials.json"  # what a study is of, and what came of it
JOURNAL, LOCK = "journal.log", ".study.lock"
OUTPUTS = (TRIALS, PAGE, JOURNAL, RUN_INFO, METRICS)


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a study is of. words: the overrides of train that hold for every trial. folders: of a user's own YAML."""

    folder: Path
    settings: Tuning
    words: Sequence[str]
    folders: Sequence[str]
    base: TrainConfig
    space: Space

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
    space = find_space(given, model=base.options["model"], typed=typed_keys(words))
    check_config(base.values)
    check_space(space)
    check_config(train_config([*words, *typed_point(first_point(space))], folders).values)
    return Search(folder=run_folder(), settings=settings, words=words, folders=folders, base=base, space=space)


def begin(search: Search, cfg: DictConfig) -> None:
    """Marks a folder as that of this study. UserError where it holds another one, or a stranger's files."""
    folder, key = search.folder, f"hydra.run.dir={search.folder}"
    now = {"config": tuned_identity(cfg), "program": program(trusted()), "space": rounded(written(search.space))}
    with FileLock(folder / LOCK):  # of two that begin at once the second finds what the first has written
        if before := read_document(folder / OF, dict[str, object]):
            names = {"config": "model, data or other settings", "program": "program", "space": "search space"}
            if other := [name for part, name in names.items() if before.get(part) != now[part]]:
                raise UserError(
                    f"{key} holds a study of another {other[0]}. Choose another folder, or leave hydra.run.dir out"
                )
            return
        outputs = [folder / name for name in OUTPUTS]
        keep_others(outputs, ours=False, key=key, like="of a study", fix="choose another folder")
        write_json(folder / OF, now)
