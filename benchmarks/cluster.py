"""A panel forecast by workers of a Ray cluster: two nodes of one CPU each on this machine, beside plain shards."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import timing
from benchmarks.panel_files import write_panel
from benchmarks.panels import apart, finished
from benchmarks.ray_nodes import environment, ray_nodes
from benchmarks.setting import Figures, Setting, print_now
from forecast.errors import UserError

ROWS, TRAINED = 100, 2000
LENGTHS = {"seq_len": 48, "label_len": 0, "pred_len": 12}
ROUNDS = 3
POLL = 0.05  # seconds between looks at a worker


def run(setting: Setting) -> Figures:
    """Medians of ROUNDS turns, the files in the disk cache. UserError where a command fails, and without Ray."""
    if find_spec("ray") is None:
        raise UserError("cluster: the package ray is not installed. Install it: pip install 'forecast[ray]'")
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
        for _ in range(rounds):
            for contender, measured in contenders.items():
                print_now(f"{contender} ...")
                taken[contender].append(measured())
                check_equal(folder)
    found = {name: middle(all_of) for name, all_of in taken.items()}
    for figures in found.values():
        figures |= {"rate": setting.predicted / figures["seconds"], "of": "series"}
    one, two = found["Ray, one worker"], found["Ray, two workers"]
    shares = {
        "linear": one["seconds"] / two["seconds"] / 2,
        "parts_linear": one["parts"] / two["parts"] / 2,
        "overhead": two["seconds"] / found["two shards"]["seconds"] - 1,
    }
    return {"cluster": {**LENGTHS, "predicted": setting.predicted, "rows": ROWS, **shares, "contenders": found}}


def middle(rounds: list[Figures]) -> Figures:
    """The round of the median time."""
    return dict(sorted(rounds, key=lambda figures: float(figures["seconds"]))[len(rounds) // 2])


def prepared(setting: Setting, folder: Path) -> list[str]:
    """The command line of a forecast: of a ridge trained on few series, the large panel converted."""
    for name, series in (("few", TRAINED), ("all", setting.predicted)):
        apart(write_panel, setting, path=f"{folder}/{name}.parquet", series=series, rows=ROWS)
    words = ["model=ridge", "data=csv", f"data.path={folder}/few.parquet", "data.id_column=unique_id"]
    words += ["data/split=last", f"data.cache={folder}/cache", *(f"{key}={value}" for key, value in LENGTHS.items())]
    print_now("train ...")
    finished([[str(timing.ROOT / "train.py"), *words, "logger=none", f"hydra.run.dir={folder}/run"]])
    command = [str(timing.ROOT / "predict.py"), f"ckpt_path={folder}/run/checkpoints/best.ckpt", "device=cpu"]
    command += [f"data.path={folder}/all.parquet"]
    finished([[*command, f"output={folder}/one.parquet"]])  # converts
    return command


def plain(command: list[str], folder: Path, count: int) -> Figures:
    """By as many processes at once as there are parts, merged where there are several."""
    output, start = folder / "f.parquet", time.perf_counter()
    parts = [output] if count == 1 else [folder / f"part{number}.parquet" for number in range(1, count + 1)]
    said = [[] if count == 1 else [f"shard={number}/{count}"] for number in range(1, count + 1)]
    ends = finished([[*command, f"output={part}", *more] for part, more in zip(parts, said, strict=True)])
    if count > 1:
        finished([[str(timing.ROOT / "scripts" / "merge.py"), *map(str, parts), "--output", str(output)]])
    return {"seconds": time.perf_counter() - start, "megabytes": max(end["megabytes"] for end in ends)}


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
    """UserError unless what was forecast is byte for byte what one process did; it is removed."""
    output = folder / "f.parquet"
    if output.read_bytes() != (folder / "one.parquet").read_bytes():
        raise UserError("cluster: the forecast is not that of one process")
    for path in (*folder.glob("f.*"), *folder.glob("part*")):
        path.unlink()
