"""A checkpoint as an MLflow model: a folder that `mlflow models serve` serves where this package is installed."""

import logging
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lightning.pytorch.loggers import Logger, MLFlowLogger
from typing_extensions import TypedDict, final

import forecast
from forecast.apps.common.intervals import saved_calibration, wanted
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.trust import trusted
from forecast.errors import UserError
from forecast.text.overrides import DISTRIBUTION, install

MLFLOW = "mlflow"
log = logging.getLogger(__name__)


def log_model(loggers: Sequence[Logger], path: Path) -> None:
    """Logs the folder of a checkpoint as the artifact `model` of the run, by those of the loggers that are MLflow's.

    Where it cannot be served a warning says why.
    """
    for logger in loggers:
        if isinstance(logger, MLFlowLogger):
            with TemporaryDirectory() as folder:
                try:
                    entry = write_mlflow(load_checkpoint(path), Path(folder), batch=None)
                except UserError as refusal:
                    log.warning("MLflow gets no model: %s", refusal)
                    continue
                logger.experiment.log_artifacts(logger.run_id, str(Path(folder, entry["folder"])), "model")


@final
class MlflowEntry(TypedDict):
    """What config.json says of the folder. levels: of intervals in per cent, of which some may be asked for."""

    folder: str
    mlflow: str
    levels: list[float]


def write_mlflow(checkpoint: Checkpoint, folder: Path, *, batch: int | None) -> MlflowEntry:
    """Writes the folder, with the checkpoint and a file of code in it, and returns what config.json says of it.

    batch: of no meaning here, a forecast is of one table. Raises UserError without MLflow, and where classes of one's
    own are trusted: a server would have to trust them too.
    """
    del batch
    if trusted():
        raise UserError(
            f"the model may have classes of {', '.join(sorted(trusted()))}, which no server trusts. Export it with "
            "--format program."
        )
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report each use to MLflow's makers
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    try:
        import mlflow
    except ImportError as error:
        raise UserError(f"the package mlflow is not installed. Install it: {install('mlflow')}") from error
    calibration, intervals = saved_calibration(checkpoint), wanted(checkpoint)
    usual = [] if intervals is None else list(intervals.wanted_levels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no example of an input is given; and what MLflow itself uses
        mlflow.pyfunc.save_model(
            path=folder / MLFLOW,
            python_model=str(Path(__file__).parents[1] / "mlflow_code.py"),  # as code, which needs no pickle
            artifacts={"checkpoint": str(checkpoint.path.absolute())},
            signature=mlflow.models.infer_signature(params={"level": usual}) if usual else None,
            pip_requirements=[f"{DISTRIBUTION}=={forecast.__version__}"],  # else MLflow imports all to find them
        )
    levels = [] if calibration is None else list(calibration.levels)
    return {"folder": MLFLOW, "mlflow": mlflow.__version__, "levels": levels}
