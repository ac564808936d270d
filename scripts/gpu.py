"""What one NVIDIA card makes of the program, in a table, within four minutes. Usage: python scripts/gpu.py [--help]

tests/test_cuda.py; windows a second of experiment=etth1_m/24 after the first epoch, in float32 and bf16-mixed, eager
(compile=none) and recorded, as it is by default; and where the seconds of a whole training go, from the start of its
process to its end.

It needs a checkout, the package (`pip install --no-deps WHEEL`) and what a training needs; the tests need pytest too,
and use pytest-xdist where it is there. No network: ETTh1.csv is looked for in $FORECAST_DATA, ../shared/data/ETT-small
and data/, else rows of its shape are made up. A step that fails says why. The rows are also written to $OUT/gpu.json
where OUT is set. `--device cpu --quick` runs the same steps in tiny sizes on a CPU.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TRAINING = ["train", "experiment=etth1_m/24", "logger=none"]
# 150 batches take 14 s where launches are slow. The step is looked at, so nothing is checked before it.
RATE = ["checks.leakage=false", *(f"trainer.{key}" for key in ("max_epochs=2", "limit_train_batches=150"))]
SIZES = ["model.d_model=8", "model.n_heads=2", "model.d_ff=16", "data.batch_size=4"]
QUICK = [*SIZES, *(f"trainer.{key}" for key in ("max_epochs=2", "limit_train_batches=2", "limit_val_batches=1"))]
QUICK_TESTS = ["-k", "a_forecast_on_the_gpu_is_that_of_the_cpu"]
EAGER, HALF = "compile=none", "trainer.precision=bf16-mixed"
MODES = {"float32, eager": [EAGER], "float32": [], "bf16, eager": [HALF, EAGER], "bf16": [HALF]}
EPOCH = re.compile(r"epoch \d+/\d+ .* (\d+) windows/s")
SUMMARY = re.compile(r"^(\d+ (?:passed|failed|skipped|error).*) in [\d.]+s", re.MULTILINE)
# A moment of a training belongs to the first of these whose pattern is in its stack, FILE:FUNCTION a line.
STAGES = {
    "imports": r"importlib\._bootstrap",
    "pictures and page": r"/matplotlib/|/forecast/report/",
    "leakage check": r"/forecast/.*leakage",
    "intervals": r"/forecast/.*(conformal|calibrat|interval)",
    "baselines": r"/forecast/.*(baselines|closed_form)",
    "fit": r"/lightning/pytorch/loops/",
    "evaluation": r"/forecast/evaluation/",
    "reading": r"/forecast/data/",
}


class Row(NamedTuple):
    """A line of the table: what was run, what came out, and its seconds; None: it was not run."""

    step: str
    result: str
    seconds: float | None


class Steps:
    """Runs commands in processes, each with the time that is left."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.end = folder, time.monotonic() + seconds

    def run(self, step: str, words: Sequence[str], *, most: float, epochs: int = 0) -> tuple[Row, str]:
        """The row and the output of python WORDS, ended when it has logged the rates of so many epochs."""
        begin, limit = time.monotonic(), min(most, self.end - time.monotonic())
        if limit < 5:
            return Row(step, "no time left", None), ""
        path = self.folder / "output.txt"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
        with path.open("w") as file:
            command = [sys.executable, *words]
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT)
            while (status := process.poll()) is None and time.monotonic() - begin < limit:
                if epochs and len(EPOCH.findall(path.read_text())) >= epochs:
                    break
                time.sleep(0.05)
            process.kill()
            process.wait()
        seconds, output = time.monotonic() - begin, path.read_text()
        if epochs and len(rates := EPOCH.findall(output)) >= epochs:
            result = rates[-1]
        elif summary := SUMMARY.search(output):
            result = summary[1]
        elif status is None:
            result = f"ended after {limit:.0f} s"
        else:
            last = (output.strip().splitlines() or ["no output"])[-1]
            result = f"failed: {last}" if status else "finished"
        return Row(step, result, seconds), output


def main() -> None:
    """Runs the steps and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(" Usage")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and two tests, to see that it works")
    parser.add_argument("--minutes", type=float, default=4.0, help="after which nothing begins or goes on")
    options = parser.parse_args()
    on_gpu, tiny = options.device == "cuda", QUICK if options.quick else []
    rows = [Row("device", device_name(on_gpu), None)]
    with tempfile.TemporaryDirectory() as name:
        steps = Steps(Path(name), 60 * options.minutes)
        training = [*TRAINING, f"trainer.accelerator={'gpu' if on_gpu else 'cpu'}", data_word(steps.folder)]
        command = ["-m", "forecast", *training]
        rows += test_rows(steps, quick=options.quick)
        for mode, words in MODES.items():
            step, run = f"windows/s, {mode}", f"hydra.run.dir={steps.folder}/{len(rows)}"
            most = 60 if on_gpu else 600
            rows.append(steps.run(step, [*command, *RATE, *tiny, *words, run], most=most, epochs=2)[0])
        whole = [*training, *tiny, f"hydra.run.dir={steps.folder}/whole"]
        rows += whole_training(steps, whole)
    width = max(len(row.step) for row in rows)
    for row in rows:
        print(f"{row.step:{width}}  {'-' if row.seconds is None else f'{row.seconds:.1f} s':>8}  {row.result}".rstrip())
    if os.environ.get("OUT"):
        (Path(os.environ["OUT"]) / "gpu.json").write_text(json.dumps([row._asdict() for row in rows], indent=1))


def device_name(on_gpu: bool) -> str:
    """The card, and torch's version. Ends the program where there is no card."""
    import torch

    if on_gpu and not torch.cuda.is_available():
        sys.exit("torch sees no GPU here. Install torch's CUDA build, or type --device cpu --quick")
    return f"{torch.cuda.get_device_name() if on_gpu else 'CPU'}, torch {torch.__version__}"


def data_word(folder: Path) -> str:
    """The override that names ETTh1's file, or one of made-up rows of its shape."""
    places = [os.environ.get("FORECAST_DATA"), ROOT.parent / "shared" / "data" / "ETT-small", ROOT / "data"]
    files = [Path(place).absolute() / "ETTh1.csv" for place in places if place]
    path = next(filter(Path.is_file, files), folder / "made.csv")
    if path not in files:
        import numpy as np
        import pandas as pd

        values = np.random.default_rng(0).normal(size=(17420, 7)).cumsum(0).round(3)
        times = pd.date_range("2016-07-01", periods=len(values), freq="h", name="date")
        pd.DataFrame(values, times, ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]).to_csv(path)
    return f"data.path='{path}'"


def test_rows(steps: Steps, *, quick: bool) -> list[Row]:
    """The row of tests/test_cuda.py, and one for each test that failed."""
    file = "tests/test_cuda.py"
    if not (ROOT / file).is_file() or importlib.util.find_spec("pytest") is None:
        return [Row(file, f"{'pytest' if (ROOT / file).is_file() else 'the file'} is missing", None)]
    some = QUICK_TESTS if quick else ["-n", "8"] if importlib.util.find_spec("xdist") else []
    words = ["-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", *some, file]
    row, output = steps.run(file, words, most=600 if quick else 100)
    return [row, *(Row("  failed", name, None) for name in re.findall(r"^FAILED \S+::(\S+)", output, re.MULTILINE))]


def whole_training(steps: Steps, words: Sequence[str]) -> list[Row]:
    """The rows of a whole training: all of it, then its stages."""
    path = steps.folder / "stages.json"
    whole, _ = steps.run("a whole training", [str(Path(__file__).resolve()), "--sampled", str(path), *words], most=600)
    if not path.is_file() or whole.seconds is None:
        return [whole]
    seconds: dict[str, float] = json.loads(path.read_text())
    seconds["start and end of Python"] = whole.seconds - sum(seconds.values())
    return [whole, *(Row(f"  {stage}", "", spent) for stage, spent in seconds.items())]


def sampled_command(path: Path, words: Sequence[str]) -> None:
    """Runs `forecast WORDS` here, and writes the seconds of its stages, by looks at its stack."""
    seconds: dict[str, float] = dict.fromkeys([*STAGES, "all else"], 0.0)
    ended, thread = threading.Event(), threading.get_ident()

    def look() -> None:
        before = time.perf_counter()
        while not ended.wait(0.01):
            frame, stack = sys._current_frames().get(thread), ""
            while frame is not None:
                stack += f"{frame.f_code.co_filename}:{frame.f_code.co_name}\n"
                frame = frame.f_back
            stage = next((name for name, pattern in STAGES.items() if re.search(pattern, stack)), "all else")
            now = time.perf_counter()
            seconds[stage] += now - before
            before = now

    threading.Thread(target=look, daemon=True).start()
    try:
        from forecast.__main__ import main as run

        sys.argv = ["forecast", *words]
        run()
    finally:
        ended.set()
        path.write_text(json.dumps(seconds))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sampled"]:  # the process of `whole_training`
        sampled_command(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
