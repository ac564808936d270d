"""One shuffled epoch of train windows: ours as a training reads them, the authors' through their own data set."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks import ours, timing
from benchmarks.peers import authors
from benchmarks.setting import Setting, Sizes
from forecast.training.datamodule import ForecastDataModule


def compare(setting: Setting, *, csv: Path, sizes: Sizes, fraction: float) -> dict[str, Any]:
    """Windows per second of both, in turns.

    fraction: of an epoch that is read. Equal work: both give float32 batches of scaled values and calendar, shuffled.
    """
    modules = ForecastDataModule(ours.read(csv, sizes), batch_size=sizes.batch, seed=1)
    seen: dict[str, int] = {}
    contenders = {"ours": counting(seen, "ours", lambda: our_epoch(modules, fraction))}
    peer = authors(setting.peers)
    if peer is not None:
        dataset = peer.dataset(csv, "train", sizes)
        contenders[peer.name] = counting(seen, peer.name, lambda: their_epoch(dataset, sizes, fraction))
    seconds = timing.turns(contenders, rounds=setting.rounds, budget=setting.budget)
    figures = timing.compared(seconds, [peer.name] if peer else [])
    for name in figures:
        figures[name] |= {"windows": seen[name], "windows_per_second": seen[name] / figures[name]["seconds"]}
        for other, ratio in figures[name]["ratios"].items():  # of rates: theirs leaves the last batch out
            factor = seen[name] / seen[other]
            figures[name]["ratios"][other] = {key: value * factor for key, value in ratio.items()}
    return {**sizes.plain(), "fraction": fraction, "contenders": figures}


def counting(seen: dict[str, int], name: str, epoch: Callable[[], int]) -> Callable[[], None]:
    """The epoch as a contender; how many windows it read is kept."""

    def run() -> None:
        seen[name] = epoch()

    return run


def our_epoch(module: ForecastDataModule, fraction: float) -> int:
    """Windows read."""
    windows, loader = 0, module.train_dataloader()
    for number, batch in enumerate(loader):
        if number >= part(len(loader), fraction):
            break
        windows += len(batch.target)
    return windows


def their_epoch(dataset: Any, sizes: Sizes, fraction: float) -> int:
    """Windows read, by the loader and the conversions of their training loop."""
    windows, loader = 0, their_loader(dataset, sizes, train=True)
    for number, items in enumerate(loader):
        if number >= part(len(loader), fraction):
            break
        windows += len(floats(items, "cpu")[0])
    return windows


def their_loader(dataset: Any, sizes: Sizes, *, train: bool) -> DataLoader[Any]:
    """As their experiment builds it: shuffled and without the last, smaller batch in training, in order otherwise."""
    return DataLoader(dataset, batch_size=sizes.batch, shuffle=train, num_workers=0, drop_last=train)


def floats(items: Any, device: str) -> list[torch.Tensor]:
    """Their loop's conversion of a float64 batch: x, y and both calendars."""
    return [each.float().to(device) for each in items]


def part(batches: int, fraction: float) -> int:
    """How many batches a fraction is, as Lightning's limit_train_batches counts, but one at least."""
    return max(1, int(batches * fraction))
