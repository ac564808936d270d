"""One epoch, from the CSV file to the first validation metric: ours as train.py runs it, the authors' by their loop.

Each in a process of its own, in turns. The clock starts when everything is imported and the config is composed, before
the file is opened, and stops when the validation error is known.
"""

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import fresh, ours, timing
from benchmarks.data import their_batches
from benchmarks.peers import authors
from benchmarks.setting import PRECISIONS, Figures, Setting, Sizes, print_now, sizes_from
from forecast.checkpoint.load import build_model  # noqa: F401 - imported before the clock starts
from forecast.commands.train import make_plan, read_data
from forecast.config import entry
from forecast.errors import UserError
from forecast.evaluation.evaluate import fit_baselines
from forecast.training.fit import fit
from forecast.training.record import make_record
from forecast.training.throughput import Throughput

LEARNING_RATE = 1e-4  # conf/optim has the same


def run(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """Paired processes: seconds of ours in both precisions and of the authors', a round after the other.

    A fraction of the train and of the validation batches, on both sides.
    """
    sizes, fraction = Sizes(**sizes_from(arguments)), arguments.fraction
    task = {"csv": str(ours.series_file(arguments.csv)), "sizes": asdict(sizes), "fraction": fraction}
    peer = authors(setting.peers)
    contenders = [(f"ours informer2020 {precision}", precision) for precision in PRECISIONS]
    contenders += [(f"{peer.name} fp32", "")] if peer else []
    seconds: timing.Seconds = {name: [] for name, _ in contenders}
    errors: dict[str, float] = {}
    begun = time.perf_counter()
    for done in range(setting.rounds):
        if done and time.perf_counter() - begun >= setting.budget:
            break
        for name, precision in contenders:
            if precision:
                alone = setting.with_peer("")
                epoch = fresh.in_own_process(our_epoch, alone, as_train=True, precision=precision, **task)
            else:
                epoch = fresh.in_own_process(their_epoch, setting.with_peer(name.split()[0]), **task)
            if "failed" in epoch:
                raise UserError(f"epoch: {name} has failed: {epoch['failed']}")
            seconds[name].append(epoch["seconds"])
            errors[name] = epoch["val_mse"]
            print_now(f"{name}: {epoch['seconds']:.1f} s, validation MSE {epoch['val_mse']:.4f}")
    figures = timing.compared(seconds, [f"{peer.name} fp32"] if peer else [])
    for name, error in errors.items():
        figures[name]["val_mse"] = error
    return {"epoch": {**asdict(sizes), "fraction": fraction, "contenders": figures}}


def our_epoch(setting: Setting, *, csv: str, sizes: dict[str, Any], fraction: float, precision: str) -> Figures:
    """What train.py does, checks and pictures included, with the config of its command line."""
    limits = [f"trainer.limit_{split}_batches={float(fraction)}" for split in ("train", "val")]
    more = ["trainer.max_epochs=1", f"trainer.precision={PRECISIONS[precision]}", *limits]
    with TemporaryDirectory(prefix="benchmark-") as folder:
        return trained(setting, csv=csv, sizes=sizes, folder=folder, more=more)


def trained(setting: Setting, *, csv: str, sizes: dict[str, Any], folder: str, more: list[str]) -> Figures:
    """Trains as train.py does, up to its last evaluation, into a folder; seconds until the first validation error.

    more: overrides of train.py. Without a validation the error is NaN.
    """
    command = [
        *ours.RECIPES["informer2020"],
        *ours.overrides(Sizes(**sizes)),
        *ours.data_overrides(Path(csv)),
        f"trainer.accelerator={'gpu' if setting.device == 'cuda' else 'cpu'}",
        "trainer.enable_progress_bar=false",
        *more,
        f"hydra.run.dir='{folder}'",
    ]
    figures: Figures = {}

    class FirstValidation(Throughput):
        """Notes when the first validation is done: the metric is there, and on a GPU it has been waited for."""

        def on_validation_end(self, trainer: Any, *rest: Any) -> None:
            super().on_validation_end(trainer, *rest)
            if not figures:
                error = float(trainer.callback_metrics["val/mse_scaled"])
                figures.update(seconds=time.perf_counter() - started, val_mse=error)

    started = 0.0

    def main(cfg: Any) -> None:
        nonlocal started
        plan = make_plan(cfg)
        started = time.perf_counter()
        data = read_data(plan.source, plan.config)
        record = make_record(plan.config, plan.choices, plan.source, data, fit_baselines(data))
        fit(plan, data, record, FirstValidation())

    sys.argv = ["train.py", *command]  # what Hydra reads; this process is ours alone
    entry.run(main, config_name="train")
    return figures


def their_epoch(setting: Setting, *, csv: str, sizes: dict[str, Any], fraction: float) -> Figures:
    """Data sets, model, one epoch and the validation, as their experiment does them: no torch.no_grad in the latter."""
    size, peer = Sizes(**sizes), authors(setting.peers)
    assert peer is not None
    started = time.perf_counter()
    sets = {split: peer.dataset(Path(csv), split, size) for split in ("train", "val")}
    train = their_batches(sets["train"], size, setting.device, train=True, fraction=fraction)
    validation = their_batches(sets["val"], size, setting.device, train=False, fraction=fraction)
    model = peer.model(size, setting.device)
    optimizer, criterion = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE), torch.nn.MSELoss()
    losses, errors = [], []
    model.train()
    for batch in train:
        optimizer.zero_grad()
        loss = criterion(*peer.processed(model, size, batch))
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    model.eval()
    for batch in validation:
        forecast, truth = peer.processed(model, size, batch)
        errors.append(float(criterion(forecast.detach().cpu(), truth.detach().cpu())))
    return {"seconds": time.perf_counter() - started, "val_mse": sum(errors) / len(errors)}
