"""The training itself: a model, a trainer, and what ends it; or a model that is fitted at once."""

import datetime
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher, _SubprocessScriptLauncher
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.checkpoint.load import Checkpoint, load_checkpoint, read_plain
from forecast.checkpoint.record import Record
from forecast.config.compose import in_sweep
from forecast.config.run_config import RunConfig
from forecast.data.prepare import Prepared
from forecast.data.sources import Source
from forecast.errors import UserError
from forecast.evaluation.baselines import fitting_rows
from forecast.evaluation.evaluate import Protocol
from forecast.evaluation.leakage import check_leakage
from forecast.models.base import FittedModel, ForecastModel
from forecast.run_folder import checkpoint_path, rank
from forecast.run_folder.shapes import Block
from forecast.text.overrides import hydra_value
from forecast.training.calibrated import CrossFit
from forecast.training.checkpoint import FirstValidation, RandomStates, WrittenInPlace, write_checkpoint
from forecast.training.datamodule import ForecastDataModule
from forecast.training.lightning_errors import errors_for_users, quiet_lightning
from forecast.training.module import ForecastModule
from forecast.training.record import weights_only_content
from forecast.training.shared_data import SHARED
from forecast.training.stopping import StopOnNonFinite, StopOnSignal
from forecast.training.throughput import PeakMemory, Throughput

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a training is made of beside its model and its data, each built once, of the config.

    optimizer, schedule, logger, trainer: take what a training hands in. logger: None where none is wanted.
    """

    loss: nn.Module
    optimizer: Callable[..., Optimizer]
    schedule: Callable[..., LRScheduler]
    protocol: Protocol
    callbacks: list[Callback]
    logger: Callable[..., Logger] | None
    trainer: Callable[..., pl.Trainer]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a training is to do.

    choices: the chosen option of each config group. source: where the data come from. folder: where everything is
    written. start: the checkpoint to go on from; None for a new training, with the weights of
    `config.initial_weights` where it has any.
    """

    config: RunConfig
    parts: Parts
    choices: Mapping[str, str | None]
    source: Source
    folder: Path
    start: Checkpoint | None = None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training leaves beside its checkpoints.

    finished: False where Ctrl-C ended it and there is a checkpoint. is_first: whether this process is the one that
    evaluates. cost: the block of metrics.json. sentences: of its speed. loggers, steps: of its figures. processes: that
    trained together.
    """

    finished: bool
    is_first: bool
    device: torch.device
    cost: Block
    sentences: Sequence[str] = ()
    loggers: Sequence[Logger] = ()
    steps: int = 0
    processes: int = 1


def fit(plan: Plan, model: ForecastModel, data: Prepared, record: Record) -> Trained:
    """Fits a model by gradient steps, from the beginning or from a checkpoint.

    Ctrl-C before there is a checkpoint is KeyboardInterrupt. Raises UserError when nothing was trained.
    """
    config, throughput = plan.config, Throughput()
    record = begin_model(plan, model, data, record)
    module, datamodule = make_module(plan, model, record), make_batches(config, model, data)
    with quiet_lightning(), errors_for_users(plan.folder):
        trainer = make_trainer(plan, throughput, model)
    finished = True
    if plan.start is not None:
        log.info("Going on from %s, after %d steps.", plan.start.path, plan.start.step)
    try:
        start = plan.start.path if plan.start else None
        with quiet_lightning(), errors_for_users(plan.folder, start=start, batch_size=config.data.batch_size):
            trainer.fit(module, datamodule, ckpt_path=start, weights_only=True)
    except KeyboardInterrupt:
        finished = False
    if isinstance(trainer.strategy.launcher, _MultiProcessingLauncher):
        # trained in processes of its own: what its callbacks counted is in its checkpoints alone
        content = read_plain(checkpoint_path(plan.folder, "last"))
        throughput.load_state_dict(content["callbacks"][throughput.state_key])
    if trainer.is_global_zero and not any(checkpoint_path(plan.folder, name).exists() for name in ("best", "last")):
        if not finished:
            raise KeyboardInterrupt
        keys = ("max_epochs", "max_steps", "limit_train_batches")
        limits = ", ".join(f"trainer.{key}={config.trainer.get(key)}" for key in keys)
        raise UserError(f"nothing was trained: {limits}. Raise what ends the training, or use forecast evaluate on it.")
    first = trainer.is_global_zero
    return Trained(
        finished=finished,
        is_first=first,
        device=trainer.strategy.root_device,
        cost=throughput.metrics(trainer) if first else Block(),
        sentences=throughput.sentences(),
        loggers=trainer.loggers,
        steps=trainer.global_step,
        processes=trainer.num_devices * trainer.num_nodes,
    )


def make_module(plan: Plan, model: ForecastModel, record: Record | None) -> ForecastModule:
    """The loss, the optimizer and the schedule of a plan, around a model."""
    parts = plan.parts
    return ForecastModule(
        model,
        optimizer=parts.optimizer,
        schedule=parts.schedule,
        loss=None if model.spread is not None else parts.loss,
        record=record,
        compiled=plan.config.compile,
    )


def make_batches(
    config: RunConfig,
    model: ForecastModel,
    data: Prepared,
    *,
    windows_per_epoch: int | None = None,
    batch_size: int | None = None,
) -> ForecastDataModule:
    """The batches of a config. windows_per_epoch, batch_size: in place of its own."""
    return ForecastDataModule(
        replace(data, recent=config.data.recent),
        batch_size=batch_size or config.data.batch_size,
        seed=config.seed,
        windows_per_epoch=windows_per_epoch or config.data.windows_per_epoch,
        sampling=config.data.sampling,
        masked=model.trains_on_past,
        look_back=model.look_back,
    )


def begin_model(plan: Plan, model: ForecastModel, data: Prepared, record: Record) -> Record:
    """Gives a model the weights that its training begins with; the record with what these have chosen.

    A new training fits the fitted part; of `initial_weights` it takes all else. One that goes on takes those of its
    checkpoint. Logs when single-head attention ignores model.n_heads.

    Raises UserError for sizes that cannot work together, for weights of another model, and when something leaks.
    """
    if plan.start is not None:
        plan.start.give_weights(model)
    else:
        if plan.config.initial_weights:
            take_weights(model, plan.config.initial_weights)
        try:
            options = model.prepare(fitting_rows(data, recent=plan.config.data.recent))
        except ValueError as error:
            raise UserError(str(error)) from error
        record = replace(record, config=record.config.with_model(options))
    dry_forward(model)
    for n_heads in {getattr(part, "ignored_heads", None) for part in model.modules()} - {None}:
        log.info("Single-head attention has one head: model.n_heads=%d is ignored in its slots", n_heads)
    if plan.config.checks.leakage and rank() == 0:
        check_leakage(model, data, device=torch.device("cpu"))
    return record


def take_weights(model: ForecastModel, path: str) -> None:
    """Gives a model the weights of a checkpoint. UserError where they are not of such a model."""
    fitted = {name: weight for name, weight in model.state_dict().items() if model.fitted_part in name.split(".")}
    try:
        model.load_state_dict(load_checkpoint(path).weights | fitted)
    except RuntimeError as error:
        raise UserError(
            f"initial_weights={path}: these are weights of another model, or of other sizes. Leave initial_weights "
            f"out, or set the model's keys as they were there:\n{error}"
        ) from error


@torch.inference_mode()
def dry_forward(model: ForecastModel) -> None:
    """Forecasts from one window of zeros; the model, its mode and the random generators stay as they were.

    Raises UserError for sizes that cannot work together, with the message of the part that refuses them.
    """
    window = model.window
    rows = max(window.seq_len, model.look_back)
    past, past_known = torch.zeros(1, rows, window.n_columns), torch.zeros(1, rows, window.n_known)
    future_known = torch.zeros(1, window.pred_len, window.n_known)
    training = model.training
    try:
        with torch.random.fork_rng(devices=[]):
            model.eval()(past, past_known, future_known)
    except ValueError as error:
        raise UserError(str(error)) from error
    finally:
        model.train(training)


def make_logger(plan: Plan) -> Logger | Literal[False]:
    """The logger of a plan, which writes into its folder. Raises UserError for what its class refuses."""
    return False if plan.parts.logger is None else plan.parts.logger(save_dir=str(plan.folder))


def make_trainer(
    plan: Plan, throughput: Throughput, model: ForecastModel, *, last: Callback | None = None
) -> pl.Trainer:
    """The trainer with its logger and callbacks. Raises UserError for processes that a sweep cannot start.

    last: called after all others, in place of what ends a training at a signal.
    """
    config = plan.config
    own = [
        SameFolder(),
        throughput,
        *([] if config.calibration == "none" else [CrossFit()]),
        RandomStates(seed=config.seed),
        StopOnNonFinite(),
        *([FirstValidation()] if model.fitted_part else []),
    ]
    callbacks = [*own, *plan.parts.callbacks, last or StopOnSignal()]
    trainer = plan.parts.trainer(
        default_root_dir=str(plan.folder),
        logger=make_logger(plan),
        callbacks=callbacks,
    )
    trainer.strategy.checkpoint_io = WrittenInPlace()
    limit_waiting(trainer, config.process_timeout)
    if isinstance(trainer.strategy.launcher, _SubprocessScriptLauncher) and (in_sweep() or SHARED.most_bytes):
        raise UserError(
            f"trainer.strategy={config.trainer.get('strategy')} among other trainings: each of its processes would run "
            "the whole command again. Say trainer.strategy=ddp_spawn, or trainer=default trainer.devices=1 for one "
            "process per run, or give each run a command of its own."
        )
    return trainer


class SameFolder(Callback):
    """All processes must write to one folder. Raises UserError before the first step when they do not."""

    def on_fit_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Compares with the first process."""
        here = str(Path(trainer.default_root_dir).absolute())
        first = trainer.strategy.broadcast(here)
        if here != first:
            raise UserError(
                f"process {trainer.global_rank} would write to {here}, the first one to {first}. Say "
                "hydra.run.dir=FOLDER for all of them, or torchrun --rdzv-id=NAME."
            )


def limit_waiting(trainer: pl.Trainer, seconds: float) -> None:
    """How long a process waits for the others, in the strategies that connect some; Lightning has no key for it.

    Of several machines none knows whether another one is slow, stopped or cut off: there is only the time to wait.
    """
    if hasattr(trainer.strategy, "_timeout"):
        trainer.strategy._timeout = datetime.timedelta(seconds=seconds)


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
