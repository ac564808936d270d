"""Hyper-parameters beside the final metrics, such as for TensorBoard's page HPARAMS."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger

from forecast.data.reading.layout import Layout

# The parts of the config that tell one run from another.
RECORDED = ("model", "optim", "schedule", "loss", "data", "seed", "eval_seed", "seq_len", "label_len", "pred_len")
# How a file is written and where it lies: it would fill the page's first columns.
OMITTED = {"path", "root"} | {field.name for field in fields(Layout)} - {"gaps"}


def log_hyperparameters(
    loggers: Sequence[Logger], config: dict[str, Any], metrics: dict[str, Any], *, step: int
) -> None:
    """Writes them once, at the end, when the metrics are known: earlier the page would show -1 or nothing."""
    names: dict[str, Any] = {name: metrics[name] for name in ("model", "attention", "protocol")}
    names |= {name: config[name]["_target_"].rpartition(".")[2] for name in ("optim", "schedule", "loss")}
    names["trainer.max_epochs"] = config["trainer"]["max_epochs"]
    values = {**flatten({key: config[key] for key in RECORDED}), **names}
    test = metrics["test"]
    units = [unit for unit in ("scaled", "original") if unit in test]  # several columns have no unit in common
    final = {f"test/{kind}_{unit}": test[unit][kind] for unit in units for kind in ("mse", "mae")}
    final |= {f"test/{kind}": test[kind] for kind in ("mase", "rmsse", "smape") if test[kind] is not None}
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.log_hyperparams(values, final)
        else:
            logger.log_hyperparams(values)
            logger.log_metrics(final, step)
        logger.finalize("success")


def flatten(node: Any, path: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}; lists become text; names of classes and OMITTED are left out."""
    if not isinstance(node, dict):
        return {path: str(node) if isinstance(node, list) else node}
    parts = [
        flatten(value, f"{path}.{key}" if path else key)
        for key, value in node.items()
        if key[0] != "_" and key not in OMITTED
    ]
    return {key: value for part in parts for key, value in part.items()}
