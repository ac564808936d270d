"""`forecast tune` itself, which needs Optuna."""

import logging
import math
import time
from collections.abc import Callable
from functools import partial

from omegaconf import DictConfig
from optuna.trial import Trial

from forecast.apps.common.command import Answer
from forecast.apps.common.training_data import read_data
from forecast.apps.tune.files import BestFile, finish
from forecast.apps.tune.search import Search, begin, read_search
from forecast.apps.tune.studies import SharedStudy
from forecast.config.check import check_config
from forecast.config.compose import Begun
from forecast.config.run_config import RunConfig
from forecast.config.space import as_it_stands, typed_point
from forecast.config.trials import train_config
from forecast.data.sources import Source
from forecast.errors import Terminated, UserError
from forecast.report.tables import short_number
from forecast.training.fit import Plan
from forecast.training.trial import Trials

log = logging.getLogger(__name__)

# What the files at the end take, and Python to leave: seconds, of less than a minute a share.
RESERVE, RESERVE_SHARE = 3.0, 0.05
MOST_FAILURES = 5  # trials that fail before any succeeds: the others would too


def tune(cfg: DictConfig) -> Answer:
    """Runs trials, then writes the best config, trials.json, trials.csv and report.html, and prints what came of it.

    Whatever ends it, the same command goes on. Raises UserError for whatever the user can mend.
    """
    search = read_search(cfg)
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
        study.note()
        document = finish(search, study, file, why=why, stopped=stopped is not None)
    if stopped is not None:
        raise stopped
    if document is None:
        raise nothing_found(search, study, why)
    log.info("Everything about this study is in %s", search.folder)
    return Answer(document)


def run_trials(search: Search, study: SharedStudy, *, then: Callable[[], object]) -> str:
    """Runs trials, after each of them `then`, until time is up, there are enough or no point is left; says which."""
    trials = Trials(lambda plan: read_data(plan.source, plan.config))
    minutes = search.settings.minutes or math.inf
    deadline = math.inf
    if minutes < math.inf:
        seconds = 60 * minutes - min(RESERVE, RESERVE_SHARE * 60 * minutes)
        end = Begun.at + seconds - study.before
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
    return f"What is left of {minutes:g} minutes is too short for another trial; with more tune.minutes it goes on."


def run_trial(search: Search, study: SharedStudy, trial: Trial, trials: Trials, *, deadline: float) -> None:
    """Runs one trial, and notes and says what it came to."""
    begun = time.monotonic()
    try:
        composed = train_config([*search.words, *typed_point(trial.params)], search.folders)
        check_config(composed.values)
        config = RunConfig.composed(composed.values)
        source = config.data.build(Source)
        plan = Plan(config=config, choices=composed.options, source=source, folder=search.folder, start=None)
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


def nothing_found(search: Search, study: SharedStudy, why: str) -> UserError:
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
