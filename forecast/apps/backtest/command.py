"""What `forecast backtest` does: forecasts from rolling origins beside the truth and the baselines, refitted or not."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import DictConfig, OmegaConf

from forecast.apps.backtest.folds import (
    TEST,
    check_folds,
    check_length,
    checkpoint_folds,
    fold_forecasts,
    refitting,
    scales_of,
)
from forecast.apps.common.command import Answer, command
from forecast.apps.common.inputs import evaluated_data
from forecast.apps.common.outputs import keep_others
from forecast.apps.common.page import data_name, origin_of, sizes
from forecast.apps.common.results import LoadedModel
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.comparison.backtest_page import backtest_page
from forecast.comparison.backtests import FoldSums, cell_errors, fold_errors, printed, sentences, summary
from forecast.config.allow_list import trusted
from forecast.config.check import check_config, read_settings
from forecast.config.compose import is_typed, launcher_overrides, plain_values, run_folder, task_overrides
from forecast.config.resolvers import identity, program
from forecast.config.run_config import RunConfig
from forecast.config.settings import BacktestSettings, Folds
from forecast.data.split import FoldSplit
from forecast.documents import read_arrays, read_document
from forecast.errors import UserError
from forecast.files import replacing, rounded, save_arrays, write_json, write_text
from forecast.jobs.trainings import LOOK, reason_of, resumable, run_train, train
from forecast.run_folder import FILES, OUTPUT, PAGE, RUN_INFO, checkpoint_path, read_run, sha256
from forecast.run_folder.lock import in_use
from forecast.run_folder.shapes import Backtest
from forecast.text.overrides import hydra_value
from forecast.text.terminal import say

log = logging.getLogger(__name__)

# What may be typed beside a checkpoint: all else is as it was trained.
WITH_CHECKPOINT = ("ckpt_path", "backtest", "checks", "data.path", "data.root")
# What a backtest says itself, and by which key.
OWN = {
    "data/split": "backtest.folds and backtest.val",
    "data.split": "backtest.KEY",
    "protocol": "backtest.step",
    "refit": "backtest.refit",
}
# In the folder of a backtest: its table, its figures, what it is of.
TABLE, DOCUMENT, OF = "backtest.parquet", "backtest.json", "backtest_of.json"
PARTS, SCALES = "parts", "scales.npz"
RUNS = "folds"  # of the trainings
Fold = int | None  # None: one training for all folds


def backtest(cfg: DictConfig) -> Answer:
    """Trains what the folds need, forecasts, writes table, page, and backtest.json last; prints what came of it.

    Whatever kills it, the same command goes on and ends with the same table. Raises UserError for whatever the user
    can mend.
    """
    started, folder, words = time.perf_counter(), run_folder(), task_overrides()
    settings = read_settings(OmegaConf.masked_copy(cfg, ["backtest"]), BacktestSettings).backtest
    check_words(words, of_checkpoint=bool(cfg.ckpt_path))
    check_folder(folder, cfg)
    checkpoint, parts = of_checkpoint(cfg, settings, folder) if cfg.ckpt_path else of_config(cfg, settings, folder)
    scales = pd.DataFrame(read_arrays(folder / PARTS / SCALES, ["target", "std", "naive"]))
    pred_len = checkpoint.config.pred_len
    sums, errors = FoldSums(scales, pred_len=pred_len), []
    for part in join_parts(folder, parts):
        cells = cell_errors(part, scales)
        errors += fold_errors(part, cells)
        sums.add(part, cells)
    step, target = settings.step or pred_len, checkpoint.config.model.target
    whole = {
        "status": "finished",
        "model": checkpoint.record.choices["model"] if target.startswith("forecast.") else target,
        "data": data_name(checkpoint),
        "features": checkpoint.features,
        "target": checkpoint.config.data.first_target,
        **sizes(checkpoint, target),
        "folds": settings.folds,
        "step": step,
        "window": settings.window,
        "refit": settings.refit,
        **summary(errors, pred_len=pred_len, step=step),
        "by_fold": errors,
    }
    document = cast(Backtest, rounded(whole))
    paths = [part_path(folder, number) for number in parts]
    page = backtest_page(document, sums, partial(map, pd.read_parquet, paths), origin_of(checkpoint))
    write_text(folder / PAGE, page)
    document[FILES] = {name: sha256(folder / name) for name in (TABLE, PAGE)}
    timed = {**document, "seconds": rounded(time.perf_counter() - started)}
    write_json(folder / DOCUMENT, timed)
    say(printed(document))
    for sentence in sentences(document):
        say(sentence)
    log.info("Everything about this backtest is in %s", folder)
    return Answer({"folder": str(folder), **timed})


def check_words(words: Sequence[str], *, of_checkpoint: bool) -> None:
    """UserError for an override that a backtest says itself, or that a checkpoint has already answered."""
    for word in words:
        key = word.lstrip("+~").partition("=")[0]
        path = key.replace("/", ".")
        if of_checkpoint and not any(f"{path}.".startswith(f"{known}.") for known in WITH_CHECKPOINT):
            raise UserError(
                f"{word}: with ckpt_path the model, its data and its lengths are those of the checkpoint. Leave {key} "
                "out, or leave ckpt_path out to train for the backtest."
            )
        for own, instead in OWN.items():
            if key == own or key.startswith(f"{own}."):
                raise UserError(f"{word}: a backtest cuts the data into folds itself. Leave {key} out; see {instead}.")


def check_folder(folder: Path, cfg: DictConfig) -> None:
    """UserError where a folder holds another backtest (of another config, other data or another program), or a run."""
    now, key = what_of(cfg), f"hydra.run.dir={folder}"
    before = read_document(folder / OF, dict[str, object])
    if before and before != now:
        raise UserError(
            f"{key} holds another backtest: its config, its data or the program were others. Choose "
            "another folder, or leave hydra.run.dir out."
        )
    if not before:
        keep_others(
            map(folder.joinpath, (TABLE, DOCUMENT, PAGE, RUN_INFO, RUNS, PARTS)),
            ours=False,
            key=key,
            like="of a backtest",
            fix="choose another folder",
        )


def what_of(cfg: DictConfig) -> dict[str, str | None]:
    """What a backtest is of: it goes on in a folder where this is the same."""
    ckpt = str(Path(cfg.ckpt_path).absolute()) if cfg.ckpt_path else None
    return {"identity": identity(_root_=cfg), "program": program(trusted()), "ckpt_path": ckpt}


def begin(folder: Path, cfg: DictConfig) -> None:
    """Marks a folder as that of this backtest, which nothing refuses any more."""
    write_json(folder / OF, what_of(cfg))
    (folder / PARTS).mkdir(exist_ok=True)
    (folder / DOCUMENT).unlink(missing_ok=True)


def fold_split(settings: Folds, pred_len: int) -> FoldSplit:
    """The cut of a series into the folds of a backtest."""
    step = settings.step or pred_len
    return FoldSplit(folds=settings.folds, step=step, horizon=pred_len, window=settings.window, val=settings.val)


def of_checkpoint(cfg: DictConfig, settings: Folds, folder: Path) -> tuple[Checkpoint, list[int]]:
    """All folds by one checkpoint, in one pass; returns it and the numbers of the parts of the table."""
    path = cfg.data.get("path")
    root = str(cfg.data.root) if is_typed("data.root") else os.environ.get("FORECAST_DATA")
    loaded = LoadedModel.load(cfg.ckpt_path, root=root)
    checkpoint = loaded.checkpoint
    if settings.refit != "never":
        raise UserError(
            f"backtest.refit={settings.refit}: a checkpoint is not trained again. Leave it out, or train for each "
            f"fold: {refitting(checkpoint, settings.refit)}"
        )
    split = fold_split(settings, checkpoint.config.pred_len)
    data = checkpoint_folds(loaded, path, split)
    if cfg.checks.leakage:
        check_folds(loaded, data)
    begin(folder, cfg)
    save_scales(folder, scales_of(checkpoint, data))
    write_part(folder, 0, fold_forecasts(loaded, data, folds=split.folds, step=split.step))
    return checkpoint, [0]


def of_config(cfg: DictConfig, settings: Folds, folder: Path) -> tuple[Checkpoint, list[int]]:
    """The folds by trainings of their own, or by one before the first; as `of_checkpoint`, of the first training."""
    own = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "backtest"])
    check_config(own)
    config = RunConfig.of(plain_values(own))
    split = fold_split(settings, config.pred_len)
    check_length(config, split)
    folds: list[Fold] = [None] if settings.refit == "never" else list(range(split.folds))

    def done(fold: Fold) -> None:
        if not part_path(folder, fold or 0).is_file():
            forecast_fold(folder, fold, split)

    begin(folder, cfg)
    train_folds(folder, folds, training_words(split), count=split.folds, done=done)
    return load_checkpoint(best_of(folder, folds[0])), [fold or 0 for fold in folds]


def training_words(split: FoldSplit) -> list[str]:
    """The overrides of `forecast train` for the folds of a backtest, but for the number of the fold."""
    typed = [word for word in task_overrides() if not word.lstrip("+").startswith("backtest.")]
    cut = {key: getattr(split, key) for key in ("folds", "step", "horizon", "window", "val")}
    own = ["data/split=folds", *(f"data.split.{key}={value}" for key, value in cut.items()), "protocol=all_windows"]
    return [*typed, *own, *launcher_overrides()]


def forecast_fold(folder: Path, fold: Fold, split: FoldSplit) -> None:
    """Writes the part of a fold, or of all, whose training has finished."""
    loaded = LoadedModel.load(best_of(folder, fold))
    data = evaluated_data(loaded.checkpoint, loaded.source(), None, split=TEST)
    if not fold:
        save_scales(folder, scales_of(loaded.checkpoint, data))
    folds = split.folds if fold is None else 1
    table = fold_forecasts(loaded, data, folds=folds, step=split.step, first=fold or 0)
    write_part(folder, fold or 0, table)
    log.info("%s has finished.", "The training" if fold is None else f"Fold {fold + 1} of {split.folds}")


def train_folds(
    folder: Path, folds: Sequence[Fold], words: Sequence[str], *, count: int, done: Callable[[Fold], None]
) -> None:
    """Trains each fold by `forecast train` with these overrides and hands it to `done` as soon as it has finished.

    They are the jobs of a sweep in a process of its own, by whichever hydra/launcher the words name. Where one was
    killed and has a checkpoint it goes on first. A fold that another process trains is waited for: a backtest
    that was killed may have left its sweep at work. count: of the folds of the backtest. UserError for one that fails,
    after the others.
    """
    left = list(folds)

    def collect() -> bool:
        for fold in list(left):
            if read_run(run_of_fold(folder, fold)).state == "finished":
                done(fold)
                left.remove(fold)
        return False  # a sweep at work is not stopped

    collect()
    for run in [run_of_fold(folder, fold) for fold in left]:
        if resumable(run):
            train(command("train"), (), run)
    collect()
    while left:
        before = len(left)
        sweep = [
            *("-m", *words),
            f"data.split.fold={','.join('null' if fold is None else str(fold) for fold in left)}",
            f"hydra.sweep.dir={hydra_value(str(folder.absolute() / RUNS))}",
            f"hydra.sweep.subdir={'fold-all' if None in left else 'fold-${data.split.fold}'}",
        ]
        status = run_train(sweep, folder / OUTPUT, environment=os.environ, stopped=collect)
        elsewhere = any(in_use(run_of_fold(folder, fold)) for fold in left)
        collect()
        if left and not elsewhere and (status or len(left) == before):
            reason = reason_of(read_run(run_of_fold(folder, left[0])), folder / OUTPUT) or "nothing was said"
            subject = "the training" if left[0] is None else f"fold {left[0] + 1} of {count}"
            raise UserError(
                f"{subject} has failed: {reason.rstrip('.')}. What has finished is kept, and the same command runs the "
                f"rest; {folder / OUTPUT} has all that was said."
            )
        while any(in_use(run_of_fold(folder, fold)) for fold in left):
            time.sleep(LOOK)
        collect()


def part_path(folder: Path, number: int) -> Path:
    """Where the forecasts of a training are, those of fold `number` and perhaps of later ones."""
    return folder / PARTS / f"fold-{number:05d}.parquet"


def write_part(folder: Path, number: int, table: pd.DataFrame) -> None:
    """Writes a part, whole or not at all."""
    with replacing(part_path(folder, number)) as path:
        table.to_parquet(path, index=False, engine="pyarrow")


def join_parts(folder: Path, numbers: list[int]) -> Iterator[pd.DataFrame]:
    """Writes all parts below one another into TABLE, with memory for one of them, and yields each.

    A training whose validation windows were too few has fewer intervals than a later one: NaN in its rows.
    """
    with replacing(folder / TABLE) as path:
        widest = max((part_path(folder, number) for number in numbers), key=lambda part: len(pq.read_schema(part)))
        whole = pa.Table.from_pandas(pd.read_parquet(widest), preserve_index=False)
        with pq.ParquetWriter(path, whole.schema) as writer:
            for number in numbers:
                part = pd.read_parquet(part_path(folder, number)).reindex(columns=whole.column_names)
                writer.write_table(pa.Table.from_pandas(part, schema=whole.schema, preserve_index=False))
                yield part


def save_scales(folder: Path, scales: Mapping[str, np.ndarray]) -> None:
    """Keeps by what errors are scaled."""
    with replacing(folder / PARTS / SCALES) as path:
        save_arrays(path, dict(scales))


def run_of_fold(folder: Path, fold: Fold) -> Path:
    """The run folder of a fold's training."""
    return folder / RUNS / f"fold-{'all' if fold is None else fold}"


def best_of(folder: Path, fold: Fold) -> Path:
    """The checkpoint that a fold's training chose."""
    best, last = (checkpoint_path(run_of_fold(folder, fold).absolute(), name) for name in ("best", "last"))
    return best if best.exists() else last
