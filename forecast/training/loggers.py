"""Where a training logs to: built from the config, fed with what each logger can show, ended with the run."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

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
    run: WandbRun | None = getattr(sys.modules.get("wandb"), "run", None)
    return run


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
