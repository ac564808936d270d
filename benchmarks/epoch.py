"""One epoch, from the CSV file to the first validation metric: ours as train.py runs it, the authors' by their loop.

Each in a process of its own, in turns. The clock starts when everything is imported and the config is composed, before
the file is opened, and stops when the validation error is known.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lightning.pytorch.callbacks import Callback

from benchmarks import ours, timing
from benchmarks.peers import authors
from benchmarks.setting import PRECISIONS, Figures, Setting, Sizes, print_now
from forecast.apps.common.training_data import make_plan, read_data
from forecast.checkpoint.model import build_model
from forecast.config import entry
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines
from forecast.training.fit import fit
from forecast.training.record import make_record

LEARNING_RATE = 1e-4  # conf/optim has the same
WORKERS = 8


def run(setting: Setting) -> Figures:
    """Paired processes: seconds of ours in both precisions and of the authors', a round after the other.

    A fraction of the train and of the validation batches, on both sides.
    """
    csv, peer = str(ours.series_file(setting)), authors(setting)
    tasks: dict[str, Figures] = {
        f"ours informer2020 {precision}": {"function": our_epoch, "as_train": True, "precision": precision}
        for precision in PRECISIONS
    }
    if setting.device == "cuda":
        graphs = {"precision": "bf16-mixed", "more": ("compile=graphs",)}
        tasks["ours informer2020 bf16-mixed graphs"] = {"function": our_epoch, "as_train": True, **graphs}
    theirs: dict[str, Figures] = {f"{peer.name} fp32": {"function": their_epoch}} if peer else {}
    if peer and setting.device == "cuda":  # as many processes that load as their command line has on a GPU's machine
        theirs[f"{peer.name} fp32, {WORKERS} workers"] = {"function": their_epoch, "as_train": True, "workers": WORKERS}
    seconds: timing.Seconds = {name: [] for name in [*tasks, *theirs]}
    errors: dict[str, float] = {}
    begun = time.perf_counter()
    for completed in range(setting.rounds):
        if completed and time.perf_counter() - begun >= setting.budget:
            break
        for name, task in {**tasks, **theirs}.items():
            epoch = timing.in_own_process(setting=setting, csv=csv, **task)
            if "failed" in epoch:
                raise UserError(f"epoch: {name} has failed: {epoch['failed']}")
            seconds[name].append(epoch["seconds"])
            errors[name] = epoch["val_mse"]
            print_now(f"{name}: {epoch['seconds']:.1f} s, validation MSE {epoch['val_mse']:.4f}")
    figures = timing.compared(seconds, list(theirs))
    for name, error in errors.items():
        figures[name]["val_mse"] = error
    return {"epoch": {**asdict(Sizes(**setting.sizes)), "fraction": setting.fraction, "contenders": figures}}


def our_epoch(setting: Setting, *, csv: str, precision: str, more: Sequence[str] = ()) -> Figures:
    """What train.py does, checks and pictures included, with the config of its command line."""
    limits = [f"trainer.limit_{split}_batches={float(setting.fraction)}" for split in ("train", "val")]
    words = ["trainer.max_epochs=1", f"trainer.precision={PRECISIONS[precision]}", *limits, *more]
    with TemporaryDirectory(prefix="benchmark-") as folder:
        return trained(setting, csv=csv, folder=folder, more=words)


def trained(setting: Setting, *, csv: str, folder: str, more: list[str]) -> Figures:
    """Trains as train.py does, up to its last evaluation, into a folder; seconds until the first validation error.

    more: overrides of train.py. Without a validation there are no figures.
    """
    figures: Figures = {}

    class FirstValidation(Callback):
        """Notes when the first validation is done: the metric is there, and on a GPU it has been waited for."""

        def on_validation_end(self, *rest: Any) -> None:
            trainer = rest[0]
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
        plan.parts.callbacks.append(FirstValidation())
        fit(plan, build_model(plan.config, record.data), data, record)

    sys.argv = [  # what Hydra reads; this process is ours alone
        "train.py",
        *ours.overrides("informer2020", Sizes(**setting.sizes), csv),
        f"trainer.accelerator={'gpu' if setting.device == 'cuda' else 'cpu'}",
        "trainer.enable_progress_bar=false",
        *more,
        f"hydra.run.dir='{folder}'",
    ]
    entry.run(main, config_name="train")
    return figures


def their_epoch(setting: Setting, *, csv: str, workers: int = 0) -> Figures:
    """Data sets, model, one epoch and the validation, as their experiment does them: no torch.no_grad in the latter."""
    sizes, peer = Sizes(**setting.sizes), authors(setting)
    assert peer is not None
    started = time.perf_counter()
    sets = [peer.dataset(Path(csv), split, sizes) for split in ("train", "val")]
    how: dict[str, Any] = {"fraction": setting.fraction, "workers": workers}
    train = peer.batches(sets[0], sizes, setting.device, **how)
    validation = peer.batches(sets[1], sizes, setting.device, train=False, **how)
    model = peer.model(sizes, setting.device)
    optimizer, criterion = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE), torch.nn.MSELoss()
    losses, errors = [], []
    model.train()
    for batch in train:
        optimizer.zero_grad()
        loss = criterion(*peer.processed(model, sizes, batch))
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    model.eval()
    for batch in validation:
        forecast, truth = peer.processed(model, sizes, batch)
        errors.append(float(criterion(forecast.detach().cpu(), truth.detach().cpu())))
    return {"seconds": time.perf_counter() - started, "val_mse": sum(errors) / len(errors)}
