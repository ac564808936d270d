"""Forecasting from Python: what the commands do, with DataFrames in and out."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
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
from forecast.apps.common.future import future_source
from forecast.apps.common.growth import WHOLE_FILE
from forecast.apps.common.inputs import check_horizon, find_device
from forecast.apps.common.loaded import LoadedModel
from forecast.apps.common.own_classes import with_own_classes
from forecast.apps.common.refit import as_stored, stored_metrics
from forecast.apps.common.tables import (
    Table,
    as_file,
    check_table,
    errors_table,
    in_zone,
    keep_table,
    time_column_of,
    zone_of,
)
from forecast.apps.tune.door import Tunable
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.compose import run_folder
from forecast.config.entry import call
from forecast.config.trust import trusting
from forecast.data.sources import Source
from forecast.data.writing import all_far
from forecast.documents import DocumentError, read_json
from forecast.errors import UserError
from forecast.evaluation.evaluate import Protocol
from forecast.run_folder import METRICS, TRAINING_TABLE, final_checkpoint, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.overrides import hydra_value


class Forecaster(Automatic, Tunable):
    """A model of any kind, from its config to its forecasts.

    model: an option of the group model, such as informer or dlinear. seq_len, label_len, pred_len, seed: those keys of
    the config, None leaves the default. overrides: what the command line takes, such as "optim.lr=1e-3" or
    "data.features=S"; `forecast train --help` lists the groups. trust: modules of yours whose classes the overrides
    name as a `_target_`; their code runs with all your rights, as by --trust on the command line.

        forecaster = Forecaster(model="informer", pred_len=24).fit(df)
        forecaster.evaluate()          # MSE and MAE on the test rows, beside simple baselines
        forecaster.predict()           # the 24 steps after the end of df
        Forecaster.load(forecaster.folder / "checkpoints/best.ckpt").predict(newer_df)

    Every method raises UserError with the words of the command line. A DataFrame has a DatetimeIndex, or a column of
    timestamps; its other columns are numbers.
    """

    def __init__(
        self,
        model: str = "informer",
        *,
        seq_len: int | None = None,
        label_len: int | None = None,
        pred_len: int | None = None,
        seed: int | None = None,
        overrides: Sequence[str] = (),
        trust: Sequence[str] = (),
    ) -> None:
        keys = {"model": model, "seq_len": seq_len, "label_len": label_len, "pred_len": pred_len, "seed": seed}
        self.overrides = [f"{key}={value}" for key, value in keys.items() if value is not None] + list(overrides)
        self.trust = trust
        self.device = "auto"
        self.root: str | None = None
        self._checkpoint: Checkpoint | None = None
        self._zone: tzinfo | None = None  # of the table trained on

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
    def fit(self, table: pd.DataFrame | None = None) -> "Forecaster":
        """Trains on the first rows of a table as `forecast train` does, and leaves the same run folder.

        table: its rows are kept in the run folder as data.parquet; None trains on the data that the overrides name,
        such as data=ETTh1. Returns itself, with the best checkpoint, or with refit=true the one of all rows.
        """
        overrides = self.overrides
        if table is not None:
            check_table(table)
            time_column, self._zone = time_column_of(table), zone_of(table)
            path = "${hydra:runtime.output_dir}/" + TRAINING_TABLE
            overrides = ["data=csv", f"data.path={path}", f"data.time_column={hydra_value(time_column)}", *overrides]

        def train_on_table(cfg: DictConfig) -> None:
            if table is not None:
                keep_table(run_folder(), table, time_column=time_column)
            command("train")(cfg)

        folder = call(train_on_table, config_name="train", overrides=overrides)
        self._checkpoint = load_checkpoint(final_checkpoint(folder))
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
        try:
            metrics = read_json(self.folder / METRICS, Metrics)
        except DocumentError as error:
            raise UserError(f"{self.folder / METRICS} cannot be read ({error.reason}): use evaluate()") from error
        if metrics is None:
            raise UserError(f"{self.folder / METRICS} is not there: use evaluate()")
        return dict(metrics)

    @with_own_classes
    def source(self) -> Source:
        """Where the data trained on come from."""
        return self._loaded.source()

    @with_own_classes
    def predict(
        self,
        table: Table | None = None,
        *,
        future: Table | None = None,
        level: Sequence[float] | None = None,
        pred_len: int | None = None,
        reading: Mapping[str, object] | None = None,
    ) -> pd.DataFrame:
        """The pred_len steps after the last row of a table, original units: a column of time, then the targets.

        The time has the time zone of the DataFrame, if that has one.

        Of a panel the steps after the end of each series, in long format: a column of ids, of time, then the targets.

        pred_len: that of the training; UserError for another one, with the command that trains for it.
        table: at least seq_len rows of the columns trained on, a DataFrame or a CSV file; None: the data trained on.
        future: of a model with columns that are known in advance: their values at these steps, of each series.
        level: [80, 95]: after the targets also TARGET-lo-80, TARGET-hi-80, ..., the ends of intervals in per cent.
        reading: how a file is written where it differs from the one trained on, {"separator": ";"}; the keys of
        data=csv.
        """
        checkpoint, source = self.checkpoint, self.source()
        check_horizon(checkpoint, pred_len)
        with as_file(table, source, reading) as (path, layout), as_file(future, source) as (future_path, future_layout):
            of_future = future_layout if isinstance(future, pd.DataFrame) else reading
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
            time, zone = ends.frame.time_column, self._zone if table is None else zone_of(table, source.time_name)
            if ends.frame.id_column is None:
                rows[time] = in_zone(rows[time], ends.frame.time_zone, zone)
            return rows

    @with_own_classes
    def backtest(
        self,
        table: Table | None = None,
        *,
        folds: int = 20,
        step: int | None = None,
        reading: Mapping[str, object] | None = None,
    ) -> pd.DataFrame:
        """What it would have forecast at `folds` origins, `step` rows apart (None: pred_len), the last ones of a table.

        A row for each step: fold, cutoff (the last known time), id of a panel, time, target, y, forecast, the ends of
        intervals, then the baselines. table: None: the data trained on. Refits are those of `forecast backtest`.
        UserError where the origins lie in rows that it was trained on.
        """
        zone = self._zone if table is None else zone_of(table, self.source().time_name)
        with as_file(table, self.source(), reading) as (path, layout):
            return backtest_table(self._loaded, path, layout, folds=folds, step=step, zone=zone)

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
        with as_file(table, source, reading) as (path, layout):
            metrics = stored_metrics(self.checkpoint, split=split, path=path)
            if metrics is None:
                metrics = self._loaded.result(path, split=split, protocol=Protocol(), reading=layout).metrics
        with as_stored(self.checkpoint):
            return errors_table(metrics, split)

    @property
    def _loaded(self) -> LoadedModel:
        """Its checkpoint in use. UserError before there is one."""
        return LoadedModel(self.checkpoint, find_device(self.device), self.root)
