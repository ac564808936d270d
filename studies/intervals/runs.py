"""The rows of intervals.yaml: their trainings, and what became of the intervals on the test windows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from forecast.apps.common.command import command
from forecast.apps.common.inputs import evaluated_data
from forecast.apps.common.intervals import wanted
from forecast.apps.common.results import LoadedModel, evaluate_checkpoint
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.run_config import RunConfig, composed
from forecast.data.prepare import Prepared
from forecast.data.sources import Source
from forecast.errors import UserError, closest
from forecast.evaluation.calibrate import ValPart, calibrate
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.evaluate import Protocol
from forecast.evaluation.scored_intervals import Intervals, name_of
from forecast.files import rounded, write_text
from forecast.jobs.trainings import train
from forecast.models.base import ForecastModel
from forecast.run_folder import OUTPUT, checkpoint_path
from forecast.run_folder.shapes import Block
from forecast.text.overrides import hydra_value
from forecast.training.calibrated import add_calibration
from studies.documents.run import made_by
from studies.intervals.plain_conformal import plain_calibration
from studies.intervals.rows import RUNS, interval_rows, models_of, read
from studies.published.panels import joined, panel_rows
from studies.published.records import without_folder
from studies.published.tables import Job

TABLE, SEED = "intervals", 1
LEVELS = (80.0, 95.0)
CPU = torch.device("cpu")  # the figures are those of float32 on a processor


def jobs(root: Path, runs: Path, *, rows: Sequence[str], models: Sequence[str]) -> Iterator[Job]:
    """The trainings of the rows and models that are named, of all where none is.

    Raises UserError for a row or a model that there is not, and for a file that is not there.
    """
    known, names = interval_rows(), {name for row in interval_rows().values() for name in models_of(row)}
    for key, asked, there in (("rows", rows, list(known)), ("models", models, sorted(names))):
        for name in asked:
            if name not in there:
                raise UserError(f"--{key} {name}: choose of {'; '.join(there)}.{closest(name, there)}")
    for name, row in known.items():
        if rows and name not in rows:
            continue
        place, folders = place_of(name, row, root, runs), dict[str, str]()
        for model, own in models_of(row).items():
            values = {**own, **place, "seed": SEED}
            if RUNS in own:
                values[RUNS] = [folders[member] for member in own[RUNS]]
            words = tuple(f"{key}={hydra_value(value)}" for key, value in values.items())
            identity = composed(words).identity
            folders[model] = str(runs.absolute() / identity)
            if not models or model in models:
                yield Job(table=TABLE, row=name, model=model, seed=SEED, overrides=words, identity=identity)


def place_of(name: str, row: Mapping[str, Any], root: Path, runs: Path) -> dict[str, str]:
    """The key that says where the data of a row lie. Raises UserError where they do not."""
    if "panel" in row:
        files = [root / "panels" / file for file in panel_rows()[row["panel"]]["files"]]
        return {"data.path": str(joined(files, runs / f"{name}.csv").absolute())}
    if "file" in row:
        return {"data.path": str(joined([root / row["file"]], runs / f"{name}.csv").absolute())}
    return {"data.root": str((root / "ETT-small").absolute())}


def record(chosen: Sequence[Job], runs: Path, path: Path) -> None:
    """Trains what has no run in `runs`, one after the other, and keeps what its intervals are worth at `path`.

    Raises UserError for a training that fails.
    """
    torch.set_num_threads(1)  # the last digits depend on it
    for job in chosen:
        folder = runs.absolute() / job.identity
        if not checkpoint_path(folder, "best").is_file():
            run = train(command("train"), job.overrides, folder)
            if run.state != "finished":
                raise UserError(f"{job.row}, {job.model}: {run.reason} ({folder / OUTPUT})")
        own = models_of(interval_rows()[job.row])[job.model]
        words = [f"{RUNS}={own[RUNS]}" if word.startswith(f"{RUNS}=") else word for word in job.overrides]
        overrides = [without_folder(word) for word in words if not word.startswith("data.root=")]
        found = {"overrides": overrides, "made_by": made_by(), **measured(folder)}
        kept = read(path) if path.is_file() else {}
        kept.setdefault(job.row, {})[job.model] = rounded(found)
        order = [name for name in interval_rows() if name in kept]
        write_text(path, json.dumps({name: kept[name] for name in order}, indent=1, ensure_ascii=False) + "\n")
        said = {how: one["coverage"] for how, one in found["intervals"].items()}
        print(f"{job.row}, {job.model}: {json.dumps(rounded(said))}", flush=True)


def measured(folder: Path) -> dict[str, Any]:
    """The errors of a run on val and test, and its intervals on test in every form.

    static and adaptive are the program's. plain: `plain_calibration`, of models that give points. uncrossed: static,
    with the margins that best.ckpt itself gives on the windows that chose it. The calibration is made anew: the code
    may have changed since the training.
    """
    path = checkpoint_path(folder, "best")
    loaded = LoadedModel.load(path, device="cpu")
    source, config = loaded.source(), loaded.checkpoint.config
    data = evaluated_data(loaded.checkpoint, source, None, split="test")
    add_calibration(path, folder, data, levels=LEVELS, device=CPU)
    checkpoint = load_checkpoint(path)
    intervals = wanted(checkpoint, how="static")
    assert intervals is not None
    calibration = intervals.calibration
    asked = tuple(level for level in LEVELS if level in calibration.levels)
    forms = {
        "static": Intervals(calibration=calibration, wanted_levels=asked),
        "adaptive": Intervals(calibration=calibration, wanted_levels=asked, adaptive=True),
    }
    model = checkpoint.model()
    if getattr(model, "spread", None) is None:
        plain = plain_calibration(model, data, calibration.levels)
        forms["plain"] = Intervals(calibration=plain, wanted_levels=asked)
    if calibration.crossed:
        forms["uncrossed"] = Intervals(calibration=uncrossed(model, data, config), wanted_levels=asked)
    blocks = {}
    for how, intervals in forms.items():
        test, val, blocks[how] = evaluated(checkpoint, source, data, intervals)
    errors = {"val": val, "test": {key: test[key] for key in ("windows", "scaled", "mase")}}
    counts = {"windows": calibration.windows, "blocks": calibration.blocks, "crossed": calibration.crossed}
    return {**errors, "calibration": counts, "intervals": blocks}


def uncrossed(model: ForecastModel, data: Prepared, config: RunConfig) -> Calibration:
    """The calibration by best.ckpt itself, on all validation windows."""
    part = ValPart(model=model, windows=range(len(data.windows("val"))))
    found = calibrate([part], data, levels=LEVELS, batch_size=config.data.batch_size, device=CPU)
    assert found is not None
    return found


def evaluated(
    checkpoint: Checkpoint, source: Source, data: Prepared, intervals: Intervals
) -> tuple[Block, dict[str, Any], dict[str, Any]]:
    """The block of metrics.json for test, that for val, and of the first what the page shows."""
    result = evaluate_checkpoint(
        checkpoint,
        source,
        data,
        split="test",
        protocol=checkpoint.config.protocol.build(Protocol),
        protocol_name=None,
        batch_size=checkpoint.config.data.batch_size,
        device=CPU,
        brief=("val",),
        intervals=intervals,
    )
    test, val, scored = result.metrics["test"], result.metrics["val"], result.metrics["test"]["intervals"]
    assert scored is not None
    levels, names = scored["levels"], [name_of(level) for level in intervals.wanted_levels]
    block: dict[str, Any] = {
        key: {name: dict(levels[name])[key] for name in names} for key in ("coverage", "width", "msis")
    }
    of_levels = intervals.calibration.levels
    margins = {name: intervals.calibration.margins[of_levels.index(float(name))] for name in names}
    block |= {
        "sql": scored["sql"],
        "wql": scored["wql"],
        "worst": {name: worst_step(result.by_step[f"coverage_{name}"], float(name) / 100) for name in names},
        "margin": {name: float(one.mean()) for name, one in margins.items()},
    }
    return test, {"windows": val["windows"], "mase": val.get("mase"), "scaled": val["scaled"]}, block


def worst_step(coverage: Sequence[float], level: float) -> dict[str, float]:
    """The step whose coverage is farthest from a level, a share, counted from 1, and its coverage."""
    step = max(range(len(coverage)), key=lambda i: abs(coverage[i] - level))
    return {"step": step + 1, "coverage": coverage[step]}
