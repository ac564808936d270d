"""The Lightning module: loss, validation error, optimizer and schedule."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from typing import cast

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.utilities.enums import GradClipAlgorithmType
from lightning.pytorch.utilities.types import LRSchedulerTypeUnion, OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, ReduceLROnPlateau

from forecast.checkpoint.load import Entries
from forecast.checkpoint.record import RECORD, Record
from forecast.config.build import parameters
from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.evaluation.evaluate import exact_float32
from forecast.evaluation.metrics import ErrorSums
from forecast.models.base import ForecastModel
from forecast.models.spread import Spread
from forecast.ops.autocast import autocast, float32_products
from forecast.training.calibrated import HALVES, half_means, logged
from forecast.training.checkpoint import best_by, drop_other_paths, monitored
from forecast.training.compiled import (
    EAGER,
    GRAPHS,
    CudaGraphs,
    FasterOutputs,
    Outputs,
    RecordedStep,
    eager_reason,
    rates_on_gpu,
)
from forecast.training.datamodule import TrainBatches
from forecast.training.record import complete_record
from forecast.training.stopping import StopOnNonFinite

log = logging.getLogger(__name__)


class ForecastModule(pl.LightningModule):
    """Trains a model on a loss in scaled units, and validates it by its MSE and MAE.

    optimizer: from parameters to an optimizer. schedule: from an optimizer to a scheduler of its rate, as those
    of `forecast.training.schedule`. loss: of a forecast and the truth, None for the mean squared error; a model with a
    spread is trained on that. record: what a checkpoint is to hold beside Lightning's own, None for a training
    that writes none. compiled: GRAPHS, EAGER or the mode of `FasterOutputs`; None:
    recorded where it can be, on a GPU.
    """

    def __init__(
        self,
        model: ForecastModel,
        *,
        optimizer: Callable[..., Optimizer],
        schedule: Callable[..., LRScheduler],
        record: Record | None,
        loss: nn.Module | None = None,
        compiled: str | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.compiled = compiled
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.plateau: ReduceLROnPlateau | None = None
        self.criterion = loss or nn.MSELoss()  # no spread: its weights would be here a second time
        self.record = record
        self.best_step: int | None = None  # of the validation that was the best so far
        self.validation_errors: ErrorSums | None = None  # of the validation that runs
        self.window_errors: list[tuple[Tensor, Tensor]] = []  # of its windows, squared and absolute
        self.loss = torch.tensor(0.0)  # of the last training batch
        self.recorded: RecordedStep | None = None  # the whole of a step, where it is not Lightning that takes it
        self.guard: StopOnNonFinite | None = None
        self.rates: list[Tensor] = []  # of the optimizer, on a GPU

    def forward(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> Tensor:
        """Past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T) scaled."""
        return self.model(past, past_known, future_known)

    @cached_property
    def training_outputs(self) -> Outputs:
        """The model's, compiled on request: the function and not the model, so that the names of weights stay."""
        if self.compiled in (None, GRAPHS, EAGER):
            return self.model.training_outputs
        return FasterOutputs(self.model, self.compiled)

    def on_train_start(self) -> None:
        """Decides whether steps are recorded, and logs why they are not."""
        optimizer = self.trainer.optimizers[0]
        callbacks = self.trainer.callbacks  # type: ignore[attr-defined]
        self.guard = next((c for c in callbacks if isinstance(c, StopOnNonFinite)), None)
        on_gpu = self.device.type == "cuda"
        self.rates = (
            [torch.zeros((), device=self.device, dtype=torch.float32) for _ in optimizer.param_groups] if on_gpu else []
        )
        if self.compiled != GRAPHS and not (on_gpu and self.compiled is None):
            return
        if why := eager_reason(self.trainer, optimizer):
            self.stay_eager(why)
        else:
            self.recorded = RecordedStep(self.whole_step, self, CudaGraphs(self.device), self.stay_eager)
            self.set_mode(GRAPHS)

    def stay_eager(self, why: str) -> None:
        """Logs why no step is recorded, for the checkpoints too."""
        if self.trainer.is_global_zero:
            mode = self.compiled or "null"
            log.warning("compile=%s: training steps are not recorded: %s. They run as they are.", mode, why)
        self.set_mode(EAGER)

    def set_mode(self, mode: str) -> None:
        """The mode in effect, in which a training that goes on from a checkpoint begins."""
        if self.record is not None and self.device.type == "cuda":
            self.record = replace(self.record, config=self.record.config.with_(compile=mode))

    def whole_step(self, batch: Batch) -> Tensor:
        """The loss of a batch, after the step that it makes. Waits for nothing, so that it can be recorded."""
        optimizer = self.trainer.optimizers[0]
        optimizer.zero_grad()
        loss, _ = self.batch_loss(batch)
        with autocast(self.device, None):  # it is on around a training step
            loss.backward()  # type: ignore[no-untyped-call]
            if self.guard is not None:
                self.guard.check_step(self.trainer, self, optimizer, loss.detach())
            how = self.trainer.gradient_clip_val, self.trainer.gradient_clip_algorithm
            self.configure_gradient_clipping(optimizer, *how)
            optimizer.step()
        return loss.detach()

    def batch_loss(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The loss of a batch, a scalar, and the cells that it is of, None: all."""
        loss: Tensor
        forecast, truth = self.training_outputs(batch.past, batch.past_known, batch.future_known, batch.future)
        known = batch.measured if batch.learnt is None else batch.learnt[:, -truth.shape[1] :]
        if known is not None:
            known = known.repeat(getattr(self.model, "copies", 1), 1, 1)
            check_rows(truth, known)
        spread: Spread | None = getattr(self.model, "spread", None)
        if spread is not None:
            loss = mean_of_measured(spread(forecast, truth), known)
        elif known is None:
            loss = self.criterion(forecast, truth)
        else:
            # what no file held errs nowhere: it adds nothing to the loss or a gradient
            held = torch.where(known, truth, forecast.detach().to(truth.dtype))
            loss = self.criterion(forecast, held)
            loss = loss * (known.numel() / known.sum().clamp(min=1))
        return loss, known

    def training_step(self, batch: Batch) -> Tensor:
        """The loss of a batch, a scalar; of a recorded step after it."""
        known = None
        if self.recorded is None:
            loss, known = self.batch_loss(batch)
        else:
            loss = self.recorded(batch)
            if self.guard is not None:
                self.guard.count_step(self.trainer, self.trainer.optimizers[0])
        squared = getattr(self.model, "spread", None) is None and isinstance(self.criterion, nn.MSELoss)
        name = "train/mse_scaled" if squared else "train/loss_scaled"
        self.loss = loss.detach()
        if self.shows_step():
            self.log(name, self.loss.cpu(), prog_bar=True, batch_size=len(batch.target))
        batches: TrainBatches | None = getattr(getattr(self.trainer, "datamodule", None), "batches", None)
        if batches is None or self.recorded is not None:
            return loss
        # Lightning divides each loss by accumulate_grad_batches, also where the epoch ends before that many came
        loss = loss * batches.accumulated_weight(
            self.trainer.accumulate_grad_batches, int(self.trainer.num_training_batches)
        )
        if batches.world > 1 and known is not None:
            return loss * self.share_of_measured(known)
        # processes average their gradients: the weight makes that the mean over windows where batches differ in size
        return loss * float(batches.weight)

    def shows_step(self) -> bool:
        """Whether the loss of this step is told: reading it waits for a GPU, there in each log_every_n_steps alone."""
        if self.loss.device.type == "cpu" or self.trainer.is_last_batch:
            return True
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        return bool(every) and (self.trainer.global_step + 1) % every == 0

    def share_of_measured(self, known: Tensor) -> Tensor:
        """What a mean over this process's measured cells counts for, so that the average is that over those of all."""
        own = known.sum().float()
        total = cast(Tensor, self.trainer.strategy.reduce(own.clone(), reduce_op="sum"))
        return own * self.trainer.world_size / total.clamp(min=1)

    def validation_step(self, batch: Batch) -> None:
        """Adds a batch's errors."""
        if self.validation_errors is None:
            self.validation_errors = ErrorSums.scaled(*batch.target.shape[1:])
        with exact_float32():
            forecast = self(batch.past, batch.past_known, batch.future_known)
        forecast = batch.bounded(forecast.float())
        squared, absolute = self.validation_errors.update(forecast, batch.target, batch.measured)
        self.window_errors.append((squared.mean(1), absolute.mean(1)))

    def on_validation_epoch_end(self) -> None:
        """Logs the errors over all windows: a mean of batch means would favour the last, smaller batch."""
        errors, self.validation_errors = self.validation_errors, None
        of_windows, self.window_errors = self.window_errors, []
        if errors is None:
            return
        for name, parts in zip(("mse", "mae"), zip(*of_windows, strict=True), strict=True):
            # each of n processes has every n-th batch: its halves are about those of all
            for half, mean in zip(HALVES, half_means(torch.cat(parts).cpu().numpy()), strict=True):
                self.log(logged(half, name), torch.tensor(mean), sync_dist=True, logger=False)
        if self.trainer.world_size > 1:
            total = partial(self.trainer.strategy.reduce, reduce_op="sum")
            errors.reduce(lambda sums: cast(Tensor, total(sums.to(self.device))))
        mse, mae = errors.steps()
        self.log("val/mse_scaled", torch.tensor(np.nanmean(mse)), prog_bar=True, sync_dist=True)
        self.log("val/mae_scaled", torch.tensor(np.nanmean(mae)), sync_dist=True)
        if self.plateau is not None and not self.trainer.sanity_checking:
            chosen_by = mae if best_by(self.trainer) == monitored("mae") else mse
            self.plateau.step(float(np.nanmean(chosen_by)))

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], object] | None = None,
    ) -> None:
        """On a GPU with products in TF32, here alone, and with the rates in tensors."""
        with ExitStack() as inside:
            if self.device.type == "cuda":
                inside.enter_context(float32_products("high"))
                inside.enter_context(rates_on_gpu(self.trainer.optimizers[0], self.rates))
            if self.recorded is None:
                super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
            elif optimizer_closure is not None:
                optimizer_closure()  # the training step, which is all of it

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Optimizer) -> None:
        """As Lightning; a recorded step has done so."""
        if self.recorded is None:
            super().optimizer_zero_grad(epoch, batch_idx, optimizer)

    def backward(self, loss: Tensor, *args: object, **kwargs: object) -> None:
        """As Lightning; a recorded step has done so."""
        if self.recorded is None:
            super().backward(loss, *args, **kwargs)

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """As Lightning, which refuses it beside a fused optimizer, also where gradients have no scale."""
        plugin = self.trainer.precision_plugin
        if isinstance(plugin, MixedPrecision) and plugin.scaler is None:
            how = GradClipAlgorithmType(gradient_clip_algorithm or "norm")
            Precision.clip_gradients(plugin, optimizer, gradient_clip_val or 0.0, how)
        else:
            super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimizer and the schedule of its rate, by epoch or by step."""
        scaled = "16-mixed" if self.device.type == "cuda" else "mixed"  # on a CPU two passes, to the bits of before
        clipped = bool(self.trainer.gradient_clip_val) and str(self.trainer.precision).endswith(scaled)
        fused = fused_keyword(self.make_optimizer, may=not clipped)
        optimizer = self.make_optimizer(self.parameters(), **fused)
        make = self.make_schedule
        scheduler = make(optimizer, **({TOTAL: self.trainer.estimated_stepping_batches} if takes(make, TOTAL) else {}))
        self.plateau = scheduler if isinstance(scheduler, ReduceLROnPlateau) else None
        interval = "step" if is_stepwise(make) else "epoch"
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": interval, "reduce_on_plateau": False},
        }

    def lr_scheduler_step(self, scheduler: LRSchedulerTypeUnion, metric: object) -> None:
        """Steps the schedule; a plateau has had its step after the validation.

        Lightning's would come after the checkpoint of that validation is written: a run resumed from it would lack it.
        """
        if scheduler is not self.plateau:
            super().lr_scheduler_step(scheduler, metric)

    def on_load_checkpoint(self, checkpoint: Entries) -> None:
        """Restores the step of the best validation, and drops the paths of other folders."""
        self.best_step = checkpoint[RECORD]["best_step"]
        drop_other_paths(self.trainer.callbacks, checkpoint["callbacks"])  # type: ignore[attr-defined]

    def on_save_checkpoint(self, checkpoint: dict[str, object]) -> None:
        """Adds our part."""
        assert self.record is not None
        checkpoint[RECORD] = complete_record(replace(self.record, best_step=self.best_step), self.model).saved()


def mean_of_measured(losses: Tensor, measured: Tensor | None) -> Tensor:
    """The mean of the losses (B, R, N) of the cells that a file held; None: all."""
    if measured is None:
        return losses.mean()
    return torch.where(measured, losses, 0.0).sum() / measured.sum().clamp(min=1)


def check_rows(truth: Tensor, measured: Tensor) -> None:
    """Raises UserError where a model of somebody's own learns from other rows, of which nothing is known here."""
    if truth.shape != measured.shape:
        raise UserError(
            f"data.gaps: some cells were filled in, and the model learns rows of its own, {tuple(truth.shape)} where "
            f"the forecast has {tuple(measured.shape)}: they cannot be left out of its loss. Choose model=informer, or "
            "fill the gaps in the file."
        )


# torch.optim.lr_scheduler has one class whose steps are batches though it does not ask for their number.
BY_STEP = (CyclicLR,)
TOTAL = "total_steps"


def fused_keyword(make: Callable[..., Optimizer], *, may: bool) -> dict[str, bool]:
    """The keyword by which an optimizer of torch changes all weights in one pass over them, where it has one.

    may: not, where Lightning clips gradients in mixed precision, which it refuses to do beside a fused optimizer. A
    partial function whose keywords name `fused` keeps its own.
    """
    return {"fused": True} if may and takes(make, "fused") else {}


def takes(make: Callable[..., object], name: str) -> bool:
    """Whether a class or function has a parameter `name`; not where a partial function's keywords give it a value."""
    keywords = getattr(make, "keywords", {})
    return name in parameters(getattr(make, "func", make)) and keywords.get(name) is None


def is_stepwise(make: Callable[..., LRScheduler]) -> bool:
    """Whether a schedule changes the rate after every step: of all others a step is an epoch."""
    target = getattr(make, "func", make)
    return TOTAL in parameters(target) or target in BY_STEP
