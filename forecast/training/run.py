"""One training, from the config to the files in its run folder."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from omegaconf import DictConfig, OmegaConf

from forecast.checkpoint import Checkpoint, build_model, calendar_encoding, count_parameters, load_checkpoint
from forecast.config.build import build
from forecast.config.check import check_config
from forecast.config.entry import choices, run_folder, task_overrides
from forecast.config.resume import resumed_config
from forecast.data.prepare import PreparedData, prepare
from forecast.data.sources import Source
from forecast.data.split import split_rows
from forecast.errors import UserError
from forecast.evaluation import Evaluation, Protocol, evaluate, fit_baselines, split_metrics
from forecast.report import print_report, write_json
from forecast.results import best_reachable, describe_run, evaluation_blocks, write_results
from forecast.training.checkpoint import checkpoint_path
from forecast.training.cost import Cost
from forecast.training.datamodule import ForecastDataModule
from forecast.training.hyperparameters import log_hyperparameters
from forecast.training.module import ForecastModule
from forecast.training.noise import lightning_without_noise
from forecast.training.record import make_record, versions

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a training is to do.

    config: resolved, plain. choices: the chosen option of each config group. folder: where everything is written.
    start: the checkpoint to go on from, None for a new training.
    """

    config: dict[str, Any]
    choices: dict[str, str | None]
    folder: Path
    start: Checkpoint | None


def train(cfg: DictConfig) -> None:
    """Trains, evaluates best.ckpt on all test windows, writes the run folder and prints the comparison.

    Raises UserError for whatever the user can mend; then run.json and the log are all that was written.
    """
    plan = make_plan(cfg)
    account: dict[str, Any] = {"status": "running", "versions": versions()}
    write_json(plan.folder / "run.json", account)
    try:
        account |= {**run(plan), "status": "finished"}
    except BaseException as error:
        account |= {"status": "interrupted" if isinstance(error, KeyboardInterrupt) else "failed", "error": str(error)}
        raise
    finally:
        write_json(plan.folder / "run.json", account)


def make_plan(cfg: DictConfig) -> Plan:
    """The checked config of the command line, or that of the checkpoint with the command's overrides laid over it."""
    chosen = choices()
    start = load_checkpoint(cfg.ckpt_path) if cfg.ckpt_path else None
    if start is not None:
        cfg = resumed_config(start.config, start.record["choices"], cfg, task_overrides(), chosen)
        chosen = start.record["choices"]
    check_config(cfg)
    config = with_absolute_paths(OmegaConf.to_container(cfg, resolve=True))
    return Plan(config=config, choices=chosen, folder=run_folder(), start=start)


def with_absolute_paths(config: Any) -> dict[str, Any]:
    """The config with data.path and data.root absolute: a checkpoint is used from other folders too."""
    data = config["data"]
    paths = {key: str(Path(data[key]).absolute()) for key in ("path", "root") if data.get(key)}
    return {**config, "data": {**data, **paths}}


def run(plan: Plan) -> dict[str, Any]:
    """The training itself; returns what run.json tells of it."""
    config = plan.config
    pl.seed_everything(config["seed"], workers=True, verbose=False)
    source: Source = build(config["data"])
    data = read_data(source, config)
    record = make_record(config, plan.choices, source, data, fit_baselines(data))
    check_same_data(plan.start, record)

    cost = Cost()
    trainer = fit(plan, data, record, cost)
    checkpoint, parts = evaluate_best(plan, data, trainer)

    best_mse = best_reachable(source, data)
    metrics = {
        **describe_run(config, plan.choices, plan.choices["protocol"]),
        "parameters": count_parameters(checkpoint.model()),
        "best_epoch": checkpoint.epoch if checkpoint.path.stem == "best" else None,
        **evaluation_blocks(parts["test"], data, "test", best_mse),
        "val": validation_block(parts["val"], data),
        "cost": cost.figures(trainer),
    }
    write_results(plan.folder, metrics, parts["test"], data, best_mse)
    log_hyperparameters(trainer, config, metrics)
    print_report(metrics, "test")
    log.info("Everything about this run is in %s", plan.folder)
    return {"data": record["data"], **metrics["cost"]}


def read_data(source: Source, config: dict[str, Any]) -> PreparedData:
    """The data of a training, scaled by their train rows."""
    frame = source.frame()
    lengths = {"seq_len": config["seq_len"], "pred_len": config["pred_len"]}
    return prepare(
        frame,
        splits=split_rows(frame, source.split, **lengths),
        targets=source.target_columns(frame),
        encoding=calendar_encoding(config),
        **lengths,
    )


def check_same_data(start: Checkpoint | None, record: dict[str, Any]) -> None:
    """Raises UserError when a training would go on with other data than it began with."""
    if start is None:
        return
    before, now = start.data["checksum"], record["data"]["checksum"]
    if before != now:
        raise UserError(
            f"{start.path} was trained on other data: {start.data['path'] or start.data['name']} had checksum "
            f"{before}, now it is {now}. Restore the file, or start a new run without ckpt_path."
        )


def fit(plan: Plan, data: PreparedData, record: dict[str, Any], cost: Cost) -> pl.Trainer:
    """Builds model and trainer and fits, from the beginning or from a checkpoint."""
    config, start = plan.config, plan.start
    module = ForecastModule(
        build_model(config, record["data"]),
        optimizer=build(config["optim"]),
        schedule=build(config["schedule"]),
        record=record,
    )
    callbacks = [build(callback) for callback in config["callbacks"].values()]
    if config["trainer"]["enable_progress_bar"] is False:  # Lightning refuses a progress bar beside it
        callbacks = [c for c in callbacks if not isinstance(c, pl.callbacks.ProgressBar)]
    datamodule = ForecastDataModule(data, batch_size=config["data"]["batch_size"], seed=config["seed"])
    with lightning_without_noise():
        trainer: pl.Trainer = build(
            {**config["trainer"], "default_root_dir": str(plan.folder)},
            logger=build(config["logger"], save_dir=str(plan.folder)),
            callbacks=[cost, *callbacks],
        )
        trainer.fit(module, datamodule, ckpt_path=str(start.path) if start else None, weights_only=True)
    if trainer.interrupted:
        raise KeyboardInterrupt
    return trainer


def evaluate_best(plan: Plan, data: PreparedData, trainer: pl.Trainer) -> tuple[Checkpoint, dict[str, Evaluation]]:
    """best.ckpt, or last.ckpt when no validation ran, read back from its file and evaluated on val and test."""
    best = checkpoint_path(plan.folder, "best")
    checkpoint = load_checkpoint(best if best.exists() else checkpoint_path(plan.folder, "last"))
    protocol: Protocol = build(plan.config["protocol"])
    device = trainer.strategy.root_device
    model = checkpoint.model().to(device)
    parts = {
        split: evaluate(
            model,
            data,
            split=split,
            protocol=protocol,
            nlinear_weight=checkpoint.record["nlinear_weight"],
            batch_size=plan.config["data"]["batch_size"],
            device=device,
        )
        for split in ("val", "test")
    }
    return checkpoint, parts


def validation_block(evaluation: Evaluation, data: PreparedData) -> dict[str, Any]:
    """The block `val` of metrics.json: the windows that chose best.ckpt say less of a model than the test windows."""
    block = split_metrics(evaluation, data)
    return {key: block[key] for key in ("windows", "scaled", "original")}
