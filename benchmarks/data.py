"""One shuffled epoch of train windows: ours as a training reads them, the authors' through their own data set."""

from collections.abc import Callable
from dataclasses import asdict

from benchmarks import ours, timing
from benchmarks.peers import authors
from benchmarks.setting import Figures, Setting, Sizes
from forecast.training.datamodule import ForecastDataModule


def run(setting: Setting) -> Figures:
    """Windows per second of both, in turns.

    Equal work: both give float32 batches of scaled values and calendar, shuffled.
    """
    sizes, csv, windows = Sizes(**setting.sizes), ours.series_file(setting), dict[str, int]()
    module = ForecastDataModule(ours.prepared(csv, sizes), batch_size=sizes.batch, seed=1)

    def our_epoch() -> None:
        windows["ours"] = sum(len(batch.target) for batch in module.train_dataloader())

    contenders: dict[str, Callable[[], None]] = {"ours": our_epoch}
    if peer := authors(setting):
        dataset = peer.dataset(csv, "train", sizes)

        def their_epoch() -> None:
            windows[peer.name] = sum(len(batch[0]) for batch in peer.batches(dataset, sizes, "cpu"))

        contenders[peer.name] = their_epoch
    figures = timing.compared(timing.turns(contenders, setting), [peer.name] if peer else [])
    for name in figures:
        figures[name] |= {"windows": windows[name], "windows_per_second": windows[name] / figures[name]["seconds"]}
        for other, ratio in figures[name]["ratios"].items():  # of rates: theirs leaves the last batch out
            factor = windows[name] / windows[other]
            figures[name]["ratios"][other] = {key: value * factor for key, value in ratio.items()}
    return {"data": {**asdict(sizes), "contenders": figures}}
