"""`forecast tune` from Python."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar, cast

from omegaconf import DictConfig

from forecast.apps.common.frame_kinds import Frame, Table, frame_of
from forecast.apps.common.own_classes import with_own_classes
from forecast.apps.common.tables import data_keys, place_table
from forecast.apps.tune.command import tune as run_study
from forecast.apps.tune.search import OF
from forecast.config.compose import run_folder
from forecast.config.entry import call
from forecast.config.values import options
from forecast.errors import UserError
from forecast.run_folder import TRAINING_TABLE
from forecast.run_folder.shapes import StudyDocument
from forecast.text.overrides import setting_words

T = TypeVar("T", bound="Tunable")


class Tunable:
    """What finds better settings for a forecaster, and trains with them.

    study: of a forecaster that `tune` has returned, the study as `forecast tune --json` prints it.
    """

    overrides: list[str]
    trust: Sequence[str]
    study: StudyDocument | None = None

    def fit(self: T, table: Table | None = None) -> T:
        """Trains."""
        raise NotImplementedError

    @with_own_classes
    def tune(
        self: T,
        table: Table | None = None,
        *,
        output: Path | str,
        minutes: float | None = 10.0,
        trials: int | None = None,
        space: Mapping[str, object] | Path | str | None = None,
        metric: Literal["mse", "mae"] | None = None,
    ) -> T:
        """Another forecaster, trained with the best settings of a study as `forecast tune` runs it.

        table: as `fit` takes it, kept in `output` as data.parquet, a file, or the name of published data; None: the
        data that the overrides name. output: the study's folder, with report.html; the same call goes on there.
        minutes, trials: what ends it; None: the other alone. space: what varies, {"optim.lr": [1e-3, 1e-4]}, or a YAML
        file; None: that of the model, less what this forecaster says. metric: the validation error that judges; None:
        the config's.

        The training comes after the minutes, in a run folder of its own as by `fit`; this forecaster stays as it is.
        `refit=true` is for that training alone. `study` of the result has all trials, `overrides` the best settings.
        Raises UserError with the words of the command line.
        """
        path = table is None or isinstance(table, Path | str)
        frame = None if path else frame_of(table, data_keys(self.overrides))
        folder = Path(output).absolute()
        words = data_words(frame or table, folder)
        own = [*self.overrides, *([] if metric is None else [f"callbacks.checkpoint.monitor={metric}"])]
        of_study = {
            "tune.minutes": minutes,
            "tune.trials": trials,
            "tune.space": str(space) if isinstance(space, Path) else space,
            "hydra.run.dir": str(folder),
        }
        documents: list[StudyDocument] = []

        def study(cfg: DictConfig) -> None:
            kept = frame is not None and place_table(run_folder(), frame.rows)
            try:
                documents.append(cast(StudyDocument, run_study(cfg).document))
            except UserError:
                if kept and not (run_folder() / OF).exists():  # refused: the next call may have another table
                    (run_folder() / TRAINING_TABLE).unlink()
                raise

        trained = [word for word in own if not word.startswith("refit=")]
        call(study, config_name="tune", overrides=[*words, *trained, *setting_words(of_study)])
        best = copy.copy(self)
        best.study = documents[0]
        best.overrides = [*([] if frame else words), *own, *best_words(documents[0])]
        return best.fit(None if frame is None else table)


def data_words(table: Frame | Path | str | None, folder: Path) -> list[str]:
    """The overrides that name the data of a study in a folder."""
    if table is None:
        return []
    if isinstance(table, Frame):
        laid_out = {f"data.{key}": value for key, value in table.layout.items()}
        return ["data=csv", *setting_words({"data.path": str(folder / TRAINING_TABLE), **laid_out})]
    if not Path(table).exists() and str(table) in options("data", but="csv"):
        return [f"data={table}"]
    return ["data=csv", *setting_words({"data.path": str(table)})]


def best_words(study: StudyDocument) -> list[str]:
    """The overrides that train the best trial of a study again."""
    best = study["best"]
    return [
        *setting_words(best["config"]),
        *([f"trainer.max_epochs={best['epochs']}"] if best["state"] == "cut" else []),
    ]
