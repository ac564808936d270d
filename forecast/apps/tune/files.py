"""What a study leaves: the best config as an experiment file, all trials as JSON, CSV and a page."""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import cast

from optuna.trial import FrozenTrial

from forecast.apps.tune.search import BEST, BEST_FILE, TABLE, TRIALS, Search
from forecast.apps.tune.studies import SharedStudy
from forecast.comparison.study_page import sentences, study_page
from forecast.config.space import as_trained, typed_point, written
from forecast.config.trials import EXPERIMENT, searched, write_experiment
from forecast.config.trust import as_typed
from forecast.files import json_text, rounded, together
from forecast.run_folder import FILES, PAGE, sha256
from forecast.run_folder.shapes import StudyDocument
from forecast.run_folder.shapes import Trial as DescribedTrial
from forecast.text.documents import as_cell
from forecast.text.terminal import say, shell_word


class BestFile:
    """The experiment file of the best trial so far: written when there is a better one, so a killed study has it too.

    Hydra composes some configs for it, which would take its time at the end.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.of, self.entries = -1, {"command": "", "file": BEST_FILE}

    def update(self, study: SharedStudy) -> dict[str, str]:
        """Writes it where it is of another trial; returns the command that trains with it, and where the file is."""
        with study.lock:
            best = study.best()
            if best is not None and best.number != self.of:
                self.of, self.entries = best.number, best_file(self.search, best)
        return self.entries


def finish(search: Search, study: SharedStudy, file: BestFile, *, why: str, stopped: bool) -> StudyDocument | None:
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
            "metric": search.metric,
            "minutes": search.settings.minutes,
            "most_trials": search.settings.trials,
            "seconds": study.seconds_spent(),
            "space": written(search.space),
            "trials": trials,
            "states": dict(Counter(trial["state"] for trial in trials)),
            "best": {**described(best), **file.update(study)},
            "why": why,
        }
        document = write_files(search.folder, cast(StudyDocument, rounded(values)))
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


def best_file(search: Search, best: FrozenTrial) -> dict[str, str]:
    """Writes the best config; returns the command that trains with it, and where the file is."""
    metric = search.metric
    point = typed_point(best.params)
    if best.user_attrs.get("cut"):
        point += [f"trainer.max_epochs={best.user_attrs['epochs']}"]
    comment = [f"The lowest error of a study: {metric} {best.value:.6g}, trial {best.number}."]
    words = [*search.words, *point]
    same = write_experiment(search.folder, BEST, words, folders=search.folders, comment=comment)
    start = f"forecast train {as_typed()}"
    if same:
        more = [f"--config-dir {shell_word(str(search.folder))}", *map(shell_word, searched(search.folders))]
        more += [f"{EXPERIMENT}={BEST}"]
        return {"command": start + " ".join(more), "file": BEST_FILE}
    own = [f"--config-dir {shell_word(folder)}" for folder in search.folders[:1]]
    return {"command": start + " ".join([*own, *map(shell_word, words)]), "file": BEST_FILE}


def write_files(folder: Path, document: StudyDocument) -> StudyDocument:
    """Writes trials.csv, report.html and, last, trials.json, which it returns."""
    with together(folder) as beside:
        beside(TABLE).write_text(table_of(document), encoding="utf-8")
        beside(PAGE).write_text(study_page(document), encoding="utf-8")
        whole: StudyDocument = {**document, FILES: {PAGE: sha256(beside(PAGE))}}
        beside(TRIALS).write_text(json_text(whole), encoding="utf-8")
    return whole


def table_of(document: StudyDocument) -> str:
    """A line for each trial; a column for each key that varied."""
    keys, names = list(document["space"]), ("trial", "state", "error", "seconds", "epochs")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *keys, "reason"])
    for trial in document["trials"]:
        cells = [*(dict(trial)[name] for name in names), *(trial["config"].get(key) for key in keys), trial["reason"]]
        writer.writerow([as_cell(cell) if isinstance(cell, str) else "" if cell is None else cell for cell in cells])
    return text.getvalue()
