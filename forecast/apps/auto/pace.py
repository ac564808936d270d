"""How long the epochs of a network take, and how many of them there is time for."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.optim import Optimizer

from forecast.apps.common.training_data import begin
from forecast.training.fit import Plan, checked_model, make_batches

LONGEST, FEWEST = 1.5, 3  # seconds and calls of a measurement
OVERHEAD = 1.15  # of a training over its steps alone
MOST_EPOCHS, UPDATES = 6, 1000  # epochs, and steps where the windows are so few that epochs have hardly any
FEWEST_EPOCHS, FEWEST_BATCHES = 3, 20  # less is no training
Settings = dict[str, int]  # the overrides that fit a training into its time


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long the training of a network takes.

    batches: of an epoch, with batch_size windows each. seconds: of a train batch. validation: seconds of one. draws:
    whether an epoch may be a drawn part of the windows. networks: how many are trained side by side in these seconds,
    and how many there may be at most.
    """

    batches: int
    batch_size: int
    seconds: float
    validation: float
    draws: bool
    networks: int = 1

    def settings(self, allowance: float) -> Settings | None:
        """The overrides of a training that takes so many seconds at most; None where there is no time for one.

        One network with all epochs comes before further networks.
        """
        if self.networks > 1:
            share = 1 / self.networks
            single = replace(self, networks=1, seconds=share * self.seconds, validation=share * self.validation)
            all_epochs = MOST_EPOCHS * (single.batches * single.seconds + single.validation)
            networks = min(self.networks, max(1, int(allowance / all_epochs)))
            settings = single.settings(allowance / networks)
            return settings if settings is None else {**settings, "networks": networks}
        most = max(MOST_EPOCHS, UPDATES // max(1, self.batches))
        epoch = self.batches * self.seconds + self.validation
        if FEWEST_EPOCHS * epoch <= allowance:
            epochs = min(most, int(allowance / epoch))
            return {"trainer.max_epochs": epochs, "callbacks.early_stopping.patience": max(2, epochs // 5)}
        for epochs in range(FEWEST_EPOCHS, 0, -1):
            batches = int((allowance / epochs - self.validation) / self.seconds)
            if batches >= FEWEST_BATCHES:
                part: Settings = (
                    {"data.windows_per_epoch": batches * self.batch_size}
                    if self.draws
                    else {"trainer.limit_train_batches": min(batches, self.batches)}
                )
                return {"trainer.max_epochs": epochs, "callbacks.early_stopping.patience": 2, **part}
        return None


def measure(plan: Plan, clock: Callable[[], float]) -> Pace:
    """Trains on one batch and forecasts it a few times, with weights that nobody keeps. clock: gives seconds."""
    torch.manual_seed(plan.config.seed)
    data, _, record = begin(plan, ridge=False)
    config, (model, _) = plan.config, checked_model(plan, data, record)
    batches = make_batches(config, model, data)
    batches.setup("fit")
    batch_size = config.data.batch_size
    first = next(iter(batches.train_dataloader()))
    optimizer, loss = config.optim.factory(Optimizer)(list(model.parameters())), config.loss.build(nn.Module)

    def step() -> None:
        optimizer.zero_grad()
        outputs, truth = model.training_outputs(first.past, first.past_known, first.future_known, first.future)
        loss(outputs, truth).backward()
        optimizer.step()

    def forward() -> None:
        with torch.inference_mode():
            model(first.past, first.past_known, first.future_known)

    of_step, of_forward = timed(step, clock), timed(forward, clock)
    windows = len(data.windows("val"))
    return Pace(
        batches=-(-batches.order.count // batch_size),
        batch_size=batch_size,
        seconds=OVERHEAD * of_step,
        validation=OVERHEAD * of_forward * windows / len(first.past) + 0.1,
        draws=data.frame.id_column is not None,
        networks=config.networks,
    )


def timed(call: Callable[[], None], clock: Callable[[], float]) -> float:
    """The mean seconds of a call, over a few; a first one, which is slower, does not count."""
    call()
    started, count = clock(), 0
    while count < FEWEST or clock() - started < LONGEST / 2:
        call()
        count += 1
        if clock() - started > LONGEST:
            break
    return (clock() - started) / count
