"""Forecasting from Python: what the commands do, with tables in and out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from forecast.apps.auto.door import Automatic
from forecast.apps.backtest.folds import backtest_table
from forecast.apps.common.command import command
from forecast.apps.common.continuation import (
    check_unseen,
    continuation,
    forecast_table,
    history_source,
    report_far_series,
    report_left_out,
    whole_table,
)
from forecast.apps.common.frame_kinds import Kind, Table, frame_of
from forecast.apps.common.future import future_source
from forecast.apps.common.inputs import HORIZONS, check_horizon, find_device, horizon_of
from forecast.apps.common.loaded import LoadedModel
from forecast.apps.common.own_classes import with_own_classes
from forecast.apps.common.seen_rows import WHOLE_FILE, stored_metrics
from forecast.apps.common.tables import as_file, data_keys, errors_table, keep_table, spoken_of_as_frame
from forecast.apps.tune.door import Tunable
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.compose import run_folder
from forecast.config.entry import call
from forecast.config.trust import trusting
from forecast.data.sources import Source
from forecast.data.writing import all_far
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.evaluation.evaluate import Protocol
from forecast.run_folder import METRICS, TRAINING_TABLE, final_checkpoint, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.overrides import override_words, setting_words


class Forecaster(Automatic, Tunable):
    """A model of any kind, from its config to its forecasts.

    model: an option of the group model, such as informer or dlinear. seq_len, label_len, pred_len, seed: those keys of
    the config, None leaves the default; pred_len is also called h, horizon and prediction_length. overrides: what the
    command line takes, such as {"optim.lr": 1e-3, "data.features": "S"} or ["optim.lr=1e-3"]; `forecast train --help`
    lists the groups. settings: the same as keywords, an option or a value (loss="mae"), or keys of a group
    (trainer={"max_epochs": 3}); gaps is data.gaps. trust: modules of yours whose classes the overrides name as a
    `_target_`; their code runs with all your rights, as by --trust on the command line.

        forecaster = Forecaster(model="informer", pred_len=24).fit(df)
        forecaster.evaluate()          # MSE and MAE on the test rows, beside simple baselines
        forecaster.predict()           # the 24 steps after the end of df, with an index as that of df
        Forecaster.load(forecaster.folder / "checkpoints/best.ckpt").predict(newer_df)

    Every method raises UserError with the words of the command line. A table is a DataFrame or a Series with an index
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
        **settings: object,
    ) -> None:
        own = {name: settings.pop(name) for name in HORIZONS if name in settings}
        steps = horizon_of({"pred_len": pred_len, **own})
        if "gaps" in settings:
            settings["data.gaps"] = settings.pop("gaps")
        keys = {"model": model, "seq_len": seq_len, "label_len": label_len, "pred_len": steps, "seed": seed}
        self.overrides = [f"{key}={value}" for key, value in keys.items() if value is not None]
        self.overrides += [*setting_words(settings, nested=True), *override_words(overrides)]
        self.trust = trust
        self.device = "auto"
        self.root: str | None = None
        self._checkpoint: Checkpoint | None = None
        self._kind = Kind()  # of the table trained on

    @classmethod
    def load(
        cls, ckpt_path: Path | str, *, device: str = "auto", root: str | None = None, trust: Sequence[str] = ()
    ) -> "Forecaster":
        """The forecaster of a checkpoint. Nothing in the file is executed.

        device: auto (a GPU when there is one), cpu or cuda. root: where a published data set's file lies now; None:
        where it lay in training. trust: modules of yours whose classes it may name. Raises UserError for a file that is
        no checkpoint, and for one that names classes of modules which are not trusted.
        """
        find_device(device)
        if not isinstance(ckpt_path, str | Path):
            raise UserError(f"ckpt_path={ckpt_path!r} is no path. Name the file: 'RUN/checkpoints/best.ckpt'")
        forecaster = cls(trust=trust)
        forecaster.device, forecaster.root = device, root
        with trusting(trust):
            forecaster._checkpoint = load_checkpoint(ckpt_path)
        forecaster.overrides = []
        return forecaster

    @with_own_classes
    def fit(self, table: Table | None = None) -> "Forecaster":
        """Trains on the first rows of a table as `forecast train` does, and leaves the same run folder.

        table: its rows are kept in the run folder as data.parquet; None trains on the data that the overrides name,
        such as data=ETTh1. Ids that tell series apart make it a panel. UserError where two columns may be the time, or
        the ids. Returns itself, with the best checkpoint, or with refit=true the one of all rows.
        """
        overrides = self.overrides
        frame = None if table is None else frame_of(table, data_keys(overrides))
        if frame is not None:
            layout = {f"data.{key}": value for key, value in frame.layout.items()}
            path = "data.path=${hydra:runtime.output_dir}/" + TRAINING_TABLE
            overrides = ["data=csv", path, *setting_words(layout), *overrides]

        def train_on_table(cfg: DictConfig) -> None:
            if frame is not None:
                keep_table(run_folder(), frame.rows)
            with spoken_of_as_frame(run_folder() / TRAINING_TABLE, kept=True):
                command("train")(cfg)

        folder = call(train_on_table, config_name="train", overrides=overrides)
        self._checkpoint = load_checkpoint(final_checkpoint(folder))
        self._kind = Kind() if frame is None else frame.kind
        return self

    @property
    def checkpoint(self) -> Checkpoint:
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

    @with_own_classes
    def source(self) -> Source:
        """Where the data trained on come from."""
        return self._loaded.source()

    @with_own_classes
    def predict(
        self,
        /,
        table: Table | None = None,
        *,
        future: Table | None = None,
        level: Sequence[float] | None = None,
        pred_len: int | None = None,
        reading: Mapping[str, object] | None = None,
        **horizon: int | None,
    ) -> Table:
        """The pred_len steps after the last row of a table, original units, as a table of its kind.

        With its index, if that holds the time, and its time zone; of a Series without `level` a Series; of a file, and
        of a loaded model's own data, a DataFrame with a column of time, then the targets. Of a panel the steps after
        the end of each series, with a column or a level of ids before the time.

        pred_len: that of the training; UserError for another one, with the command that trains for it. horizon: its
        other names, h, horizon and prediction_length.
        table: at least seq_len rows of the columns trained on, or a CSV file; None: the data trained on.
        future: of a model with columns that are known in advance: their values at these steps, of each series.
        level: [80, 95]: after the targets also TARGET-lo-80, TARGET-hi-80, ..., the ends of intervals in per cent.
        reading: how a file is written where it differs from the one trained on, {"separator": ";"}; the keys of
        data=csv.
        """
        checkpoint, source = self.checkpoint, self.source()
        check_horizon(checkpoint, horizon_of({"pred_len": pred_len, **horizon}))
        columns = checkpoint.read_columns
        with (
            as_file(table, source, reading, columns) as (path, layout, kind),
            as_file(future, source) as (future_path, future_layout, _),
        ):
            of_future = reading if isinstance(future, Path | str) else future_layout
            ends = continuation(
                checkpoint,
                source,
                path,
                layout,
                device=find_device(self.device),
                future=future_source(checkpoint, source, future_path, of_future),
                level=level,
            )
            check_unseen(checkpoint, ends.frame, refuse=False)
            report_left_out(ends)
            other = history_source(checkpoint, source, path, layout)
            forecasts = list(ends.blocks(0, len(ends.series)))
            rows = whole_table(forecast_table(checkpoint, other, ends.frame, ends.levels), forecasts)
            report_far_series(ends, all_far(some.far for some in forecasts))
            of_table = kind or self._kind
            zone = ends.frame.time_zone or getattr(other, "time_zone", None)
            return of_table.of_forecast(rows, time=ends.frame.time_column, time_zone=zone)

    @with_own_classes
    def backtest(
        self,
        table: Table | None = None,
        *,
        folds: int = 20,
        step: int | None = None,
        reading: Mapping[str, object] | None = None,
    ) -> Table:
        """What it would have forecast at `folds` origins, `step` rows apart (None: pred_len), the last ones of a table.

        A row for each step: fold, cutoff (the last known time), id of a panel, time, target, y, forecast, the ends of
        intervals, then the baselines; of the library of the table. table: None: the data trained on. Refits are those
        of `forecast backtest`. UserError where the origins lie in rows that it was trained on. `cross_validation` is
        another name of it.
        """
        with as_file(table, self.source(), reading, self.checkpoint.read_columns) as (path, layout, kind):
            of_table = kind or self._kind
            rows = backtest_table(self._loaded, path, layout, folds=folds, step=step, zone=of_table.zone)
            return of_table.in_library(rows)

    cross_validation = backtest

    @with_own_classes
    def evaluate(
        self, table: Table | None = None, *, split: str | None = None, reading: Mapping[str, object] | None = None
    ) -> pd.DataFrame:
        """The errors of the model and of simple baselines on every window: a row each, the model's first.

        table: other rows than those trained on, all of whose windows count; None: the test rows of the data trained on.
        split: train, val, test, tail or new in place of that; new: the rows that came after the training. reading: as
        in `predict`. Columns: mse and mae in scaled units, mase, rmsse and smape; of a panel also wape; of one target
        column also mse_original and mae_original. NaN: not known. Of a model refitted on all rows the test figures are
        those of the held-out model.
        """
        split = split or ("test" if table is None else WHOLE_FILE)
        source = self.source()
        with as_file(table, source, reading, self.checkpoint.read_columns) as (path, layout, _):
            metrics = stored_metrics(self.checkpoint, split=split, path=path)
            if metrics is None:
                metrics = self._loaded.result(path, split=split, protocol=Protocol(), reading=layout).metrics
        return errors_table(metrics, split)

    @property
    def _loaded(self) -> LoadedModel:
        """Its checkpoint in use. UserError before there is one."""
        return LoadedModel(self.checkpoint, find_device(self.device), self.root)
