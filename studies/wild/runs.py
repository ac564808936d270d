"""Files as people have them: check-data and the command that it prints, and what came of them, without their rows."""

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from forecast.errors import UserError
from forecast.files import write_text
from forecast.report.verdict import verdict
from studies.documents.run import ROOT, made_by

# What is typed where check-data names several readings.
TYPED = {
    "ff_asos_raw.csv": ["data.resample=h", "data.aggregate=mean"],
    "ff_avocado.csv": ["data.where={type: conventional, region: Albany}", "data.sort=true"],
    "hourly_parking.csv": [
        *("data.where={SystemCodeNumber: BHMBCCMKT01}", "data.duplicates=mean"),
        *("data.resample=4h", "data.aggregate=mean"),
    ],
    "hourly_traffic_volume.csv": ["data.duplicates=mean"],
}


def record(folder: Path, path: Path, *, only: Collection[str] | None = None) -> None:
    """Runs the CSV files of a folder, smallest first, and keeps the results at `path`, file by file.

    only: the names of some; the rest of `path` stays. Raises UserError for a folder without one of them.
    """
    files = csv_files(folder, only)
    before = read(path) if only or path.is_file() else {}
    kept = dict(before) if only else {}
    for name, file in files.items():
        kept[name] = with_informer(measure(file), before.get(name, {}))
        print(f"{name}: {kept[name]['verdict']}", flush=True)
        write(path, kept)


def record_informers(folder: Path, path: Path, *, only: Collection[str] | None = None) -> None:
    """Runs the Informer that check-data advises for files whose results are there, and keeps its seconds and MASE.

    only: as `record`. Raises UserError for a file without results, too.
    """
    files, kept = csv_files(folder, only), read(path)
    for name, file in files.items():
        if not kept.get(name, {}).get("train"):
            raise UserError(f"{path.name} has no training of {name}: record it first, without --informer")
        kept[name]["informer"] = measure_informer(file)
        print(f"{name}: {kept[name]['informer']}", flush=True)
        write(path, kept)


def with_informer(result: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The new result of a file with the Informer's of before, where the file is read and cut as then."""
    now, then = (
        [word for word in shlex.split(one.get("train") or "") if not word.startswith("model")]
        for one in (result, before)
    )
    return result | ({"informer": before["informer"]} if "informer" in before and now == then else {})


def csv_files(folder: Path, only: Collection[str] | None) -> dict[str, Path]:
    """The CSV files of a folder by name, smallest first, or some. Raises UserError for one that is not there."""
    files = {file.name: file for file in sorted(folder.glob("*.csv"), key=lambda file: file.stat().st_size)}
    for name in only or files or ["*.csv"]:
        if name not in files:
            raise UserError(f"{folder} has no {name}: name a folder of CSV files, and files of it.")
    return {name: file for name, file in files.items() if not only or name in only}


def write(path: Path, results: dict[str, Any]) -> None:
    """Keeps results at a path, by file name."""
    write_text(path, json.dumps(dict(sorted(results.items())), indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> dict[str, Any]:
    """What was recorded, by file name. Raises UserError when nothing was."""
    if not path.is_file():
        raise UserError(f"{path.name} is not there: record it, python scripts/wild_files.py --run FOLDER")
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return recorded


def measure(file: Path) -> dict[str, Any]:
    """Both commands in an empty folder, their seconds, what they said and the MASE of model and baselines on test."""
    check = ["check-data", file.name, *TYPED.get(file.name, [])]
    result: dict[str, Any] = {"made_by": made_by(), "check": shlex.join(["forecast", *check])}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / file.name).symlink_to(file.resolve())
        done, result["check_seconds"] = run([*check, "--json"], folder)
        if not done.stdout.strip():
            return result | {"train": None, "verdict": last_line(done.stderr)}
        answer = json.loads(done.stdout)
        result |= advice(answer)
        if result["train"] is None:
            return result | {"verdict": "check-data prints no command."}
        done, result["train_seconds"] = run(shlex.split(result["train"])[1:], folder)
        if done.returncode:
            return result | {"verdict": last_line(done.stderr)}
        return result | figures(next(folder.rglob("metrics.json")).parent)


def measure_informer(file: Path) -> dict[str, Any]:
    """The command of an Informer that check-data prints for a file, its seconds and its MASE on test.

    mase: None for a training that failed, with its last words.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / file.name).symlink_to(file.resolve())
        check = ["check-data", file.name, *TYPED.get(file.name, []), "--json"]
        command = json.loads(run(check, folder)[0].stdout)["informer_command"]
        done, seconds = run(command[1:], folder)
        said = {"made_by": made_by(), "command": shlex.join(command), "seconds": seconds}
        if done.returncode:
            return said | {"mase": None, "verdict": last_line(done.stderr)}
        return said | {"mase": figures(next(folder.rglob("metrics.json")).parent)["mase"]}


def run(arguments: Sequence[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """`forecast` of this checkout on one thread, and its seconds on the processor: others may be at work beside it."""
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "forecast", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)


def advice(answer: dict[str, Any]) -> dict[str, Any]:
    """Of check-data's answer the training command, and what was said."""
    said = [finding["text"] for finding in answer["findings"] if finding["severity"] == "error"] + answer["reasons"]
    return {
        "train": shlex.join(answer["command"]) if answer["command"] else None,
        "said": "; ".join(text.rstrip(".") for text in said),
    }


def figures(run_folder: Path) -> dict[str, Any]:
    """Of a finished run: sizes, and the MASE on the test windows of the model and of the baselines."""
    metrics, data = (
        json.loads((run_folder / name).read_text(encoding="utf-8")) for name in ("metrics.json", "run.json")
    )
    baselines = metrics["baselines"]
    return {
        "rows": data["data"]["splits"]["test"][1],
        "columns": len(data["data"]["targets"]),
        "season": data["data"]["season"],
        "lengths": [metrics["seq_len"], metrics["pred_len"]],
        "windows": metrics["test"]["windows"],
        "mase": metrics["test"]["mase"],
        "baselines": {name: one["mase"] for name, one in baselines.items()},
        "verdict": " ".join(verdict(metrics, "test")),
    }


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
