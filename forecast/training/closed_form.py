"""Training without gradient steps: a model that is fitted at once."""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch

from forecast.checkpoint.record import Record
from forecast.data.prepare import Prepared
from forecast.errors import UserError
from forecast.evaluation.baselines import fitting_rows
from forecast.evaluation.leakage import check_leakage
from forecast.evaluation.memory import PeakMemory
from forecast.models.base import FittedModel
from forecast.run_folder import checkpoint_path
from forecast.run_folder.shapes import Block
from forecast.text.overrides import hydra_value
from forecast.training.checkpoint import write_checkpoint
from forecast.training.fit import Plan, Trained, make_logger
from forecast.training.record import weights_only_content

log = logging.getLogger(__name__)
CPU = torch.device("cpu")


def fit_closed_form(plan: Plan, model: FittedModel, data: Prepared, record: Record) -> Trained:
    """Fits a model and writes its checkpoint, under both names. The saved config has the options that were chosen.

    Raises UserError when the options do not fit the data, when something leaks, and when a file cannot be written.
    """
    memory, begin = PeakMemory(), time.perf_counter()
    try:
        options = model.fit(fitting_rows(data, recent=plan.config.data.recent))
    except ValueError as error:
        raise UserError(str(error)) from error
    seconds = time.perf_counter() - begin
    if plan.config.checks.leakage:
        check_leakage(model, data, device=CPU)
    chosen = {key: value for key, value in options.items() if value != plan.config.model.get(key)}
    if chosen:
        log.info("Fitted in %.1f s; chosen: %s", seconds, ", ".join(as_settings(chosen)))
    content = weights_only_content(model, replace(record, config=plan.config.with_model(options), best_step=0))
    for name in ("best", "last"):
        write_checkpoint(checkpoint_path(plan.folder, name), content)
    cost = fitted_cost(seconds, memory)
    logger = make_logger(plan)
    return Trained(finished=True, is_first=True, device=CPU, cost=cost, loggers=[logger] if logger else [])


def as_settings(options: Mapping[str, object]) -> Iterator[str]:
    """KEY=VALUE of each option; of those of a part, as skip_options has them, each under its name: skip.KEY=VALUE."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from (f"{key.removesuffix('_options')}.{setting}" for setting in as_settings(value))
        else:
            yield f"{key}={hydra_value(value)}"


def fitted_cost(seconds: float, memory: PeakMemory) -> Block:
    """The block `cost` of metrics.json of a model without gradient steps."""
    return {
        "train_seconds": seconds,
        "train_samples_per_second": None,
        "train_limit_samples_per_second": None,
        "peak_memory_mb": memory.megabytes(CPU),
        "device": CPU.type,
        "precision": "32-true",
    }
