"""One shuffled epoch of train windows: ours as a training reads them, the authors' through their own data set."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks import ours, timing
from benchmarks.peers import authors
from benchmarks.setting import Figures, Setting, Sizes, sizes_from
from forecast.training.datamodule import ForecastDataModule


def run(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """Windows per second of both, in turns, over a fraction of an epoch.

    Equal work: both give float32 batches of scaled values and calendar, shuffled.
    """
    sizes, fraction = Sizes(**sizes_from(arguments)), arguments.fraction
    csv, windows = ours.series_file(arguments.csv), dict[str, int]()
    module = ForecastDataModule(ours.read(csv, sizes), batch_size=sizes.batch, seed=1)

    def our_epoch() -> None:
        loader = module.train_dataloader()
        windows["ours"] = sum(len(batch.target) for batch in islice(loader, part(len(loader), fraction)))

    contenders: dict[str, Callable[[], None]] = {"ours": our_epoch}
    peer = authors(setting.peers)
    if peer is not None:
        dataset = peer.dataset(csv, "train", sizes)

        def their_epoch() -> None:
            batches = their_batches(dataset, sizes, "cpu", train=True, fraction=fraction)
            windows[peer.name] = sum(len(batch[0]) for batch in batches)

        contenders[peer.name] = their_epoch
    seconds = timing.turns(contenders, rounds=setting.rounds, budget=setting.budget)
    figures = timing.compared(seconds, [peer.name] if peer else [])
    for name in figures:
        figures[name] |= {"windows": windows[name], "windows_per_second": windows[name] / figures[name]["seconds"]}
        for other, ratio in figures[name]["ratios"].items():  # of rates: theirs leaves the last batch out
            factor = windows[name] / windows[other]
            figures[name]["ratios"][other] = {key: value * factor for key, value in ratio.items()}
    return {"data": {**asdict(sizes), "fraction": fraction, "contenders": figures}}


def their_batches(
    dataset: Any, sizes: Sizes, device: str, *, train: bool, fraction: float = 1.0
) -> Iterator[list[torch.Tensor]]:
    """x, y and both calendars, by the loader of their experiment and its loop's conversion from float64.

    Shuffled and without the last, smaller batch in training, in order otherwise.
    """
    loader = DataLoader(dataset, batch_size=sizes.batch, shuffle=train, num_workers=0, drop_last=train)
    for items in islice(loader, part(len(loader), fraction)):
        yield [item.float().to(device) for item in items]


def part(batches: int, fraction: float) -> int:
    """How many batches a fraction is, as Lightning's limit_train_batches counts, but one at least."""
    return max(1, int(batches * fraction))
