"""Hyper-parameters beside the final metrics, such as for TensorBoard's page HPARAMS."""

from collections.abc import Sequence
from dataclasses import fields

from lightning.pytorch.loggers import Logger, TensorBoardLogger

from forecast.config.run_config import RunConfig
from forecast.data.reading.layout import Layout
from forecast.run_folder.shapes import Metrics

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
