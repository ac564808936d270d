"""One training, from the config to the files in its run folder."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import lightning.pytorch as pl
from omegaconf import DictConfig

from forecast.apps.common.intervals import levels_of, wanted
from forecast.apps.common.outputs import keep_others
from forecast.apps.common.parts import build_parts
from forecast.apps.common.refit import chosen_checkpoint, kept_metrics, shown
from forecast.apps.common.results import Result, evaluate_checkpoint, write_results
from forecast.apps.common.training_data import begin, make_plan
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.compose import is_typed, job_number, task_overrides
from forecast.data.prepare import Prepared
from forecast.errors import Terminated
from forecast.files import remove_unfinished, write_json
from forecast.report.verdict import print_report
from forecast.run_folder import (
    METRICS,
    RESULTS,
    RUN_INFO,
    checkpoint_path,
    final_checkpoint,
    rank,
    read_run,
    write_run_info,
)
from forecast.run_folder.commit import commit
from forecast.run_folder.shapes import Block
from forecast.training.calibrated import HALVES, add_calibration, check_levels, half_path
from forecast.training.checkpoint import resume_hint
from forecast.training.combined import fit_model
from forecast.training.fit import Plan, Trained
from forecast.training.lightning_errors import errors_for_users
from forecast.training.loggers import finished_wandb_run, log_checkpoint, log_hyperparameters
from forecast.training.record import versions
from forecast.training.refit import refit

log = logging.getLogger(__name__)
Judge = Callable[[Checkpoint], Result]


def train(cfg: DictConfig) -> None:
    """Trains, evaluates best.ckpt on all test windows, writes the run folder and prints the comparison.

    With refit=true or val it trains once more, on more rows, when all that is there.
    After Ctrl-C it does so too, when there is a checkpoint, and raises KeyboardInterrupt at the end. Raises UserError
    for whatever the user can mend; then run.json, the log and the checkpoints so far are all that was written.
    """
    plan = make_plan(cfg)  # checked, without side effects
    with open_run(plan) as info, finished_wandb_run():
        config = plan.config
        pl.seed_everything(config.seed, workers=True, verbose=False)
        data, record = begin(plan)
        calibrated, levels = config.calibration != "none", levels_of(config.level)
        together = calibrated and check_levels(levels, data, plan.source.split, typed=is_typed("level"))
        trained = fit_model(plan, data, record)
        info["status"] = "finished" if trained.finished else "interrupted"
        if not trained.is_first:
            return  # one process evaluates: every window once, whatever their number
        if calibrated:
            path = chosen_checkpoint(plan.folder).path
            add_calibration(path, plan.folder, data, levels=levels, device=trained.device, together=together)
        best = chosen_checkpoint(plan.folder)
        judged = partial(
            evaluate_checkpoint,
            source=plan.source,
            data=data,
            split="test",
            protocol=plan.parts.protocol,
            protocol_name=plan.choices["protocol"],
            batch_size=config.data.batch_size,
            device=trained.device,
            intervals=wanted(best),
        )
        result = judged(best, brief=("val",))  # of val, whose windows chose best.ckpt, less is shown
        result.metrics["cost"], result.metrics["status"] = trained.cost, info["status"]
        write_results(plan.folder, result)
        with errors_for_users(plan.folder):
            log_hyperparameters(trained.loggers, config, result.metrics, step=trained.steps)
        print_report(result.metrics, "test", result.by_step)
        for sentence in trained.sentences:
            log.info(sentence)
        if not trained.finished:
            log.warning("The training was interrupted. %s", resume_hint(plan.folder, "Look at the figures so far"))
        elif config.refit:
            train_on_more_rows(plan, data, result, trained, judged)
        with errors_for_users(plan.folder):
            log_checkpoint(trained.loggers, final_checkpoint(plan.folder))
        log.info("Everything about this run is in %s", plan.folder)
        info |= {"data": record.data, **result.metrics["cost"]}


@contextmanager
def open_run(plan: Plan) -> Iterator[dict[str, object]]:
    """The entries of a run's run.json, which says on every way out how it ended.

    Of several processes the first one writes it. Raises KeyboardInterrupt at the end of a run that was interrupted.
    """
    if rank() == 0:
        remove_results(plan.folder, new=plan.start is None)
    first = read_run(plan.folder).run_info if plan.start is not None else {}  # a run that goes on keeps its command
    info: dict[str, object] = {"status": "running", "versions": versions(), "commit": commit()}
    typed = {"overrides": task_overrides(), "job": job_number()}
    info |= {key: first.get(key, value) for key, value in typed.items()} | {"tags": list(plan.config.tags)}
    if rank() == 0:
        write_run_info(plan.folder, info)
    try:
        yield info
    except BaseException as error:
        ended = isinstance(error, KeyboardInterrupt | Terminated)
        info |= {"status": "interrupted" if ended else "failed", "error": str(error)}
        raise
    finally:
        if rank() == 0:
            write_run_info(plan.folder, info)
    if info["status"] == "interrupted":
        raise KeyboardInterrupt


def remove_results(folder: Path, *, new: bool) -> None:
    """Removes what killed processes left unfinished, and for a new run the results of an earlier one in its folder.

    Raises UserError for such results without a run.json: they are not of a run, and would be lost.
    """
    checkpoints = [checkpoint_path(folder, name) for name in ("best", "last", "refit")]
    checkpoints += [half_path(folder, half) for half in HALVES]
    results = [*(folder / name for name in RESULTS), *checkpoints]
    for path in (folder / RUN_INFO, *results):
        remove_unfinished(path)
    if new:  # they must not be taken for this run's
        keep_others(
            [folder / RUN_INFO, *results],
            ours="status" in read_run(folder).run_info,
            key=f"hydra.run.dir={folder}",
            like="a file of a training",
            fix="choose another folder, or move the file away",
        )
        for path in (folder / METRICS, *checkpoints):
            path.unlink(missing_ok=True)
    else:  # best.ckpt may become another one: what was refitted for as many steps is made anew
        checkpoint_path(folder, "refit").unlink(missing_ok=True)


def train_on_more_rows(plan: Plan, data: Prepared, result: Result, trained: Trained, judged: Judge) -> None:
    """Writes refit.ckpt, adds `refit` to metrics.json and says so; of refit=val also what it gives on the test rows.

    result: of the held-out model, which stays as it is. judged: evaluates a checkpoint as it was.
    """
    rows, best = plan.config.refit, chosen_checkpoint(plan.folder)
    log.info("Training once more on more rows, %s.", "train and val" if rows == "val" else "all")
    kept = kept_metrics(result.metrics)
    again = replace(plan, parts=build_parts(plan.config))
    done = refit(again, best, data, rows=rows, metrics=kept, processes=trained.processes)
    refitted = load_checkpoint(done.path)
    block: Block = {"rows": done.rows, "trained_until": refitted.trained_until, "steps": refitted.step}
    block["train_seconds"] = done.seconds
    if rows == "val":
        block["test"] = judged(refitted).metrics["test"]
    result.metrics["refit"] = block
    write_json(plan.folder / METRICS, result.metrics)
    for sentence in shown(block, result.metrics, done.path):
        log.info(sentence)
