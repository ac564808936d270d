"""Where a training logs to: fed with what each logger can show, hyper-parameters too, ended with the run."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Protocol, runtime_checkable

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from forecast.config.run_config import RunConfig
from forecast.data.reading.layout import Layout
from forecast.run_folder.shapes import Metrics

DRAWING = (TensorBoardLogger, WandbLogger, MLFlowLogger)


class MLflow(MLFlowLogger):
    """Lightning's, with its database and its pictures in the run folder unless there is a server.

    save_dir: the run folder. experiment_name, run_name: under which MLflow shows the run. tags: its words, each with
    the value "true". tracking_uri: a server's.
    """

    def __init__(
        self,
        *,
        save_dir: str,
        experiment_name: str = "forecast",
        run_name: str | None = None,
        tags: Sequence[str] = (),
        tracking_uri: str | None = None,
    ) -> None:
        folder = Path(save_dir).absolute() / "mlflow"
        if tracking_uri is None:
            folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report each use to MLflow's makers
        for name in ("alembic", "mlflow"):  # a page of lines about the tables of a new database
            logging.getLogger(name).setLevel(logging.WARNING)
        super().__init__(
            experiment_name,
            run_name=run_name,
            tags=dict.fromkeys(tags, "true"),
            tracking_uri=tracking_uri or f"sqlite:///{folder / 'mlflow.db'}",
            artifact_location=None if tracking_uri else (folder / "artifacts").as_uri(),
        )


@runtime_checkable
class WandbRun(Protocol):
    """What is used of a run of Weights & Biases, an extra that need not be installed."""

    def finish(self, exit_code: int | None = None) -> None:
        """Ends it."""


@contextmanager
def finished_wandb_run() -> Iterator[None]:
    """Ends a run of Weights & Biases that begins in this block: the next training of a sweep would go on with it."""
    if _wandb_run() is not None:  # the caller's own, which logger=wandb logs to
        yield
        return
    status = 1
    try:
        yield
        status = 0
    finally:
        if (run := _wandb_run()) is not None:
            run.finish(exit_code=status)


def _wandb_run() -> WandbRun | None:
    """The one run that a process can have; None without one."""
    return getattr(sys.modules.get("wandb"), "run", None)


@rank_zero_only
def log_figure(logger: Logger, name: str, figure: object, step: int) -> None:
    """A picture of matplotlib's, by loggers that show pictures; nothing by others."""
    match logger:
        case TensorBoardLogger():
            logger.experiment.add_figure(name, figure, step)
        case WandbLogger():
            logger.log_image(name, [figure], step)
        case MLFlowLogger():
            logger.experiment.log_figure(logger.run_id, figure, f"{name}/step-{step}.png")


@rank_zero_only
def log_histogram(logger: Logger, name: str, values: Tensor, step: int) -> None:
    """A histogram of numbers, by loggers that show histograms; nothing by others."""
    match logger:
        case TensorBoardLogger():
            logger.experiment.add_histogram(name, values, step)
        case WandbLogger():
            import wandb

            # wandb takes an array, and Lightning a histogram among metrics; their types say otherwise.
            histogram = {f"{name}/histogram": wandb.Histogram(values.numpy())}  # type: ignore[arg-type, unused-ignore]
            logger.log_metrics(histogram, step)  # type: ignore[arg-type, unused-ignore]


def log_checkpoint(loggers: Sequence[Logger], path: Path) -> None:
    """Logs a checkpoint as an artifact in `model`, by those of the loggers that are MLflow's."""
    for logger in loggers:
        if isinstance(logger, MLFlowLogger):
            logger.experiment.log_artifact(logger.run_id, str(path), "model")


# The parts of the config that tell one run from another.
RECORDED = (
    "model",
    "optim",
    "schedule",
    "loss",
    "data",
    "seed",
    "eval_seed",
    "seq_len",
    "label_len",
    "pred_len",
    "tags",
)
# How a file is written and where it lies: it would fill the page's first columns.
OMITTED = {"path", "root"} | {field.name for field in fields(Layout)} - {"gaps"}


def log_hyperparameters(loggers: Sequence[Logger], config: RunConfig, metrics: Metrics, *, step: int) -> None:
    """Writes them once, at the end, when the metrics are known: earlier the page would show -1 or nothing."""
    names: dict[str, object] = {"model": metrics["model"], "attention": metrics["attention"]}
    names["protocol"] = metrics["protocol"]
    recipes = (config.optim, config.schedule, config.loss)
    names |= {recipe.place: recipe.target.rpartition(".")[2] for recipe in recipes}
    names["trainer.max_epochs"] = config.trainer.get("max_epochs")
    values = {**flatten({key: config.plain[key] for key in RECORDED}), **names}
    test = metrics["test"]
    units = {"scaled": test["scaled"], "original": test.get("original", {})}  # several columns have none in common
    figures = {f"test/{kind}_{unit}": errors.get(kind) for unit, errors in units.items() for kind in ("mse", "mae")}
    figures |= {"test/mase": test["mase"], "test/rmsse": test["rmsse"], "test/smape": test["smape"]}
    final = {name: figure for name, figure in figures.items() if figure is not None}
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.log_hyperparams(values, final)
        else:
            logger.log_hyperparams(values)
            logger.log_metrics(final, step)
        logger.finalize("success")


def flatten(node: object, path: str = "") -> dict[str, object]:
    """{"a": {"b": 1}} -> {"a.b": 1}; lists become text; names of classes and OMITTED are left out."""
    if not isinstance(node, dict):
        return {path: str(node) if isinstance(node, list) else node}
    parts = [
        flatten(value, f"{path}.{key}" if path else key)
        for key, value in node.items()
        if key[0] != "_" and key not in OMITTED
    ]
    return {key: value for part in parts for key, value in part.items()}
