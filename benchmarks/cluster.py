"""A panel forecast by workers of a Ray cluster: two nodes of one CPU each on this machine, beside plain shards."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import cluster_model, timing
from benchmarks.panel_files import apart, overrides, sizes_of, write_panel
from benchmarks.panels import finished
from benchmarks.ray_nodes import environment, ray_nodes
from benchmarks.setting import Figures, Setting, print_now
from forecast.errors import UserError
from forecast.text.overrides import install

ROWS, TRAINED = 100, 2000
LENGTHS = {"seq_len": 48, "label_len": 24, "pred_len": 12}
ROUNDS, LONGEST = 3, 400.0  # seconds of rounds, after which none begins that would end later
POLL = 0.05  # seconds between looks at a worker


def run(setting: Setting) -> Figures:
    """Medians of ROUNDS turns, the files in the disk cache. UserError where a command fails, and without Ray."""
    if find_spec("ray") is None:
        raise UserError(f"cluster: the package ray is not installed. Install it: {install('ray')}")
    rounds = min(ROUNDS, setting.rounds)
    with TemporaryDirectory(prefix="benchmark-") as name, ray_nodes(2) as address:
        folder = Path(name)
        command = prepared(setting, folder)
        contenders: Mapping[str, Callable[[], Figures]] = {
            "one process": lambda: plain(command, folder, 1),
            "two shards": lambda: plain(command, folder, 2),
            "Ray, one worker": lambda: on_ray(command, folder, address, 1),
            "Ray, two workers": lambda: on_ray(command, folder, address, 2),
        }
        taken: dict[str, list[Figures]] = {name: [] for name in contenders}
        few = on_ray([*command, f"data.path={folder}/few.parquet"], folder, address, 2)["seconds"]
        remove(folder)
        begun = time.perf_counter()
        for number in range(rounds):
            if number and (time.perf_counter() - begun) * (number + 1) / number > LONGEST:
                break
            for contender, measured in contenders.items():
                print_now(f"{contender} ...")
                taken[contender].append(measured())
                check_equal(folder)
        ids = max(path.stat().st_size for path in folder.glob("cache/*/arrays.npz"))
    found = {name: middle(all_of) for name, all_of in taken.items()}
    for figures in found.values():
        figures |= {"rate": setting.predicted / figures["seconds"], "of": "series"}
    one, two, plainly = found["Ray, one worker"], found["Ray, two workers"], found["two shards"]
    shares = {
        "linear": one["seconds"] / two["seconds"] / 2,
        "parts_linear": one["parts"] / two["parts"] / 2,
        "overhead": two["seconds"] / plainly["seconds"] - 1,
        "parts_overhead": two["parts"] / plainly["parts"] - 1,
        "started": two["seconds"] - two["parts"] - (plainly["seconds"] - plainly["parts"]),
    }
    took = {"whole": two["seconds"], "parts": two["parts"], "few": few}
    cost = cluster_model.measured(series=setting.predicted, **took, workers=2, ids=ids)
    sample = {"predicted": setting.predicted, "rows": ROWS, "d_model": sizes_of(setting, **LENGTHS).d_model}
    figures = {**LENGTHS, **sample, **shares, "cost": cost, "contenders": found}
    print_now(
        "",
        f"Two workers are {shares['linear']:.0%} of twice as fast as one, {shares['parts_linear']:.0%} without start. "
        f"Ray takes {shares['overhead']:+.0%} beside two shards, {shares['parts_overhead']:+.0%} without.",
        cluster_model.text(figures),
    )
    return {"cluster": figures}


def middle(rounds: list[Figures]) -> Figures:
    """The round of the median time."""
    return dict(sorted(rounds, key=lambda figures: float(figures["seconds"]))[len(rounds) // 2])


def prepared(setting: Setting, folder: Path) -> list[str]:
    """The command line of a forecast: of an Informer trained on few series, the large panel converted."""
    for name, series in (("few", TRAINED), ("all", setting.predicted)):
        apart(write_panel, setting, path=f"{folder}/{name}.parquet", series=series, rows=ROWS)
    more = [f"data.cache={folder}/cache", "trainer.max_steps=1", f"hydra.run.dir={folder}/run"]
    words = overrides(folder / "few.parquet", sizes_of(setting, **LENGTHS), *more)
    print_now("train ...")
    finished([[str(timing.ROOT / "train.py"), *words]])
    command = [str(timing.ROOT / "predict.py"), f"ckpt_path={folder}/run/checkpoints/last.ckpt", "device=cpu"]
    command += [f"data.path={folder}/all.parquet"]
    finished([[*command, f"output={folder}/one.parquet"]])  # converts
    return command


def plain(command: list[str], folder: Path, count: int) -> Figures:
    """By as many processes at once as there are parts, merged where there are several."""
    output, start = folder / "f.parquet", time.perf_counter()
    parts = [output] if count == 1 else [folder / f"part{number}.parquet" for number in range(1, count + 1)]
    said = [[] if count == 1 else [f"shard={number}/{count}"] for number in range(1, count + 1)]
    with Pieces([part.with_name(f"{part.name}.parts") for part in parts]) as pieces:
        ends = finished([[*command, f"output={part}", *more] for part, more in zip(parts, said, strict=True)])
    if count > 1:
        finished([["-m", "forecast", "merge", *map(str, parts), "--output", str(output)]])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "megabytes": max(end["megabytes"] for end in ends), "parts": pieces.seconds}


class Pieces:
    """Looks at the folders of plain forecasts while their parts are made: from the last to begin to the last part."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders, self.begun, self.last = folders, 0.0, 0.0
        self._end, self._thread = threading.Event(), threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Pieces":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Of the parts alone."""
        return self.last - self.begun

    def _look(self) -> None:
        seen: set[Path] = set()
        begun: set[Path] = set()
        while not self._end.wait(POLL):
            now = time.perf_counter()
            more = {folder for folder in self.folders if folder.is_dir()} - begun
            written = {path for folder in self.folders for path in folder.glob("*.json")} - seen
            self.begun, self.last = (now if more else self.begun), (now if written else self.last)
            begun |= more
            seen |= written


def on_ray(command: list[str], folder: Path, address: str, workers: int) -> Figures:
    """By workers of the cluster. parts: seconds from all of them being there to the last part."""
    output, start = folder / "f.parquet", time.perf_counter()
    words = [sys.executable, *command, f"output={output}", "engine=ray", f"ray.address={address}"]
    log, pieces = folder / "ray.log", folder / "f.parquet.parts"
    begun, last, made, peak = 0.0, 0.0, 0, 0.0
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*words, f"ray.workers={workers}"], stdout=file, stderr=file, env=environment(), cwd=timing.ROOT
        )
        while process.poll() is None:
            there = [*pieces.glob(".seen-*-*-*")] if pieces.is_dir() else []
            peak = max([peak, *(peak_of(path.name.rpartition("-")[2]) for path in there)])
            now, count = time.perf_counter(), len([*pieces.glob("shard-*.json")]) if pieces.is_dir() else 0
            begun = now if len(there) < workers and not made else begun
            last, made = (now, count) if count > made else (last, made)
            time.sleep(POLL)
    if process.returncode:
        raise UserError(f"python {' '.join(words[1:])} has failed: {log.read_text().strip()[-500:]}")
    return {"seconds": time.perf_counter() - start, "megabytes": peak, "parts": last - begun}


def peak_of(process: str) -> float:
    """10^6 bytes at the peak of a process that runs; 0 of one that has ended."""
    try:
        lines = Path("/proc", process, "status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM")), 0.0)


def check_equal(folder: Path) -> None:
    """UserError unless what was forecast is byte for byte what one process did; then it is removed."""
    output = folder / "f.parquet"
    if output.read_bytes() != (folder / "one.parquet").read_bytes():
        raise UserError("cluster: the forecast is not that of one process")
    remove(folder)


def remove(folder: Path) -> None:
    """What a contender has written."""
    for path in (*folder.glob("f.*"), *folder.glob("part*")):
        path.unlink()
