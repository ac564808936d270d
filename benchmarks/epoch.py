"""One epoch, from the CSV file to the first validation metric: ours as train.py runs it, the authors' by their loop.

Each in a process of its own, in turns. The clock starts when everything is imported and the config is composed, before
the file is opened, and stops when the validation error is known.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import ours, timing
from benchmarks.data import floats, part, their_loader
from benchmarks.fresh import in_own_process
from benchmarks.peers import authors
from benchmarks.setting import PRECISIONS, Setting, Sizes
from forecast.checkpoint.load import build_model  # noqa: F401 - imported before the clock starts
from forecast.commands.train import make_plan, read_data
from forecast.config import entry
from forecast.errors import UserError
from forecast.evaluation.evaluate import fit_baselines
from forecast.training.fit import fit
from forecast.training.record import make_record
from forecast.training.throughput import Throughput

LEARNING_RATE = 1e-4  # conf/optim has the same


class FirstValidation(Throughput):
    """Notes when the first training step and the first validation are done."""

    def __init__(self) -> None:
        super().__init__()
        self.first_step = self.validated = 0.0
        self.first_step_at = 0.0  # seconds since 1970: another process compares it with its own clock
        self.mse = float("nan")

    def on_train_batch_end(self, *given: Any) -> None:
        """The first step."""
        super().on_train_batch_end(*given)
        if not self.first_step:
            self.first_step, self.first_step_at = time.perf_counter(), time.time()

    def on_validation_end(self, trainer: Any, *given: Any) -> None:
        """The metric is there, and on a GPU it has been waited for."""
        super().on_validation_end(trainer, *given)
        if not self.validated:
            self.mse = float(trainer.callback_metrics["val/mse_scaled"])
            self.validated = time.perf_counter()


def compare(
    setting: Setting, *, csv: Path, sizes: Sizes, fraction: float, tell: Callable[[str, float], None]
) -> dict[str, Any]:
    """Paired processes: seconds of ours in both precisions and of the authors', a round after the other.

    fraction: of the train and of the validation batches, on both sides.
    """
    given = {"csv": str(csv), "sizes": sizes.plain(), "fraction": fraction}
    kinds: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, str]]]
    kinds = {f"ours informer2020 {precision}": (our_epoch, {"precision": precision}) for precision in PRECISIONS}
    peer = authors(setting.peers)
    if peer is not None:
        kinds[f"{peer.name} fp32"] = (their_epoch, {})
    seconds: timing.Seconds = {name: [] for name in kinds}
    details: dict[str, Any] = {}
    begun = time.perf_counter()
    for done in range(setting.rounds):
        if done and time.perf_counter() - begun >= setting.budget:
            break
        for name, (function, more) in kinds.items():
            alone = setting.with_peer(peer.name if peer and function is their_epoch else "")
            found = in_own_process(function, alone, as_train=function is our_epoch, **given, **more)
            if "failed" in found:
                raise UserError(f"epoch: {name} has failed: {found['failed']}")
            seconds[name].append(found.pop("seconds"))
            details[name] = found
            tell(name, seconds[name][-1])
    figures = timing.compared(seconds, [f"{peer.name} fp32"] if peer else [])
    return {**sizes.plain(), "fraction": fraction, "contenders": {n: figures[n] | details[n] for n in figures}}


def our_epoch(
    setting: Setting, *, csv: str, sizes: dict[str, Any], fraction: float, precision: str
) -> dict[str, float]:
    """What train.py does, checks and pictures included, with the config of its command line."""
    size = Sizes(**sizes)
    command = [
        *train_command(setting, Path(csv), size),
        "trainer.max_epochs=1",
        f"trainer.precision={PRECISIONS[precision]}",
        f"trainer.limit_train_batches={float(fraction)}",
        f"trainer.limit_val_batches={float(fraction)}",
    ]
    with TemporaryDirectory(prefix="benchmark-") as folder:
        started, cost = fitted([*command, f"hydra.run.dir='{folder}'"])
    return {
        "seconds": cost.validated - started,
        "until_first_step": cost.first_step - started,
        "val_mse": cost.mse,
    }


def train_command(setting: Setting, csv: Path, sizes: Sizes) -> list[str]:
    """The arguments of train.py that all parts share."""
    return [
        *ours.RECIPES["informer2020"],
        *ours.overrides(sizes),
        *ours.data_overrides(csv),
        f"trainer.accelerator={'gpu' if setting.device == 'cuda' else 'cpu'}",
        "trainer.enable_progress_bar=false",
    ]


def fitted(command: list[str]) -> tuple[float, FirstValidation]:
    """Trains as train.py does with this command line, up to its last evaluation; when it began, and the times noted."""
    found: dict[str, Any] = {}

    def main(cfg: Any) -> None:
        plan = make_plan(cfg)
        found["started"] = time.perf_counter()
        data = read_data(plan.source, plan.config)
        record = make_record(plan.config, plan.choices, plan.source, data, fit_baselines(data))
        found["cost"] = FirstValidation()
        fit(plan, data, record, found["cost"])

    with command_line(["train.py", *command]):
        entry.run(main, config_name="train")
    return found["started"], found["cost"]


@contextmanager
def command_line(words: list[str]) -> Iterator[None]:
    """sys.argv for a while."""
    before = sys.argv
    sys.argv = words
    try:
        yield
    finally:
        sys.argv = before


def their_epoch(setting: Setting, *, csv: str, sizes: dict[str, Any], fraction: float) -> dict[str, float]:
    """Data sets, model, one epoch and the validation, as their experiment does them: no torch.no_grad in the latter."""
    size, peer = Sizes(**sizes), authors(setting.peers)
    assert peer is not None
    started = time.perf_counter()
    train = their_loader(peer.dataset(Path(csv), "train", size), size, train=True)
    validation = their_loader(peer.dataset(Path(csv), "val", size), size, train=False)
    model = peer.model(size, setting.device)
    optimizer, criterion = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE), torch.nn.MSELoss()
    losses, first_step = [], 0.0
    model.train()
    for _, items in zip(range(part(len(train), fraction)), train, strict=False):
        optimizer.zero_grad()
        loss = criterion(*peer.processed(model, size, floats(items, setting.device)))
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        first_step = first_step or time.perf_counter()
    model.eval()
    errors = []
    for _, items in zip(range(part(len(validation), fraction)), validation, strict=False):
        forecast, truth = peer.processed(model, size, floats(items, setting.device))
        errors.append(float(criterion(forecast.detach().cpu(), truth.detach().cpu())))
    mean = sum(errors) / len(errors)
    return {"seconds": time.perf_counter() - started, "until_first_step": first_step - started, "val_mse": mean}
