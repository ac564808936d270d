"""`forecast tune` itself, which needs Optuna."""

import logging
import math
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import cast

from omegaconf import DictConfig
from optuna.trial import FrozenTrial, Trial

from forecast.apps.common.command import Answer
from forecast.apps.common.training_data import plan_of, read_data
from forecast.apps.tune.search import TRIALS, Search, as_it_stands, as_trained, begin, read_search, typed_point
from forecast.apps.tune.studies import SharedStudy
from forecast.comparison.study_page import sentences, study_page
from forecast.config.allow_list import trust_words
from forecast.config.check import check_config
from forecast.config.compose import Begun
from forecast.config.run_config import RunConfig, train_config
from forecast.errors import Terminated, UserError
from forecast.files import json_text, rounded, together
from forecast.report.tables import short_number
from forecast.run_folder import FILES, PAGE, sha256
from forecast.run_folder.shapes import StudyDocument
from forecast.run_folder.shapes import Trial as DescribedTrial
from forecast.text.terminal import say, shell_word
from forecast.training.trial import Trials, without_extras

log = logging.getLogger(__name__)

# What the files at the end take, and Python to leave: seconds, of less than a minute a share.
RESERVE, RESERVE_SHARE = 3.0, 0.05
MOST_FAILURES = 5  # trials that fail before any succeeds: the others would too


def tune(cfg: DictConfig) -> Answer:
    """Runs trials, then writes trials.json and report.html, and prints what came of it.

    Whatever ends it, the same command goes on. Raises UserError for whatever the user can mend.
    """
    search = read_search(cfg)
    begin(search, cfg)
    first = as_it_stands(search)
    study = SharedStudy(search.folder, search.distributions, seed=cfg.seed, begun=Begun.at, first=first)
    again = f"The study in {search.folder} goes on with the same command."
    stopped: BaseException | None = None
    with study.at_work():
        try:
            why = run_trials(search, study)
        except KeyboardInterrupt:
            why, stopped = f"Interrupted. {again}", KeyboardInterrupt(f"Interrupted. {again}")
        except Terminated as stop:
            why, stopped = f"A signal ended it. {again}", Terminated(f"A signal ended it. {again}", stop.number)
        study.note()
        document = finish(search, study, why=why, stopped=stopped is not None)
    if stopped is not None:
        raise stopped
    if document is None:
        raise nothing_found(search, study, why)
    log.info("Everything about this study is in %s", search.folder)
    return Answer(document)


def run_trials(search: Search, study: SharedStudy) -> str:
    """Runs trials until time is up, there are enough or no point is left; says which."""
    trials = Trials(read_data)
    minutes, deadline = search.settings.minutes or math.inf, math.inf
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
        if study.failures() >= MOST_FAILURES:
            return "No trial has succeeded."
    return f"What is left of {minutes:g} minutes is too short for another trial; with more tune.minutes it goes on."


def run_trial(search: Search, study: SharedStudy, trial: Trial, trials: Trials, *, deadline: float) -> None:
    """Runs one trial, and notes and says what it came to."""
    begun = time.monotonic()
    try:
        composed = train_config([*search.words, *typed_point(trial.params)], search.folders)
        check_config(composed.values)
        config = without_extras(RunConfig.composed(composed.values))
        plan = plan_of(config, composed.options, search.folder)
        outcome = trials.run(
            plan, monitor=search.config.monitor, report=partial(study.report, trial), deadline=deadline
        )
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


def finish(search: Search, study: SharedStudy, *, why: str, stopped: bool) -> StudyDocument | None:
    """Writes the files of a study and prints what came of it; None where no trial has a validation error yet."""
    with study.lock:  # of several processes each ends so; the last one has all trials
        best = study.best()
        if best is None:
            return None
        config, options = search.config, search.base.options
        trials = [described(trial) for trial in study.trials]
        values = {
            "status": "interrupted" if stopped else "finished",
            "folder": str(search.folder),
            "model": options["model"],
            "data": Path(config.data.path).name if config.data.path else config.data.name,
            "seed": config.seed,
            **config.lengths,
            "metric": f"val {config.monitor}, scaled",
            "minutes": search.settings.minutes,
            "most_trials": search.settings.trials,
            "seconds": study.seconds_spent(),
            "space": dict(search.space),
            "trials": trials,
            "states": dict(Counter(trial["state"] for trial in trials)),
            "best": {**described(best), "command": command_of(search, best)},
            "why": why,
        }
        document = cast(StudyDocument, rounded(values))
        with together(search.folder) as beside:
            beside(PAGE).write_text(study_page(document), encoding="utf-8")
            document[FILES] = {PAGE: sha256(beside(PAGE))}
            beside(TRIALS).write_text(json_text(document), encoding="utf-8")
    for sentence in sentences(document):
        say(sentence)
    return document


def described(trial: FrozenTrial) -> DescribedTrial:
    """A trial as plain values. state: finished, pruned, cut (by the end of the time), failed, running."""
    known = trial.user_attrs
    names = {"COMPLETE": "cut" if known.get("cut") else "finished", "FAIL": "failed"}
    return {
        "trial": trial.number,
        "state": names.get(trial.state.name, trial.state.name.lower()),
        "error": known.get("error"),
        "seconds": known.get("seconds"),
        "epochs": known.get("epochs"),
        "config": dict(as_trained(trial.params)),
        "reason": known.get("reason"),
        "by_epoch": [trial.intermediate_values[step] for step in sorted(trial.intermediate_values)],
    }


def command_of(search: Search, best: FrozenTrial) -> str:
    """The command that trains with the best config."""
    words = [*search.words, *typed_point(best.params)]
    if best.user_attrs.get("cut"):
        words.append(f"trainer.max_epochs={best.user_attrs['epochs']}")
    folders = [f"--config-dir {shell_word(folder)}" for folder in search.folders]
    return f"forecast train {trust_words()}" + " ".join([*folders, *map(shell_word, words)])
