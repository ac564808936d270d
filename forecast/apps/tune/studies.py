"""The study of `forecast tune`: Optuna's journal in a folder, shared by processes of which any may be killed."""

import logging
import os
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import optuna
from filelock import FileLock
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from forecast.apps.tune.search import JOURNAL, LOCK, Point
from forecast.run_folder.lock import hold, in_use, release
from forecast.training.trial import Outcome

log = logging.getLogger(__name__)

PROCESSES = "processes"
SECONDS = "seconds"  # an attribute of the study
WARM_UP = 1  # validations before which nothing is pruned
MOST_REPEATS = 25  # points in a row that have been tried before: there are hardly others
KILLED = "its process was killed"


class SeededByTrial(TPESampler):
    """Optuna's TPE, drawing for each trial from `seed` and its number.

    So a study that goes on, or that several processes share, does not draw again what it has drawn.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.seed = seed

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seeds."""
        (drawn,) = np.random.SeedSequence([self.seed, trial.number]).generate_state(1)
        super().__init__(seed=int(drawn))
        super().before_trial(study, trial)


class SharedStudy:
    """One process's part in the study of a folder.

    begun: by time.time, when this process began. first: the point with which a new study begins; None: a drawn one.
    """

    def __init__(
        self, folder: Path, distributions: dict[str, BaseDistribution], *, seed: int, begun: float, first: Point | None
    ) -> None:
        self.folder, self.distributions, self.begun, self.first = folder, distributions, begun, first
        self.process = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.lock = FileLock(folder / LOCK)
        optuna.logging.disable_default_handler()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
        self.study = optuna.create_study(
            storage=self.storage,
            study_name="tune",
            load_if_exists=True,
            sampler=SeededByTrial(seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=WARM_UP),
        )
        with self.lock:
            self._fail_killed()
        self.before = self.seconds_spent()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Marks this process as at work, until its end or its death."""
        own = self.folder / PROCESSES / self.process
        own.mkdir(parents=True)
        hold(own)
        try:
            yield
        finally:
            release(own)

    def seconds_spent(self) -> float:
        """Seconds that the commands before this one have noted, and since its beginning those of this one."""
        return float(self.study.user_attrs.get(SECONDS, 0.0))

    def note(self) -> None:
        """Notes that this command has been at work until now."""
        self.study.set_user_attr(SECONDS, max(self.seconds_spent(), self.before + time.time() - self.begun))

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials that have begun, but those that repeat another one."""
        begun = [trial for trial in self.study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]
        return [trial for trial in begun if "same_as" not in trial.user_attrs]

    def ask(self, most: int | None) -> Trial | None:
        """The next trial; None where there are `most` already, or hardly a point is left that was not tried.

        A point that was tried gets the outcome it had, without training. One process at a time, so that none begins a
        trial too many.
        """
        with self.lock:
            if not self.study.get_trials(deepcopy=False) and self.first is not None:
                self.study.enqueue_trial(dict(self.first))
            if most is not None and sum(_counts(trial) for trial in self.trials) >= most:
                return None
            for _ in range(MOST_REPEATS):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                    trial = self.study.ask(fixed_distributions=self.distributions)
                if (before := self._tried(trial)) is None:
                    trial.set_user_attr("process", self.process)
                    return trial
                trial.set_user_attr("same_as", before.number)
                value = before.value if before.state == TrialState.COMPLETE else None
                self.study.tell(trial, value, state=before.state)
        return None

    def report(self, trial: Trial, epoch: int, error: float) -> bool:
        """Notes the error of an epoch; False where the trial should end."""
        if not np.isfinite(error):
            return True
        trial.report(error, epoch)
        return not trial.should_prune()

    def tell(self, trial: Trial, outcome: Outcome, *, seconds: float) -> FrozenTrial:
        """Ends a trial with what it came to."""
        trial.set_user_attr("seconds", seconds)
        trial.set_user_attr("epochs", outcome.epochs)
        if outcome.error is None:
            why = "its time was up before its first validation" if outcome.ended == "cut" else "no error was finite"
            return self.fail(trial, why, seconds=seconds, again=outcome.ended == "cut")
        trial.set_user_attr("error", outcome.error)
        if outcome.ended == "pruned":
            return self.study.tell(trial, state=TrialState.PRUNED)
        if outcome.ended == "cut":
            trial.set_user_attr("cut", True)
        return self.study.tell(trial, outcome.error)

    def fail(self, trial: Trial, reason: str, *, seconds: float, again: bool = False) -> FrozenTrial:
        """Ends a trial without an error. again: it would be another time, as what ended it was no fault of its own."""
        if (ended := self.storage.get_trial(trial._trial_id)).state.is_finished():  # Ctrl-C came after its end
            return ended
        trial.set_user_attr("seconds", seconds)
        trial.set_user_attr("reason", reason)
        trial.set_user_attr("stopped", again)
        return self.study.tell(trial, state=TrialState.FAIL)

    def fits(self, seconds: float, *, at_once: bool) -> bool:
        """Whether one of the trials that have finished would have ended within so many seconds.

        at_once: whether all would have: models that are fitted at once cannot be cut off.
        """
        took = [trial.user_attrs["seconds"] for trial in self.trials if _is_whole(trial)]
        return seconds > 0 and (not took or (max(took) if at_once else min(took)) <= seconds)

    def failures(self) -> int:
        """How many trials have failed by their own fault; 0 where any has not."""
        ended = [trial for trial in self.trials if trial.state.is_finished() and _counts(trial)]
        return len(ended) if all(trial.state == TrialState.FAIL for trial in ended) else 0

    def best(self) -> FrozenTrial | None:
        """The trial of the lowest error, of those that were trained to their end, else of those cut off."""
        done = [trial for trial in self.trials if trial.state == TrialState.COMPLETE]
        return min([t for t in done if _is_whole(t)] or done, key=lambda t: (t.value, t.number), default=None)

    def _fail_killed(self) -> None:
        """Ends the trials of processes that were killed: those that run and whose process holds no lock any more."""
        for trial in self.study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            if in_use(self.folder / PROCESSES / trial.user_attrs.get("process", "")):
                continue
            log.warning("Trial %d has failed: %s. It is in the report.", trial.number, KILLED)
            self.storage.set_trial_user_attr(trial._trial_id, "reason", KILLED)
            self.storage.set_trial_user_attr(trial._trial_id, "stopped", True)
            self.study.tell(trial.number, state=TrialState.FAIL)

    def _tried(self, trial: Trial) -> FrozenTrial | None:
        """The ended trial of the same point, unless something else ended it."""
        for other in self.trials:
            ended = other.state.is_finished() and other.number != trial.number
            if ended and other.params == trial.params and _counts(other) and not other.user_attrs.get("cut"):
                return other
        return None


def _counts(trial: FrozenTrial) -> bool:
    """Whether a trial is one of those that tune.trials allows: none that a kill, Ctrl-C or the budget has ended."""
    return not trial.user_attrs.get("stopped", False)


def _is_whole(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.COMPLETE and not trial.user_attrs.get("cut", False)
