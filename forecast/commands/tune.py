"""What `forecast tune` does: trials of a model's settings, judged by their validation error, until time is up."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from omegaconf import DictConfig, OmegaConf

from forecast.checkpoint.heads import is_fitted_at_once
from forecast.commands import Answer
from forecast.commands.outputs import keep_others
from forecast.commands.train import read_data, with_absolute_paths
from forecast.config.build import build
from forecast.config.check import check_config, read_settings
from forecast.config.compose import groups
from forecast.config.job import Begun, in_sweep, run_folder, task_overrides, users_folders
from forecast.config.resolvers import program, tuned_identity
from forecast.config.settings import TuneSettings, Tuning
from forecast.config.space import Space, as_it_stands, check_space, find_space, typed_keys, typed_point, written
from forecast.config.trials import TrainConfig, plain, train_config
from forecast.config.trust import trusted
from forecast.errors import Terminated, UserError
from forecast.files import rounded, write_json
from forecast.report.tables import short_number
from forecast.run_folder import METRICS, RUN_INFO
from forecast.run_folder.documents import read_json
from forecast.training.fit import Plan
from forecast.training.trial import Trials

if TYPE_CHECKING:  # Optuna, which may not be installed
    from optuna.trial import Trial

    from forecast.commands.studies import SharedStudy

log = logging.getLogger(__name__)

OF = "study.json"
# What the files at the end take, and Python to leave: seconds, of less than a minute a share.
RESERVE, RESERVE_SHARE = 3.0, 0.05
MOST_FAILURES = 5  # trials that fail before any succeeds: the others would too


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a study is of. words: the overrides of train that hold for every trial. folders: of a user's own YAML."""

    folder: Path
    settings: Tuning
    words: Sequence[str]
    folders: Sequence[str]
    base: TrainConfig
    space: Space

    @property
    def at_once(self) -> bool:
        """Whether its models are fitted at once, in a step that nothing cuts off."""
        return is_fitted_at_once(plain(self.base.values)["model"])


def tune(cfg: DictConfig) -> Answer:
    """Runs trials, then writes best.yaml, trials.json, trials.csv and report.html, and prints what came of it.

    Whatever ends it, the same command goes on. Raises UserError for whatever the user can mend.
    """
    search = read_search(cfg)
    from forecast.commands.studies import SharedStudy
    from forecast.commands.study_files import BestFile, finish

    begin(search, cfg)
    first = as_it_stands(search.space, search.base.values, search.base.options)
    study = SharedStudy(search.folder, search.space, seed=cfg.seed, begun=Begun.at, first=first)
    again = f"The study in {search.folder} goes on with the same command."
    stopped: BaseException | None = None
    file = BestFile(search)
    with study.at_work():
        try:
            why = run_trials(search, study, then=lambda: file.update(study))
        except KeyboardInterrupt:
            why, stopped = f"Interrupted. {again}", KeyboardInterrupt(f"Interrupted. {again}")
        except Terminated as stop:
            why, stopped = f"A signal ended it. {again}", Terminated(f"A signal ended it. {again}", stop.number)
        study.note(now=True)
        document = finish(search, study, file, why=why, stopped=stopped is not None)
    if stopped is not None:
        raise stopped
    if document is None:
        raise nothing_found(search, study, why)
    log.info("Everything about this study is in %s", search.folder)
    return Answer(document)


def read_search(cfg: DictConfig) -> Search:
    """The checked config. Raises UserError for whatever is wrong before any data are read."""
    if find_spec("optuna") is None:
        raise UserError(
            "forecast tune: the package optuna is not installed. Install it: pip install 'forecast[tune]', or pip "
            "install 'optuna>=5,<6'"
        )
    if in_sweep():
        raise UserError("forecast tune -m: a study is of one model. Leave -m out, and run a command for each model")
    settings = read_settings(OmegaConf.masked_copy(cfg, ["tune"]), TuneSettings).tune
    if settings.minutes is None and settings.trials is None:
        raise UserError("tune.minutes=null: nothing would end the study. Say tune.trials=20, or tune.minutes=10")
    for key in ("ckpt_path", "refit"):
        if cfg.get(key):
            raise UserError(
                f"{key}={cfg[key]}: a trial is a new training, for its validation error alone. Leave {key} out here, "
                "and say it to the forecast train that this command ends with"
            )
    folders = users_folders()
    words = [word for word in task_overrides() if not typed_keys([word])[0].startswith("tune.")]
    base = train_config(words, folders)
    given = plain(OmegaConf.masked_copy(cfg, ["tune"]))["tune"]["space"]
    space = find_space(given, model=base.options["model"], typed=typed_keys(words))
    check_config(base.values)
    check_space(space, base.values, groups())
    return Search(folder=run_folder(), settings=settings, words=words, folders=folders, base=base, space=space)


def begin(search: Search, cfg: DictConfig) -> None:
    """Marks a folder as that of this study. UserError where it holds another one, or a stranger's files."""
    from forecast.commands.studies import LOCK
    from forecast.commands.study_files import OUTPUTS

    folder, key = search.folder, f"hydra.run.dir={search.folder}"
    now = {"config": tuned_identity(cfg), "program": program(trusted()), "space": rounded(written(search.space))}
    with FileLock(folder / LOCK):  # of two that begin at once the second finds what the first has written
        try:
            before: Mapping[str, Any] = read_json(folder / OF)
        except (OSError, ValueError, RecursionError):
            before = {"config": "unreadable"}
        if before:
            names = {"config": "model, data or other settings", "program": "program", "space": "search space"}
            if other := [name for what, name in names.items() if before.get(what) != now[what]]:
                raise UserError(
                    f"{key} holds a study of another {other[0]}. Choose another folder, or leave hydra.run.dir out"
                )
            return
        outputs = [folder / name for name in (*OUTPUTS, RUN_INFO, METRICS)]
        keep_others(outputs, ours=False, key=key, like="of a study", fix="choose another folder")
        write_json(folder / OF, now)


def run_trials(search: Search, study: "SharedStudy", *, then: Callable[[], object]) -> str:
    """Runs trials, after each of them `then`, until time is up, there are enough or no point is left; says which."""
    trials = Trials(lambda plan: read_data(plan.source, plan.config))
    minutes = search.settings.minutes or math.inf
    deadline = math.inf
    if minutes < math.inf:
        seconds = 60 * minutes - min(RESERVE, RESERVE_SHARE * 60 * minutes)
        end = Begun.at + seconds - study.seconds_spent(until=Begun.at)
        deadline = time.monotonic() + end - time.time()
    while study.fits(deadline - time.monotonic(), at_once=search.at_once):
        trial = study.ask(search.settings.trials)
        if trial is None:
            most = search.settings.trials
            if most is not None and len(study.trials) >= most:
                return f"These are the {most} trials that tune.trials allows."
            return "Hardly a point of the space is left that was not tried."
        run_trial(search, study, trial, trials, deadline=deadline)
        then()
        if study.failures() >= MOST_FAILURES:
            return "No trial has succeeded."
    return f"What is left of {minutes:g} minutes is too short for another trial; more tune.minutes go on."


def run_trial(search: Search, study: "SharedStudy", trial: "Trial", trials: Trials, *, deadline: float) -> None:
    """Runs one trial, and notes and says what it came to."""
    begun = time.monotonic()
    try:
        found = train_config([*search.words, *typed_point(trial.params)], search.folders)
        check_config(found.values)
        config = with_absolute_paths(plain(found.values))
        source = build(config["data"])
        plan = Plan(config=config, choices=dict(found.options), source=source, folder=search.folder, start=None)
        outcome = trials.run(plan, report=partial(study.report, trial), deadline=deadline)
        ended = study.tell(trial, outcome, seconds=time.monotonic() - begun)
    except (KeyboardInterrupt, Terminated):
        study.fail(trial, "Ctrl-C or a signal ended it", seconds=time.monotonic() - begun, again=True)
        raise
    except Exception as error:  # whatever a drawn value leads to: the other trials go on
        lines = str(error).splitlines() or [""]
        reason = lines[0] if isinstance(error, UserError) else f"{type(error).__name__}: {lines[0]}"
        ended = study.fail(trial, reason, seconds=time.monotonic() - begun)
    study.note()
    seconds, best = ended.user_attrs["seconds"], study.best()
    so_far = f"; best so far: {short_number(float(best.value or 0))}, trial {best.number}" if best else ""
    if ended.state.name == "FAIL":
        log.warning("Trial %d has failed: %s", ended.number, ended.user_attrs["reason"])
    else:
        state = "pruned" if ended.state.name == "PRUNED" else "cut off" if ended.user_attrs.get("cut") else "finished"
        lowest = short_number(float(ended.user_attrs["error"]))
        log.info("Trial %d, %s after %.1f s: %s%s", ended.number, state, seconds, lowest, so_far)


def nothing_found(search: Search, study: "SharedStudy", why: str) -> UserError:
    """What to say where no trial came to a validation error."""
    failed = [trial for trial in study.trials if trial.state.name == "FAIL"]
    own = [trial for trial in failed if not trial.user_attrs.get("stopped")]
    reason = str((own or failed)[0].user_attrs["reason"]).rstrip(". ") if failed else "no trial was begun"
    if own:
        return UserError(f"all {len(own)} trials have failed, the first with: {reason}")
    return UserError(
        f"no trial came to a validation: {reason}. {why} Choose a smaller model, or a larger tune.minutes: the "
        f"study in {search.folder} goes on with the same command"
    )
