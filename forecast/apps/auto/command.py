"""What `forecast auto` does: from a file to the best forecast that there is time for, with the reasons."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from forecast.apps.auto.board import MemberFigures, Weighed, best_of, leaderboard, reason, training_end
from forecast.apps.auto.budget import (
    BOARD,
    FOLDER,
    FORECAST,
    MEMBER,
    OUTCOMES,
    PACE,
    RIDGE,
    Budget,
    check_folder,
    default_folder,
)
from forecast.apps.auto.task import (
    WEIGHED_BY_SERIES,
    AutoSettings,
    AutoTask,
    by_processor,
    check_known,
    find_task,
    members_of,
)
from forecast.apps.common.command import BEGUN, Answer
from forecast.config.run_config import Monitor
from forecast.data.seasonality import FEWEST_WINDOWS
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.files import json_text, write_json, write_text
from forecast.jobs import Ended
from forecast.jobs.steps import REAL_TIME, ProcessorClock, begin_server, end_workers, run_step
from forecast.report.tables import board_table, table_lines
from forecast.report.verdict import verdict
from forecast.run_folder import PAGE, checkpoint_path, final_checkpoint, read_run, sha256
from forecast.run_folder.lock import hold, release
from forecast.run_folder.shapes import Block, Metrics
from forecast.text.overrides import hydra_value
from forecast.text.terminal import say

# Seconds kept for what comes after the trainings: processes, pages, the forecast; and for a member to be judged.
START, LAST = 6.0, 4.0
LEAST = 60.0  # that what is needed for an answer may take, however few there are
FITTED = 0.5  # of the time that is left: for a fitted member while others wait, as one that is stopped leaves nothing
GROWING = 0.6  # of the time of boosted trees without a ridge: the rest reads the data, and judges the trees
MORE = 1.5  # times the time that trees are grown for, after which they are stopped: that would leave nothing of them
# Of the time that is left a network may take its part; after it the one that it takes to be trained once more.
REFIT = 1.1
STEPS, TREES = "forecast.apps.auto.steps", "boosted_trees"
PRESETS = Path(__file__).with_name("presets.yaml")
# With which all alarms of the leakage check begin; the error with which it says that it can show nothing.
ALARM, NOTHING_SHOWN = "leakage check", "NothingShown"
WINDOWLESS = "smoothing", "seasonal_naive"  # by worth: members that need no windows
OWN_INTERVALS = "Intervals are of its own errors on the rows that it learned from, and may be too narrow."
LENGTHS = {"seq_len", "label_len"}  # that the task suggests, and a member may have others


def main(arguments: argparse.Namespace) -> Answer:
    """Trains what there is time for, weighs it, trains it once more on all rows, and forecasts."""
    return automatic(arguments, begun=BEGUN)


def automatic(arguments: argparse.Namespace, *, begun: float) -> Answer:
    """As `main`. begun: when its time began, by time.monotonic()."""
    folder = Path(arguments.output or default_folder(arguments.file))
    check_folder(folder)
    begin_server(STEPS)
    return Auto(arguments, folder, begun=begun).run()


# outcomes.json: what ended without figures, and what steps gave. `runs`: the members that `weighed` is of.
Outcomes = dict[str, Any]


class Unusable(UserError):
    """Nothing of a run is worth keeping."""


def note(text: str) -> None:
    """A line on stderr."""
    say(text, file=sys.stderr)


class Auto:
    """One automatic run, of this process and of those before it that were killed."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, *, begun: float) -> None:
        self.folder, self.members = folder, folder / FOLDER
        self.error: Monitor = arguments.metric
        self.level = [float(value) for value in arguments.level]
        request = {
            "FILE": arguments.file,
            "file": sha256(Path(arguments.file)) if Path(arguments.file).is_file() else None,
            **{key: getattr(arguments, key) for key in ("horizon", "minutes", "target", "preset", "metric")},
            "level": self.level,
            "settings": list(arguments.settings),
        }
        self.by_processor = by_processor(arguments.settings)
        self.task: AutoTask = find_task(arguments)  # what it refuses leaves no folder
        check_known(self.task)
        check_folder(folder, make=True)
        hold(self.members)
        try:
            clock = ProcessorClock() if self.by_processor else REAL_TIME
            begun = 0.0 if self.by_processor else begun
            self.budget = Budget(folder, request, minutes=arguments.minutes, begun=begun, clock=clock)
            self.kept = read_document(self.members / OUTCOMES, Outcomes) or {}
        except UserError:
            release(self.members)
            raise
        self.settings = cast(AutoSettings, OmegaConf.to_container(OmegaConf.load(PRESETS)))
        self.names = members_of(self.settings, arguments.preset, self.task)

    def run(self) -> Answer:
        """All steps; what an earlier process has finished is not done again."""
        try:
            for reading in self.task.notes:
                note(reading)
            if not self.task.is_judged:
                return self.unjudged()
            self.train_all()
            figures = self.judged()
            if not figures:
                reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out().items())
                raise Unusable(f"Nothing could be trained. {reasons}")
            weighed = self.weigh(list(figures))
            self.refit(figures, weighed)
            forecast = self.forecast(self.levels())
            weights = zip(figures, weighed["weights"] if weighed is not None else [], strict=False)
            members = [self.members / name for name, weight in weights if weight > 0]
            end = f"{training_end(forecast, self.final(), members)} {self.served(forecast)}".strip()
            rows, why = self.write_board(figures, weighed, forecast, end)
        except Unusable:
            self.budget.forget()
            raise
        finally:
            end_workers()
            release(self.members)
        say(table_lines(board_table(rows, error=self.error)))
        say(why)
        if weighed is not None and weighed["few"]:
            say(f"{weighed['few'][:1].upper()}{weighed['few'][1:]}")
        judged = verdict(self.metrics(), "test") if weighed is not None else []
        for sentence in judged:
            say(sentence)
        say(end)
        files = {"Forecast": self.folder / FORECAST, "Page": self.folder / PAGE, "Model": self.final()}
        if forecast.error:
            del files["Forecast"]
        say(". ".join(f"{title}: {path}" for title, path in files.items() if path.is_file()))
        say(f"{self.budget.passed:.0f} s of {self.budget.total:.0f} s.")
        if forecast.error:
            raise UserError(f"{self.final()} is trained, but its forecast failed: {forecast.error}")
        self.task.check_forecast(self.folder / FORECAST)
        return Answer(
            {"leaderboard": rows, "reason": why, "verdict": judged, "forecast": forecast.value, **self.ended()}
        )

    def unjudged(self) -> Answer:
        """The forecast of a model that needs no windows, where there are too few rows to judge any."""
        name = self.windowless
        (self.members / name).mkdir(exist_ok=True)
        overrides = [*self.overrides(name), f"level={hydra_value(self.level)}"]
        overrides.append("checks.leakage=false")  # which looks at windows
        fitted = self.step(name, "fit_unjudged", LEAST, folder=self.members / name, overrides=overrides)
        forecast = fitted if fitted.error else self.forecast(self.level if fitted.value else None)
        if forecast.error:
            raise Unusable(forecast.error)
        why = f"Chosen: {name}. The rows are too few to judge any model by forecasts of so many steps."
        why += f" {OWN_INTERVALS}" if fitted.value else ""
        rows = leaderboard({}, {name: why}, None, None, error=self.error)
        rows[0]["chosen"] = True
        write_text(self.folder / BOARD, json_text(rows))
        say(f"{why} {self.served(forecast)}\nForecast: {self.folder / FORECAST}. Model: {self.final()}")
        self.task.check_forecast(self.folder / FORECAST)
        return Answer({"leaderboard": rows, "reason": why, "verdict": [], "forecast": forecast.value, **self.ended()})

    def served(self, forecast: Ended) -> str:
        """How many series of a panel have a forecast, and how many were judged; "" where there is none to say it of."""
        has_results = checkpoint_path(self.folder, "best").is_file()
        if not self.task.is_panel or forecast.error or self.task.is_judged > has_results:
            return ""
        judged = self.metrics()["test"]["series"]["evaluated"] if has_results else 0
        return self.task.served(forecast.value["series"], judged)

    @property
    def windowless(self) -> str:
        """The member that learns from rows too few for a window."""
        return next(name for name in WINDOWLESS if name in self.names)

    def ended(self) -> dict[str, object]:
        """What an answer says of the run itself."""
        return {"checkpoint": str(self.final()), "seconds": self.budget.passed}

    def step(self, name: str, function: str, limit: float, **arguments: object) -> Ended:
        """Performs a step in a process of its own, in time. function: its name in STEPS.

        Raises Unusable where the leakage check of its training gives the alarm.
        """
        note(f"{self.budget.passed:6.0f} s  {name}")
        begun, log, tick = time.monotonic(), self.members / f"{name.replace(' ', '_')}.log", self.budget.note
        limit, clock = max(1.0, limit), self.budget.clock
        outcome = run_step(STEPS, function, arguments, log=log, limit=limit, tick=tick, clock=clock)
        if not outcome.error:
            note(f"{self.budget.passed:6.0f} s  {name}, {time.monotonic() - begun:.1f} s")
        if outcome.error.startswith(ALARM) and outcome.kind != NOTHING_SHOWN:
            raise Unusable(outcome.error)
        return outcome

    def extra(self, name: str, function: str, limit: float, **arguments: object) -> Ended:
        """A step without which the others go on; says why where it fails."""
        outcome = self.step(name, function, limit, **arguments)
        if outcome.error:
            note(f"{name} is left out: {outcome.error}")
        return outcome

    def overrides(self, name: str) -> list[str]:
        """Of a member's training, as far as they do not depend on the time."""
        settings = {**self.settings["fitted"], **self.settings["networks"]}[name]
        every: dict[str, object] = {"callbacks.figures": None, "logger": "none", "trainer.enable_progress_bar": False}
        if name in self.settings["networks"]:
            every |= {"callbacks.checkpoint.monitor": self.error, "data.batch_size": self.batch_size()}
            every |= self.settings["every_network"] | ({"data.sampling": "series"} if self.task.is_panel else {})
        chosen = {word.partition("=")[0] for word in self.task.words} - LENGTHS
        settings = {key: value for key, value in {**every, **settings}.items() if key not in chosen}
        return self.task.of(settings, roles=name not in self.settings["past_alone"])

    def batch_size(self) -> int:
        """The fewer the windows the smaller the batches: known from the ridge's training."""
        windows = int(self.kept.get("windows") or 0)
        return next((size for most, size in ((500, 8), (2_000, 16), (8_000, 64)) if windows < most), 128)

    def train_all(self) -> None:
        """Each member in its turn: one fitted at once in the time that it takes, a network in its share."""
        for number, name in enumerate(self.names):
            if (self.members / name / MEMBER).is_file() or name in self.left_out():
                continue
            (self.members / name).mkdir(exist_ok=True)
            allowance, limit = None, self.budget.left - self.needed_at_the_end()
            if name in self.settings["baselines"]:  # the run fits the ridge anyway; the first is the least of answers
                limit = max(limit, LEAST - (self.budget.passed if number > 1 else 0.0))
            planned = limit
            if 1 < number < len(self.names) - 1 and name in self.settings["fitted"]:
                planned = FITTED * limit
                limit = planned * (MORE if self.settings["fitted"][name]["model"] == TREES else 1)
            if name in self.settings["networks"]:
                if (windows := self.kept.get("windows", FEWEST_WINDOWS)) < FEWEST_WINDOWS:
                    self.leave_out(name, f"its windows are too few to train a network on: {windows}")
                    continue
                networks = len(self.names) - number
                allowance = limit / (1 + (networks - 1) * (1 + REFIT) + REFIT)
                if (self.members / name / PACE).is_file():  # it was begun before a kill
                    allowance = 0.0
            if limit <= 0:
                self.leave_out(name, "there was no time for it")
                continue
            overrides = self.overrides(name) + self.in_time(name, planned)
            member: dict[str, object] = {"folder": self.members / name, "overrides": overrides}
            member["clock"] = time.process_time if self.by_processor else time.perf_counter
            outcome = self.step(name, "train_member", limit, **member, allowance=allowance)
            if outcome.error:
                self.leave_out(name, outcome.error)
            elif "windows" not in self.kept:
                self.keep({"windows": outcome.value["windows"]})

    def in_time(self, name: str, limit: float) -> list[str]:
        """What keeps the growing of trees within the seconds of a member; nothing of any other."""
        if self.settings["fitted"].get(name, {}).get("model") != TREES:
            return []
        ridge = self.judged().get(RIDGE)
        return [f"model.seconds={GROWING * max(1.0, limit - (ridge['seconds'] if ridge else 0.0)):.1f}"]

    def needed_at_the_end(self) -> float:
        """Seconds for all that comes after the trainings, by what the members so far have taken.

        Of members that learn from all rows those of the ridge and of the one that errs least so far.
        """
        figures = self.judged()
        passes = sum(3 * member["val_seconds"] + member["test_seconds"] for member in figures.values())
        baselines = 3 * figures[RIDGE]["test_seconds"] if RIDGE in figures else 3.0
        again = sum(figures[name]["refit_seconds"] for name in figures.keys() & {RIDGE, best_of(figures, self.error)})
        needed: float = START + LAST + 1.5 * (passes + baselines) + REFIT * again
        return needed

    def judged(self) -> dict[str, MemberFigures]:
        """member.json of all members that have one, in their order."""
        figures = {name: read_document(self.members / name / MEMBER, MemberFigures) for name in self.names}
        return {name: member for name, member in figures.items() if member is not None}

    def left_out(self) -> dict[str, str]:
        """Why members have no figures."""
        reasons = self.kept.get("left_out", {})
        return {name: why for name, why in reasons.items() if name in self.names}

    def leave_out(self, name: str, why: str) -> None:
        """Says why a member has no figures; the others go on."""
        self.keep({"left_out": {**self.left_out(), name: why}})
        note(f"{name} is left out: {why}")

    def keep(self, outcomes: Outcomes) -> None:
        """Notes what an earlier step gave, for a process that goes on after a kill."""
        self.kept.update(outcomes)
        write_json(self.members / OUTCOMES, self.kept)

    def ensemble_words(self, names: Sequence[str]) -> list[str]:
        """The overrides of the ensemble's training."""
        runs = [str((self.members / name).absolute()) for name in names]
        settings: dict[str, object] = {
            "model": "weighted_ensemble",
            "model.runs": runs,
            "callbacks.checkpoint.monitor": self.error,
            "callbacks.figures": None,
            "logger": "none",
        }
        if self.task.series >= WEIGHED_BY_SERIES:  # fewer have no weights of their own
            settings["data.id_as_fact"] = True
        return self.task.of(settings)

    def weigh(self, names: list[str]) -> Weighed | None:
        """The ensemble, with all results of a run; None where it could not be made, and the best member is to do."""
        if self.kept.get("runs") == names:
            before: Weighed = self.kept["weighed"]
            return before
        outcome = self.step(
            "ensemble",
            "weigh",
            max(LEAST, self.budget.last_moment - LAST),
            folder=self.folder,
            overrides=self.ensemble_words(names),
            level=self.level,
        )
        if outcome.error:
            note(f"No ensemble: {outcome.error}")
            return None
        self.keep({"weighed": outcome.value, "runs": names})
        weighed: Weighed = outcome.value
        return weighed

    def metrics(self) -> Metrics:
        """metrics.json of the ensemble. UserError where its results do not stand whole."""
        run = read_run(self.folder)
        if run.state != "finished":
            raise UserError(
                f"--output {self.folder}: what was trained there has no results: {run.reason}. Choose another folder"
            )
        return run.metrics

    def refit(self, figures: dict[str, MemberFigures], weighed: Weighed | None) -> None:
        """Members with a weight learn from all rows, the heaviest first, while there is time; then the ensemble.

        The heaviest is a part of the answer, as what is handed over should know the last rows.
        """
        if final_checkpoint(self.folder).name == "refit.ckpt":
            return
        weights = {name: float(name == best_of(figures, self.error)) for name in figures}
        if weighed is not None:
            weights = dict(zip(figures, weighed["weights"], strict=True))
        heaviest = sorted((name for name in figures if weights[name] > 0), key=lambda name: -weights[name])
        again = []
        for name in heaviest:
            if checkpoint_path(self.members / name, "refit").is_file():
                again.append(name)
                continue
            left = self.budget.left
            if name == heaviest[0]:
                left = max(self.budget.last_moment, LEAST - self.budget.passed)
            if REFIT * figures[name]["refit_seconds"] + 2 * LAST > left:
                note(f"refit {name} is left out: there was no time for it")
                continue
            member = {"folder": self.members / name, "overrides": self.overrides(name)}
            outcome = self.extra(f"refit {name}", "refit_run", left - 2 * LAST, **member)
            again += [] if outcome.error else [name]
        if again and weighed is not None:
            ensemble = {"folder": self.folder, "overrides": self.ensemble_words(list(figures))}
            self.extra("refit ensemble", "refit_run", max(LEAST, self.budget.last_moment - LAST), **ensemble)

    def final(self) -> Path:
        """The checkpoint that forecasts: the ensemble's, or that of the best member."""
        if final_checkpoint(self.folder).is_file():
            return final_checkpoint(self.folder)
        best = best_of(self.judged(), self.error) if self.task.is_judged else self.windowless
        assert best is not None, "`run` goes on only with a member"
        return final_checkpoint(self.members / best)

    def levels(self) -> list[float] | None:
        """Of the intervals that were asked for those that the final checkpoint has; None: all that it has."""
        held = self.metrics()["test"].get("coverage") or {} if final_checkpoint(self.folder).is_file() else {}
        return [level for level in self.level if f"{level:g}" in held] or None

    def forecast(self, levels: Sequence[float] | None) -> Ended:
        """forecast.csv, by the final checkpoint. levels: of its intervals, None: those that it has."""
        output = self.folder / FORECAST
        words = [f"ckpt_path={hydra_value(str(self.final()))}", f"output={hydra_value(str(output))}", "overwrite=true"]
        words += [f"level={hydra_value(levels)}"] if levels else []
        words += [f"future={self.task.future}"] if self.task.future is not None else []
        step: dict[str, object] = {"overrides": words, "checkpoint": self.final()}
        return self.step("forecast", "forecast_file", max(LEAST, self.budget.last_moment), **step)

    def write_board(
        self, figures: dict[str, MemberFigures], weighed: Weighed | None, forecast: Ended, end: str
    ) -> tuple[list[Block], str]:
        """leaderboard.json, and the page with it; returns the rows, and why that model was chosen.

        end: what is said of the last row learned from.
        """
        ensemble = self.metrics() if weighed is not None else None
        rows = leaderboard(figures, self.left_out(), weighed, ensemble, error=self.error)
        why = reason(rows, weighed, error=self.error)
        if ensemble is not None:
            limit = max(LEAST, self.budget.last_moment)
            board = {"rows": rows, "error": self.error, "reason": f"{why} {end} {self.task.proposal}".strip()}
            of = {"checkpoint": self.final(), "future": self.task.future, "level": self.levels()}
            shown = None if forecast.error else of
            outcome = self.step("page", "page_with", limit, folder=self.folder, board=board, forecast=shown)
            if outcome.error:
                note(f"The page has no forecast and no leaderboard: {outcome.error}")
        write_text(self.folder / BOARD, json_text(rows))
        return rows, why
