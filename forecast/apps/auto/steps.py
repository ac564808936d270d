"""The steps of an automatic run, each performed by a worker: training a member, judging it, weighing, refitting."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import lightning.pytorch as pl
import numpy as np
import torch
from omegaconf import DictConfig

from forecast.apps.auto.board import MemberFigures
from forecast.apps.auto.budget import MEMBER, PACE, RIDGE
from forecast.apps.common.command import Answer, command
from forecast.apps.common.continuation import continuation
from forecast.apps.common.future import future_source
from forecast.apps.common.inputs import find_device, trained_source
from forecast.apps.common.intervals import levels_of
from forecast.apps.common.page import remake
from forecast.apps.common.refit import chosen_checkpoint, kept_metrics
from forecast.apps.common.training_data import begin, make_plan, read_data
from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.model import build_model
from forecast.config.entry import call
from forecast.data.panel import STEP_FREQ
from forecast.data.prepare import Prepared
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.evaluation.evaluate import Protocol, evaluate, evenly_spaced
from forecast.evaluation.predict import split_ends
from forecast.files import save_arrays, write_json
from forecast.run_folder import AHEAD, METRICS, checkpoint_path
from forecast.run_folder.shapes import Block, Metrics
from forecast.text.overrides import hydra_value
from forecast.training.calibrated import add_own_calibration
from forecast.training.combined import fit_model
from forecast.training.fit import Plan, begin_model, make_batches
from forecast.training.record import make_record
from forecast.training.refit import refit
from forecast.training.shared_data import share_data

SPLITS = ("val", "test")
T = TypeVar("T")
CPU = torch.device("cpu")
SHOWN = 25  # series of a panel
LONGEST, FEWEST = 1.5, 3  # seconds and calls of a measurement
OVERHEAD = 1.15  # of a training over its steps alone
MOST_EPOCHS, UPDATES = 6, 1000  # epochs, and steps where the windows are so few that epochs have hardly any
FEWEST_EPOCHS, FEWEST_BATCHES = 3, 20  # less is no training
Settings = dict[str, int]  # the overrides that fit a training into its time


def words(settings: Settings) -> list[str]:
    """Overrides as Hydra reads them."""
    return [f"{key}={hydra_value(value)}" for key, value in settings.items()]


def within(folder: Path, overrides: Sequence[str], task: Callable[[DictConfig], T]) -> T:
    """What a task returns that runs as a training with these overrides does, in a folder."""
    share_data()
    answers: list[T] = []
    folder_word = f"hydra.run.dir={hydra_value(str(folder))}"
    call(lambda cfg: answers.append(task(cfg)), config_name="train", overrides=[*overrides, folder_word])
    return answers[0]


def train_member(
    folder: Path, overrides: Sequence[str], *, allowance: float | None, clock: Callable[[], float]
) -> dict[str, object]:
    """Trains a member, or goes on with its training, judges it, and writes member.json.

    allowance: seconds for the training of a network, by which its epochs are counted once; None: a model that is fitted
    at once. clock: gives them. Raises UserError where there is no time for it, and as a training does.
    """
    if allowance is not None:
        settings = read_document(folder / PACE, Settings)
        if settings is None:
            settings = within(folder, overrides, lambda cfg: measure(make_plan(cfg), clock)).settings(allowance)
            if settings is None:
                raise UserError(f"there is no time for it: {allowance:.0f} seconds hold no training worth the name")
            write_json(folder / PACE, settings)
        overrides = [*overrides, *words(settings)]
    last = checkpoint_path(folder, "last")
    if allowance is not None and last.is_file():
        overrides = [f"ckpt_path={hydra_value(str(last))}", "trainer.enable_progress_bar=false"]
    done: dict[str, object] = within(folder, overrides, lambda cfg: _train(cfg, clock))
    write_json(folder / MEMBER, done)
    return done


def fit_unjudged(folder: Path, overrides: Sequence[str]) -> bool:
    """Fits a member that needs no windows to rows too few to keep any from it; returns whether it has intervals."""

    def task(cfg: DictConfig) -> bool:
        plan = make_plan(cfg)
        data = read_data(plan.source, plan.config, judged=False)
        fit_model(plan, data, make_record(plan.config, plan.choices, plan.source, data, {}))
        return add_own_calibration(chosen_checkpoint(plan.folder).path, data, levels=levels_of(plan.config.level))

    return within(folder, overrides, task)


def _train(cfg: DictConfig, clock: Callable[[], float]) -> dict[str, object]:
    plan, start = make_plan(cfg), clock()
    pl.seed_everything(plan.config.seed, workers=True, verbose=False)
    data, record = begin(plan, ridge=plan.choices["model"] == RIDGE)
    reading = clock() - start
    fit_model(plan, data, record)
    return judged(plan.folder, data, plan.parts.protocol, clock, seconds=clock() - start, reading=reading)


def judged(
    folder: Path, data: Prepared, protocol: Protocol, clock: Callable[[], float], *, seconds: float, reading: float
) -> dict[str, object]:
    """The errors of a training's best checkpoint on val and test windows, and the seconds that all took.

    seconds: of the training, of which `reading` went before the fit. One on all rows stops at the step of the best.
    """
    checkpoint, last = chosen_checkpoint(folder), checkpoint_path(folder, "last")
    steps = load_checkpoint(last).step if last.is_file() else 0
    share = checkpoint.step / steps if steps else 1.0
    figures: dict[str, object] = {"seconds": seconds, "refit_seconds": reading + share * (seconds - reading)}
    figures["windows"] = len(data.windows("train"))
    model, batch_size = checkpoint.model(), checkpoint.config.data.batch_size
    for split in SPLITS:
        start = clock()
        evaluation = evaluate(
            model, data, split=split, fitted=None, protocol=protocol, batch_size=batch_size, device=CPU
        )
        figures[split] = evaluation.errors.overall(evaluation.naive)
        figures[f"{split}_seconds"] = clock() - start
    return figures


def refit_run(folder: Path, overrides: Sequence[str]) -> float:
    """Trains what a run has chosen once more, on all rows; returns the seconds that it took."""
    overrides = [*overrides, *words(read_document(folder / PACE, Settings) or {})]

    def task(cfg: DictConfig) -> float:
        plan = make_plan(cfg)
        metrics = read_document(folder / METRICS, Metrics) or read_document(folder / MEMBER, MemberFigures) or {}
        data = read_data(plan.source, plan.config)
        return refit(plan, chosen_checkpoint(folder), data, rows=True, metrics=kept_metrics(metrics)).seconds

    seconds: float = within(folder, overrides, task)
    return seconds


def weigh(folder: Path, overrides: Sequence[str], level: Sequence[float]) -> dict[str, object]:
    """Trains the ensemble as any model is trained, with all results; returns what its checkpoint says of itself.

    level: of the intervals; where the validation windows are too few for one of them, those of a run's config are kept
    as far as they can be, and `few` says so.
    """
    few = ""
    words_of = [*overrides, f"hydra.run.dir={hydra_value(str(folder))}"]
    try:
        call(command("train"), config_name="train", overrides=[*words_of, f"level={hydra_value(list(level))}"])
    except UserError as error:
        if not str(error).startswith("level:"):
            raise
        few = str(error).partition(": ")[2].partition(" Or ask")[0].replace("pred_len=", "--horizon ")
        call(command("train"), config_name="train", overrides=words_of)
    checkpoint = load_checkpoint(checkpoint_path(folder, "best"))
    weights = checkpoint.weights["weights"]
    return {"weights": weights.mean(0).tolist(), "few": few, **(checkpoint.record.stacking or {})}


def page_with(folder: Path, *, board: Block, forecast: Block | None) -> None:
    """Makes the page of a run anew, with the leaderboard and the forecast on it.

    board: its rows, which error they show, and the reason. forecast: the arguments of `ahead`; None: there is none.
    """
    (folder / AHEAD).unlink(missing_ok=True)
    if forecast is not None:
        save_arrays(folder / AHEAD, ahead(**forecast))
    metrics = read_document(folder / METRICS, Metrics) or {}
    write_json(folder / METRICS, {**metrics, "leaderboard": board})
    remake(folder)


def forecast_file(overrides: Sequence[str], checkpoint: Path) -> dict[str, object]:
    """Writes the forecast; returns what `forecast predict --json` prints, and the last row learned from."""
    answers: list[Answer | None] = []
    call(lambda cfg: answers.append(command("predict")(cfg)), config_name="predict", overrides=list(overrides))
    assert answers[0] is not None, "predict answers"
    trained = load_checkpoint(checkpoint)
    until = "" if trained.data["freq"] == STEP_FREQ else trained.trained_until
    return {**json.loads(json.dumps(answers[0].document, default=str)), "trained_until": until}


def ahead(checkpoint: Path, *, future: str | None, level: Sequence[float] | None) -> dict[str, np.ndarray]:
    """The forecast after the data that a checkpoint was trained on, of a panel of some series, in original units.

    As `results.example_windows`, without truth and baselines: past (W, L, T), forecast (W, P, T), levels (A,), lower,
    upper (W, P, T, A), timestamps (W, L + P), columns (T,), of a panel series (W,). future, level: of the forecast.
    """
    trained = load_checkpoint(checkpoint)
    source, targets = trained_source(trained.config.data, root=None), list(trained.data["targets"])
    later = future_source(trained, source, future)
    ends = continuation(trained, source, device=find_device("auto"), future=later, level=level)
    lengths = ends.frame.lengths[ends.series]
    whole = np.flatnonzero(lengths >= min(ends.seq_len, int(lengths.max())))
    shown = [int(whole[i]) for i in evenly_spaced(len(whole), SHOWN)]
    forecast = ends.some(shown)
    length = min(ends.seq_len, int(lengths[shown].min()))
    times = [ends.frame.timestamps(number, ends.pred_len)[-length - ends.pred_len :] for number in forecast.series]
    arrays = {
        "past": np.stack([ends.past(number)[-length:] for number in forecast.series]),
        "forecast": forecast.values[..., : len(targets)],
        "timestamps": np.stack([stamps.tz_localize(None).to_numpy("datetime64[ns]") for stamps in times]),
        "columns": np.array(targets),
    }
    if of_levels := split_ends(forecast.values, len(targets), ends.levels)[::-1]:
        arrays["levels"] = np.array([level for level, _, _ in of_levels])
        arrays |= {name: np.stack([end[i] for end in of_levels], axis=-1) for i, name in ((1, "lower"), (2, "upper"))}
    if ends.frame.id_column is not None:
        arrays["series"] = np.array([str(ends.frame.ids[number]) for number in forecast.series])
    return arrays


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long the training of a network takes.

    batches: of an epoch, with batch_size windows each. seconds: of a train batch. validation: seconds of one. draws:
    whether an epoch may be a drawn part of the windows. networks: how many are trained side by side in these seconds,
    and how many there may be at most.
    """

    batches: int
    batch_size: int
    seconds: float
    validation: float
    draws: bool
    networks: int = 1

    def settings(self, allowance: float) -> Settings | None:
        """The overrides of a training that takes so many seconds at most; None where there is no time for one.

        One network with all epochs comes before further networks.
        """
        if self.networks > 1:
            share = 1 / self.networks
            single = replace(self, networks=1, seconds=share * self.seconds, validation=share * self.validation)
            all_epochs = MOST_EPOCHS * (single.batches * single.seconds + single.validation)
            networks = min(self.networks, max(1, int(allowance / all_epochs)))
            settings = single.settings(allowance / networks)
            return settings if settings is None else {**settings, "networks": networks}
        most = max(MOST_EPOCHS, UPDATES // max(1, self.batches))
        epoch = self.batches * self.seconds + self.validation
        if FEWEST_EPOCHS * epoch <= allowance:
            epochs = min(most, int(allowance / epoch))
            return {"trainer.max_epochs": epochs, "callbacks.early_stopping.patience": max(2, epochs // 5)}
        for epochs in range(FEWEST_EPOCHS, 0, -1):
            batches = int((allowance / epochs - self.validation) / self.seconds)
            if batches >= FEWEST_BATCHES:
                part: Settings = (
                    {"data.windows_per_epoch": batches * self.batch_size}
                    if self.draws
                    else {"trainer.limit_train_batches": min(batches, self.batches)}
                )
                return {"trainer.max_epochs": epochs, "callbacks.early_stopping.patience": 2, **part}
        return None


def measure(plan: Plan, clock: Callable[[], float]) -> Pace:
    """Trains on one batch and forecasts it a few times, with weights that nobody keeps. clock: gives seconds."""
    torch.manual_seed(plan.config.seed)
    data, record = begin(plan, ridge=False)
    config, model = plan.config, build_model(plan.config, record.data)
    begin_model(plan, model, data, record)
    batches = make_batches(config, model, data)
    batches.setup("fit")
    batch_size = config.data.batch_size
    first = next(iter(batches.train_dataloader()))
    optimizer, loss = plan.parts.optimizer(list(model.parameters())), plan.parts.loss

    def step() -> None:
        optimizer.zero_grad()
        outputs, truth = model.training_outputs(first.past, first.past_known, first.future_known, first.future)
        loss(outputs, truth).backward()
        optimizer.step()

    def forward() -> None:
        with torch.inference_mode():
            model(first.past, first.past_known, first.future_known)

    of_step, of_forward = timed(step, clock), timed(forward, clock)
    windows = len(data.windows("val"))
    return Pace(
        batches=-(-batches.order.count // batch_size),
        batch_size=batch_size,
        seconds=OVERHEAD * of_step,
        validation=OVERHEAD * of_forward * windows / len(first.past) + 0.1,
        draws=data.frame.id_column is not None,
        networks=config.networks,
    )


def timed(call: Callable[[], None], clock: Callable[[], float]) -> float:
    """The mean seconds of a call, over a few; a first one, which is slower, does not count."""
    call()
    started, count = clock(), 0
    while count < FEWEST or clock() - started < LONGEST / 2:
        call()
        count += 1
        if clock() - started > LONGEST:
            break
    return (clock() - started) / count
