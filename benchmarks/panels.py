"""Many series: a panel of a million of them opened, trained on and forecast, and a smaller one beside a peer.

Each figure is measured in a process of its own, whose whole memory counts, what it imports included.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import ours, timing
from benchmarks.panel_files import LENGTHS, ROWS, apart, overrides, sizes_of, write_panel
from benchmarks.panel_training import panel_training
from benchmarks.setting import Figures, Setting, Sizes, print_now
from forecast.errors import UserError
from forecast.training.throughput import PeakMemory

PREDICTED_ROWS = 200
PREDICTED_LENGTHS = {"seq_len": 96, "label_len": 48, "pred_len": 24}
SHARDS = 2


def run(setting: Setting) -> Figures:
    """Both tables; the second one where a peer is given. Raises UserError where a step fails."""
    from benchmarks import panel_peer

    with TemporaryDirectory(prefix="benchmark-") as folder:
        figures: Figures = {"panels": large(setting, Path(folder))}
        if panel_peer.PEER in setting.peers:
            figures["panel_peer"] = panel_peer.run(setting, Path(folder))
    return figures


def large(setting: Setting, folder: Path) -> Figures:
    """Of `setting.series` series: converted, opened, an epoch, windows alone; of `setting.predicted` forecasts."""
    panel, cache = folder / "panel.parquet", folder / "cache"
    sizes = sizes_of(setting, **LENGTHS)
    apart(write_panel, setting, path=str(panel), series=setting.series, rows=ROWS)
    command = overrides(panel, sizes, f"data.cache='{cache}'", f"data.windows_per_epoch={setting.windows}")
    found: Figures = {"converted": apart(converted, setting, command=command)}
    more = ["trainer.max_epochs=1", f"hydra.run.dir='{folder}/run'"]
    trained = apart(panel_training, setting, command=[*command, *more])
    windows = setting.windows / trained["trained"]["seconds"]
    found["opened"] = trained["opened"]
    found["baselines"] = trained["baselines"]
    found["an epoch"] = {**trained["trained"], "rate": windows, "of": "windows"}
    for short in ("drop", "pad"):
        found[f"windows alone, data.short={short}"] = apart(
            windows_alone, setting, command=[*command, f"data.short={short}"]
        )
    found["predict"] = predicted(setting, folder)
    sample = {"series": setting.series, "rows": ROWS, "windows": setting.windows}
    sample |= {"predicted": setting.predicted, "predicted_rows": PREDICTED_ROWS}
    of_predict = asdict(predicted_sizes(setting))
    sample |= {f"predicted_{name}": of_predict[name] for name in PREDICTED_LENGTHS}
    return {**asdict(sizes), **sample, "contenders": found}


def predicted_sizes(setting: Setting) -> Sizes:
    """Of the model that `predicted` runs."""
    return sizes_of(setting, **PREDICTED_LENGTHS)


def converted(setting: Setting, *, command: Sequence[str]) -> Figures:
    """The file read into the folder `data.cache`."""
    from forecast.data.read import read_panel
    from forecast.data.sources import CsvSource

    source = ours.values(*command).data.build(CsvSource)
    memory, start = PeakMemory(), time.perf_counter()
    read_panel(source)
    return {"seconds": time.perf_counter() - start, "megabytes": timing.whole_peak(memory)}


def windows_alone(setting: Setting, *, command: Sequence[str]) -> Figures:
    """Epochs of batches as a training gets them, which nobody reads, on one thread."""
    import torch

    from forecast.apps.common.training_data import read_data
    from forecast.data.sources import CsvSource
    from forecast.training.datamodule import ForecastDataModule

    torch.set_num_threads(1)
    config = ours.values(*command)
    data, given = read_data(config.data.build(CsvSource), config), config.data
    module = ForecastDataModule(
        data, batch_size=given.batch_size, seed=config.seed, windows_per_epoch=given.windows_per_epoch
    )
    memory, counted = PeakMemory(), []

    def epoch() -> None:
        counted.append(sum(len(batch.target) for batch in module.train_dataloader()))

    (figures,) = timing.compared(timing.turns({"": epoch}, setting), []).values()
    rate = counted[-1] / figures["seconds"]
    return {**figures, "rate": rate, "of": "windows", "megabytes": timing.whole_peak(memory)}


def predicted(setting: Setting, folder: Path) -> Figures:
    """The steps after every series of a panel in two parts at once, a thread each, and both merged: from the shell.

    megabytes: of the larger process. cpu_seconds: of all of them.
    """
    panel, output, run = folder / "predicted.parquet", folder / "forecast.csv", f"{folder}/predicted"
    apart(write_panel, setting, path=str(panel), series=setting.predicted, rows=PREDICTED_ROWS)
    sizes = predicted_sizes(setting)
    steps = ["trainer.max_steps=1", f"hydra.run.dir='{run}'"]
    apart(panel_training, setting, command=overrides(panel, sizes, *steps))
    print_now("predict ...")
    parts = [folder / f"part{number}.csv" for number in range(1, SHARDS + 1)]
    start = time.perf_counter()
    ends = finished(
        [
            [
                str(timing.ROOT / "predict.py"),
                f"ckpt_path='{run}/checkpoints/last.ckpt'",
                f"output='{part}'",
                f"shard={number}/{SHARDS}",
                "device=cpu",
                f"hydra.run.dir='{folder}/part{number}'",
            ]
            for number, part in enumerate(parts, 1)
        ]
    )
    forecast = time.perf_counter() - start
    merge = ["-m", "forecast", "merge", *map(str, parts), "--output", str(output)]
    ends += finished([merge])
    seconds = time.perf_counter() - start
    rows = sum(block.count(b"\n") for block in iter_blocks(output)) - 1
    if rows != setting.predicted * sizes.pred_len:
        raise UserError(f"panels: {rows} rows were forecast, not {setting.predicted * sizes.pred_len}")
    return {
        "seconds": seconds,
        "forecast_seconds": forecast,
        "cpu_seconds": sum(end["cpu_seconds"] for end in ends),
        "megabytes": max(end["megabytes"] for end in ends),
        "rate": setting.predicted / seconds,
        "of": "series",
    }


def finished(commands: Sequence[Sequence[str]]) -> list[Figures]:
    """Python commands at once, one thread each: 10^6 bytes at the peak and CPU seconds of each.

    Raises UserError for one that fails.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with TemporaryDirectory(prefix="benchmark-") as folder:
        started = []
        for number, command in enumerate(commands):
            with Path(folder, str(number)).open("w") as log:
                started.append(
                    subprocess.Popen(
                        [sys.executable, *command], cwd=timing.ROOT, env=environment, stdout=log, stderr=log
                    )
                )
        ends = []
        for number, process in enumerate(started):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                said = Path(folder, str(number)).read_text().strip()[-500:]
                raise UserError(f"python {' '.join(commands[number])} has failed: {said}")
            ends.append({"megabytes": usage.ru_maxrss * 1024 / 1e6, "cpu_seconds": usage.ru_utime + usage.ru_stime})
    return ends


def iter_blocks(path: Path) -> Any:
    """The bytes of a file, some at a time."""
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block
