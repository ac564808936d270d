"""Forecasting from Python: what the commands do, with tables in and out.

Torch and Lightning take seconds to import: the methods that need them do it.
"""

import argparse
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar, cast

import pandas as pd
from omegaconf import DictConfig

from forecast.apps.auto.budget import BOARD, FOLDER, STATE, check_folder, default_folder
from forecast.apps.auto.command import automatic
from forecast.apps.common.command import command
from forecast.apps.common.frame_kinds import Kind, Table, frame_of
from forecast.apps.common.tables import (
    as_file,
    data_keys,
    data_keywords,
    errors_table,
    place_table,
    spoken,
    spoken_of_as_frame,
)
from forecast.config.allow_list import trusting
from forecast.config.compose import run_folder
from forecast.config.entry import call
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.report.verdict import verdict
from forecast.run_folder import METRICS, TRAINING_TABLE, final_checkpoint, run_of
from forecast.run_folder.shapes import Block, Metrics
from forecast.text.overrides import override_words, setting_words

if TYPE_CHECKING:
    from forecast.apps.common.results import LoadedModel
    from forecast.checkpoint.load import Checkpoint

P = ParamSpec("P")
R = TypeVar("R")


def in_python(
    method: Callable[Concatenate["Forecaster", P], R],
) -> Callable[Concatenate["Forecaster", P], R]:
    """The method, inside which the modules that its forecaster trusts are trusted, as loud as it is to be."""

    @functools.wraps(method)
    def called(self: "Forecaster", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with trusting(self.trust), spoken(verbose=self.verbose):
            return method(self, *args, **kwargs)

    return called


class Forecaster:
    """A model of any kind, from its config to its forecasts.

    model: an option of the group model, such as informer or dlinear. seq_len, label_len, pred_len, seed: those keys of
    the config, None leaves the default. overrides: what the
    command line takes, such as {"optim.lr": 1e-3, "data.features": "S"} or ["optim.lr=1e-3"]; `forecast train --help`
    lists the groups. settings: the same as keywords, an option or a value (loss="mae", level=[90]), keys of a group
    (trainer={"max_epochs": 3}), or of the data: target, known, past, static, holidays, floor, id_column, time_column,
    gaps and whatever else data=csv has. trust: modules of yours whose classes the overrides name as a `_target_`; their
    code runs with all your rights, as by --trust on the command line. verbose: False shows warnings alone.

        forecaster = Forecaster(model="informer", pred_len=24).fit(df)
        forecaster.evaluate()          # MSE and MAE on the test rows, beside simple baselines
        forecaster.predict()           # the 24 steps after the end of df, with an index as that of df
        Forecaster.load(forecaster.folder / "checkpoints/best.ckpt").predict(newer_df)

    Every method raises UserError with what to type. A table is a DataFrame or a Series with an index
    of times, periods, or ids and times; a DataFrame with a column of times, of one series or below one another of
    several (unique_id, ds, y); or such a table of polars or pyarrow. A forecast is a table of the same kind.
    """

    def __init__(
        self,
        model: str = "informer",
        *,
        seq_len: int | None = None,
        label_len: int | None = None,
        pred_len: int | None = None,
        seed: int | None = None,
        overrides: Sequence[str] | Mapping[str, object] = (),
        trust: Sequence[str] = (),
        verbose: bool = True,
        **settings: object,
    ) -> None:
        keys = {"seq_len": seq_len, "label_len": label_len, "pred_len": pred_len, "seed": seed}
        keywords = [f"{key}={value}" for key, value in keys.items() if value is not None]
        keywords += setting_words({f"data.{name}": settings.pop(name) for name in data_keywords(settings)})
        keywords += setting_words(settings, nested=True)
        words = override_words(overrides)
        if twice := {word.partition("=")[0] for word in keywords} & {word.partition("=")[0] for word in words}:
            raise UserError(f"{min(twice)} is a keyword and in overrides. Give it once")
        self.overrides = [f"model={model}", *keywords, *words]
        self.trust, self.verbose = trust, verbose
        self.device = "auto"
        self.root: str | None = None
        self._checkpoint: Checkpoint | None = None

    @classmethod
    def load(
        cls,
        ckpt_path: Path | str,
        *,
        device: str = "auto",
        root: str | None = None,
        trust: Sequence[str] = (),
        verbose: bool = True,
    ) -> "Forecaster":
        """The forecaster of a checkpoint, or of a run folder. Nothing in the file is executed.

        device: auto (a GPU when there is one), cpu or cuda. root: where a published data set's file lies now; None:
        where it lay in training. trust: modules of yours whose classes it may name. Raises UserError for a file that is
        no checkpoint, and for one that names classes of modules which are not trusted.
        """
        from forecast.apps.common.inputs import find_device
        from forecast.checkpoint.load import load_checkpoint

        find_device(device)
        if Path(ckpt_path).is_dir():
            ckpt_path = final_checkpoint(ckpt_path)
        forecaster = cls(trust=trust, verbose=verbose)
        forecaster.device, forecaster.root = device, root
        with trusting(trust):
            forecaster._checkpoint = load_checkpoint(ckpt_path)
        forecaster.overrides = []
        return forecaster

    @in_python
    def fit(self, table: Table | None = None) -> "Forecaster":
        """Trains on the first rows of a table as `forecast train` does, and leaves the same run folder.

        table: its rows are kept in the run folder as data.parquet; None trains on the data that the overrides name,
        such as data=ETTh1. Ids that tell series apart make it a panel. UserError where two columns may be the time, or
        the ids, and for None where they name no data. Returns itself, with the best checkpoint, or with refit=true the
        one of all rows.
        """
        from forecast.checkpoint.load import load_checkpoint

        overrides = self.overrides
        named = ("data=", "data.path=", "experiment=", "+experiment=", "ckpt_path=")
        if table is None and not any(word.startswith(named) for word in overrides):
            raise UserError("There is no table. Give one, fit(df), or name the data: Forecaster(..., data='ETTh1')")
        frame = None if table is None else frame_of(table, data_keys(overrides))
        if frame is not None:
            layout = setting_words({f"data.{key}": value for key, value in frame.layout.items()})
            path = "data.path=${hydra:runtime.output_dir}/" + TRAINING_TABLE
            overrides = ["data=csv", path, *layout, *overrides]

        def train_on_table(cfg: DictConfig) -> None:
            if frame is not None:
                place_table(run_folder(), frame)
            with spoken_of_as_frame(run_folder() / TRAINING_TABLE):
                command("train")(cfg)

        folder = call(train_on_table, config_name="train", overrides=overrides)
        self._checkpoint = load_checkpoint(final_checkpoint(folder))
        return self

    @property
    def checkpoint(self) -> "Checkpoint":
        """The trained model and what is known of its data. Raises UserError before there is one."""
        if self._checkpoint is None:
            raise UserError(
                "This Forecaster has no trained model: call fit(df), or Forecaster.load('RUN/checkpoints/best.ckpt')"
            )
        return self._checkpoint

    @property
    def folder(self) -> Path:
        """The run folder: metrics.json, checkpoints, pictures, the config."""
        return run_of(self.checkpoint.path)

    @property
    def metrics(self) -> dict[str, object]:
        """The run's metrics.json. Raises UserError when it is not there."""
        metrics = read_document(self.folder / METRICS, Metrics)
        if metrics is None:
            raise UserError(f"{self.folder / METRICS} is not there: use evaluate()")
        return metrics

    @in_python
    def predict(
        self,
        /,
        table: Table | None = None,
        *,
        future: Table | None = None,
        level: Sequence[float] | None = None,
        pred_len: int | None = None,
    ) -> Table:
        """The pred_len steps after the last row of a table, original units, as a table of its kind.

        With its index, if that holds the time, its time zone and its types; of a Series without `level` a Series; of a
        file a DataFrame with a column of time, then the targets. Of a panel the steps after the end of each series,
        with a column or a level of ids before the time.

        pred_len: that of the training; UserError for another one, with the command that trains for it.
        table: at least seq_len rows of the columns trained on, or a CSV file; None: the data trained on.
        future: of a model with columns that are known in advance: their values at these steps, of each series.
        level: [80, 95]: after the targets also TARGET-lo-80, TARGET-hi-80, ..., the ends of intervals in per cent.
        """
        from forecast.apps.common import continuation as steps
        from forecast.apps.common.future import future_source
        from forecast.apps.common.inputs import check_horizon

        checkpoint, source = self.checkpoint, self._loaded.source()
        check_horizon(checkpoint, pred_len)
        with (
            as_file(table, source, checkpoint.read_columns) as (path, layout, kind),
            as_file(future, source, name="future") as (future_path, future_layout, _),
        ):
            ends = steps.continuation(
                checkpoint,
                source,
                path,
                layout,
                device=self._loaded.device,
                future=future_source(checkpoint, source, future_path, future_layout),
                level=level,
            )
            steps.check_unseen(checkpoint, ends.frame, refuse=False)
            steps.report_left_out(ends)
            other = steps.history_source(source, path, layout)
            forecasts = list(ends.blocks(0, len(ends.series)))
            rows = steps.whole_table(steps.forecast_table(checkpoint, other, ends.frame, ends.levels), forecasts)
            steps.report_far_series(ends, [number for some in forecasts for number in some.far])
            frame, of_table = ends.frame, kind or self._kind
            keys = {key: getattr(frame, key) for key in ("clock", "time_zone", "time_format")}
            return of_table.of_forecast(rows, time=frame.time_column, **keys)

    @in_python
    def backtest(
        self,
        table: Table | None = None,
        *,
        folds: int = 20,
        step: int | None = None,
    ) -> Table:
        """What it would have forecast at `folds` origins, `step` rows apart (None: pred_len), the last ones of a table.

        A row for each step: fold, cutoff (the last known time), id of a panel, time, target, y, forecast, the ends of
        intervals, then the baselines; of the library of the table. table: None: the data trained on. Refits are those
        of `forecast backtest`. UserError where the origins lie in rows that it was trained on.
        """
        from forecast.apps.backtest.folds import backtest_table

        with as_file(table, self._loaded.source(), self.checkpoint.read_columns) as (path, layout, kind):
            of_table = kind or self._kind
            rows = backtest_table(self._loaded, path, layout, folds=folds, step=step, zone=of_table.zone)
            return of_table.in_library(rows)

    @in_python
    def evaluate(self, table: Table | None = None, *, split: str | None = None) -> pd.DataFrame:
        """The errors of the model and of simple baselines on every window: a row each, the model's first.

        table: other rows than those trained on, all of whose windows count; None: the test rows of the data trained on.
        split: train, val, test, tail or new in place of that; new: the rows that came after the training. Columns: mse
        and mae in scaled units, mase, rmsse and smape; of a panel also wape; of one target column also mse_original and
        mae_original. NaN: not known. Of a model refitted on all rows the test figures are those of the held-out model.
        """
        from forecast.apps.common.seen_rows import WHOLE_FILE, stored_metrics
        from forecast.evaluation.evaluate import Protocol

        split = split or ("test" if table is None else WHOLE_FILE)
        with as_file(table, self._loaded.source(), self.checkpoint.read_columns) as (path, layout, _):
            metrics = stored_metrics(self.checkpoint, split=split, path=path)
            if metrics is None:
                metrics = self._loaded.result(path, split=split, protocol=Protocol(), reading=layout).metrics
        return errors_table(metrics, split)

    @classmethod
    def auto(
        cls,
        table: Table,
        *,
        output: Path | str | None = None,
        horizon: int | None = None,
        minutes: float = 10.0,
        target: str | None = None,
        level: Sequence[float] = (80, 95),
        preset: Literal["fast", "good", "best"] = "good",
        metric: Literal["mse", "mae"] = "mse",
        settings: Sequence[str] | Mapping[str, object] = (),
        verbose: bool = True,
        **keywords: object,
    ) -> "Forecaster":
        """The best forecaster that there is time for, as `forecast auto` finds it.

        table: as `fit` takes it, or a file. output: the folder with forecast.csv, leaderboard.json and report.html;
        None: auto/ and the name of the file, of a table the time.
        horizon: steps to forecast; None: what suits the data. level: of the intervals, in per
        cent. settings: {"future": "tomorrow.csv"} and whatever else the command takes. keywords: keys of the data, as
        `Forecaster` takes them. verbose: False shows warnings alone. Raises UserError.
        """
        own = {f"data.{name}": keywords.pop(name) for name in data_keywords(keywords)}
        if keywords:
            raise UserError(f"{next(iter(keywords))} is no argument of Forecaster.auto, and no key of the data")
        of_file = isinstance(table, Path | str)
        name = str(table) if of_file else f"{datetime.now():%Y-%m-%d-%H-%M-%S}"
        folder = Path(output) if output else default_folder(name)
        begun, file, placed = time.monotonic(), str(table), False
        words = [*setting_words(own), *override_words(settings)]
        if not of_file:
            # the ids are for the check of the file to find, which also chooses how gaps are filled
            frame = frame_of(table, data_keys(words), panel=False, say="Forecaster.auto")
            layout = setting_words({f"data.{key}": value for key, value in frame.layout.items()})
            words = [*(word for word in layout if word not in words), *words]
            check_folder(folder, make=True)
            placed, file = place_table(folder, frame), str(folder / TRAINING_TABLE)
        keys = {"horizon": horizon, "minutes": minutes, "target": target, "preset": preset, "metric": metric}
        options = {"file": file, "output": str(folder), "level": list(level), "settings": words, **keys}
        try:
            with spoken(verbose=verbose), spoken_of_as_frame(folder / TRAINING_TABLE):
                answer = automatic(argparse.Namespace(**options), begun=begun)
        except UserError:
            if placed and not (folder / FOLDER / STATE).exists():
                Path(file).unlink()  # refused before it began: the corrected call finds nothing of this one
            raise
        return cls.load(cast(Mapping[str, str], answer.document)["checkpoint"], verbose=verbose)

    def leaderboard(self) -> pd.DataFrame:
        """The models that `auto` has trained, a row each, the best first, as in leaderboard.json.

        UserError for a model that stands beside no such file.
        """
        rows = read_document(path := self.folder / BOARD, list[Block])
        if rows is None:
            raise UserError(f"{path} is not there: Forecaster.auto(df, output=FOLDER) writes a leaderboard")
        table: pd.DataFrame = pd.DataFrame(rows)
        return table

    def __repr__(self) -> str:
        """Its model and lengths, and of a trained one its folder and how it did on the test rows."""
        if self._checkpoint is None:
            return f"Forecaster, not trained: {' '.join(self.overrides)}"
        config, model = self.checkpoint.config, self.checkpoint.record.choices["model"]
        lines = [f"Forecaster: {model}, seq_len={config.seq_len}, pred_len={config.pred_len}", str(self.folder)]
        metrics = read_document(self.folder / METRICS, Metrics)
        return "\n".join([*lines, *([] if metrics is None else [" ".join(verdict(metrics, "test")[:2])])])

    @property
    def _kind(self) -> Kind:
        """That of the table trained on, which the run folder keeps."""
        return Kind.kept(Path(str(self.checkpoint.config.data.get("path"))))

    @property
    def _loaded(self) -> "LoadedModel":
        """Its checkpoint in use. UserError before there is one."""
        from forecast.apps.common.inputs import find_device
        from forecast.apps.common.results import LoadedModel

        return LoadedModel(self.checkpoint, find_device(self.device), self.root)
