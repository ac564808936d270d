"""One training, from the config to the files in its run folder."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import lightning.pytorch as pl
from omegaconf import DictConfig

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.commands.inputs import saved_source
from forecast.commands.intervals import levels_of, wanted
from forecast.commands.outputs import keep_others
from forecast.commands.refit import chosen_checkpoint, kept_metrics, shown
from forecast.commands.results import Result, evaluate_checkpoint, write_results
from forecast.commands.training_data import begin, check_same_data
from forecast.config.check import check_config
from forecast.config.commit import commit
from forecast.config.distributed import check_restarts, rank
from forecast.config.job import choices, in_sweep, job_number, run_folder, task_overrides
from forecast.config.resume import resumed_config
from forecast.config.run_config import Plain, RunConfig
from forecast.data.guessing.train_command import typed
from forecast.data.prepare import Prepared
from forecast.data.sources import Source
from forecast.errors import Terminated, UserError
from forecast.files import remove_unfinished, write_json
from forecast.report.verdict import print_report
from forecast.run_folder import METRICS, RESULTS, RUN_INFO, checkpoint_path, read_run, write_run_info
from forecast.run_folder.shapes import RefitBlock
from forecast.training.any_model import fit_model
from forecast.training.calibrated import add_calibration, check_levels
from forecast.training.checkpoint import resume_hint
from forecast.training.cross_fit import HALVES, half_path
from forecast.training.fit import Plan, Trained, check_initial_weights
from forecast.training.hyperparameters import log_hyperparameters
from forecast.training.lightning_errors import errors_for_users
from forecast.training.loggers import finished_wandb_run
from forecast.training.optimizers import dry_step
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
    check_restarts()
    plan = make_plan(cfg)
    if rank() == 0:
        remove_results(plan.folder, new=plan.start is None)
    first = read_run(plan.folder).run_info if plan.start is not None else {}  # a run that goes on keeps its command
    info: dict[str, object] = {"status": "running", "versions": versions(), "commit": commits_of(plan, first)}
    info |= {key: first[key] for key in ("overrides", "job") if key in first} or {
        "overrides": task_overrides(),
        "job": job_number(),
    }
    if rank() == 0:
        write_run_info(plan.folder, info)
    try:
        with finished_wandb_run():
            info |= train_and_evaluate(plan)
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


def commits_of(plan: Plan, first: Plain) -> str:
    """The commit of this program for run.json; `BEFORE and NOW` where a run goes on that was begun with another.

    first: run.json of that run; where it says nothing, its checkpoint does.
    """
    if plan.start is None:
        return commit()
    before = str(first.get("commit") or "") or plan.start.record.versions.get("commit", "unknown")
    return " and ".join(dict.fromkeys([*before.split(" and "), commit()]))


def make_plan(cfg: DictConfig) -> Plan:
    """The checked config of the command line, or that of the checkpoint with the command's overrides laid over it.

    Raises UserError for a checkpoint that holds no optimizer to go on with, and where its data have changed since.
    """
    options: Mapping[str, str | None] = choices()
    if cfg.ckpt_path and in_sweep():
        raise UserError("ckpt_path cannot be swept: a run goes on by itself, without -m, one command for each")
    start = load_checkpoint(cfg.ckpt_path) if cfg.ckpt_path else None
    if start is not None:
        if start.refit is not None:
            last = typed("ckpt_path", str(start.path.with_name("last.ckpt")))
            raise UserError(
                f"ckpt_path={start.path} was trained once more on more rows, and no training goes on from it. Go on "
                f"from the held-out model, which refits anew: {last}"
            )
        if (imported := start.record.imported) is not None:
            raise UserError(
                f"ckpt_path={start.path} was imported from {imported['file']}: it holds weights only, "
                "and no training can go on from them. evaluate and predict take it; train anew without ckpt_path."
            )
        cfg = resumed_config(start.config.plain, start.record.choices, cfg, task_overrides(), options)
        options = start.record.choices
        warn_of_other_bits(start)
    check_config(cfg)
    config = RunConfig.composed(cfg)
    check_initial_weights(config)
    dry_step(config)
    typed_root = any(override.lstrip("+").startswith("data.root=") for override in task_overrides())
    root = str(config.data.get("root")) if typed_root else None
    source = config.data.build(Source) if start is None else saved_source(config.data, root=root)
    if start is not None:
        check_same_data(start, source, source.checksum())
    return Plan(config=config, choices=options, source=source, folder=run_folder(), start=start)


def warn_of_other_bits(start: Checkpoint) -> None:
    """Warns where a run goes on with other code, or another number of threads, than it was trained with."""
    before, now = start.record.versions, versions()
    if before.get("commit") != now["commit"]:
        log.warning(
            "%s was made by other code of this program (%s, here %s): what it goes on to may differ from what that "
            "code would have trained.",
            *(start.path, before.get("commit") or "unknown", now["commit"]),
        )
    if (threads := before.get("threads", now["threads"])) != now["threads"]:
        log.warning(
            "%s was trained with %s threads, here are %s: sums are rounded otherwise, so the run does not end with the "
            "bits that it would have had. For these: OMP_NUM_THREADS=%s",
            *(start.path, threads, now["threads"], threads),
        )


def train_and_evaluate(plan: Plan) -> dict[str, object]:
    """The training itself; returns what run.json tells of it."""
    config, source = plan.config, plan.source
    pl.seed_everything(config.seed, workers=True, verbose=False)
    data, protocol, record = begin(plan)
    calibrated, levels = config.calibration != "none", levels_of(config.level)
    if calibrated:
        typed = any(override.lstrip("+").startswith("level=") for override in task_overrides())
        check_levels(levels, data, typed=typed)
    trained = fit_model(plan, data, record)
    status = "finished" if trained.finished else "interrupted"
    if not trained.is_first:
        return {"status": status}  # one process evaluates: every window once, whatever their number
    if calibrated:
        path = chosen_checkpoint(plan.folder).path
        add_calibration(path, plan.folder, data, levels=levels, device=trained.device)
    best = chosen_checkpoint(plan.folder)
    judged = partial(
        evaluate_checkpoint,
        source=source,
        data=data,
        split="test",
        protocol=protocol,
        protocol_name=plan.choices["protocol"],
        batch_size=config.data.batch_size,
        device=trained.device,
        intervals=wanted(best),
    )
    # the windows that chose best.ckpt say less of a model than the test windows
    result = judged(best, brief=("val",))
    result.metrics["cost"], result.metrics["status"] = trained.cost, status
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
    log.info("Everything about this run is in %s", plan.folder)
    return {"data": record.data, **result.metrics["cost"], "status": status}


def train_on_more_rows(plan: Plan, data: Prepared, result: Result, trained: Trained, judged: Judge) -> None:
    """Writes refit.ckpt, adds `refit` to metrics.json and says so; of refit=val also what it gives on the test rows.

    result: of the held-out model, which stays as it is. judged: evaluates a checkpoint as it was.
    """
    rows, best = plan.config.refit, chosen_checkpoint(plan.folder)
    log.info("Training once more on more rows, %s.", "train and val" if rows == "val" else "all")
    kept = kept_metrics(result.metrics)
    done = refit(plan, best, data, rows=rows, metrics=kept, processes=trained.processes)
    refitted = load_checkpoint(done.path)
    block: RefitBlock = {"rows": done.rows, "trained_until": refitted.trained_until, "steps": refitted.step}
    block["train_seconds"] = done.seconds
    if rows == "val":
        block["test"] = judged(refitted).metrics["test"]
    result.metrics["refit"] = block
    write_json(plan.folder / METRICS, result.metrics)
    for sentence in shown(block, result.metrics, done.path):
        log.info(sentence)
