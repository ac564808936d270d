"""What `forecast evaluate` does: a checkpoint on a split of its own data or of another file."""

import logging
import time
from typing import cast

from omegaconf import DictConfig, OmegaConf

from forecast.apps.common.command import Answer
from forecast.apps.common.inputs import check_horizon, first_forecast
from forecast.apps.common.outputs import check_evaluation_folder
from forecast.apps.common.results import LoadedModel, write_results
from forecast.apps.common.seen_rows import NEW_ROWS, stored_metrics
from forecast.config.build import build
from forecast.config.check import read_settings
from forecast.config.compose import choices, run_folder
from forecast.config.settings import EvaluateSettings
from forecast.evaluation.evaluate import Protocol
from forecast.files import rounded
from forecast.report.verdict import print_report
from forecast.training.throughput import PeakMemory

log = logging.getLogger(__name__)


def evaluate(cfg: DictConfig) -> Answer:
    """Evaluates a checkpoint on a split of its own data or of another file; writes and prints as training does.

    Of a refitted model that has learned from the test rows it prints the held-out model's figures and writes nothing.
    """
    settings = read_settings(cfg, EvaluateSettings)
    loaded = LoadedModel.load(settings.ckpt_path, device=settings.device, root=settings.data.root)
    check_horizon(loaded.checkpoint, settings.pred_len)
    # the stride of protocol=apart is ${pred_len}
    with_horizon = OmegaConf.merge(cfg, {"pred_len": loaded.checkpoint.config.pred_len})
    check_evaluation_folder(run_folder(), overwrite=settings.overwrite)
    stored = stored_metrics(loaded.checkpoint, split=settings.split, path=settings.data.path)
    if stored is not None:
        print_report(stored, settings.split)
        return Answer(rounded({"held_out": True, **stored}))
    protocol = cast(Protocol, build(with_horizon.protocol))
    started, memory = time.perf_counter(), PeakMemory()
    result = loaded.result(
        settings.data.path,
        split=settings.split,
        reading=settings.data.reading(),
        protocol=protocol,
        protocol_name=choices().get("protocol"),
        batch_size=settings.data.batch_size,
        calibration=settings.calibration,
        level=settings.level,
    )
    result.metrics["cost"] = {
        "train_seconds": None,
        "train_samples_per_second": None,
        "evaluate_seconds": time.perf_counter() - started,
        "peak_memory_mb": memory.megabytes(loaded.device),
        "device": loaded.device.type,
        "precision": "32-true",
    }
    if settings.data.path:
        result.metrics["evaluated_file"] = result.data.frame.name
    if settings.split == NEW_ROWS:
        result.metrics["evaluated_from"] = str(first_forecast(result.data, NEW_ROWS))
    if loaded.checkpoint.record.imported is not None:
        result.metrics["imported"] = loaded.checkpoint.record.imported
    write_results(run_folder(), result)
    print_report(result.metrics, settings.split, result.by_step)
    log.info("Everything about this evaluation is in %s", run_folder())
    return Answer(rounded({"folder": str(run_folder()), **result.metrics}))
